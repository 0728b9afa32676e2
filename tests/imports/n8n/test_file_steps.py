"""Tests the steps that read and write files: formats, options, limits and hostile files."""

import base64
import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.steps.n8n.item_files import mime_type_of
from steward.steps.workflow.items import BinaryReference, Item, Items, Outputs
from steward.steps.workflow.memory_budget import MemoryBudgetExceeded
from tests.imports.cases import FilesInMemory
from tests.imports.exports import chain, node
from tests.imports.n8n.one_step import errors_of, items_of

MIB = 1024 * 1024
ROWS = [{"sku": "TEA-1", "price": 4.5, "tags": {"kind": "green"}}, {"sku": "TEA-2", "stock": 3}]
TABLE = [
    {"sku": "TEA-1", "price": 4.5, "tags.kind": "green"},
    {"sku": "TEA-2", "stock": 3},
]


async def item_with(
    files: FilesInMemory, content: bytes, name: str | None = "tea.csv", field: str = "data"
) -> Item:
    """Returns an item with one file."""
    file = BinaryReference(await files.put(content), len(content), mime_type_of(name), name)
    return Item({"id": 1}, ((0, 0),), binary={field: file})


async def run(
    kind: str,
    parameters: Mapping[str, Any],
    items: Items,
    files: FilesInMemory,
    *,
    version: float = 1,
    **settings: Any,
) -> Outputs | str:
    """Returns the outputs of a step, or the message that it failed with."""
    return await items_of(kind, version, parameters, items, files=files, **settings)


async def extracted(content: bytes, name: str = "tea.csv", **parameters: Any) -> Any:
    """Returns the fields that extractFromFile makes of a file, or the message that it failed with."""
    files = FilesInMemory()
    outputs = await run("extractFromFile", parameters, [await item_with(files, content, name)], files)
    return outputs if isinstance(outputs, str) else [item.json for item in outputs[0]]


async def converted(items: Items, **parameters: Any) -> tuple[BinaryReference, bytes] | str:
    """Returns the one file that convertToFile makes and its content, or the message that it failed with."""
    files = FilesInMemory()
    outputs = await run("convertToFile", parameters, items, files)
    if isinstance(outputs, str):
        return outputs
    [item] = outputs[0]
    [file] = item.binary.values()
    return file, await files.get(file.sha256)


def items(*rows: Mapping[str, Any]) -> Items:
    """Returns items as a trigger gives them."""
    return [Item(row, ((index, 0),)) for index, row in enumerate(rows)]


async def content_of(*rows: Mapping[str, Any], **parameters: Any) -> bytes:
    """Returns the content of the file that convertToFile makes of rows."""
    created_items = await converted(items(*rows), **parameters)
    assert not isinstance(created_items, str), created_items
    return created_items[1]


@pytest.mark.parametrize("operation", ["csv", "html", "xlsx", "ods"])
async def test_written_files_are_read_back_equal(operation: str) -> None:
    """Columns are the fields in their order, nested ones by their path; CSV returns every value as text."""
    content = await content_of(*ROWS, operation=operation)
    texts = [{name: str(value) for name, value in row.items()} for row in TABLE]
    assert await extracted(content, f"tea.{operation}", operation=operation) == (
        texts if operation == "csv" else TABLE
    )


async def test_small_numbers_are_formatted_as_in_javascript() -> None:
    """Writes a fraction in digits where JavaScript does, and a text that looks like one as it is."""
    content = await content_of({"a": 0.00005, "b": -1e-7, "c": 2.5, "d": "size-05"}, operation="csv")
    assert content == b"a,b,c,d\n0.00005,-1e-7,2.5,size-05"


@pytest.mark.parametrize(
    ("operation", "name", "mime_type"),
    [
        ("csv", "File.csv", "text/csv"),
        ("xlsx", "File.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("toJson", "file.json", "application/json"),
        ("toText", "file.txt", "text/plain"),
    ],
)
async def test_a_file_has_a_name_and_a_type(operation: str, name: str, mime_type: str) -> None:
    """A file has the default name and the MIME type of its format; the option `fileName` renames it."""
    for options, file_name in (({}, name), ({"fileName": "mine.x"}, "mine.x")):
        created_items = await converted(
            items(ROWS[0]), operation=operation, sourceProperty="sku", options=options
        )
        assert not isinstance(created_items, str), created_items
        assert (created_items[0].file_name, created_items[0].mime_type) == (file_name, mime_type)
        assert created_items[0].size == len(created_items[1])


async def test_json_is_written_for_all_items_or_for_each() -> None:
    """Writes one list of all items, or one file for each item, indented with the option `format`."""
    assert await content_of(*ROWS, operation="toJson") == json.dumps(ROWS, separators=(",", ":")).encode()
    indented = await content_of(ROWS[1], operation="toJson", mode="each", options={"format": True})
    assert indented == b'{\n  "sku": "TEA-2",\n  "stock": 3\n}'


@pytest.mark.parametrize(
    ("value", "options", "content"),
    [
        ("Grüner Tee", {}, "Grüner Tee".encode()),
        ("Grüner Tee", {"encoding": "windows-1252"}, "Grüner Tee".encode("cp1252")),
        ("Tee", {"addBOM": True}, b"\xef\xbb\xbfTee"),
        ({"a": 1}, {}, b'{"a":1}'),
        (4.5, {}, b"4.5"),
    ],
)
async def test_a_field_is_written_as_text(value: Any, options: dict[str, Any], content: bytes) -> None:
    """Writes the field in the chosen encoding, with an optional byte-order mark; objects become JSON."""
    new_content_of = await content_of(
        {"a": {"b": value}}, operation="toText", sourceProperty="a.b", options=options
    )
    assert new_content_of == content


async def test_base64_becomes_a_file_and_a_file_base64() -> None:
    """Writes a file from Base64 or a data URL and reads it back; other text fails the step."""
    raw = bytes(range(256))
    for text in (base64.b64encode(raw).decode(), "data:image/png;base64," + base64.b64encode(raw).decode()):
        assert await content_of({"a": text}, operation="toBinary", sourceProperty="a") == raw
    [fields] = await extracted(raw, "tea.bin", operation="binaryToPropery", destinationKey="text")
    assert base64.b64decode(fields["text"]) == raw
    created_items = await converted(items({"a": "no base64!"}), operation="toBinary", sourceProperty="a")
    assert "not Base64" in str(created_items)


FORMULAS = ('=HYPERLINK("http://evil.example")', "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3+cmd|'!A0", "\t=1")


@pytest.mark.parametrize("formula", FORMULAS)
async def test_a_formula_in_a_field_never_runs(formula: str) -> None:
    """Puts a quote before formulas in CSV, writes them as text in spreadsheets, and escapes HTML."""
    content = await content_of({"a": formula}, operation="csv")
    [row] = await extracted(content, operation="csv")
    assert row == {"a": "'" + formula}
    for operation in ("xlsx", "ods"):
        content = await content_of({"a": formula}, operation=operation)
        parts = zipfile.ZipFile(io.BytesIO(content))
        sheet = "xl/worksheets/sheet1.xml" if operation == "xlsx" else "content.xml"
        assert b"<f>" not in parts.read(sheet)
        assert b"table:formula" not in parts.read(sheet)
    assert b"<b>" not in await content_of({"a": "<b>"}, operation="html")


@pytest.mark.parametrize("harmless", ["-5", "+49 171 1234567", "+1 (555) 010-99", "-", "a=b", "1/2"])
async def test_numbers_and_phone_numbers_stay_unchanged(harmless: str) -> None:
    """Writes values that cannot run as formulas without a quote."""
    assert await extracted(await content_of({"a": harmless}, operation="csv")) == [{"a": harmless}]


@pytest.mark.parametrize(
    ("content", "options", "rows"),
    [
        (b"a,b\n1,\n,2\n", {}, [{"a": "1"}, {"b": "2"}]),
        (b"a,b\n1,\n", {"includeEmptyCells": True}, [{"a": "1", "b": ""}]),
        (b"a;b\n1;2\n", {"delimiter": ";"}, [{"a": "1", "b": "2"}]),
        (b"a,b\n1,2\n", {"headerRow": False}, [{"row": ["a", "b"]}, {"row": ["1", "2"]}]),
        (b"\xef\xbb\xbfa\n1\n", {"enableBOM": True}, [{"a": "1"}]),
        (b"\xef\xbb\xbfa\n1\n", {}, [{"\ufeffa": "1"}]),
        (b"title\na,b\n1,2\n", {"fromLine": 2}, [{"a": "1", "b": "2"}]),
        (b"a\n1\n2\n3\n", {"maxRowCount": 2}, [{"a": "1"}, {"a": "2"}]),
        (b'a\n"x\r\ny"\n', {}, [{"a": "x\r\ny"}]),
        ("a\nGrüner Tee\n".encode("cp1252"), {"encoding": "windows-1252"}, [{"a": "Grüner Tee"}]),
        ("a\n茶\n".encode("shift_jis"), {"encoding": "Shift_JIS"}, [{"a": "茶"}]),
        (
            b"a,b\n1\n3,4\n",
            {"skipRecordsWithErrors": {"value": {"enabled": True, "maxSkippedRecords": 1}}},
            [{"a": "3", "b": "4"}],
        ),
        (
            b'a,b\n1,5"\n3,"x;""y"""\n',
            {"skipRecordsWithErrors": {"value": {"enabled": True, "maxSkippedRecords": 1}}},
            [{"a": "3", "b": 'x;"y"'}],
        ),
        (b'a,b\n1,5" x\n', {"relaxQuotes": True}, [{"a": "1", "b": '5" x'}]),
        (b'a;b\n"x;\n""y""";""\n', {"delimiter": ";"}, [{"a": 'x;\n"y"'}]),
        (b"", {}, []),
    ],
)
async def test_csv_is_read_with_its_options(
    content: bytes, options: dict[str, Any], rows: list[dict[str, Any]]
) -> None:
    """Honours the delimiter, header, encoding, byte-order mark, first line, row count and empty cells."""
    assert await extracted(content, operation="csv", options=options) == rows


async def test_a_quoted_csv_field_of_several_mib_is_read() -> None:
    """Reads a field of 7 MiB with a hundred thousand quotes within the memory of the sandbox."""
    field = "tea " * (7 * MIB // 4) + '"' * 100_000
    content = 'a,b\n"{}",2\n'.format(field.replace('"', '""')).encode()
    [row] = await extracted(content, operation="csv")
    assert row["b"] == "2"
    assert row["a"] == field


@pytest.mark.parametrize(
    ("content", "parameters", "words"),
    [
        (b'a,b\n1,5" x\n', {"operation": "csv"}, "Line 2 has a quote inside a field without quotes"),
        (b'a,b\n1, "x"\n', {"operation": "csv"}, "Line 2 has a quote inside a field without quotes"),
        (
            b'\xef\xbb\xbf"a","b"\n1,2\n',
            {"operation": "csv"},
            "begins with a byte order mark. Turn on “Exclude Byte Order Mark (BOM)”.",
        ),
        (b"a,b\n1\n", {"operation": "csv"}, "Line 2 has 1 fields; the first line has 2"),
        ("a\nGrün".encode("cp1252"), {"operation": "csv"}, "not text in the encoding UTF-8: byte 5"),
        (b"a", {"operation": "csv", "options": {"encoding": "klingon"}}, "encoding “klingon” is not known"),
        (b"a", {"operation": "csv", "options": {"delimiter": ";;"}}, "delimiter is not one character"),
        (b"{", {"operation": "fromJson"}, "The file is not JSON"),
        (b"hello", {"operation": "xlsx"}, "not a spreadsheet"),
        (b"PK\x03\x04rest", {"operation": "xlsx"}, "not a zip archive, or it is damaged"),
        (b"hello", {"operation": "pdf"}, "not a PDF file"),
        (b"hello", {"operation": "html"}, "has no table"),
        (b"hello", {"operation": "rtf"}, "not an RTF file"),
        (b"a", {"operation": "csv", "binaryPropertyName": "other"}, "has no file “other”"),
    ],
)
async def test_an_unreadable_file_fails_the_item_with_a_reason(
    content: bytes, parameters: dict[str, Any], words: str
) -> None:
    """Fails the item with a plain message on a wrong format, encoding, option or field name."""
    assert words in str(await extracted(content, **parameters))


async def test_a_failed_file_fails_only_its_item() -> None:
    """With “continue” the failed item has the error and the others go on."""
    files = FilesInMemory()
    both = [await item_with(files, b"a\n1\n"), await item_with(files, b"\xff")]
    outputs = await run("extractFromFile", {}, both, files, onError="continueRegularOutput")
    assert not isinstance(outputs, str)
    assert [sorted(item.json) for item in outputs[0]] == [["a"], ["error"]]


async def test_json_and_text_become_a_field() -> None:
    """Puts the content at the destination field and drops the file unless `keepSource` keeps it."""
    files = FilesInMemory()
    item = await item_with(files, b'\xef\xbb\xbf{"a": [1]}', "tea.json")
    for source, fields, names in (
        (None, {"data": {"a": [1]}}, []),
        ("json", {"id": 1, "data": {"a": [1]}}, []),
        ("both", {"id": 1, "data": {"a": [1]}}, ["data"]),
    ):
        options = {} if source is None else {"keepSource": source}
        parameters = {"operation": "fromJson", "options": options}
        outputs = await run("extractFromFile", parameters, [item], files)
        assert not isinstance(outputs, str)
        [new_item] = outputs[0]
        assert (dict(new_item.json), list(new_item.binary)) == (fields, names)
    assert await extracted(b"<a/>", operation="xml") == [{"data": "<a/>"}]


async def test_a_sheet_is_read_with_its_options() -> None:
    """Honours sheet, range and header.

    A column without a name is `__EMPTY`; a repeated name gets a number.
    """
    content = await content_of(
        {"a": "x", "b": None, "c": 1},
        {"a": None, "b": None, "c": True},
        operation="xlsx",
        options={"sheetName": "Tea"},
    )
    assert await extracted(content, operation="xlsx") == [{"a": "x", "c": 1}, {"c": True}]
    assert await extracted(content, operation="xlsx", options={"sheetName": "Tea", "range": "A1:B2"}) == [
        {"a": "x"}
    ]
    assert await extracted(content, operation="xlsx", options={"range": 1}) == [{"1": True}]
    assert "no sheet “Milk”" in await extracted(content, operation="xlsx", options={"sheetName": "Milk"})
    assert (await extracted(content, operation="xlsx", options={"headerRow": False}))[0] == {
        "row": ["a", "b", "c"]
    }
    html = b"<table><tr><td>a<td>a<td></tr><tr><td>1,000<td>2<td>TRUE</tr></table>"
    assert await extracted(html, operation="html") == [{"a": 1000, "a_1": 2, "__EMPTY": True}]


async def test_the_text_of_a_pdf_file_is_read() -> None:
    """Returns the text, the number of pages and the metadata of a PDF file."""
    [fields] = await extracted(pdf_of("Invoice 4711"), "invoice.pdf", operation="pdf")
    assert fields["text"].strip() == "Invoice 4711"
    assert (fields["numpages"], fields["numrender"]) == (1, 1)
    assert fields["info"]["PDFFormatVersion"] == "1.4"


def pdf_of(text: str) -> bytes:
    """Returns a PDF file of one page with one line."""
    stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode()
    bodies = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % index for index in places)
    return out + b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % start


async def test_zip_and_gzip_are_packed_and_unpacked() -> None:
    """Unpacked files equal what was packed and have numbered names; equal files give equal archives."""
    files = FilesInMemory()
    first = await item_with(files, b"tea", "a.txt")
    second = await item_with(files, b"milk", "b.txt", "more")
    both = Item({"id": 1}, ((0, 0),), binary={**first.binary, **second.binary})
    for output_format, names in (("zip", "data,more"), ("gzip", "data")):
        pack = {"operation": "compress", "outputFormat": output_format, "binaryPropertyName": names}
        packed = await run("compression", pack, [both], files)
        assert not isinstance(packed, str)
        assert await run("compression", pack, [both], files) == packed
        unpacked = await run("compression", {"operation": "decompress"}, packed[0], files)
        assert not isinstance(unpacked, str)
        contents = {
            (name, file.file_name, await files.get(file.sha256))
            for name, file in unpacked[0][0].binary.items()
        }
        expected = {("file_0", "a.txt", b"tea"), ("file_1", "b.txt", b"milk")}
        assert contents == (expected if output_format == "zip" else {("file_0", "a.txt", b"tea")})


def zip_of(*sizes: int) -> bytes:
    """Returns a ZIP archive of files of zeros with these sizes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, size in enumerate(sizes):
            archive.writestr(f"{number}.bin", bytes(size))
    return out.getvalue()


@pytest.mark.parametrize("pack", [lambda size: zip_of(size), lambda size: gzip.compress(bytes(size))])
async def test_an_archive_unpacks_to_twenty_mebibytes_at_most(pack: Any) -> None:
    """Unpacks 20 MiB and refuses one byte more, however small the archive is."""
    files = FilesInMemory()
    outputs = await run("compression", {}, [await item_with(files, pack(20 * MIB), "a")], files)
    assert not isinstance(outputs, str), outputs
    assert next(iter(outputs[0][0].binary.values())).size == 20 * MIB
    bomb = await run("compression", {}, [await item_with(files, pack(20 * MIB + 1), "a")], files)
    assert "unpacks to more than 20 MiB" in str(bomb)


async def test_an_archive_has_a_thousand_files_at_most() -> None:
    """Unpacks 1000 files and refuses 1001; the sizes of several files add up."""
    files = FilesInMemory()
    outputs = await run("compression", {}, [await item_with(files, zip_of(*[1] * 1000), "a")], files)
    assert not isinstance(outputs, str), outputs
    assert len(outputs[0][0].binary) == 1000
    for archive, words in (
        (zip_of(*[1] * 1001), "more than 1000 files"),
        (zip_of(11 * MIB, 11 * MIB), "unpacks to more than 20 MiB"),
        (b"hello", "not a zip archive"),
    ):
        assert words in str(await run("compression", {}, [await item_with(files, archive, "a")], files))


async def test_a_spreadsheet_that_unpacks_to_too_much_is_refused() -> None:
    """Refuses a 129 MiB bomb before reading the spreadsheet."""
    assert "unpacks to more than 128 MiB" in await extracted(zip_of(129 * MIB), operation="xlsx")


async def test_a_file_with_too_many_rows_ends_the_run() -> None:
    """Raises MemoryBudgetExceeded when the rows are more than a step may pass on."""
    with pytest.raises(MemoryBudgetExceeded):
        await extracted(b"a\n" + (b"0123456789" * 20 + b"\n") * 50_000, operation="csv")


@pytest.mark.parametrize("version", [1, 2])
async def test_the_older_spreadsheet_node_reads_and_writes(version: float) -> None:
    """Writes four formats and reads each again, recognising the format by type, name or content."""
    files = FilesInMemory()
    for format_ in ("csv", "xlsx", "html", "ods"):
        parameters = {"operation": "toFile", "fileFormat": format_}
        written = await run("spreadsheetFile", parameters, items(*ROWS), files, version=version)
        assert not isinstance(written, str), written
        assert written[0][0].binary["data"].file_name == f"spreadsheet.{format_}"
        read = await run("spreadsheetFile", {}, written[0], files, version=version)
        if (format_, version) == ("csv", 1):
            assert "makes numbers and dates" in str(read)
            read = await run(
                "spreadsheetFile", {"options": {"rawData": True}}, written[0], files, version=version
            )
        assert not isinstance(read, str), read
        assert [sorted(item.json) for item in read[0]] == [sorted(row) for row in TABLE]


async def test_fields_move_into_a_file_and_back() -> None:
    """Moves all fields or one field into a file, and back; the source goes unless `keepSource` is set."""
    files = FilesInMemory()
    with_file = await run("moveBinaryData", {"mode": "jsonToBinary"}, items(ROWS[0]), files)
    assert not isinstance(with_file, str)
    assert with_file[0][0].json == {}
    back = await run("moveBinaryData", {}, with_file[0], files)
    assert not isinstance(back, str)
    assert (back[0][0].json, dict(back[0][0].binary)) == (ROWS[0], {})
    record = {
        "mode": "jsonToBinary",
        "convertAllData": False,
        "sourceKey": "sku",
        "options": {"useRawData": True, "mimeType": "text/plain", "fileName": "sku.txt"},
    }
    moved = await run("moveBinaryData", record, items(ROWS[0]), files)
    assert not isinstance(moved, str)
    assert "sku" not in moved[0][0].json
    assert await files.get(moved[0][0].binary["data"].sha256) == b"TEA-1"
    text = {"setAllData": False, "destinationKey": "a.b", "options": {"keepSource": True}}
    stored = await run("moveBinaryData", text, moved[0], files)
    assert not isinstance(stored, str)
    assert (stored[0][0].json["a"], list(stored[0][0].binary)) == ({"b": "TEA-1"}, ["data"])


@pytest.mark.parametrize(
    ("kind", "parameters", "words"),
    [
        ("convertToFile", {"operation": "xls"}, "Choose XLSX or CSV"),
        ("convertToFile", {"operation": "iCal"}, "Choose XLSX or CSV"),
        ("convertToFile", {"operation": "other"}, "operation is not known"),
        ("extractFromFile", {"operation": "fromIcs"}, "calendar file"),
        ("extractFromFile", {"operation": "other"}, "operation is not known"),
        ("spreadsheetFile", {"operation": "toFile", "fileFormat": "rtf"}, "Choose XLSX or CSV"),
        ("spreadsheetFile", {"fileFormat": "csv"}, "makes numbers and dates"),
    ],
)
def test_unsupported_options_are_reported_at_import(
    kind: str, parameters: dict[str, Any], words: str
) -> None:
    """Reports a format that is not supported as an error of its step."""
    assert [words in finding.message for finding in errors_of(kind, 1, parameters)] == [True]


@pytest.mark.parametrize(
    ("version", "options", "warns"), [(1, {}, True), (1, {"rawData": True}, False), (2, {}, False)]
)
def test_a_file_that_may_be_csv_is_a_warning(version: float, options: dict[str, Any], warns: bool) -> None:
    """Says at import that version 1 fails on CSV, where the format is only known in the run."""
    export = chain(node("Table", "spreadsheetFile", version, {"options": options}))
    warnings = [finding.message for finding in read_value(export).findings if str(finding.level) == "warning"]
    assert any("If the file is CSV" in message for message in warnings) is warns


PAGE = b"<p>Tea  <b>4</b></p>\n<p>Cup 3</p>"
VALUES = {
    "values": [{"key": "text", "cssSelector": "p"}, {"key": "first", "cssSelector": "b", "returnArray": True}]
}


async def test_a_page_in_a_file_is_read() -> None:
    """Reads a page from a file with both nodes; htmlExtract joins all texts and keeps their white space."""
    files = FilesInMemory()
    parameters = {"sourceData": "binary", "extractionValues": VALUES, "options": {}}
    newer = await run(
        "html",
        {"operation": "extractHtmlContent", **parameters},
        [await item_with(files, PAGE, "page.html")],
        files,
        version=1.2,
    )
    older = await run("htmlExtract", parameters, [await item_with(files, PAGE, "page.html")], files)
    assert not isinstance(newer, str), newer
    assert not isinstance(older, str), older
    assert [item.json for item in newer[0]] == [{"text": "Tea 4", "first": ["4"]}]
    assert [item.json for item in older[0]] == [{"text": "Tea  4Cup 3", "first": ["4"]}]
    [missing] = [await run("htmlExtract", parameters, items({"data": "<p>x</p>"}), files)]
    assert isinstance(missing, str)
    assert "no file" in missing


async def test_the_older_page_step_reads_fields() -> None:
    """Reads the page from a field that holds a text or a list of texts."""
    outputs = await run(
        "htmlExtract",
        {"dataPropertyName": "page", "extractionValues": VALUES, "options": {"trimValues": False}},
        items({"page": ["<p> a </p>", "<b>c</b>"]}),
        FilesInMemory(),
    )
    assert not isinstance(outputs, str), outputs
    assert [item.json for item in outputs[0]] == [{"text": " a ", "first": []}, {"text": "", "first": ["c"]}]


async def test_a_file_is_hashed() -> None:
    """Puts the hash into its field and keeps the file."""
    files = FilesInMemory()
    item = await item_with(files, b"tea", "tea.txt", "leaf")
    parameters = {
        "binaryData": True,
        "binaryPropertyName": "leaf",
        "type": "SHA256",
        "dataPropertyName": "hash",
    }
    outputs = await run("crypto", parameters, [item], files)
    assert not isinstance(outputs, str), outputs
    [hashed] = outputs[0]
    assert hashed.json == {"id": 1, "hash": hashlib.sha256(b"tea").hexdigest()}
    assert list(hashed.binary) == ["leaf"]


async def test_scripts_of_one_item_keep_and_set_its_files() -> None:
    """In functionItem `item` has only fields; its files stay unless the script sets others."""
    files = FilesInMemory()
    scripts = {
        "item.name = getBinaryData().data.fileName; return item;": ["data"],
        "const { data } = await getBinaryDataAsync(); setBinaryData({ photo: data }); return { a: 1 };": [
            "photo"
        ],
        "setBinaryData(undefined); return item;": [],
    }
    for code, names in scripts.items():
        outputs = await run("functionItem", {"functionCode": code}, [await item_with(files, b"x")], files)
        assert not isinstance(outputs, str), outputs
        [item] = outputs[0]
        assert list(item.binary) == names
    assert item.json == {"id": 1}
