"""Tests one change of each operation with a kill at the call or a lost response: made at most once."""

from collections import Counter
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest

from steward import templates
from steward.connectors.base.commands import (
    AddNote,
    AddTab,
    AppendRows,
    CancelOrder,
    ClearCells,
    DeleteRows,
    SetCustomerTags,
    SetOrderStatus,
    SetOrderTags,
    SetStatus,
    SetStock,
    WriteCells,
)
from steward.connectors.base.queries import (
    CUSTOMERS,
    ORDERS,
    PRODUCTS,
    TABS,
    VALUES,
    VARIANTS,
    CustomersQuery,
    OrdersQuery,
    ProductsQuery,
    TabsQuery,
    ValuesQuery,
)
from steward.model.change import Action, Outcome
from steward.model.plan import StepKind
from steward.model.run import RunStatus
from steward.model.schedule import MANUAL
from steward.model.trigger import TriggerKind
from steward.steps.base import AccountAccess, StepContext, StepResult
from steward.templates.base import Category, ChangeRow, RunSummary, StepFacts, Template, TemplateFacts
from steward.templates.parts.inputs import inputs_schema, shared
from tests.crash.killing import KINDS, Killer, play
from tests.runs.shop import Shop

TAB = "Prices"
ASKS: dict[str, tuple[Any, Any, Any]] = {
    "order.set_tags": (ORDERS, OrdersQuery(), lambda it: SetOrderTags(it, ("big",))),
    "order.set_status": (ORDERS, OrdersQuery(open_only=True), lambda it: SetOrderStatus(it, "failed")),
    "order.cancel": (ORDERS, OrdersQuery(statuses=("pending", "on-hold")), CancelOrder),
    "order.add_note": (ORDERS, OrdersQuery(), lambda it: AddNote(it, "Looked at")),
    "customer.set_tags": (CUSTOMERS, CustomersQuery(), lambda it: SetCustomerTags(it, ("vip",))),
    "inventory.set": (
        VARIANTS,
        ProductsQuery(),
        lambda it: SetStock(it, (it.stock or 0) + 3) if it.tracked and it.stock_target == it.id else None,
    ),
    "product.set_status": (PRODUCTS, ProductsQuery(published_only=True), lambda it: SetStatus(it, "draft")),
}
# Of sheets: what to ask by the tab's rows and its number. Rows appended without a key cannot be looked for.
SHEET_ASKS: dict[str, Callable[[tuple[Any, ...], str], Any]] = {
    "sheet.write_cells": lambda rows, _: WriteCells(
        TAB, "B2", rows=((Decimal(9), "x"),), before=(rows[1][1:3],)
    ),
    "sheet.append_rows": lambda _, __: AppendRows(TAB, (("NEW-1", Decimal(5)), ("NEW-2", "x")), key_column=0),
    "sheet.append_rows blind": lambda _, __: AppendRows(TAB, (("NEW-1", "x"),)),
    "sheet.clear": lambda rows, _: ClearCells(TAB, "A3:B5", tuple(row[:2] for row in rows[2:5])),
    "sheet.delete_rows": lambda rows, tab: DeleteRows(TAB, tab, 3, 3, len(rows), rows[2:5]),
    "sheet.add_tab": lambda _, __: AddTab("New", frozenset({TAB})),
}


async def _of_store(context: StepContext, name: str) -> tuple[AccountAccess, Any]:
    """Returns the account and a command for the first store object that allows the operation."""
    read, query, make = ASKS[name]
    items = [item async for page in context.home.reader.read(read, query) for item in page.items]
    return context.home, next(request for request in map(make, items) if request is not None)


async def _of_sheet(context: StepContext, name: str) -> tuple[AccountAccess, Any]:
    """Returns the account and a command for the spreadsheet that the inputs name."""
    [sheet] = [access for access in context.accounts.values() if access.connection.kind == "spreadsheet"]
    [table] = [item async for page in sheet.reader.read(VALUES, ValuesQuery(TAB)) for item in page.items]
    tabs = [item async for page in sheet.reader.read(TABS, TabsQuery()) for item in page.items]
    [number] = [tab.id for tab in tabs if tab.title == TAB]
    return sheet, SHEET_ASKS[name](tuple(row.cells for row in table.rows), number)


def trying(name: str) -> Template:
    """Returns a template with one change of the operation: sent for a sheet, approved for a store."""
    find: Callable[[StepContext, str], Awaitable[tuple[AccountAccess, Any]]]
    find, kind = (_of_sheet, StepKind.SEND) if name in SHEET_ASKS else (_of_store, StepKind.CHANGE)

    async def change(context: StepContext) -> StepResult:
        account, request = await find(context, name)
        number = account.connection.integration_id
        planned = account.changes[name.partition(" ")[0]].plan([request], integration_id=number)
        return StepResult({}, proposals=planned.proposals)

    facts = TemplateFacts(
        template_id="try-one-change",
        template_version=1,
        name="Try one change",
        description="Changes one object.",
        category=Category.ORDERS,
        platforms=("woocommerce",),
        connections=(),
        inputs_schema=inputs_schema([], {"sheet": shared("sheet", "The sheet changed")}),
        result_schema={"type": "object"},
        steps=(StepFacts("change-one", "Change one", kind),),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=MANUAL,
        changes=(ChangeRow("change-one", "order", Action.UPDATE, ()),),
        example_result={},
    )
    return Template(facts, {"change-one": change}, lambda _: RunSummary("Done.", {}))


async def _set_up(shop: Shop) -> Any:
    sheet = {"integration_id": shop.connections["spreadsheet"].integration_id, "tab": TAB}
    return await shop.set_up("try-one-change", {"sheet": sheet})


CASES: list[tuple[list[str], list[dict[str, Any]]]] = [
    (["after_intent"], []),
    (["after_call"], []),
    ([], [{"kind": "drop_after"}]),
]


@pytest.mark.parametrize("name", [*ASKS, *SHEET_ASKS])
async def test_at_most_one_effect_with_its_outcome_recorded(
    sqlite_shop: Shop, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each operation has at most one effect and a true outcome.

    Readable writes are read back, marked ones searched for, and those that can be neither are never sent
    again. See docs/design/writes.md#two-tables.
    """
    monkeypatch.setattr(templates, "ALL", [*templates.ALL, trying(name)])
    monkeypatch.setitem(KINDS, name, _set_up)
    path = "/sheets/**" if name in SHEET_ASKS else "/wp-json/**"
    for points, faults in CASES:
        matched_faults = [
            {**fault, "method": method, "path": path} for fault in faults for method in ("PUT", "POST")
        ]
        run = await play(sqlite_shop, name, Killer(points=points), matched_faults)
        [change] = await sqlite_shop.changes(run)
        keys = Counter(entry["idempotency_key"] for entry in sqlite_shop.applied())
        actual = (change.outcome, run.status, run.code)
        if name.endswith("blind"):
            arrived = 0 if points == ["after_intent"] else 1
            assert (list(keys.values()), actual) == (
                [1] * arrived,
                (Outcome.UNKNOWN, RunStatus.FAILED, "outcome_unknown"),
            )
        else:
            assert list(keys.values()) == [1], (name, points, faults)
            assert actual == (Outcome.APPLIED, RunStatus.SUCCEEDED, None)
