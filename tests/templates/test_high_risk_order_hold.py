"""Tests holding risky orders: which are risky, what is held and tagged, and what the message says.

See docs/design/templates-catalogue.md#high-risk-order-hold.
"""

from dataclasses import replace
from typing import Any

import pytest

from steward.connectors.base.records import FulfilmentOrder, Order, Risk
from steward.model.change import Outcome
from steward.model.run import Mode, RunStatus
from steward.steps.base import StoreEvent, TooManyChanges
from steward.templates.high_risk_order_hold import TEMPLATE
from tests.templates.order_stage import Orders, OrderStage, ago, ids, order, stage
from tests.templates.sales import LineSpec, Market, Sale
from tests.templates.sample_products import PlatformStore
from tests.templates.stage import TEAMS, card_lines
from tests.templates.two_platforms import ConnectedService


def _risk(level: str | None) -> dict[str, Any]:
    facts = [{"description": "The card was declined before", "sentiment": "NEGATIVE"}]
    return {"risk": {"assessments": [{"riskLevel": level, "facts": facts}] if level else []}}


_BIG = (LineSpec(total="640.00"),)
# (order, why it is risky at level high from 100.00 on, or when the two countries differ)
SALES: tuple[tuple[Sale, str], ...] = (
    (Sale("A1", _BIG, payment="paid", shopify=_risk("HIGH")), "risk high; The card was declined before"),
    (Sale("A2", _BIG, shopify=_risk("MEDIUM")), ""),
    (Sale("A3", shopify=_risk("HIGH")), ""),
    (Sale("A4", _BIG, country="AT", shopify=_risk("LOW")), "billed to DE, sent to AT"),
    (Sale("A5", _BIG, cancelled=True, tags=("Fraud-Review",), shopify=_risk("HIGH")), "risk high"),
    (Sale("A6", _BIG, shopify=_risk(None)), ""),
)
HELD = {sale.number: why for sale, why in SALES if why and not sale.cancelled}


async def test_risky_orders_are_held_and_tagged_once(both: ConnectedService) -> None:
    """Holds and tags the risky orders and names them in one message; a second run proposes nothing.

    See docs/design/templates-catalogue.md#high-risk-order-hold and docs/design/templates.md#e13-currencies.
    """
    market = Market(PlatformStore("shopify", both))
    market.place(*(sale for sale, _ in SALES))
    inputs = {"min_total": "100", "billing_shipping_differ": True, "teams": both.teams()}
    automation = await market.set_up("high-risk-order-hold", **inputs)
    tried = await market.run(automation, Mode.TEST)
    assert (list(tried.changes), market.store.writes(), both.posted()) == (list(HELD), 0, [])
    came = await market.run(automation)
    assert came.run.status is RunStatus.SUCCEEDED
    assert came.changes == {
        number: {"Fulfilment": ("open", "on_hold"), "Tags": ([], ["fraud-review"])} for number in HELD
    }
    assert came.beside == {number: f"Total 640.00 EUR. Reasons: {why}." for number, why in HELD.items()}
    parts = [both.store.rows[order]["status"] for order in market.row("A1")["fulfillmentOrders"]]
    assert (parts, market.tags("A1")) == (["ON_HOLD"], ["fraud-review"])
    assert came.result == {
        "checked": 6,
        "risky": 3,
        "held": 2,
        "already_held": 0,
        "not_assessed": 0,
        "orders": [{"number": number, "total": "640.00", "reasons": why} for number, why in HELD.items()],
    }
    [message] = both.posted()
    assert message["text"].startswith("2 risky orders held at The shopify")
    again = await market.run(automation)
    assert (again.changes, again.result["already_held"], len(both.posted())) == ({}, 2, 1)


_RISKY = order("1", risk=Risk.HIGH, fulfilment_orders=(FulfilmentOrder("5", "open"),))


def _holding(*orders: Order, **inputs: Any) -> OrderStage:
    return stage(TEMPLATE, *orders, **inputs)


async def test_all_open_parts_of_an_order_are_held_in_one_change() -> None:
    """Holds every open or scheduled fulfilment order of an order in one change.

    See docs/design/templates-catalogue.md#high-risk-order-hold.
    """
    states = ("open", "scheduled", "closed", "on_hold", "in_progress")
    parts = tuple(FulfilmentOrder(str(index), state) for index, state in enumerate(states))
    [proposal] = (await _holding(replace(_RISKY, fulfilment_orders=parts)).run()).proposals
    assert [(part.operation, part.target) for part in proposal.parts] == [
        ("fulfillment.hold", "0"),
        ("fulfillment.hold", "1"),
        ("order.set_tags", "1"),
    ]
    assert [(field.field, field.before, field.after) for field in proposal.fields] == [
        ("fulfilment", "open, scheduled", "on_hold"),
        ("tags", [], ["fraud-review"]),
    ]
    assert proposal.action.value == "hold"


@pytest.mark.parametrize(
    "changed",
    [
        {"fulfilment_orders": (FulfilmentOrder("5", "on_hold"),)},
        {"fulfilled": True, "fulfilment_orders": (FulfilmentOrder("5", "closed"),)},
        {"cancelled_at": ago(1)},
    ],
)
async def test_held_sent_or_cancelled_orders_are_only_tagged(changed: dict[str, Any]) -> None:
    """Adds the missing tag to an order that is held, sent or cancelled, without holding it again.

    See docs/design/templates-catalogue.md#high-risk-order-hold.
    """
    teams = {"integration_id": int(TEAMS)}
    run = await _holding(replace(_RISKY, **changed), teams=teams).run()
    [proposal] = run.proposals
    assert [part.operation for part in proposal.parts] == ["order.set_tags"]
    assert (run.result["risky"], run.result["held"]) == (1, 0)
    tagged = replace(_RISKY, **changed, tags=("FRAUD-review",))
    assert (await _holding(tagged).run()).proposals == []


@pytest.mark.parametrize(
    ("changed", "inputs", "risky"),
    [
        ({"risk": Risk.MEDIUM}, {}, False),
        ({"risk": Risk.MEDIUM}, {"level": "medium_and_high"}, True),
        ({"risk": Risk.NONE, "total": "900.00"}, {"min_total": "100"}, False),
        ({"total": "99.99"}, {"min_total": "100"}, False),
        ({"total": "100.00"}, {"min_total": "100"}, True),
        ({"total": "100.00", "currency": "USD"}, {"min_total": "100"}, False),
        ({"risk": Risk.LOW, "country": "AT", "billing_country": "DE"}, {}, False),
        (
            {"risk": Risk.LOW, "country": "AT", "billing_country": None},
            {"billing_shipping_differ": True},
            False,
        ),
        ({"test": True}, {}, False),
    ],
)
async def test_risk_level_or_other_rules_make_an_order_risky(
    changed: dict[str, Any], inputs: dict[str, Any], risky: bool
) -> None:
    """An order is risky by its risk level or other rules; `min_total` alone does not make it so.

    See docs/design/templates-catalogue.md#high-risk-order-hold and docs/design/templates.md#e13-currencies.
    """
    assert bool(ids(await _holding(replace(_RISKY, **changed), **inputs).run())) is risky


async def test_an_order_not_assessed_yet_is_looked_at_again_for_a_day() -> None:
    """Reads a pending order in each run for a day, then counts it as `not_assessed`.

    A test run remembers nothing. See docs/design/templates-catalogue.md#high-risk-order-hold.
    """
    pending = replace(_RISKY, risk=Risk.PENDING, created_at=ago(23), modified_at=ago(23))
    stage = _holding(pending)
    await stage.run(mode=Mode.TEST)
    assert stage.memory.kept == {}
    first = await stage.run()
    assert (first.result["not_assessed"], first.result["checked"]) == (0, 1)
    stage.shop = Orders([pending, replace(pending, id="2")])
    assert (await stage.run()).result["checked"] == 1  # read again although it has not changed
    stage.shop = Orders([replace(pending, risk=Risk.HIGH)])
    assert ids(await stage.run()) == ["1"]
    assert (await stage.run()).result["checked"] == 0
    late = _holding(replace(pending, created_at=ago(24), modified_at=ago(1)))
    assert (await late.run()).result["not_assessed"] == 1
    assert not [key for key in late.memory.kept if key[0] == "not_assessed"]


async def test_an_event_reads_its_order_and_those_that_wait_for_their_assessment() -> None:
    """Reads the event's order, and those of earlier events whose risk was pending.

    See docs/design/templates-catalogue.md#high-risk-order-hold.
    """
    stage = _holding(replace(_RISKY, risk=Risk.PENDING), replace(_RISKY, id="2"), replace(_RISKY, id="3"))
    await stage.run(event=StoreEvent("orders/create", "order", "1"))
    stage.shop.orders[0] = _RISKY
    run = await stage.run(event=StoreEvent("orders/create", "order", "2"))
    assert sorted(map(str, ids(run))) == ["1", "2"]
    assert not [key for key in stage.memory.kept if key[0] == "orders_read"]


async def test_the_message_names_only_what_was_held() -> None:
    """Sends a message about held orders only, and none if no hold was applied.

    See docs/design/templates-catalogue.md#high-risk-order-hold and docs/design/templates.md#e17-sends.
    """
    teams = {"integration_id": int(TEAMS)}
    run = await _holding(replace(_RISKY, risk_reasons=("Proxy used",)), teams=teams).run()
    assert card_lines(run.proposals[-1]) == [
        "1 risky order held at Shopify",
        "Look at it before it is sent.",
        "#1: 20.00 EUR, risk high; Proxy used",
    ]
    for outcome in (Outcome.CONFLICT, Outcome.FAILED):
        none = await _holding(_RISKY, teams=teams).run(outcome=outcome)
        assert [proposal.action.value for proposal in none.proposals] == ["hold"]


async def test_failed_holds_are_proposed_again() -> None:
    """Proposes a failed hold again in the next run; only a run that succeeded moves the window.

    See docs/design/templates-catalogue.md#high-risk-order-hold.
    """
    stage = _holding(_RISKY)
    await stage.run(outcome=Outcome.FAILED)
    assert stage.memory.kept == {}
    assert len((await stage.run()).proposals) == 1
    assert [key[0] for key in stage.memory.kept] == ["orders_read"]


async def test_too_many_changes_are_not_proposed() -> None:
    """Proposes exactly `limit` changes and fails on one more.

    See docs/design/templates.md#e11-over-the-limit.
    """
    orders = [replace(_RISKY, id=str(index)) for index in range(3)]
    assert len((await _holding(*orders, limit=3).run()).proposals) == 3
    assert isinstance((await _holding(*orders, limit=2).run()).failed, TooManyChanges)
