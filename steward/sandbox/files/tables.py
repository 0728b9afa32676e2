"""Reads and writes rows of CSV, HTML and spreadsheet files within limits, never as formulas."""

import csv
import html
import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from xml.sax.saxutils import escape

from steward.sandbox.files.archives import check_size
from steward.sandbox.files.problems import FileProblem
from steward.sandbox.files.texts import BOM, decoded, write_text

_NO_EXTRA: Final = "Spreadsheet files need the extra “files” of this installation. Ask its operator."
# Texts that spreadsheet programs would run: https://owasp.org/www-community/attacks/CSV_Injection
_RUNS = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?[\d\s().,/:-]*$")
_DAY_ZERO = datetime(1899, 12, 30, tzinfo=UTC)
_FIELD_BYTES: Final = 8 * 1024 * 1024
_MAX_CELLS: Final = 2_000_000

Row = list[Any]


def read_csv(content: bytes, options: dict[str, Any]) -> object:
    """Returns the rows of a CSV file as lists of texts; all rows have as many fields as the first."""
    text = decoded(content, options)
    if options.get("bom"):
        text = text.removeprefix(BOM)
    csv.field_size_limit(_FIELD_BYTES)
    delimiter = str(options.get("delimiter") or ",")
    if len(delimiter) != 1:
        raise FileProblem("The delimiter is not one character. Give one, such as a comma or semicolon.")
    source = io.StringIO(text, newline="")
    for _ in range(int(options.get("from_line") or 1) - 1):
        source.readline()
    relaxed = bool(options.get("relax_quotes"))
    lines = _RecordLines(source)
    reader = csv.reader(lines, delimiter=delimiter, strict=not relaxed)
    return _rows_of(reader, lines, None if relaxed else _quoted_fields(delimiter), options)


class _RecordLines:
    """Yields the lines of a file and keeps those of the record being read."""

    def __init__(self, source: Iterable[str]) -> None:
        self._source = iter(source)
        self.read: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._source)
        self.read.append(line)
        return line


def _quoted_fields(delimiter: str) -> re.Pattern[str]:
    # Possessive quantifiers, because backtracking took 135 bytes of memory per character.
    return re.compile(rf'(?:\A|(?<={re.escape(delimiter)}))"[^"]*+(?:""[^"]*+)*+"')


def _check_quotes(record: str, quoted: re.Pattern[str], line: int) -> None:
    """Raises FileProblem for a record with a quote outside quoted fields."""
    if '"' not in record:
        return
    if record.startswith(BOM + '"'):
        message = "The file begins with a byte order mark"
        raise FileProblem(f"{message}. Turn on “Exclude Byte Order Mark (BOM)”.")
    if '"' in quoted.sub("", record):
        message = f"Line {line} has a quote inside a field without quotes"
        raise FileProblem(f"{message}. Quote the whole field, or relax quotes in the options.")


def _rows_of(
    reader: Any, lines: _RecordLines, quoted: re.Pattern[str] | None, options: dict[str, Any]
) -> list[Row]:
    rows: list[Row] = []
    max_rows = options.get("max_rows")
    skipped = 0
    while max_rows is None or len(rows) < max_rows:
        lines.read.clear()
        try:
            row = next(reader, None)
            if row is None:
                return rows
            row = row or [""]
            if quoted is not None:
                _check_quotes("".join(lines.read), quoted, reader.line_num)
            if rows and len(row) != len(rows[0]):
                message = f"Line {reader.line_num} has {len(row)} fields; the first line has {len(rows[0])}"
                raise FileProblem(f"{message}. Check the delimiter and the quotes of the file.")
            rows.append(row)
        except (csv.Error, FileProblem) as error:
            skipped += 1
            if skipped > (options.get("max_skipped") or 0):
                if isinstance(error, FileProblem):
                    raise
                message = f"Line {reader.line_num} is not CSV: {error}"
                raise FileProblem(f"{message}. Check the delimiter and the quotes of the file.") from error
    return rows


def read_html(content: bytes, options: dict[str, Any]) -> object:
    """Returns the rows of the first table of an HTML file, with numbers and booleans converted."""
    from selectolax.lexbor import LexborHTMLParser

    table = LexborHTMLParser(decoded(content, options)).css_first("table")
    if table is None:
        raise FileProblem("The file has no table.")
    rows: list[Row] = []
    for line in table.css("tr"):
        row: Row = []
        for cell in line.css("td, th"):
            row.append(_typed(re.sub(r"\s+", " ", cell.text()).strip(), as_text=bool(options.get("as_text"))))
            row += [None] * (min(_whole_number(cell.attributes.get("colspan")), 1000) - 1)
        rows.append(row)
    return rows


def _whole_number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 1


def _typed(text: str, *, as_text: bool) -> Any:
    if text == "":
        return None
    if as_text:
        return text
    if text.upper() in ("TRUE", "FALSE"):
        return text.upper() == "TRUE"
    if re.fullmatch(r"-?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?(e[+-]?\d+)?", text, re.I) and len(text) < 300:
        return _number(float(text.replace(",", "")))
    return text


def read_sheet(content: bytes, options: dict[str, Any]) -> object:
    """Returns the rows of a sheet of an XLSX, XLS or ODS file; dates are spreadsheet serial numbers.

    `sheet` is its name; the default is the first sheet. Empty cells and errors such as #N/A are None.
    """
    try:
        import python_calamine as calamine
    except ImportError as error:
        raise FileProblem(_NO_EXTRA) from error
    if content[:2] == b"PK":
        check_size(content)
    try:
        workbook = calamine.load_workbook(io.BytesIO(content))
        names = workbook.sheet_names
        sheet_name = options.get("sheet") or (names[0] if names else "")
        if sheet_name not in names:
            raise FileProblem(f"The file has no sheet “{str(sheet_name)[:80]}”. Choose another one.")
        sheet = workbook.get_sheet_by_name(sheet_name)
        if sheet.total_height * sheet.total_width > _MAX_CELLS:
            raise FileProblem("The sheet has more than 2,000,000 cells. Use a smaller one.")
        rows = sheet.to_python(skip_empty_area=False)
    except calamine.CalamineError as error:
        raise FileProblem("The file is not a spreadsheet, or it is damaged.") from error
    return [[_cell(cell) for cell in row] for row in rows]


def _cell(value: Any) -> Any:
    if value == "" and isinstance(value, str):
        return None
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, datetime):
        return _number((value.replace(tzinfo=UTC) - _DAY_ZERO) / timedelta(days=1))
    if isinstance(value, date):
        return (value - _DAY_ZERO.date()).days
    if isinstance(value, time):
        seconds = value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
        return _number(seconds / 86_400)
    if isinstance(value, timedelta):
        return _number(value / timedelta(days=1))
    return value


def _number(value: float) -> int | float | None:
    if value != value or value in (float("inf"), float("-inf")):
        return None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def harmless(text: str) -> str:
    """Returns a text that a spreadsheet program does not run; a formula gets a quote before it."""
    return "'" + text if _RUNS.match(text) and not _NUMBER.match(text) else text


def write_csv(rows: Any, options: dict[str, Any]) -> bytes:
    """Writes rows as CSV; texts that a spreadsheet program would run as a formula get a quote before them."""
    out = io.StringIO()
    delimiter = str(options.get("delimiter") or ",")
    if len(delimiter) != 1:
        raise FileProblem("The delimiter is not one character. Give one, such as a comma or semicolon.")
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    for row in rows:
        writer.writerow([harmless(_shown(cell)) if isinstance(cell, str) else _shown(cell) for cell in row])
    return write_text(out.getvalue().removesuffix("\n"), options)


def _shown(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return _number_text(cell)
    return str(cell).upper() if isinstance(cell, bool) else str(cell)


def _number_text(value: float) -> str:
    """Returns a number in JavaScript's format, like n8n: 0.00005 and 1e-7."""
    if value.is_integer() and abs(value) < 1e21:
        return str(int(Decimal(repr(value))))
    if 1e-6 <= abs(value) < 1e-4:
        return format(Decimal(repr(value)), "f")
    return repr(value).replace("e-0", "e-")


def write_html(rows: Any, options: dict[str, Any]) -> bytes:
    """Writes rows as an HTML document with one table; all text is escaped."""
    lines = (
        "<tr>" + "".join(f"<td>{html.escape(_shown(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    head = '<html><head><meta charset="utf-8"/><title>Table</title></head><body><table>'
    return (head + "".join(lines) + "</table></body></html>").encode()


def write_xlsx(rows: Any, options: dict[str, Any]) -> bytes:
    """Writes rows as an XLSX file; every text is stored as text, whatever it begins with."""
    try:
        import xlsxwriter
    except ImportError as error:
        raise FileProblem(_NO_EXTRA) from error
    out = io.BytesIO()
    settings = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    workbook = xlsxwriter.Workbook(out, settings)
    workbook.set_properties({"created": _DAY_ZERO.replace(year=2000)})  # equal rows give equal files
    try:
        sheet = workbook.add_worksheet(_sheet_name(options))
    except xlsxwriter.exceptions.XlsxWriterException as error:
        raise FileProblem(f"The sheet cannot have this name: {error}") from error
    for number, row in enumerate(rows):
        for column, cell in enumerate(row):
            _write_cell(sheet, number, column, cell)
    workbook.close()
    return out.getvalue()


def _write_cell(sheet: Any, number: int, column: int, cell: Any) -> None:
    status = 0
    if isinstance(cell, bool):
        status = sheet.write_boolean(number, column, cell)
    elif isinstance(cell, int | float):
        status = sheet.write_number(number, column, cell)
    elif cell is not None:
        status = sheet.write_string(number, column, str(cell))
    if status == -2:
        raise FileProblem("A cell has more than 32,767 characters. Shorten it, or write CSV.")
    if status:
        raise FileProblem("There are more rows or columns than a sheet has. Write several files.")


def _sheet_name(options: dict[str, Any]) -> str:
    return str(options.get("sheet") or "Sheet")


_ODS_TYPE = "application/vnd.oasis.opendocument.spreadsheet"
_ODS_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?><office:document-content office:version="1.2"'
    ' xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
    ' xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"'
    ' xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:spreadsheet>'
)
_ODS_MANIFEST = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"'
    f' manifest:version="1.2"><manifest:file-entry manifest:full-path="/" manifest:media-type="{_ODS_TYPE}"/>'
    '<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/>'
    "</manifest:manifest>"
)
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def write_ods(rows: Any, options: dict[str, Any]) -> bytes:
    """Writes rows as an OpenDocument spreadsheet; every text is stored as text."""
    name = escape(_sheet_name(options), {'"': "&quot;"})
    lines = ("<table:table-row>" + "".join(_ods_cells(row)) + "</table:table-row>" for row in rows)
    table = f'<table:table table:name="{name}">{"".join(lines)}</table:table>'
    content = f"{_ODS_HEAD}{table}</office:spreadsheet></office:body></office:document-content>"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo("mimetype"), _ODS_TYPE)
        for part, text in (("content.xml", content), ("META-INF/manifest.xml", _ODS_MANIFEST)):
            archive.writestr(zipfile.ZipInfo(part), text, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _ods_cells(row: Sequence[Any]) -> Iterable[str]:
    for cell in row:
        if cell is None:
            yield "<table:table-cell/>"
        elif isinstance(cell, bool):
            truth = str(cell).lower()
            yield f'<table:table-cell office:value-type="boolean" office:boolean-value="{truth}"/>'
        elif isinstance(cell, int | float):
            yield f'<table:table-cell office:value-type="float" office:value="{cell}"/>'
        else:
            text = escape(_NOT_XML.sub("\ufffd", str(cell)))
            yield f'<table:table-cell office:value-type="string"><text:p>{text}</text:p></table:table-cell>'
