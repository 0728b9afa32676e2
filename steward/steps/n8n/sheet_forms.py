"""The googleSheets operations that clear ranges, delete rows and add tabs, each as a send."""

from collections.abc import Iterable

from steward.connectors.base.commands import AddTab, ClearCells, DeleteRows
from steward.connectors.base.records import Cell
from steward.steps.n8n.sheet_area import whole_number
from steward.steps.n8n.sheet_location import SheetLocation
from steward.steps.rows import column_letters
from steward.steps.workflow.external_calls import ItemProposals
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    paired_with,
)

_CLEARS = ("wholeSheet", "specificRows", "specificColumns", "specificRange")


def form_problems(node: NodeDefinition, operation: str) -> Iterable[StepProblem]:
    """Yields problems of steps that clear, delete or add."""
    if node.version < 3:
        message = f"“{operation}” of this older version is not supported. Add the step again in n8n."
        yield StepProblem("error", "parameter", message)
    elif operation == "clear" and node.get("clear", "wholeSheet") not in _CLEARS:
        yield StepProblem("error", "parameter", "What it clears is not known. Choose it again.")
    elif operation == "delete" and node.get("toDelete", "rows") != "rows":
        message = "It takes out columns; only rows are taken out here. Clear the columns, or remove the step."
        yield StepProblem("error", "parameter", message)
    elif operation == "create":
        yield from _added_tab_problems(node)


def _added_tab_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    options = node.get("options", {})
    for name in options if isinstance(options, dict) else ():
        message = f"Its option “{str(name)[:60]}” is not supported: tabs only get a title. Remove it."
        yield StepProblem("error", "parameter", message)
    if not str(node.get("title") or "").removeprefix("=").strip():
        yield StepProblem("error", "parameter", "The tab it adds has no title. Give it one.")


def _column(letters: str) -> int:
    """Returns the number of a column; A is 1. Raises ItemFailed."""
    text = letters.strip().upper()
    if not (1 <= len(text) <= 3 and text.isascii() and text.isalpha()):
        raise ItemFailed("The first column of this step is not named by its letters.")
    number = 0
    for sign in text:
        number = number * 26 + ord(sign) - ord("A") + 1
    return number


def _area(params: Params) -> str | None:
    """Returns the range to clear, or None for the whole tab. Raises ItemFailed."""
    match params.text("clear", "wholeSheet"):
        case "specificRows":
            first = whole_number(params, "startIndex", 1)
            return f"{first}:{first + whole_number(params, 'rowsToDelete', 1) - 1}"
        case "specificColumns":
            first_column = _column(params.text("startIndex", "A"))
            last = first_column + whole_number(params, "columnsToDelete", 1) - 1
            return f"{column_letters(first_column - 1)}:{column_letters(last - 1)}"
        case "specificRange":
            return params.text("range").strip().upper()
    return None


async def clear(call: StepCall, location: SheetLocation) -> NodeResult:
    """Clears each range once and passes the items on."""
    item_proposals = ItemProposals(call)
    operation = location.account.changes["sheet.clear"]
    number = location.account.connection.integration_id
    cleared: set[str | None] = set()
    for index, item in enumerate(call.items):
        params = call.params(index)
        try:
            area = _area(params)
            if area in cleared:
                item_proposals.items.append(Item(item.json, paired_with(index)))
                continue
            tab, table = await location.table(area)
            rows = table.rows
            if area is None and params.flag("keepFirstRow"):
                rows = table.rows[1:]
                width = max((len(row.cells) for row in table.rows), default=1)
                last = table.rows[-1].number if rows else 2
                area = f"A2:{column_letters(max(width, 1) - 1)}{last}"
                cleared.add(None)
        except ItemFailed as failure:
            item_proposals.fail_item(index, failure.message)
            continue
        cleared.add(area)
        before = tuple(row.cells for row in rows)
        command = ClearCells(tab=tab, area=area, before=before, spreadsheet_id=location.document)
        planned = operation.plan([command], integration_id=number)
        item_proposals.add_plan(index, planned, Item(item.json, paired_with(index)), operation)
    return item_proposals.result()


async def delete(call: StepCall, location: SheetLocation) -> NodeResult:
    """Deletes rows item by item; row numbers refer to the sheet after earlier deletions."""
    item_proposals = ItemProposals(call)
    operation = location.account.changes["sheet.delete_rows"]
    number = location.account.connection.integration_id
    tab, table = await location.table()
    sheet_tab = next((tab_ for tab_ in await location.tabs() if tab_.title == tab), None)
    if sheet_tab is None:
        raise ItemFailed("The tab of this step is no longer in the spreadsheet.")
    remaining_rows: list[tuple[Cell, ...]] = [row.cells for row in table.rows]
    for index, item in enumerate(call.items):
        params = call.params(index)
        try:
            first = whole_number(params, "startIndex", 2)
            count = min(whole_number(params, "numberToDelete", 1), max(len(remaining_rows) - first + 1, 0))
        except ItemFailed as failure:
            item_proposals.fail_item(index, failure.message)
            continue
        if count == 0:  # no rows there
            item_proposals.items.append(Item(item.json, paired_with(index)))
            item_proposals.unchanged += 1
            continue
        command = DeleteRows(
            tab=tab,
            tab_id=sheet_tab.id,
            first=first,
            count=count,
            used=len(remaining_rows),
            before=tuple(remaining_rows[first - 1 : first - 1 + count]),
            spreadsheet_id=location.document,
        )
        planned = operation.plan([command], integration_id=number)
        item_proposals.add_plan(index, planned, Item(item.json, paired_with(index)), operation)
        if planned.proposals:
            del remaining_rows[first - 1 : first - 1 + count]
    return item_proposals.result(read=len(table.rows))


async def create(call: StepCall, location: SheetLocation) -> NodeResult:
    """Adds a tab with each item's title unless it exists."""
    item_proposals = ItemProposals(call)
    operation = location.account.changes["sheet.add_tab"]
    number = location.account.connection.integration_id
    present = {tab.title for tab in await location.tabs()}
    for index in range(len(call.items)):
        try:
            title = js.text(call.params(index).get("title", "")).strip()
        except ItemFailed as failure:
            item_proposals.fail_item(index, failure.message)
            continue
        command = AddTab(title=title, present=frozenset(present), spreadsheet_id=location.document)
        planned = operation.plan([command], integration_id=number)
        item_proposals.add_plan(index, planned, Item({"title": title}, paired_with(index)), operation)
        present.add(title)
    return item_proposals.result()
