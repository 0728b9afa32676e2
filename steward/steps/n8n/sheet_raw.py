"""Converts cells to values and back, and reads and writes raw cells for older spreadsheet steps."""

from collections.abc import Sequence
from decimal import Decimal

from steward.connectors.base.commands import WriteCells
from steward.connectors.base.records import Cell, SheetTable
from steward.model.json import AnyJson, JsonValue
from steward.model.run import Counts
from steward.steps.n8n.sheet_area import range_of_older, start_of
from steward.steps.n8n.sheet_location import SheetLocation
from steward.steps.rows import column_letters
from steward.steps.workflow.external_calls import ItemProposals
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeResult, Params, StepCall, paired_with


def plain(cell: Cell) -> JsonValue:
    """Returns a cell as a value of an item."""
    if isinstance(cell, Decimal):
        return int(cell) if cell == cell.to_integral_value() else float(cell)
    return "" if cell is None else cell


def to_cell(value: js.Value) -> Cell:
    """Returns an item's value as a cell."""
    if js.is_missing(value):
        return None
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return Decimal(js.number_text(value))
    return js.json_text(value)


def _property(params: Params) -> str:
    return params.text("dataPropertyName", "data") or "data"


def read_raw(call: StepCall, table: SheetTable) -> NodeResult:
    """Returns the rows of a range as lists of cells in one item."""
    rows = [[plain(cell) for cell in row.cells] for row in table.rows]
    call.budget.add({_property(call.first): rows})
    return NodeResult([[Item({_property(call.first): rows}, paired_with(0))]], counts=Counts(read=len(rows)))


async def write_raw(call: StepCall, location: SheetLocation) -> NodeResult:
    """Proposes writing each item's rows from its range's first cell on; null leaves a cell as it is."""
    item_proposals = ItemProposals(call)
    tab, table = await location.table()
    present = {row.number: row.cells for row in table.rows}
    operation = location.account.changes["sheet.write_cells"]
    for index, item in enumerate(call.items):
        params = call.params(index)
        try:
            column, first_row = start_of(range_of_older(params))
            rows = _rows(item.json.get(_property(params)), _property(params))
        except ItemFailed as failure:
            item_proposals.fail_item(index, failure.message)
            continue
        width = max(len(row) for row in rows)
        before = [
            _padded(present.get(first_row + offset, ())[column : column + width], width)
            for offset in range(len(rows))
        ]
        after = tuple(
            tuple(_after(row, position, present_row[position]) for position in range(width))
            for row, present_row in zip(rows, before, strict=True)
        )
        command = WriteCells(
            tab=tab,
            start=f"{column_letters(column)}{first_row}",
            rows=after,
            before=tuple(before),
            spreadsheet_id=location.document,
        )
        planned = operation.plan([command], integration_id=location.account.connection.integration_id)
        item_proposals.add_plan(index, planned, Item(item.json, paired_with(index)), operation)
    return item_proposals.result(read=len(table.rows))


def _rows(value: AnyJson, name: str) -> list[list[AnyJson]]:
    rows = [list(row) for row in value if js.is_list(row)] if js.is_list(value) else []
    if not any(rows) or len(rows) != len(value):
        raise ItemFailed(f"The field “{name[:80]}” is not a list of rows.")
    return rows


def _padded(cells: tuple[Cell, ...], width: int) -> tuple[Cell, ...]:
    return (*cells, *[None] * (width - len(cells)))


def _after(row: Sequence[JsonValue], index: int, present: Cell) -> Cell:
    """Returns the value of a cell after the write; cells without a new value keep theirs."""
    return present if index >= len(row) or js.is_missing(row[index]) else to_cell(row[index])
