"""Changes of orders, customers and statuses: killed at the call or unanswered, made once, told truly."""

from collections import Counter
from typing import Any

import pytest

from steward import templates
from steward.connectors.base import (
    CUSTOMERS,
    ORDERS,
    PRODUCTS,
    AddNote,
    CancelOrder,
    CustomersAsk,
    OrdersAsk,
    ProductsAsk,
    SetCustomerTags,
    SetOrderStatus,
    SetOrderTags,
    SetStatus,
)
from steward.model.change import Action, Outcome
from steward.model.plan import StepKind
from steward.model.run import RunStatus
from steward.model.schedule import MANUAL
from steward.model.trigger import TriggerKind
from steward.steps.base import Produced, StepContext
from steward.templates.base import Category, ChangeRow, LastWords, StepFacts, Template, TemplateFacts
from tests.crash.killing import KINDS, Killer, play
from tests.runs.shop import Shop

ASKS: dict[str, tuple[Any, Any, Any]] = {
    "order.set_tags": (ORDERS, OrdersAsk(), lambda it: SetOrderTags(it, ("big",))),
    "order.set_status": (ORDERS, OrdersAsk(open_only=True), lambda it: SetOrderStatus(it, "failed")),
    "order.cancel": (ORDERS, OrdersAsk(statuses=("pending", "on-hold")), CancelOrder),
    "order.add_note": (ORDERS, OrdersAsk(), lambda it: AddNote(it, "Looked at")),
    "customer.set_tags": (CUSTOMERS, CustomersAsk(), lambda it: SetCustomerTags(it, ("vip",))),
    "product.set_status": (PRODUCTS, ProductsAsk(published_only=True), lambda it: SetStatus(it, "draft")),
}


def trying(name: str) -> Template:
    """A template of one change of that operation, to the first object there is."""
    read, ask, make = ASKS[name]

    async def change(at: StepContext) -> Produced:
        assert at.store is not None
        pages = at.store.reader.read(read, ask)
        items = [item async for page in pages for item in page.items]
        number = at.store.connection.integration_id
        planned = at.store.changes[name].plan([make(items[0])], integration_id=number)
        return Produced({}, proposals=planned.proposals)

    facts = TemplateFacts(
        template_id="try-one-change",
        template_version=1,
        name="Try one change",
        description="Changes one object.",
        category=Category.ORDERS,
        platforms=("woocommerce",),
        connections=(),
        inputs_schema={"type": "object", "properties": {}, "additionalProperties": False},
        result_schema={"type": "object"},
        steps=(StepFacts("change-one", "Change one", StepKind.CHANGE),),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=MANUAL,
        changes=(ChangeRow("change-one", "order", Action.UPDATE, (), True, ()),),
        example_result={},
    )
    return Template(facts, {"change-one": change}, lambda _: LastWords("Done.", {}))


CASES: list[tuple[list[str], list[dict[str, Any]]]] = [
    (["after_intent"], []),
    (["after_call"], []),
    ([], [{"kind": "drop_after", "path": "/wp-json/**"}]),
]


@pytest.mark.parametrize("name", ASKS)
async def test_one_effect_at_most_and_its_outcome_told(
    sqlite_shop: Shop, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """engine 11: readable ones are read back, a note is looked for by its marker"""
    monkeypatch.setattr(templates, "ALL", [*templates.ALL, trying(name)])
    monkeypatch.setitem(KINDS, name, lambda shop: shop.set_up("try-one-change", {}))
    for points, faults in CASES:
        given = [{**fault, "method": method} for fault in faults for method in ("PUT", "POST")]
        run = await play(sqlite_shop, name, Killer(points=points), given)
        [change] = await sqlite_shop.changes(run)
        keys = Counter(entry["idempotency_key"] for entry in sqlite_shop.applied())
        assert list(keys.values()) == [1], (name, points, faults)
        assert change.outcome is Outcome.APPLIED
        assert (run.status, run.code) == (RunStatus.SUCCEEDED, None)
