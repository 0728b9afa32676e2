"""Tests the alert on unfulfilled orders: which paid orders wait too long, and what the message says.

See docs/design/templates-catalogue.md#unfulfilled-order-alert.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from steward.connectors.base.records import Fulfilment, Payment
from steward.model.run import Mode, RunStatus
from steward.templates.unfulfilled_order_alert import TEMPLATE
from tests.templates.order_stage import OrderStage, ago, line, order, stage
from tests.templates.sales import LineSpec, Market, Sale
from tests.templates.stage import TEAMS, card_lines

_DAY = 24
# (order, its days when it was paid more than 3 days ago and is reported, the oldest first)
SALES: tuple[tuple[Sale, int | None], ...] = (
    (Sale("A1", hours=9 * _DAY, payment="paid", paid_hours=5 * _DAY + 1), 5),
    (Sale("A2", hours=7 * _DAY, payment="paid", buyer="Ada"), 7),
    (Sale("A3", hours=9 * _DAY, payment="paid", paid_hours=2 * _DAY), None),
    (Sale("A4", hours=9 * _DAY), None),
    (Sale("A5", hours=9 * _DAY, payment="paid", sent="fulfilled"), None),
    (Sale("A6", hours=9 * _DAY, payment="paid", tags=("Preorder",)), None),
    (Sale("A7", hours=9 * _DAY, payment="paid", lines=(LineSpec(ships=False),)), None),
    (Sale("A8", hours=9 * _DAY, payment="paid", cancelled=True), None),
)
_INPUTS: dict[str, Any] = {"older_than_days": 3, "except_tags": ["preorder"]}


async def test_waiting_paid_orders_are_listed_oldest_first(market: Market) -> None:
    """Reports the waiting orders, the oldest first, in one message; a test run sends nothing.

    See docs/design/templates-catalogue.md#unfulfilled-order-alert.
    """
    market.people("Ada")
    market.place(*(sale for sale, _ in SALES))
    automation = await market.set_up("unfulfilled-order-alert", teams=market.store.both.teams(), **_INPUTS)
    tried = await market.run(automation, Mode.TEST)
    assert (tried.result["waiting"], market.store.both.posted()) == (2, [])
    came = await market.run(automation)
    assert came.run.status is RunStatus.SUCCEEDED
    assert came.result == {
        "checked": 4,
        "waiting": 2,
        "orders": [
            {"number": "A2", "days": 7, "total": "20.00"},
            {"number": "A1", "days": 5, "total": "20.00"},
        ],
    }
    [message] = market.store.both.posted()
    assert message["text"].startswith("2 paid orders not sent at The ")


def _alerting(*orders: Any, **inputs: Any) -> OrderStage:
    return stage(TEMPLATE, *orders, teams={"integration_id": int(TEAMS)}, **{"older_than_days": 3, **inputs})


_PAID = order("1", paid=True, payment=Payment.PAID, paid_at=ago(100), created_at=ago(200))


async def test_parts_sent_are_marked_and_orders_on_hold_listed_apart() -> None:
    """Marks orders that are sent in part, and lists orders on hold last.

    See docs/design/templates-catalogue.md#unfulfilled-order-alert.
    """
    run = await _alerting(
        replace(_PAID, id="1", number="#1", fulfilment=Fulfilment.ON_HOLD, paid_at=ago(400)),
        replace(_PAID, id="2", number="#2", fulfilment=Fulfilment.PARTIAL, customer_name="Ada"),
        replace(_PAID, id="3", number="#3", paid_at=ago(120)),
    ).run()
    assert card_lines(run.proposals[0]) == [
        "3 paid orders not sent at Shopify",
        "Paid more than 3 days ago, the oldest first.",
        "Listed last: 1 order on hold.",
        "#3: 5 days, 20.00 EUR",
        "#2, Ada: 4 days, 20.00 EUR, sent in part",
        "#1: 16 days, 20.00 EUR, on hold",
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {"payment": Payment.REFUNDED},
        {"paid": False, "payment": Payment.AUTHORIZED},
        {"lines": (line(ships=False), line("B", open_quantity=0))},
        {"test": True},
    ],
)
async def test_orders_with_nothing_to_send_are_not_reported(changed: dict[str, Any]) -> None:
    """Leaves out orders that are unpaid or refunded, have nothing to send, or are test orders.

    See docs/design/templates-catalogue.md#unfulfilled-order-alert.
    """
    run = await _alerting(replace(_PAID, **changed)).run()
    assert (run.proposals, run.result["checked"]) == ([], 0)
    assert "no message was sent" in run.summary.text


async def test_age_is_in_whole_local_days_whatever_the_clocks_do() -> None:
    """Counts whole local days: in Berlin 25 October 2026 has 25 hours.

    See docs/design/templates-catalogue.md#unfulfilled-order-alert.
    """
    paid = datetime(2026, 10, 24, 10, 0, tzinfo=UTC)  # noon in Berlin
    stage = _alerting(replace(_PAID, paid_at=paid), older_than_days=2)
    stage.now = datetime(2026, 10, 26, 11, 0, tzinfo=UTC)  # noon in Berlin, 49 hours later
    assert (await stage.run()).result["waiting"] == 0
    stage.now = datetime(2026, 10, 26, 11, 0, 1, tzinfo=UTC)
    assert (await stage.run()).result["orders"] == [{"number": "#1", "days": 2, "total": "20.00"}]


async def test_without_a_time_of_payment_age_counts_from_creation() -> None:
    """Counts from creation when the time of payment is not known.

    See docs/design/templates-catalogue.md#unfulfilled-order-alert.
    """
    run = await _alerting(replace(_PAID, paid_at=None, created_at=ago(4 * _DAY + 1))).run()
    assert run.result["orders"][0]["days"] == 4
