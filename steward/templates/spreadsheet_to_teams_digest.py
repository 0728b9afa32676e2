"""Sheet to Teams: posts the rows of a sheet that match to Teams (templates 5.22)."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steward.connectors.base.commands import PostCard
from steward.connectors.base.records import Cell
from steward.model.connection import Auth
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.refusals import FieldErrors
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import MemoryWrite, StepContext, StepResult
from steward.steps.rows import cell_from_json, cell_to_json, named_rows, read_table
from steward.steps.skus import RowRefused, key_of
from steward.templates.base import (
    Category,
    ConnectionNeed,
    ConnectionUse,
    EndedRun,
    RunSummary,
    SetupContext,
    StepFacts,
    Template,
    TemplateFacts,
    counted,
    run_summary,
    sentences,
    verb,
    whole,
)
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.messages import no_message, post_card
from steward.templates.parts.results import COUNT, result_schema
from steward.templates.parts.row_filter import ORDERED, Where, date_of, number_of

READ, PICK, SEND = "read-sheet", "pick-rows", "send-digest"
# Of each row, by its key, a mark of the value it had; and that there was a first run (`changed`).
VALUES, BEGUN = "values", "begun"
MOST_SHOWN = 50
_COUNTS = ("rows", "matched", "shown", "refused")

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
_INPUTS = inputs_schema(
    ["where", "columns", "teams"],
    {
        "place": shared("sheet_place", "Spreadsheet and tab in the connection read", default={}),
        "where": _WHERE,
        "columns": {
            "type": "array",
            "items": {"$ref": "#/$defs/column"},
            "uniqueItems": True,
            "minItems": 1,
            "maxItems": 10,
            "description": "Columns shown",
        },
        "number_format": shared("number_format", "How numbers are read for lt and gt"),
        "key_column": shared("column", "Column that tells rows apart (needed for changed)"),
        "teams": shared("teams", "Where the message goes"),
    },
    conditions={
        "if": {"properties": {"where": {"properties": {"op": {"const": "changed"}}}}},
        "then": {"required": ["key_column"]},
    },
)


async def read_sheet(at: StepContext) -> StepResult:
    """The rows that hold something, and of them the named columns (E4)."""
    place: Any = at.inputs["place"]
    where: Any = at.inputs["where"]
    columns: Any = at.inputs["columns"]
    account = next(at.accounts[one] for one in at.reads if at.accounts[one].connection.kind == "spreadsheet")
    table = await read_table(account, place.get("tab"), place.get("spreadsheet_id"))
    key: Any = at.inputs.get("key_column")
    rows = named_rows(table, [where["column"], key, *columns])
    return StepResult(
        {
            "sheet": account.connection.name,
            "rows": [[row.number, *map(cell_to_json, row.cells)] for row in rows],
        },
        counts=Counts(read=len(rows)),
        title=f"Read {counted(len(rows), 'row')} of the sheet",
    )


async def pick_rows(at: StepContext) -> StepResult:
    """The rows that match, and those that cannot be told."""
    output: Any = at.outputs[READ]
    where: Any = at.inputs["where"]
    rows = [_Row.of(each) for each in output["rows"]]
    if where["op"] == "changed":
        picked, refused, keep, later = await _changed(at, rows)
    else:
        wanted = Where(where["op"], where.get("value", ""), str(at.inputs["number_format"]))
        picked, refused = _matching(rows, wanted)
        keep, later = (), {}
    return StepResult(
        {
            "rows": len(rows),
            "matched": len(picked),
            "shown": min(len(picked), MOST_SHOWN),
            "refused": len(refused),
            "picked": [[row.number, *map(key_of, row.shown)] for row in picked[:MOST_SHOWN]],
            "remember": later,
        },
        counts=Counts(matched=len(picked)),
        title=f"Found {counted(len(picked), 'row')}",
        message=f"Refused: {', '.join(f'row {number}' for number in refused[:20])}." if refused else None,
        memory=keep,
    )


async def send_digest(at: StepContext) -> StepResult:
    """One message with the rows, when there are any (E17)."""
    found: Any = at.outputs[PICK]
    read: Any = at.outputs[READ]
    columns: Any = at.inputs["columns"]
    if not found["picked"]:
        return no_message()
    left = found["matched"] - found["shown"]
    card = PostCard(
        title=f"{counted(found['matched'], 'row')} of {read['sheet']}",
        text=(f"The first {found['shown']}, and {left} more.",) if left else (),
        facts=tuple((f"Row {number}", _told(columns, cells)) for number, *cells in found["picked"]),
    )
    remember: Mapping[str, str] = found["remember"]
    # A change whose message did not go out is told by the next run.
    told = tuple(MemoryWrite(VALUES, key, mark, position=0) for key, mark in remember.items())
    return post_card(at, card, remember=told)


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(PICK)
    counts = {name: whole(found.get(name)) for name in _COUNTS}
    refused = counts["refused"]
    match = verb(counts["matched"], "matches", "match")
    text = sentences(
        f"{counts['matched']} of {counted(counts['rows'], 'row')} {match}.",
        f"{counted(refused, 'row')} {verb(refused, 'was', 'were')} refused." if refused else None,
        ended.message_sentence(SEND),
    )
    return run_summary(text, counts)


def check_world(inputs: JsonObject, world: SetupContext) -> FieldErrors:
    """What the schema cannot say: the spreadsheet of the connection read, and what lt and gt compare with."""
    place: Any = inputs["place"]
    where: Any = inputs["where"]
    errors: dict[str, list[str]] = {}
    if where["op"] in ORDERED and not _is_ordered(where["value"], str(inputs["number_format"])):
        errors["inputs.where.value"] = ["Give a number, or a date written as 2026-11-20."]
    given = place.get("spreadsheet_id")
    for found in world.connections.values():
        if found.kind != "spreadsheet":
            continue
        if found.auth is Auth.USER_SIGN_IN:
            wrong = None if given else "Name the spreadsheet: this sign-in reaches several."
        else:
            own = given is None or given == found.facts.get("subject")
            wrong = None if own else "This connection is one spreadsheet, and not this one. Leave it empty."
        if wrong:
            errors["inputs.place.spreadsheet_id"] = [wrong]
    return errors


@dataclass(frozen=True, slots=True)
class _Row:
    """A row: its number in the sheet, the cell looked at, its key, and the cells shown."""

    number: int
    cell: Cell
    key: Cell
    shown: tuple[Cell, ...]

    @classmethod
    def of(cls, kept: Sequence[Any]) -> "_Row":
        """A row back from JSON."""
        number, cell, key, *shown = kept
        return cls(number, cell_from_json(cell), cell_from_json(key), tuple(map(cell_from_json, shown)))


def _matching(rows: Sequence[_Row], where: Where) -> tuple[list[_Row], list[int]]:
    picked: list[_Row] = []
    refused: list[int] = []
    for row in rows:
        try:
            if where.fits(row.cell):
                picked.append(row)
        except RowRefused:
            refused.append(row.number)
    return picked, refused


async def _changed(
    at: StepContext, rows: Sequence[_Row]
) -> tuple[list[_Row], list[int], tuple[MemoryWrite, ...], dict[str, JsonValue]]:
    """Rows whose value is another than at the last live run; the first run only remembers.

    A row that was not there yet changed when it holds something. What is to be remembered with the message
    comes last, all else before it.
    """
    often = Counter(key_of(row.key) for row in rows)
    sound = [row for row in rows if often[key_of(row.key)] == 1 and key_of(row.key)]
    refused = [row.number for row in rows if often[key_of(row.key)] > 1 or not key_of(row.key)]
    was = await at.memory.all(VALUES)
    first = not await at.memory.all(BEGUN)
    marks = {_mark(key_of(row.key)): _mark(key_of(row.cell)) for row in sound}
    empty = _mark("")
    picked = [
        row
        for row in sound
        if not first and was.get(_mark(key_of(row.key)), empty) != marks[_mark(key_of(row.key))]
    ]
    told = {_mark(key_of(row.key)) for row in picked}
    unclear = {_mark(key_of(row.key)) for row in rows} - marks.keys()
    keep = [MemoryWrite(BEGUN, "since", True)] if first else []
    keep += [
        MemoryWrite(VALUES, key, mark)
        for key, mark in marks.items()
        if key not in told and was.get(key) != mark
    ]
    keep += [MemoryWrite(VALUES, key, None) for key in was if key not in marks and key not in unclear]
    return picked, refused, tuple(keep), {key: marks[key] for key in sorted(told)}


def _told(columns: Sequence[str], cells: Sequence[str]) -> str:
    """The cells of a row that hold something, each by its column."""
    filled = [f"{name}: {cell}" for name, cell in zip(columns, cells, strict=True) if cell]
    return ", ".join(filled) or "nothing in the columns shown"


def _mark(text: str) -> str:
    """What stands for a text in the memory: people's cells are not kept there."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:32]


def _is_ordered(value: str, form: str) -> bool:
    try:
        return date_of(value) is not None or number_of(value, form) is not None
    except RowRefused:
        return False


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="spreadsheet-to-teams-digest",
        template_version=1,
        name="Sheet to Teams",
        description="Posts the rows of a sheet that match to Teams.",
        category=Category.REPORTS,
        platforms=(),
        connections=(
            ConnectionNeed("spreadsheet", ConnectionUse.READ, 1, 1),
            ConnectionNeed("teams", ConnectionUse.WRITE, 1, 1),
        ),
        inputs_schema=_INPUTS,
        result_schema=result_schema(dict.fromkeys(_COUNTS, COUNT)),
        steps=(
            StepFacts(READ, "Read the sheet", StepKind.READ),
            StepFacts(PICK, "Find the rows", StepKind.DECIDE),
            StepFacts(SEND, "Post them", StepKind.SEND),
        ),
        changes_store=False,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.WEEKDAYS, time_of_day="08:30"),
        changes=(),
        example_result={"rows": 120, "matched": 4, "shown": 4, "refused": 0},
    ),
    steps={READ: read_sheet, PICK: pick_rows, SEND: send_digest},
    finish=finish,
    check_setup=check_world,
)
