"""Orders to a spreadsheet: appends new orders to a sheet, each once (templates 5.6)."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from steward.connectors.base.commands import AppendRows, WriteCells
from steward.connectors.base.queries import OrdersQuery
from steward.connectors.base.records import Cell
from steward.model.change import Proposal
from steward.model.json import JsonValue
from steward.model.plan import StepKind
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import AccountAccess, StepContext, StepResult
from steward.steps.rows import cell_from_json, cell_to_json, column_letters
from steward.templates.base import (
    Category,
    ConnectionNeed,
    ConnectionUse,
    EndedRun,
    RunSummary,
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
from steward.templates.parts.messages import account_of
from steward.templates.parts.order_sheet import (
    HEADERS,
    LINE_ID,
    ORDER_ID,
    OrderTab,
    in_places,
    names_of,
    read_tab,
    rows_of,
    states_of,
)
from steward.templates.parts.orders import OVERLAP, read_orders, read_until, remember_read, until_of
from steward.templates.parts.results import COUNT, WHOLE, or_null, result_schema

READ, SHEET, PICK, APPEND = "read-orders", "read-sheet", "pick-new", "append-rows"
ROWS_AT_A_TIME = 500
# What a step hands on is kept, and has its limit.
ROWS_A_RUN = 10_000

_STATUSES = ("pending", "paid", "fulfilled", "cancelled", "refunded")
_INPUTS = inputs_schema(
    ["sheet"],
    {
        "sheet": shared("sheet", "Spreadsheet (and tab) it uses"),
        "columns": {
            "type": "array",
            "items": {"enum": list(HEADERS)},
            "uniqueItems": True,
            "minItems": 1,
            "maxItems": 30,
            "default": ["number", "date", "customer", "total", "currency", "status"],
            "description": "Columns, in order",
        },
        "line_items": {
            "type": "boolean",
            "default": False,
            "description": "One row for each line item instead of each order",
        },
        "statuses": {
            "type": "array",
            "items": {"enum": list(_STATUSES)},
            "uniqueItems": True,
            "minItems": 1,
            "default": ["paid", "fulfilled"],
            "description": "Orders in one of these",
        },
    },
)

_COUNTS = ("read", "already_there", "appended", "rows")
_RESULT = result_schema({**dict.fromkeys(_COUNTS, COUNT), "first_row": or_null(WHOLE)})


async def read_new(at: StepContext) -> StepResult:
    """The orders in one of the statuses that changed since the last live run that succeeded.

    The first run into a sheet, or with other statuses, reads all of them: none is left out for its age.
    Where that is more than 10,000 rows the sheet does not have, the next runs append the rest.
    """
    until = await read_until(at, _place(at))
    statuses: Any = at.inputs["statuses"]
    columns, lines = _columns(at)
    held: frozenset[str] | None = None
    rows: list[list[Cell]] = []
    there: set[str] = set()
    read = left = 0
    async for order in read_orders(
        at, OrdersQuery(modified_after=None if until is None else until - OVERLAP)
    ):
        if not states_of(order) & set(statuses):
            continue
        read += 1
        if len(rows) >= ROWS_A_RUN and held is None:
            # What the sheet has takes no place, else the rest would never have its turn.
            held = (await _tab(at)).ids
            there = {str(row[0]) for row in rows} & held
            rows = [row for row in rows if row[0] not in held]
        if held is not None and order.id in held:
            there.add(order.id)
        elif len(rows) >= ROWS_A_RUN:
            left += 1
        else:
            rows += rows_of(order, columns, lines=lines, zone_name=at.zone)
    return StepResult(
        {
            "until": None if left else until_of(at),
            "read": read - left,
            "there": len(there),
            "rows": [[cell_to_json(cell) for cell in row] for row in rows],
        },
        counts=Counts(read=read),
        title=f"Read {counted(read, 'order')}",
        message=f"{counted(left, 'order')} left for the next run." if left else None,
    )


async def read_sheet(at: StepContext) -> StepResult:
    """Which orders the tab holds. Raises `tab_missing`, `wrong_header`, `column_repeated` (E4)."""
    tab = await _tab(at)
    return StepResult(
        dict(tab.kept()),
        counts=Counts(read=len(tab.ids)),
        title=f"Read which of them the tab {tab.title} has",
    )


async def pick_new(at: StepContext) -> StepResult:
    """The rows of orders the tab does not have."""
    read: Any = at.outputs[READ]
    tab = OrderTab.of(at.outputs[SHEET])
    rows = [row for row in read["rows"] if row[0] not in tab.ids]
    there = {row[0] for row in read["rows"]} & tab.ids
    new = len({row[0] for row in rows})
    return StepResult(
        {"already_there": read["there"] + len(there), "rows": rows},
        counts=Counts(matched=new),
        title=f"Found {counted(new, 'order')} the sheet does not have",
    )


async def append_rows(at: StepContext) -> StepResult:
    """Appends them in blocks of 500 rows; a header is written first where one is missing."""
    found: Any = at.outputs[PICK]
    read: Any = at.outputs[READ]
    remember = tuple(remember_read(read, _place(at)))
    rows = [[cell_from_json(cell) for cell in row] for row in found["rows"]]
    if not rows:
        return StepResult({"orders": [], "header": 0}, title="Nothing to append", memory=remember)
    tab = OrderTab.of(at.outputs[SHEET])
    columns, lines = _columns(at)
    names = names_of(columns, lines=lines)
    proposals = _header_proposals(at, tab, names) if tab.header else []
    headers = len(proposals)
    blocks = [list(block) for block in _blocks(rows)]
    header = (*tab.header, *tab.missing(names)) if tab.header else names
    for block in blocks:
        placed = [in_places(row, names, header) for row in block]
        if not tab.header and block is blocks[0]:
            placed.insert(0, names)
        proposals += _append(at, tab, placed, key=header.index(_key_name(header, lines=lines)))
    first = tab.last + 1 if tab.header else 2
    new = len({row[0] for row in rows})
    return StepResult(
        {
            "header": headers,
            "begun": not tab.header,
            "first_row": first,
            "orders": _orders(proposals, header),
        },
        title=f"Append {counted(new, 'order')} to the tab {tab.title}",
        proposals=tuple(proposals),
        memory=remember,
    )


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    sent = ended.output_of(APPEND)
    blocks: Any = sent.get("orders", [])
    outcomes = tuple(ended.outcomes.get(APPEND, ()))[whole(sent.get("header")) :]
    done = [block for block, outcome in zip(blocks, outcomes, strict=False) if outcome in ended.success]
    orders = len({number for block in done for number in block["ids"]})
    rows = sum(block["rows"] for block in done)
    read, there = whole(ended.output_of(READ).get("read")), whole(ended.output_of(PICK).get("already_there"))
    test = "would be " if ended.mode.value == "test" else ""
    text = sentences(
        f"{counted(orders, 'order')} {test}appended in {counted(rows, 'row')}."
        if rows
        else "No order was appended.",
        ended.other_outcomes(APPEND).removeprefix(", ").capitalize() + "."
        if ended.other_outcomes(APPEND)
        else None,
        f"{there} {verb(there, 'was', 'were')} there already." if there else None,
    )
    return run_summary(
        text,
        {
            "read": read,
            "already_there": there,
            "appended": orders,
            "rows": rows,
            "first_row": sent.get("first_row") if rows else None,
        },
    )


def _columns(at: StepContext) -> tuple[list[str], bool]:
    columns: Any = at.inputs["columns"]
    return columns, at.inputs["line_items"] is True


def _account(at: StepContext) -> AccountAccess:
    return at.accounts[account_of(at.inputs["sheet"])]


async def _tab(at: StepContext) -> OrderTab:
    sheet: Any = at.inputs["sheet"]
    return await read_tab(_account(at), sheet["tab"], sheet.get("spreadsheet_id"))


def _place(at: StepContext) -> str:
    """Tells apart what was read for one sheet, and for one choice of orders, from what was for another."""
    statuses: Any = at.inputs["statuses"]
    about = [at.inputs["sheet"], sorted(statuses)]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode("utf-8")).hexdigest()


def _key_name(header: Sequence[str], *, lines: bool) -> str:
    """What an interrupted append is looked for by: the order's id, or its line's."""
    wanted = (LINE_ID if lines else ORDER_ID).casefold()
    return next(name for name in header if name.casefold() == wanted)


def _blocks(rows: Sequence[list[Cell]]) -> Iterator[Sequence[list[Cell]]]:
    """At most 500 rows each; an order's rows stay together unless they are more than that."""
    held: list[list[Cell]] = []
    at = 0
    while at < len(rows):
        end = at
        while end < len(rows) and rows[end][0] == rows[at][0]:
            end += 1
        if held and len(held) + end - at > ROWS_AT_A_TIME:
            yield held
            held = []
        held = [*held, *rows[at:end]]
        while len(held) > ROWS_AT_A_TIME:
            yield held[:ROWS_AT_A_TIME]
            held = held[ROWS_AT_A_TIME:]
        at = end
    if held:
        yield held


def _header_proposals(at: StepContext, tab: OrderTab, names: Sequence[str]) -> list[Proposal]:
    """Columns the header misses, added at its right end."""
    missing = tab.missing(names)
    if not missing:
        return []
    ask = WriteCells(
        tab.title,
        f"{column_letters(len(tab.header))}1",
        rows=(missing,),
        before=(),
        spreadsheet_id=_named(at),
        message="Columns the sheet does not have yet.",
    )
    account = _account(at)
    number = account.connection.integration_id
    return list(account.changes["sheet.write_cells"].plan([ask], integration_id=number).proposals)


def _append(at: StepContext, tab: OrderTab, rows: Sequence[tuple[Cell, ...]], *, key: int) -> list[Proposal]:
    account = _account(at)
    ask = AppendRows(tab.title, tuple(rows), key_column=key, spreadsheet_id=_named(at))
    number = account.connection.integration_id
    return list(account.changes["sheet.append_rows"].plan([ask], integration_id=number).proposals)


def _orders(proposals: Sequence[Proposal], header: Sequence[str]) -> list[JsonValue]:
    """The orders and rows of each append, in their order; the header row is none of them."""
    place = next(at for at, name in enumerate(header) if name.casefold() == ORDER_ID.casefold())
    found: list[JsonValue] = []
    for proposal in proposals:
        for part in proposal.parts:
            rows: Any = part.arguments["rows"] if part.operation == "sheet.append_rows" else None
            if rows is not None:
                ids = [row[place] for row in rows if row[place] != ORDER_ID]
                found.append({"ids": sorted(set(ids)), "rows": len(ids)})
    return found


def _named(at: StepContext) -> str | None:
    sheet: Any = at.inputs["sheet"]
    named = sheet.get("spreadsheet_id")
    return named if isinstance(named, str) else None


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="order-export-to-spreadsheet",
        template_version=1,
        name="Orders to a spreadsheet",
        description="Appends new orders to a sheet, each once.",
        category=Category.ORDERS,
        platforms=("shopify", "woocommerce"),
        connections=(ConnectionNeed("spreadsheet", ConnectionUse.WRITE, 1, 1),),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read new orders", StepKind.READ),
            StepFacts(SHEET, "Read which orders the sheet has", StepKind.READ),
            StepFacts(PICK, "Leave out those already there", StepKind.DECIDE),
            StepFacts(APPEND, "Append the rows", StepKind.SEND),
        ),
        changes_store=False,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.DAILY, time_of_day="01:00"),
        changes=(),
        example_result={
            "read": 31,
            "already_there": 2,
            "appended": 29,
            "rows": 29,
            "first_row": 1204,
        },
    ),
    steps={READ: read_new, SHEET: read_sheet, PICK: pick_new, APPEND: append_rows},
    finish=finish,
)
