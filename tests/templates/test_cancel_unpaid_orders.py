"""Tests cancelling unpaid orders: which are unpaid for too long, and which are never cancelled.

See docs/design/templates-catalogue.md#cancel-unpaid-orders.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from steward.connectors.base.records import Fulfilment, Payment, Refund
from steward.model.run import Mode, RunStatus
from steward.templates.base import SetupContext
from steward.templates.cancel_unpaid_orders import TEMPLATE
from tests.templates.order_stage import ago, ids, line, order, stage
from tests.templates.sales import LineSpec, Market, Sale
from tests.templates.stage import SHOP, connection

_TWO = (LineSpec(quantity=2, total="40.00"), LineSpec("MUG-1", "Mug", total="14.00"))
# (order, whether it is cancelled when unpaid for more than 48 hours, except those tagged `invoice`)
SALES: tuple[tuple[Sale, bool], ...] = (
    (Sale("A1", _TWO, hours=80), True),
    (Sale("A2", hours=49), True),
    (Sale("A3", hours=47), False),
    (Sale("A4", hours=80, tags=("Invoice",)), False),
    (Sale("A5", hours=80, payment="paid"), False),
    (Sale("A6", hours=80, refunded="5.00"), False),
    (Sale("A7", hours=80, cancelled=True), False),
)
CANCELLED = [sale.number for sale, cancelled in SALES if cancelled]
_INPUTS: dict[str, Any] = {"older_than_hours": 48, "except_tags": ["invoice"]}


async def test_orders_unpaid_for_too_long_are_cancelled_once(market: Market) -> None:
    """Cancels and restocks the unpaid orders; a test run writes nothing and a second run proposes nothing.

    See docs/design/templates-catalogue.md#cancel-unpaid-orders and docs/design/templates.md#e13-currencies.
    """
    market.place(*(sale for sale, _ in SALES))
    automation = await market.set_up("cancel-unpaid-orders", **_INPUTS)
    tried = await market.run(automation, Mode.TEST)
    assert (list(tried.changes), market.store.writes()) == (CANCELLED, 0)
    came = await market.run(automation)
    assert came.run.status is RunStatus.SUCCEEDED
    first = came.changes["A1"]
    assert first["Status"][1] == "cancelled"
    words = "Total 54.00 EUR, unpaid for 80 hours."
    if market.is_shopify:
        assert first["Restocked lines"] == ([], ["2 × Earl Grey", "1 × Mug"])
        assert tried.beside["A1"] == words
    else:
        assert tried.beside["A1"] == f"{words} The shop itself decides whether it puts the items back in " \
            "stock and sends e-mails."  # fmt: skip
    assert came.beside == tried.beside  # Shopify cancels in a later job, so the outcome may be open
    assert not any(change.undoable for change in came.kept)
    assert [sale.number for sale, _ in SALES if market.is_cancelled(sale.number)] == [*CANCELLED, "A7"]
    assert came.result == {
        "checked": 5,
        "cancelled": 2,
        "excepted": 1,
        "partly_paid": 1,
        "orders": [
            {"number": "A1", "total": "54.00", "hours": 80},
            {"number": "A2", "total": "20.00", "hours": 49},
        ],
    }
    again = await market.run(automation)
    assert (again.changes, again.result["checked"]) == ({}, 3)


async def test_an_order_paid_meanwhile_is_left_alone(market: Market) -> None:
    """Reads each order again just before the write; one paid since the approval is a conflict.

    See docs/design/templates-catalogue.md#cancel-unpaid-orders.
    """
    market.place(Sale("B1", hours=50), Sale("B2", hours=50))
    automation = await market.set_up("cancel-unpaid-orders", **_INPUTS)
    run = await market.store.shop.waiting(automation)
    market.pay("B1")
    await market.store.shop.approve(run)
    came = await market.came(await market.store.shop.until_settled(run))
    assert came.outcomes == {"B1": "conflict", "B2": "applied"}
    assert (market.is_cancelled("B1"), market.is_cancelled("B2")) == (False, True)


_OLD = order("1", created_at=ago(100))


@pytest.mark.parametrize(
    "changed",
    [
        {"payment": Payment.PARTLY_PAID},
        {"fulfilment": Fulfilment.PARTIAL},
        {"fulfilment": Fulfilment.FULFILLED},
        {"refunded": "1.00", "refunds": (Refund("9", "1.00", None),)},
    ],
)
async def test_an_order_that_has_begun_is_counted_and_never_cancelled(changed: dict[str, Any]) -> None:
    """Counts a partly paid, sent or refunded order as `partly_paid` and does not cancel it.

    See docs/design/templates-catalogue.md#cancel-unpaid-orders.
    """
    run = await stage(TEMPLATE, replace(_OLD, **changed), older_than_hours=48).run()
    assert (ids(run), run.result["partly_paid"]) == ([], 1)


async def test_age_counts_from_creation_to_the_second() -> None:
    """Cancels an order one second older than the limit, but not at the limit; edits do not change its age.

    See docs/design/templates-catalogue.md#cancel-unpaid-orders.
    """
    exact = order("1", created_at=ago(48), modified_at=ago(0))
    older = order("2", created_at=ago(48) - timedelta(seconds=1), modified_at=ago(0))
    assert ids(await stage(TEMPLATE, exact, older, older_than_hours=48).run()) == ["2"]


@pytest.mark.parametrize(
    ("platform", "payment", "statuses"),
    [("woocommerce", Payment.ON_HOLD, "on_hold"), ("shopify", Payment.AUTHORIZED, "authorized")],
)
async def test_other_unpaid_states_are_cancelled_when_named(
    platform: str, payment: Payment, statuses: str
) -> None:
    """Cancels orders on hold or authorized only when `statuses` names that state.

    See docs/design/templates-catalogue.md#cancel-unpaid-orders.
    """
    held = replace(_OLD, payment=payment)
    assert ids(await stage(TEMPLATE, held, platform=platform, older_than_hours=48).run()) == []
    named = stage(TEMPLATE, held, platform=platform, older_than_hours=48, statuses=[statuses])
    assert ids(await named.run()) == ["1"]


@pytest.mark.parametrize(("platform", "foreign"), [("shopify", "on_hold"), ("woocommerce", "authorized")])
def test_states_of_the_other_platform_are_refused(platform: str, foreign: str) -> None:
    """Reports a state that the platform does not have as an error on `inputs.statuses`.

    See docs/design/templates-catalogue.md#cancel-unpaid-orders and docs/design/templates.md#data-file.
    """
    world = SetupContext(connection(platform, SHOP), {})
    for named, faults in ((foreign, ["inputs.statuses"]), ("pending", [])):
        inputs = TEMPLATE.check_inputs({**_INPUTS, "statuses": [named]}).inputs
        assert list(TEMPLATE.check_connections(inputs, world)) == faults


async def test_lines_of_deleted_variants_are_named_and_not_restocked() -> None:
    """Restocks only lines whose variant still exists and names the others; `restock` false restocks none.

    See docs/design/templates-catalogue.md#cancel-unpaid-orders.
    """
    mixed = replace(_OLD, lines=(line(), line("OLD", title="Old pot", variant_id=None)))
    [proposal] = (await stage(TEMPLATE, mixed, older_than_hours=48).run()).proposals
    assert proposal.fields[1].after == ["1 × Earl Grey"]
    assert (proposal.message or "").endswith("no longer in the store: Old pot.")
    [stored_proposal] = (await stage(TEMPLATE, mixed, older_than_hours=48, restock=False).run()).proposals
    assert (stored_proposal.fields[1].after, stored_proposal.parts[0].arguments["restock"]) == ([], False)


async def test_a_hundred_at_most_unless_said() -> None:
    """Proposes 100 changes by default and fails on 101.

    See docs/design/templates-catalogue.md#cancel-unpaid-orders and
    docs/design/templates.md#e11-over-the-limit.
    """
    many = [order(str(number), created_at=ago(100)) for number in range(101)]
    run = await stage(TEMPLATE, *many, older_than_hours=48).run()
    assert run.failed is not None
    assert run.failed.code == "too_many_changes"
    assert len((await stage(TEMPLATE, *many[1:], older_than_hours=48).run()).proposals) == 100
