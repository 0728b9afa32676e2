"""Sheet to Teams: posts the matching rows of a sheet to a channel for messages."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from steward.connectors.base.commands import PostCard
from steward.connectors.base.records import Cell
from steward.model.json import JsonObject
from steward.model.refusals import FieldErrors
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import AccountAccess, JsonRecord, MemoryWrite, StepContext, StepOutput, StepResult
from steward.steps.rows import StoredCell, cell_from_json, cell_to_json, named_rows, read_table
from steward.steps.skus import RowRefused, key_of
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, results
from steward.templates.parts.messages import no_message, post_card
from steward.templates.parts.row_filter import ORDERED, CellCondition, date_of, number_of

READ, PICK, SEND = "read-sheet", "pick-rows", "send-digest"
# Memory spaces: a hash of each row's value by a hash of its key; and a mark that a first run took place.
VALUES, BEGUN = "values", "begun"
_MAX_SHOWN = 50


class _RowsInput(JsonRecord, frozen=True):
    """The input `where`."""

    column: str
    op: str
    value: str = ""


class _DigestPlace(JsonRecord, frozen=True):
    """The input `place`."""

    spreadsheet_id: str | None = None
    tab: str | None = None


class _DigestInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    place: _DigestPlace
    where: _RowsInput
    columns: tuple[str, ...]
    number_format: str
    key_column: str | None = None


class _StoredRow(JsonRecord, frozen=True):
    """A row: its number in the sheet, the compared cell, the key, and the shown cells."""

    number: int
    compared_cell: StoredCell
    key_cell: StoredCell
    shown_cells: tuple[StoredCell, ...]

    @property
    def value(self) -> str:
        """The compared cell as text."""
        return key_of(cell_from_json(self.compared_cell))

    @property
    def key(self) -> str:
        """The text that identifies the row."""
        return key_of(cell_from_json(self.key_cell))


class _SheetRows(StepOutput, frozen=True):
    """The rows that are not empty."""

    sheet: str
    rows: tuple[_StoredRow, ...]


class _PickedRow(JsonRecord, frozen=True):
    """A matching row, with its shown cells as text."""

    number: int
    cells: tuple[str, ...]


class _PickedRows(StepOutput, frozen=True):
    """The matching rows; `remember` are hashes to store once the message is sent."""

    rows: int = 0
    matched: int = 0
    refused: int = 0
    picked: tuple[_PickedRow, ...] = ()
    remember: dict[str, str] = msgspec.field(default_factory=dict)


async def read_sheet(context: StepContext) -> StepResult:
    """Reads the named columns of the rows that are not empty."""
    options = _DigestInputs.from_json(context.inputs)
    account = _sheet(context)
    table = await read_table(account, options.place.tab, options.place.spreadsheet_id)
    rows = named_rows(table, [options.where.column, options.key_column, *options.columns])
    output = _SheetRows(account.connection.name, tuple(_stored(row.number, row.cells) for row in rows))
    return output.as_result(f"Read {counted(len(rows), 'row')} of the sheet", read=len(rows))


async def _pick_rows(context: StepContext) -> StepResult:
    """Picks the matching rows; refuses rows that cannot be compared."""
    where = _DigestInputs.from_json(context.inputs).where
    rows = context.output(READ, _SheetRows).rows
    selection = await _changed(context, rows) if where.op == "changed" else _matching(context, rows)
    picked, refused = selection.rows, selection.refused
    output = _PickedRows(
        rows=len(rows),
        matched=len(picked),
        refused=len(refused),
        picked=tuple(_picked(row) for row in picked[:_MAX_SHOWN]),
        remember=selection.remember,
    )
    numbers = ", ".join(f"row {number}" for number in refused[:20])
    return output.as_result(
        f"Found {counted(len(picked), 'row')}",
        matched=len(picked),
        message=f"Refused: {numbers}." if refused else None,
        memory=selection.memory,
    )


async def _send_digest(context: StepContext) -> StepResult:
    """Posts one message with the rows, if there are any."""
    output = context.output(PICK, _PickedRows)
    if not output.picked:
        return no_message()
    columns = _DigestInputs.from_json(context.inputs).columns
    hidden = output.matched - len(output.picked)
    card = PostCard(
        title=f"{counted(output.matched, 'row')} of {context.output(READ, _SheetRows).sheet}",
        text=(f"The first {len(output.picked)}, and {hidden} more.",) if hidden else (),
        facts=tuple((f"Row {row.number}", _row_words(columns, row.cells)) for row in output.picked),
    )
    # A change whose message was not sent is reported by the next run.
    remember = [MemoryWrite(VALUES, key, value, position=0) for key, value in output.remember.items()]
    return post_card(context, card, remember=remember)


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    output = ended.output(PICK, _PickedRows)
    matched, refused = output.matched, output.refused
    text = sentences(
        f"{matched} of {counted(output.rows, 'row')} {verb(matched, 'matches', 'match')}.",
        if_any(refused, f"{counted(refused, 'row')} {verb(refused, 'was', 'were')} refused."),
        ended.message_sentence(SEND),
    )
    result = {"rows": output.rows, "matched": matched, "shown": len(output.picked), "refused": refused}
    return base.run_summary(text, result)


def check_setup(values: JsonObject, setup: base.SetupContext) -> FieldErrors:
    """Checks the connection's spreadsheet, and the values that lt and gt compare with."""
    options = _DigestInputs.from_json(values)
    where = options.where
    errors: dict[str, list[str]] = {}
    if where.op in ORDERED and not _is_ordered(where.value, options.number_format):
        errors["inputs.where.value"] = ["Give a number, or a date written as 2026-11-20."]
    spreadsheet = {"spreadsheet_id": options.place.spreadsheet_id or None}
    for connection in setup.connections.values():
        if connection.kind == "spreadsheet":
            errors.update(base.sheet_errors("inputs.place.spreadsheet_id", connection, spreadsheet))
    return errors


@dataclass(frozen=True, slots=True)
class _Selection:
    """The matching rows, the numbers of refused ones, and what to store: now, and after sending."""

    rows: Sequence[_StoredRow]
    refused: Sequence[int]
    memory: Sequence[MemoryWrite] = ()
    remember: dict[str, str] = field(default_factory=dict)


def _sheet(context: StepContext) -> AccountAccess:
    accounts = (context.accounts[integration_id] for integration_id in context.reads)
    return next(account for account in accounts if account.connection.kind == "spreadsheet")


def _matching(context: StepContext, rows: Sequence[_StoredRow]) -> _Selection:
    options = _DigestInputs.from_json(context.inputs)
    condition = CellCondition(options.where.op, options.where.value, options.number_format)
    picked: list[_StoredRow] = []
    refused: list[int] = []
    for row in rows:
        try:
            if condition.matches(cell_from_json(row.compared_cell)):
                picked.append(row)
        except RowRefused:
            refused.append(row.number)
    return _Selection(picked, refused)


async def _changed(context: StepContext, rows: Sequence[_StoredRow]) -> _Selection:
    """Finds rows whose value differs from the last live run; the first run only stores values.

    A new row counts as changed if its value is not empty. Rows without a key, and rows that share a key,
    are refused.
    """
    unique, refused = _rows_by_uniqueness(rows)
    remembered = await context.memory.all(VALUES)
    is_first_run = not await context.memory.all(BEGUN)
    values = {_hash(row.key): _hash(row.value) for row in unique}
    changed = set() if is_first_run else _changed_keys(values, remembered)
    return _Selection(
        rows=[row for row in unique if _hash(row.key) in changed],
        refused=refused,
        memory=[
            *([MemoryWrite(BEGUN, "since", True)] if is_first_run else []),
            *_silent_writes(values, remembered, changed, {_hash(row.key) for row in rows}),
        ],
        remember={key: values[key] for key in sorted(changed)},
    )


def _rows_by_uniqueness(rows: Sequence[_StoredRow]) -> tuple[list[_StoredRow], list[int]]:
    """Returns the rows with a unique key, and the numbers of the others."""
    frequency = Counter(row.key for row in rows)
    unique = [row for row in rows if frequency[row.key] == 1 and row.key]
    return unique, [row.number for row in rows if frequency[row.key] > 1 or not row.key]


def _changed_keys(values: dict[str, str], remembered: JsonObject) -> set[str]:
    return {key for key, value in values.items() if remembered.get(key, _hash("")) != value}


def _silent_writes(
    values: dict[str, str], remembered: JsonObject, changed: set[str], present: set[str]
) -> list[MemoryWrite]:
    """Returns memory writes that need no message: new empty values, and rows that no longer exist."""
    unreported = {
        key: value for key, value in values.items() if key not in changed and remembered.get(key) != value
    }
    return [
        *(MemoryWrite(VALUES, key, value) for key, value in unreported.items()),
        *(MemoryWrite(VALUES, key, None) for key in remembered if key not in present),
    ]


def _stored(number: int, cells: Sequence[Cell]) -> _StoredRow:
    value, key, *other_cells = map(cell_to_json, cells)
    return _StoredRow(number, value, key, tuple(other_cells))


def _picked(row: _StoredRow) -> _PickedRow:
    return _PickedRow(row.number, tuple(key_of(cell_from_json(cell)) for cell in row.shown_cells))


def _row_words(columns: Sequence[str], cells: Sequence[str]) -> str:
    """Returns the non-empty cells of a row, each with its column."""
    filled = [f"{name}: {cell}" for name, cell in zip(columns, cells, strict=True) if cell]
    return ", ".join(filled) or "nothing in the columns shown"


def _hash(text: str) -> str:
    """Returns the hash that represents a text in memory, which stores no cells of people's sheets."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:32]


def _is_ordered(value: str, number_format: str) -> bool:
    try:
        return date_of(value) is not None or number_of(value, number_format) is not None
    except RowRefused:
        return False


_WHERE: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["column", "op"],
    "properties": {
        "column": {"$ref": "#/$defs/column"},
        "op": {"enum": ["eq", "ne", "lt", "gt", "contains", "empty", "changed"]},
        "value": {"type": "string", "maxLength": 500},
    },
    "if": {"properties": {"op": {"enum": ["empty", "changed"]}}},
    "then": {"not": {"required": ["value"]}},
    "else": {"required": ["value"]},
    "description": "Which rows",
}
TEMPLATE = base.define(
    "spreadsheet-to-teams-digest",
    "Sheet to Teams",
    "Posts the rows of a sheet that match to Teams.",
    category=base.Category.REPORTS,
    platforms=(),
    connections=(base.SHEET_TO_READ, base.TEAMS),
    inputs=inputs.inputs_schema(
        ["where", "columns", "teams"],
        {
            "place": inputs.shared("sheet_place", "Spreadsheet and tab in the connection read", default={}),
            "where": _WHERE,
            "columns": inputs.array("Columns shown", {"$ref": "#/$defs/column"}, minItems=1, maxItems=10),
            "number_format": inputs.shared("number_format", "How numbers are read for lt and gt"),
            "key_column": inputs.shared("column", "Column that tells rows apart (needed for changed)"),
            "teams": inputs.shared("teams", "Where the message goes"),
        },
        conditions={
            "if": {"properties": {"where": {"properties": {"op": {"const": "changed"}}}}},
            "then": {"required": ["key_column"]},
        },
    ),
    result=results.counts_schema("rows", "matched", "shown", "refused"),
    steps=(
        base.read_step(READ, "Read the sheet", read_sheet),
        base.decide_step(PICK, "Find the rows", _pick_rows),
        base.send_step(SEND, "Post them", _send_digest),
    ),
    schedule=Schedule(Cadence.WEEKDAYS, time_of_day="08:30"),
    example={"rows": 120, "matched": 4, "shown": 4, "refused": 0},
    finish=finish,
    check_setup=check_setup,
)
