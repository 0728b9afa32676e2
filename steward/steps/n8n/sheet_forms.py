"""googleSheets: ranges emptied, rows taken out and tabs added, each as a send (imports 6)."""

import re
from collections.abc import Iterable

from steward.connectors.base.commands import AddTab, ClearCells, DeleteRows
from steward.connectors.base.records import Cell
from steward.steps.n8n.sheet_places import SheetPlace
from steward.steps.rows import column_letters
from steward.steps.workflow.effects import Effects
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import Asked, Call, ItemFailed, Params, Problem, Result, same

_CLEARS = ("wholeSheet", "specificRows", "specificColumns", "specificRange")
_MOST_ROWS = 1_000_000


def form_problems(asked: Asked, operation: str) -> Iterable[Problem]:
    """What of a step that empties, takes out or adds cannot be."""
    if asked.version < 3:
        words = f"“{operation}” of this older version is not carried. Add the step anew in the tool."
        yield Problem("error", "parameter", words)
    elif operation == "clear" and asked.get("clear", "wholeSheet") not in _CLEARS:
        yield Problem("error", "parameter", "What it clears is not known. Choose it anew.")
    elif operation == "delete" and asked.get("toDelete", "rows") != "rows":
        words = "It takes out columns; only rows are taken out here. Clear the columns, or remove the step."
        yield Problem("error", "parameter", words)
    elif operation == "create":
        options = asked.get("options", {})
        for name in options if isinstance(options, dict) else ():
            words = (
                f"Its option “{str(name)[:60]}” is not carried: a tab is added with a title alone. Remove it."
            )
            yield Problem("error", "parameter", words)
        if not str(asked.get("title") or "").removeprefix("=").strip():
            yield Problem("error", "parameter", "The tab it adds has no title. Give it one.")


_PART = "It works on a part of the tab. Here rows are told by the first row’s heads: use the whole tab."


def area_problems(asked: Asked) -> Iterable[Problem]:
    """Parts of tabs, heads in other rows, and values as the sheet shows them."""
    for name in ("dataLocationOnSheet", "locationDefine"):
        values = asked.get(f"options.{name}.values", {})
        given = values if isinstance(values, dict) else {}
        is_part = given.get("rangeDefinition", "detectAutomatically") not in (
            "detectAutomatically",
            "specifyRange",
        )
        if (
            is_part
            or given.get("headerRow", 1) != 1
            or given.get("firstDataRow", 2) != 2
            or given.get("range")
        ):
            yield Problem("error", "parameter", _PART)
    if asked.version < 3:
        area = str(asked.literal("range", "")).rpartition("!")[2]
        is_whole = not area or re.fullmatch(r"[Aa]1?:[A-Za-z]{1,3}", area)
        if not is_whole or asked.get("keyRow", 0) != 0 or asked.get("dataStartRow", 1) != 1:
            yield Problem("error", "parameter", _PART)
        elif area:
            words = "It names the columns it works on; here all columns are read. Look at those further on."
            yield Problem("warning", "parameter", words)
    shown = asked.get("options.outputFormatting.values.general", asked.get("options.valueRenderMode"))
    if shown == "FORMULA":
        yield Problem(
            "error", "parameter", "It reads formulas; here values are read. Choose unformatted values."
        )
    elif shown == "FORMATTED_VALUE":
        words = "It reads values as the sheet shows them; here numbers come without their format. Check it."
        yield Problem("warning", "parameter", words)


def _whole_number(params: Params, name: str, default: int) -> int:
    number = js.number(params.get(name, default))
    if not (number == number and float(number).is_integer() and 1 <= number <= _MOST_ROWS):
        raise ItemFailed(f"“{name}” of this step is not a whole number from 1 on.")
    return int(number)


def _column(letters: str) -> int:
    """The number of a column, A being 1. Raises ItemFailed."""
    text = letters.strip().upper()
    if not (1 <= len(text) <= 3 and text.isascii() and text.isalpha()):
        raise ItemFailed("The first column of this step is not named by its letters.")
    number = 0
    for sign in text:
        number = number * 26 + ord(sign) - ord("A") + 1
    return number


def _area(params: Params) -> str | None:
    """The part of the tab that is cleared; None: all of it, but for what `keepFirstRow` says."""
    match params.text("clear", "wholeSheet"):
        case "specificRows":
            first = _whole_number(params, "startIndex", 1)
            return f"{first}:{first + _whole_number(params, 'rowsToDelete', 1) - 1}"
        case "specificColumns":
            at = _column(params.text("startIndex", "A"))
            last = at + _whole_number(params, "columnsToDelete", 1) - 1
            return f"{column_letters(at - 1)}:{column_letters(last - 1)}"
        case "specificRange":
            return params.text("range").strip().upper()
    return None


async def clear(call: Call, place: SheetPlace) -> Result:
    """Cells emptied, each area once; the items go on as they came."""
    effects = Effects(call)
    operation = place.account.changes["sheet.clear"]
    number = place.account.connection.integration_id
    seen: set[str | None] = set()
    for at, item in enumerate(call.items):
        params = call.params(at)
        try:
            area = _area(params)
            if area in seen:
                effects.items.append(Item(item.json, same(at)))
                continue
            tab, table = await place.table(area)
            rows = table.rows
            if area is None and params.flag("keepFirstRow"):
                rows = table.rows[1:]
                width = max((len(row.cells) for row in table.rows), default=1)
                last = table.rows[-1].number if rows else 2
                area = f"A2:{column_letters(max(width, 1) - 1)}{last}"
                seen.add(None)
        except ItemFailed as failure:
            effects.fails(at, failure.message)
            continue
        seen.add(area)
        before = tuple(row.cells for row in rows)
        ask = ClearCells(tab=tab, area=area, before=before, spreadsheet_id=place.document)
        planned = operation.plan([ask], integration_id=number)
        effects.planned(at, planned, Item(item.json, same(at)), operation)
    return effects.result()


async def delete(call: Call, place: SheetPlace) -> Result:
    """Rows taken out for each item in turn: the next one counts without those of the one before."""
    effects = Effects(call)
    operation = place.account.changes["sheet.delete_rows"]
    number = place.account.connection.integration_id
    tab, table = await place.table()
    found = next((one for one in await place.tabs() if one.title == tab), None)
    if found is None:
        raise ItemFailed("The tab of this step is no longer in the spreadsheet.")
    left: list[tuple[Cell, ...]] = [row.cells for row in table.rows]
    for at, item in enumerate(call.items):
        params = call.params(at)
        try:
            first = _whole_number(params, "startIndex", 2)
            count = min(_whole_number(params, "numberToDelete", 1), max(len(left) - first + 1, 0))
        except ItemFailed as failure:
            effects.fails(at, failure.message)
            continue
        if count == 0:  # nothing stands there
            effects.items.append(Item(item.json, same(at)))
            effects.unchanged += 1
            continue
        ask = DeleteRows(
            tab=tab,
            tab_id=found.id,
            first=first,
            count=count,
            used=len(left),
            before=tuple(left[first - 1 : first - 1 + count]),
            spreadsheet_id=place.document,
        )
        planned = operation.plan([ask], integration_id=number)
        effects.planned(at, planned, Item(item.json, same(at)), operation)
        if planned.proposals:
            del left[first - 1 : first - 1 + count]
    return effects.result(read=len(table.rows))


async def create(call: Call, place: SheetPlace) -> Result:
    """A tab for each item's title; one that is there stays as it is."""
    effects = Effects(call)
    operation = place.account.changes["sheet.add_tab"]
    number = place.account.connection.integration_id
    present = {tab.title for tab in await place.tabs()}
    for at in range(len(call.items)):
        try:
            title = js.text(call.params(at).get("title", "")).strip()
        except ItemFailed as failure:
            effects.fails(at, failure.message)
            continue
        ask = AddTab(title=title, present=frozenset(present), spreadsheet_id=place.document)
        planned = operation.plan([ask], integration_id=number)
        effects.planned(at, planned, Item({"title": title}, same(at)), operation)
        present.add(title)
    return effects.result()
