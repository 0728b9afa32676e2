"""The part of a tab that a spreadsheet step uses: its range, header row and first data row."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steward.connectors.base.records import SheetRow, SheetTable
from steward.model.json import JsonObject, JsonValue
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, Params, StepProblem, is_expression

READS = frozenset(("read", "lookup"))
_MAX_ROWS = 1_000_000
_RANGE = re.compile(
    r"(?P<column>[A-Z]{1,3})(?P<row>[1-9][0-9]{0,6})(:(?:[A-Z]{1,3}(?:[1-9][0-9]{0,6})?|[1-9][0-9]{0,6}))?"
    r"|(?P<whole>[A-Z]{1,3}):[A-Z]{1,3}([1-9][0-9]{0,6})?|(?P<first>[1-9][0-9]{0,6}):[1-9][0-9]{0,6}"
)
_OLDER_RANGE = "A:F"
_DEFINITIONS = ("detectAutomatically", "specifyRange", "specifyRangeA1")
_VALUES = ("UNFORMATTED_VALUE", "FORMATTED_VALUE", "FORMULA")
_DATES = ("FORMATTED_STRING", "SERIAL_NUMBER")
# The formats that a read may choose, by option; the first is the default.
_FORMATS = {
    "options.outputFormatting.values.general": _VALUES,
    "options.outputFormatting.values.date": _DATES,
    "options.valueRenderMode": _VALUES,
}
_PART = "It works on a part of the tab. Here the first row names the columns: use the whole tab."
_NO_RANGE = "The range it works on cannot be read. Write it as in A1:F20."


def whole_number(params: Params, name: str, default: int, smallest: int = 1) -> int:
    """Returns a row number or a count. Raises ItemFailed."""
    number = js.number(params.get(name, default))
    if not (number == number and float(number).is_integer() and smallest <= number <= _MAX_ROWS):
        label = name.rpartition(".")[2]
        raise ItemFailed(f"“{label}” of this step is not a whole number from {smallest} on.")
    return int(number)


def _range_of(text: str) -> str | None:
    """Returns a range in capitals without the tab's name, or None for the whole tab. Raises ItemFailed."""
    area = text.rpartition("!")[2].strip().upper()
    if area and not _RANGE.fullmatch(area):
        raise ItemFailed(_NO_RANGE)
    return area or None


def _first_row(area: str | None) -> int:
    match = _RANGE.fullmatch(area or "")
    return int(match["row"] or match["first"] or 1) if match else 1


def range_of_older(params: Params) -> str | None:
    """Returns the range of a step of version 1 or 2. Raises ItemFailed."""
    return _range_of(params.text("range", _OLDER_RANGE))


def start_of(area: str | None) -> tuple[int, int]:
    """Returns the column (from 0) and the row of a range's first cell."""
    match = _RANGE.fullmatch(area or "")
    letters = (match["column"] or match["whole"] or "A") if match else "A"
    column = 0
    for letter in letters:
        column = column * 26 + ord(letter) - ord("A") + 1
    return column - 1, _first_row(area)


@dataclass(frozen=True, slots=True)
class SheetArea:
    """The cells of a tab to read, with its header row and first data row."""

    range: str | None = None
    header_row: int = 1
    first_data_row: int = 2
    ends_at_empty_row: bool = False

    @classmethod
    def of(cls, params: Params, version: float) -> "SheetArea":
        """Returns the part of the tab that a step's parameters select. Raises ItemFailed."""
        is_read = params.text("operation", "read") in READS
        if version < 3:
            return cls._of_older(params) if is_read else cls()
        option = "dataLocationOnSheet" if is_read else "locationDefine"
        location = Params(_mapping(params.get(f"options.{option}.values", {})))
        ends = location.text("readRowsUntil") == "firstEmptyRow"
        definition = location.text("rangeDefinition", _DEFINITIONS[0] if is_read else _DEFINITIONS[1])
        if definition == "specifyRangeA1":
            area = _range_of(location.text("range"))
            row = _first_row(area)
            return cls(area, row, row + 1, ends)
        if definition == "specifyRange":
            header_row = whole_number(location, "headerRow", 1)
            return cls(None, header_row, whole_number(location, "firstDataRow", 2), ends)
        return cls(ends_at_empty_row=ends)

    @classmethod
    def _of_older(cls, params: Params) -> "SheetArea":
        area = range_of_older(params)
        row = _first_row(area)
        header_row = row + whole_number(params, "keyRow", 0, 0)
        return cls(area, header_row, row + whole_number(params, "dataStartRow", 1, 0))

    def header(self, table: SheetTable) -> SheetRow | None:
        """Returns the row that names the columns, if any."""
        return next((row for row in table.rows if row.number == self.header_row), None)

    def data_rows(self, table: SheetTable) -> Iterable[SheetRow]:
        """Yields each data row that is not empty."""
        for row in table.rows:
            is_filled = any(cell not in (None, "") for cell in row.cells)
            if row.number < self.first_data_row:
                continue
            if is_filled:
                yield row
            elif self.ends_at_empty_row:
                return


def formats_of(params: Params, version: float) -> dict[str, str]:
    """Returns how a read formats values and dates. Raises ItemFailed.

    Before version 3 dates are numbers, Google's default.
    """
    if version < 3:
        return {"values": _one_of(params.text("options.valueRenderMode", _VALUES[0]), _VALUES)}
    path = "options.outputFormatting.values"
    return {
        "values": _one_of(params.text(f"{path}.general", _VALUES[0]), _VALUES),
        "dates": _one_of(params.text(f"{path}.date", _DATES[0]), _DATES),
    }


def _one_of(name: str, names: tuple[str, ...]) -> str:
    if name not in names:
        raise ItemFailed(f"“{name[:40]}” is not a known cell format. Choose another.")
    return name


def _mapping(value: JsonValue) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def area_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields unsupported ranges, header rows and value formats."""
    operation = str(node.literal("operation", "read"))
    if node.version < 3:
        yield from _older_problems(node, operation)
    elif operation in READS:
        yield from _read_problems(_mapping(node.get("options.dataLocationOnSheet.values", {})))
        yield from _filter_problems(node)
    else:
        location = _mapping(node.get("options.locationDefine.values", {}))
        if location.get("range") or location.get("rangeDefinition", _DEFINITIONS[1]) not in _DEFINITIONS[:2]:
            yield StepProblem("error", "parameter", _PART)
    for path, names in _FORMATS.items():
        value = node.get(path)
        if value not in (None, *names) and not is_expression(value):
            message = "How it formats what it reads is not known. Choose it again in n8n."
            yield StepProblem("error", "parameter", message)


def default_combination(version: float) -> str:
    """Returns how several filters combine if the step does not say: by OR before version 4.3."""
    return "OR" if version < 4.3 else "AND"


def _filter_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    filters = node.get("filtersUI.values")
    is_default = node.get("combineFilters") is None and default_combination(node.version) == "OR"
    if is_default and isinstance(filters, list) and len(filters) > 1:
        message = "This older version of the step takes rows that match one of its filters, as n8n does."
        yield StepProblem("note", "parameter", f"{message} Choose “AND” in n8n to ask for all of them.")


def _read_problems(location: JsonObject) -> Iterable[StepProblem]:
    definition = location.get("rangeDefinition", _DEFINITIONS[0])
    rows = location.get("headerRow", 1), location.get("firstDataRow", 2)
    if definition not in _DEFINITIONS or (definition == _DEFINITIONS[0] and rows != (1, 2)):
        yield StepProblem("error", "parameter", _PART)
    elif definition == "specifyRangeA1":
        yield from _range_problems(location.get("range", ""), numbers_rows=True)


def _range_problems(text: object, *, numbers_rows: bool) -> Iterable[StepProblem]:
    if is_expression(text) and "{{" in str(text):
        return
    try:
        area = _range_of(str(text).removeprefix("="))
    except ItemFailed:
        yield StepProblem("error", "parameter", _NO_RANGE)
        return
    if numbers_rows and _first_row(area) > 1:
        message = (
            "“row_number” counts from the top of the tab here, not of the range. Check steps that use it."
        )
        yield StepProblem("warning", "parameter", message)


def _older_problems(node: NodeDefinition, operation: str) -> Iterable[StepProblem]:
    if operation in READS or node.get("rawData"):
        yield from _range_problems(node.get("range", _OLDER_RANGE), numbers_rows=False)
        return
    area = str(node.literal("range", "")).rpartition("!")[2]
    is_whole = not area or re.fullmatch(r"[Aa]1?:[A-Za-z]{1,3}", area)
    if not is_whole or node.get("keyRow", 0) != 0 or node.get("dataStartRow", 1) != 1:
        yield StepProblem("error", "parameter", _PART)
    elif area:
        message = "It names the columns it works on; here all columns are used. Check later steps."
        yield StepProblem("warning", "parameter", message)
