"""Tests an undo while changes are stopped and events are queued.

`CLOSED_EVENTS=50` queues that many; the suite queues a few. See docs/design/closed-periods.md#writing.
"""

import os
from collections import Counter
from functools import partial
from typing import Any

import pytest

from steward.database.runs import records as runs
from steward.model.run import Run, RunStatus
from tests.closed_periods.edit_periods import PeriodEditor
from tests.events.world import ListeningService, open_listener
from tests.populated_service import PopulatedService, populated
from tests.runs.undoing import tables, undo_now

__all__ = ["populated"]

EVENTS = int(os.environ.get("CLOSED_EVENTS", "3"))
TEMPLATE: dict[str, Any] = {
    "template_id": "tag-orders-by-rule",
    "inputs": {"tag": "big", "min_total": "0.01"},
}


@pytest.fixture
async def listener(populated: PopulatedService) -> ListeningService:
    """Provides the service beside the fake shop, whose webhooks lead to it."""
    return await open_listener(populated)


async def _runs(listener: ListeningService) -> list[Run]:
    """Returns all runs."""
    shop = listener.shop
    rows = await listener.rows("SELECT id FROM runs WHERE org_id = :org")
    return [await shop.read(partial(runs.get, org=shop.owner.org, run=row["id"])) for row in rows]


async def _order_created(listener: ListeningService, order: dict[str, Any]) -> None:
    await listener.deliver("order.created", order)
    await listener.tick("match")


async def test_a_run_is_put_back_while_changes_are_stopped(listener: ListeningService) -> None:
    """Pauses the automation, cancels its held run and undoes the first one.

    Only the undo is written, and the queued runs are cancelled.
    """
    shop = listener.shop
    orders = list(shop.world.state.shop.orders.values())
    automation = await listener.automation("orders/create", **TEMPLATE)
    before = tables(shop)
    await _order_created(listener, orders[0])
    await shop.drain()
    [original] = await _runs(listener)
    await shop.approve(original)
    await shop.until_settled(original)
    assert tables(shop) != before

    await _order_created(listener, orders[1])
    await shop.drain()
    [held] = [run for run in await _runs(listener) if run.id != original.id]
    await shop.approve(held)
    freeze = await PeriodEditor(shop.engine, shop.clock, shop.owner).freeze()
    for number in range(EVENTS):
        await _order_created(listener, orders[2 + number % (len(orders) - 2)])
    await shop.drain()
    assert (await shop.run(held)).held_name == freeze.period.name
    writes = len(shop.writes())

    listener.token = await listener.populated.service.token("member")  # the first token has expired
    assert (await listener.act(automation, "pause")).status == 200
    await shop.cancel(held)
    undo_run = (await undo_now(shop, await shop.run(original))).run
    await shop.drain()
    await shop.approve(await shop.run(undo_run), write_now=True)
    await shop.drain()
    assert (await shop.run(undo_run)).status is RunStatus.SUCCEEDED
    assert tables(shop) == before
    assert len(shop.writes()) == writes + 1
    assert Counter(run.status for run in await _runs(listener)) == {
        RunStatus.SUCCEEDED: 2,
        RunStatus.CANCELLED: 1 + EVENTS,
    }
