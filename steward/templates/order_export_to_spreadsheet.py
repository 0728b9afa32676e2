"""Orders to a spreadsheet: appends each new order to a sheet once."""

import hashlib
import json
from collections.abc import Iterator, Sequence, Set
from datetime import datetime
from itertools import groupby

from steward.connectors.base.commands import AppendRows, WriteCells
from steward.connectors.base.queries import OrdersQuery
from steward.connectors.base.records import Cell
from steward.model.change import Proposal
from steward.model.json import AnyJson, JsonValue
from steward.model.run import Mode
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import JsonRecord, StepContext, StepOutput, StepResult
from steward.steps.rows import StoredCell, cell_from_json, cell_to_json, column_letters
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, order_sheet, orders, results
from steward.templates.parts.messages import SheetInput
from steward.templates.parts.order_sheet import LINE_ID, ORDER_ID, OrderTab

READ, SHEET, PICK, APPEND = "read-orders", "read-sheet", "pick-new", "append-rows"
_ROWS_PER_CALL = 500
# A step's output is stored, and limited in size.
_ROWS_PER_RUN = 10_000
_STATUSES = ("pending", "paid", "fulfilled", "cancelled", "refunded")


class _ExportInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    sheet: SheetInput
    columns: tuple[str, ...]
    line_items: bool
    statuses: tuple[str, ...]


class _ReadRows(StepOutput, frozen=True):
    """The rows of the orders read; `in_sheet` counts orders that were left out because the sheet has them."""

    until: str | None = None
    read: int = 0
    in_sheet: int = 0
    rows: tuple[tuple[StoredCell, ...], ...] = ()


class _NewRows(StepOutput, frozen=True):
    """The rows of orders that the tab does not have."""

    already_there: int = 0
    rows: tuple[tuple[StoredCell, ...], ...] = ()


class _AppendedBlock(JsonRecord, frozen=True):
    """The orders of one append."""

    ids: tuple[str, ...]
    rows: int


class _AppendArguments(JsonRecord, frozen=True):
    """The arguments of an append, as the connector planned it."""

    rows: tuple[tuple[AnyJson, ...], ...]  # JSON values; the ids are texts


class _AppendPlan(StepOutput, frozen=True):
    """The planned appends, after `header_calls` calls that write the header."""

    header_calls: int = 0
    first_row: int | None = None
    blocks: tuple[_AppendedBlock, ...] = ()


async def _read_new(context: StepContext) -> StepResult:
    """Reads the orders in one of the statuses that changed since the last successful live run.

    The first run into a sheet, or with other statuses, reads all orders, however old. If the sheet lacks
    more than 10,000 rows, the next runs append the rest.
    """
    options = _ExportInputs.from_json(context.inputs)
    until = await orders.read_until(context, _memory_key(context))
    query = _query_since(until)
    exported: frozenset[str] | None = None
    rows: list[list[Cell]] = []
    in_sheet: set[str] = set()
    read = postponed = 0
    async for order in orders.read_orders(context, query):
        if not order_sheet.states_of(order) & set(options.statuses):
            continue
        read += 1
        if len(rows) >= _ROWS_PER_RUN and exported is None:
            # Rows that the sheet already has do not count, or the rest would never be appended.
            exported = (await _read_tab(context)).ids
            in_sheet = _order_ids(rows) & exported
            rows = _without(rows, exported)
        if exported is not None and order.id in exported:
            in_sheet.add(order.id)
        elif len(rows) >= _ROWS_PER_RUN:
            postponed += 1
        else:
            rows += order_sheet.rows_of(
                order, options.columns, lines=options.line_items, zone_name=context.zone
            )
    output = _ReadRows(
        until=None if postponed else orders.until_of(context),
        read=read - postponed,
        in_sheet=len(in_sheet),
        rows=tuple(tuple(map(cell_to_json, row)) for row in rows),
    )
    message = if_any(postponed, f"{counted(postponed, 'order')} left for the next run.")
    return output.as_result(f"Read {counted(read, 'order')}", read=read, message=message)


async def read_sheet(context: StepContext) -> StepResult:
    """Reads which orders the tab contains. Raises `tab_missing`, `wrong_header`, `column_repeated`."""
    tab = await _read_tab(context)
    return tab.as_result(f"Read which of them the tab {tab.title} has", read=len(tab.ids))


async def _pick_new(context: StepContext) -> StepResult:
    """Picks the rows of orders that the tab does not have."""
    read, tab = context.output(READ, _ReadRows), context.output(SHEET, OrderTab)
    rows = tuple(row for row in read.rows if row[0] not in tab.ids)
    in_sheet = {row[0] for row in read.rows if isinstance(row[0], str)} & tab.ids
    new = len(_order_ids(rows))
    title = f"Found {counted(new, 'order')} the sheet does not have"
    return _NewRows(read.in_sheet + len(in_sheet), rows).as_result(title, matched=new)


async def _append_rows(context: StepContext) -> StepResult:
    """Appends the new rows in blocks of 500; writes a missing header first."""
    remember = orders.remember_read(context.output(READ, _ReadRows).until, _memory_key(context))
    rows = [[cell_from_json(cell) for cell in row] for row in context.output(PICK, _NewRows).rows]
    if not rows:
        return _AppendPlan().as_result("Nothing to append", memory=remember)
    options = _ExportInputs.from_json(context.inputs)
    tab = context.output(SHEET, OrderTab)
    names = order_sheet.header_of(options.columns, lines=options.line_items)
    header_proposals = _header_proposals(context, tab, names) if tab.header else []
    header = (*tab.header, *tab.missing(names)) if tab.header else names
    key = header.index(_key_name(header, lines=options.line_items))
    blocks = _arranged_blocks(rows, names, header, with_header=not tab.header)
    appends = [proposal for block in blocks for proposal in _append(context, tab, block, key=key)]
    output = _AppendPlan(
        header_calls=len(header_proposals),
        first_row=tab.last_row + 1 if tab.header else 2,
        blocks=tuple(_planned_blocks(appends, header)),
    )
    return output.as_result(
        f"Append {counted(len(_order_ids(rows)), 'order')} to the tab {tab.title}",
        proposals=(*header_proposals, *appends),
        memory=remember,
    )


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    plan = ended.output(APPEND, _AppendPlan)
    outcomes = tuple(ended.outcomes.get(APPEND, ()))[plan.header_calls :]
    done = [block for block, outcome in zip(plan.blocks, outcomes, strict=False) if outcome in ended.success]
    appended = len({order_id for block in done for order_id in block.ids})
    rows = sum(block.rows for block in done)
    in_sheet = ended.output(PICK, _NewRows).already_there
    test = "would be " if ended.mode is Mode.TEST else ""
    other_outcomes = ended.other_outcomes(APPEND).removeprefix(", ").capitalize()
    appended_words = f"{counted(appended, 'order')} {test}appended in {counted(rows, 'row')}."
    text = sentences(
        appended_words if rows else "No order was appended.",
        f"{other_outcomes}." if other_outcomes else None,
        if_any(in_sheet, f"{in_sheet} {verb(in_sheet, 'was', 'were')} there already."),
    )
    result = {
        "read": ended.output(READ, _ReadRows).read,
        "already_there": in_sheet,
        "appended": appended,
        "rows": rows,
        "first_row": plan.first_row if rows else None,
    }
    return base.run_summary(text, result)


async def _read_tab(context: StepContext) -> OrderTab:
    sheet = _ExportInputs.from_json(context.inputs).sheet
    return await order_sheet.read_tab(sheet.account(context), sheet.tab, sheet.spreadsheet_id)


def _memory_key(context: StepContext) -> str:
    """Returns a memory key that is specific to one sheet and choice of orders."""
    statuses = sorted(_ExportInputs.from_json(context.inputs).statuses)
    scope: list[JsonValue] = [context.inputs["sheet"], statuses]
    return hashlib.sha256(json.dumps(scope, sort_keys=True).encode("utf-8")).hexdigest()


def _key_name(header: Sequence[str], *, lines: bool) -> str:
    """Returns the column by which an interrupted append is looked up: the id of the order or its line."""
    name = (LINE_ID if lines else ORDER_ID).casefold()
    return next(column for column in header if column.casefold() == name)


def _query_since(until: datetime | None) -> OrdersQuery:
    return OrdersQuery(modified_after=None if until is None else until - orders.OVERLAP)


def _order_ids(rows: Sequence[Sequence[object]]) -> set[str]:
    return {str(row[0]) for row in rows}


def _without(rows: Sequence[list[Cell]], order_ids: Set[str]) -> list[list[Cell]]:
    return [row for row in rows if row[0] not in order_ids]


def _arranged_blocks(
    rows: Sequence[list[Cell]], names: Sequence[str], header: Sequence[str], *, with_header: bool
) -> list[list[tuple[Cell, ...]]]:
    """Returns the blocks to append, with their cells in the order of the tab's header."""
    blocks = [[order_sheet.arrange(row, names, header) for row in block] for block in _blocks(rows)]
    if with_header:
        blocks[0].insert(0, tuple(names))
    return blocks


def _blocks(rows: Sequence[list[Cell]]) -> Iterator[list[list[Cell]]]:
    """Yields blocks of at most 500 rows; an order's rows stay together unless there are more than that."""
    block: list[list[Cell]] = []
    for _, group in groupby(rows, key=lambda row: row[0]):
        order_rows = list(group)
        if block and len(block) + len(order_rows) > _ROWS_PER_CALL:
            yield block
            block = []
        block = [*block, *order_rows]
        while len(block) > _ROWS_PER_CALL:
            yield block[:_ROWS_PER_CALL]
            block = block[_ROWS_PER_CALL:]
    if block:
        yield block


def _header_proposals(context: StepContext, tab: OrderTab, names: Sequence[str]) -> Sequence[Proposal]:
    """Proposes to add the columns that the header lacks at its right end."""
    missing = tab.missing(names)
    if not missing:
        return []
    sheet = _ExportInputs.from_json(context.inputs).sheet
    command = WriteCells(
        tab.title,
        f"{column_letters(len(tab.header))}1",
        rows=(missing,),
        before=(),
        spreadsheet_id=sheet.spreadsheet_id,
        message="Columns the sheet does not have yet.",
    )
    return sheet.account(context).plan("sheet.write_cells", [command]).proposals


def _append(
    context: StepContext, tab: OrderTab, rows: Sequence[tuple[Cell, ...]], *, key: int
) -> Sequence[Proposal]:
    sheet = _ExportInputs.from_json(context.inputs).sheet
    command = AppendRows(tab.title, tuple(rows), key_column=key, spreadsheet_id=sheet.spreadsheet_id)
    return sheet.account(context).plan("sheet.append_rows", [command]).proposals


def _planned_blocks(proposals: Sequence[Proposal], header: Sequence[str]) -> Iterator[_AppendedBlock]:
    """Yields the orders and rows of each append, without the header row."""
    id_column = next(index for index, name in enumerate(header) if name.casefold() == ORDER_ID.casefold())
    for proposal in proposals:
        for part in proposal.parts:
            rows = _AppendArguments.from_json(part.arguments).rows
            ids = [row[id_column] for row in rows if row[id_column] != ORDER_ID]
            yield _AppendedBlock(tuple(sorted(set(ids))), len(ids))


TEMPLATE = base.define(
    "order-export-to-spreadsheet",
    "Orders to a spreadsheet",
    "Appends new orders to a sheet, each once.",
    category=base.Category.ORDERS,
    connections=(base.ConnectionNeed("spreadsheet", base.ConnectionUse.WRITE, 1, 1),),
    inputs=inputs.inputs_schema(
        ["sheet"],
        {
            "sheet": inputs.shared("sheet", "Spreadsheet (and tab) it uses"),
            "columns": inputs.array(
                "Columns, in order",
                {"enum": list(order_sheet.HEADERS)},
                minItems=1,
                maxItems=30,
                default=["number", "date", "customer", "total", "currency", "status"],
            ),
            "line_items": inputs.flag("One row for each line item instead of each order"),
            "statuses": inputs.array(
                "Orders in one of these",
                {"enum": list(_STATUSES)},
                minItems=1,
                default=["paid", "fulfilled"],
            ),
        },
    ),
    result=results.counts_schema(
        *("read", "already_there", "appended", "rows"), first_row=results.or_null(results.INTEGER)
    ),
    steps=(
        base.read_step(READ, "Read new orders", _read_new),
        base.read_step(SHEET, "Read which orders the sheet has", read_sheet),
        base.decide_step(PICK, "Leave out those already there", _pick_new),
        base.send_step(APPEND, "Append the rows", _append_rows),
    ),
    schedule=Schedule(Cadence.DAILY, time_of_day="01:00"),
    example={"read": 31, "already_there": 2, "appended": 29, "rows": 29, "first_row": 1204},
    finish=finish,
)
