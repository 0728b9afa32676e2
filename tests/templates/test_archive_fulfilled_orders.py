"""Tests archiving finished orders: what counts as finished, since when, and what stays open.

See docs/design/templates-catalogue.md#archive-fulfilled-orders.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steward.connectors.base.records import Fulfilment, FulfilmentOrder, Payment, Refund
from steward.model.run import Mode, RunStatus
from steward.templates.archive_fulfilled_orders import TEMPLATE
from tests.fake_clock import FakeClock
from tests.templates.order_stage import ago, ids, line, order, stage
from tests.templates.sales import Market, Sale
from tests.templates.sample_products import PlatformStore
from tests.templates.two_platforms import open_both

_DAY = 24
_DONE: dict[str, Any] = {"payment": "paid", "sent": "fulfilled", "hours": 90 * _DAY}
# (order, whether it is archived when finished more than 30 days ago, except those tagged `keep-open`)
SALES: tuple[tuple[Sale, bool], ...] = (
    (Sale("A1", **_DONE), True),
    (Sale("A2", **_DONE, sent_hours=31 * _DAY), True),
    (Sale("A3", **_DONE, sent_hours=29 * _DAY), False),
    (Sale("A4", **_DONE, paid_hours=29 * _DAY), False),
    (Sale("A5", **_DONE, tags=("Keep-Open",)), False),
    (Sale("A6", payment="paid", hours=90 * _DAY), False),
    (Sale("A7", sent="fulfilled", hours=90 * _DAY), False),
    (Sale("A8", **_DONE, shopify={"returnStatus": "IN_PROGRESS"}), False),
    (Sale("A9", **_DONE, cancelled=True), False),
)
ARCHIVED = [sale.number for sale, archived in SALES if archived]


@pytest.fixture
async def market(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Market]:
    """Provides the Shopify store beside a service, on each database."""
    both = await open_both(database_url, clock, tmp_path)
    yield Market(PlatformStore("shopify", both))
    await both.shop.service.close()


async def test_finished_orders_are_archived_once(market: Market) -> None:
    """Archives every finished order that is old enough.

    A test run writes nothing and a second run proposes nothing.
    See docs/design/templates-catalogue.md#archive-fulfilled-orders.
    """
    market.place(*(sale for sale, _ in SALES))
    automation = await market.set_up("archive-fulfilled-orders", except_tags=["keep-open"])
    tried = await market.run(automation, Mode.TEST)
    assert (list(tried.changes), market.store.writes()) == (ARCHIVED, 0)
    came = await market.run(automation)
    assert came.run.status is RunStatus.SUCCEEDED
    assert came.changes == {number: {"Status": ("open", "archived")} for number in ARCHIVED}
    assert came.beside == {
        "A1": "Finished on Saturday 31 January 2026.",
        "A2": "Finished on Tuesday 31 March 2026.",
    }
    assert [sale.number for sale, _ in SALES if market.row(sale.number)["closedAt"]] == ARCHIVED
    assert came.result == {"checked": 8, "archived": 2, "excepted": 1, "not_finished": 3}
    again = await market.run(automation)
    assert (again.changes, again.result["checked"]) == ({}, 6)


_OLD = order(
    "1",
    paid=True,
    payment=Payment.PAID,
    paid_at=ago(90 * _DAY),
    fulfilled_at=ago(80 * _DAY),
    fulfilment=Fulfilment.FULFILLED,
    modified_at=ago(1),
)


@pytest.mark.parametrize(
    ("changed", "archived"),
    [
        ({}, True),
        ({"lines": (line(open_quantity=0),), "fulfilment": Fulfilment.UNFULFILLED}, True),
        ({"fulfilment": Fulfilment.PARTIAL}, False),
        ({"fulfilment": Fulfilment.ON_HOLD}, False),
        ({"fulfilment_orders": (FulfilmentOrder("5", "on_hold"),)}, False),
        ({"returning": True}, False),
        ({"paid": False, "payment": Payment.PARTLY_PAID}, False),
        ({"payment": Payment.REFUNDED, "refunds": (Refund("1", "20.00", ago(60 * _DAY)),)}, True),
        ({"payment": Payment.REFUNDED, "refunds": (Refund("1", "20.00", ago(_DAY)),)}, False),
        ({"paid_at": None, "fulfilled_at": None}, False),
        ({"test": True}, False),
    ],
)
async def test_orders_are_finished_when_paid_and_fulfilled(changed: dict[str, Any], archived: bool) -> None:
    """An order is finished when it is paid or refunded, nothing is left to send, held or returning.

    The latest of its times counts. See docs/design/templates-catalogue.md#archive-fulfilled-orders.
    """
    run = await stage(TEMPLATE, replace(_OLD, **changed)).run()
    assert ids(run) == (["1"] if archived else [])


async def test_too_many_at_the_first_run_names_the_number() -> None:
    """Fails with `too_many_changes` and names the number of changes over the limit.

    See docs/design/templates-catalogue.md#archive-fulfilled-orders and
    docs/design/templates.md#e11-over-the-limit.
    """
    run = await stage(TEMPLATE, *(replace(_OLD, id=str(index)) for index in range(3)), limit=2).run()
    assert run.failed is not None
    assert run.failed.code == "too_many_changes"
    assert run.failed.message.startswith("3 changes were found, more than the limit of 2.")
