"""googleSheets operations that clear ranges, delete rows and add tabs, each as a send."""

import re
from collections.abc import Iterable

from steward.connectors.base.commands import AddTab, ClearCells, DeleteRows
from steward.connectors.base.records import Cell
from steward.model.json import JsonObject
from steward.steps.n8n.sheet_location import SheetLocation
from steward.steps.rows import column_letters
from steward.steps.workflow.effects import Effects
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
_MOST_ROWS = 1_000_000


def form_problems(node: NodeDefinition, operation: str) -> Iterable[StepProblem]:
    """Yields problems of steps that clear, delete or add."""
    if node.version < 3:
        words = f"“{operation}” of this older version is not supported. Add the step again in n8n."
        yield StepProblem("error", "parameter", words)
    elif operation == "clear" and node.get("clear", "wholeSheet") not in _CLEARS:
        yield StepProblem("error", "parameter", "What it clears is not known. Choose it anew.")
    elif operation == "delete" and node.get("toDelete", "rows") != "rows":
        words = "It takes out columns; only rows are taken out here. Clear the columns, or remove the step."
        yield StepProblem("error", "parameter", words)
    elif operation == "create":
        yield from _added_tab_problems(node)


def _added_tab_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    options = node.get("options", {})
    for name in options if isinstance(options, dict) else ():
        words = f"Its option “{str(name)[:60]}” is not supported: tabs only get a title. Remove it."
        yield StepProblem("error", "parameter", words)
    if not str(node.get("title") or "").removeprefix("=").strip():
        yield StepProblem("error", "parameter", "The tab it adds has no title. Give it one.")


_PART = "It works on a part of the tab. Here the first row names the columns: use the whole tab."


def _is_part_of_tab(values: JsonObject) -> bool:
    definition = values.get("rangeDefinition", "detectAutomatically")
    return (
        definition not in ("detectAutomatically", "specifyRange")
        or (values.get("headerRow", 1), values.get("firstDataRow", 2)) != (1, 2)
        or bool(values.get("range"))
    )


def area_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields unsupported ranges, header rows and value formats."""
    for name in ("dataLocationOnSheet", "locationDefine"):
        values = node.get(f"options.{name}.values", {})
        if isinstance(values, dict) and _is_part_of_tab(values):
            yield StepProblem("error", "parameter", _PART)
    if node.version < 3:
        yield from _older_range_problems(node)
    rendering = node.get("options.outputFormatting.values.general", node.get("options.valueRenderMode"))
    if rendering == "FORMULA":
        yield StepProblem(
            "error", "parameter", "It reads formulas; here values are read. Choose unformatted values."
        )
    elif rendering == "FORMATTED_VALUE":
        words = "It reads values as the sheet shows them; here numbers come without their format. Check it."
        yield StepProblem("warning", "parameter", words)


def _older_range_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    area = str(node.literal("range", "")).rpartition("!")[2]
    is_whole = not area or re.fullmatch(r"[Aa]1?:[A-Za-z]{1,3}", area)
    if not is_whole or node.get("keyRow", 0) != 0 or node.get("dataStartRow", 1) != 1:
        yield StepProblem("error", "parameter", _PART)
    elif area:
        words = "It names the columns it works on; here all columns are read. Check later steps."
        yield StepProblem("warning", "parameter", words)


def _whole_number(params: Params, name: str, default: int) -> int:
    number = js.number(params.get(name, default))
    if not (number == number and float(number).is_integer() and 1 <= number <= _MOST_ROWS):
        raise ItemFailed(f"“{name}” of this step is not a whole number from 1 on.")
    return int(number)


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
    """Returns the range to clear; None for the whole tab, subject to `keepFirstRow`."""
    match params.text("clear", "wholeSheet"):
        case "specificRows":
            first = _whole_number(params, "startIndex", 1)
            return f"{first}:{first + _whole_number(params, 'rowsToDelete', 1) - 1}"
        case "specificColumns":
            first_column = _column(params.text("startIndex", "A"))
            last = first_column + _whole_number(params, "columnsToDelete", 1) - 1
            return f"{column_letters(first_column - 1)}:{column_letters(last - 1)}"
        case "specificRange":
            return params.text("range").strip().upper()
    return None


async def clear(call: StepCall, location: SheetLocation) -> NodeResult:
    """Clears each range once and passes the items on."""
    effects = Effects(call)
    operation = location.account.changes["sheet.clear"]
    number = location.account.connection.integration_id
    seen: set[str | None] = set()
    for index, item in enumerate(call.items):
        params = call.params(index)
        try:
            area = _area(params)
            if area in seen:
                effects.items.append(Item(item.json, paired_with(index)))
                continue
            tab, table = await location.table(area)
            rows = table.rows
            if area is None and params.flag("keepFirstRow"):
                rows = table.rows[1:]
                width = max((len(row.cells) for row in table.rows), default=1)
                last = table.rows[-1].number if rows else 2
                area = f"A2:{column_letters(max(width, 1) - 1)}{last}"
                seen.add(None)
        except ItemFailed as failure:
            effects.fail_item(index, failure.message)
            continue
        seen.add(area)
        before = tuple(row.cells for row in rows)
        ask = ClearCells(tab=tab, area=area, before=before, spreadsheet_id=location.document)
        planned = operation.plan([ask], integration_id=number)
        effects.add_plan(index, planned, Item(item.json, paired_with(index)), operation)
    return effects.result()


async def delete(call: StepCall, location: SheetLocation) -> NodeResult:
    """Deletes rows for each item in turn; row numbers of an item count after the deletions before it."""
    effects = Effects(call)
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
            first = _whole_number(params, "startIndex", 2)
            count = min(_whole_number(params, "numberToDelete", 1), max(len(remaining_rows) - first + 1, 0))
        except ItemFailed as failure:
            effects.fail_item(index, failure.message)
            continue
        if count == 0:  # nothing stands there
            effects.items.append(Item(item.json, paired_with(index)))
            effects.unchanged += 1
            continue
        ask = DeleteRows(
            tab=tab,
            tab_id=sheet_tab.id,
            first=first,
            count=count,
            used=len(remaining_rows),
            before=tuple(remaining_rows[first - 1 : first - 1 + count]),
            spreadsheet_id=location.document,
        )
        planned = operation.plan([ask], integration_id=number)
        effects.add_plan(index, planned, Item(item.json, paired_with(index)), operation)
        if planned.proposals:
            del remaining_rows[first - 1 : first - 1 + count]
    return effects.result(read=len(table.rows))


async def create(call: StepCall, location: SheetLocation) -> NodeResult:
    """Adds a tab for each item's title unless it exists."""
    effects = Effects(call)
    operation = location.account.changes["sheet.add_tab"]
    number = location.account.connection.integration_id
    present = {tab.title for tab in await location.tabs()}
    for index in range(len(call.items)):
        try:
            title = js.text(call.params(index).get("title", "")).strip()
        except ItemFailed as failure:
            effects.fail_item(index, failure.message)
            continue
        ask = AddTab(title=title, present=frozenset(present), spreadsheet_id=location.document)
        planned = operation.plan([ask], integration_id=number)
        effects.add_plan(index, planned, Item({"title": title}, paired_with(index)), operation)
        present.add(title)
    return effects.result()
