"""Tests store events in a period that stops runs: as many as may wait run after it, the others are counted.

`CLOSED_EVENTS=500` delivers that many, of which 200 may wait; the suite delivers a few. See
docs/design/closed-periods.md#runs-that-begin-without-a-slot.
"""

import os
from collections import Counter

import pytest

from tests.closed_periods.edit_periods import PeriodEditor
from tests.events.world import ListeningService, open_listener, order
from tests.populated_service import PopulatedService, populated

__all__ = ["populated"]

EVENTS = int(os.environ.get("CLOSED_EVENTS", "20"))
WAITING = EVENTS * 2 // 5
BATCHES = 4
HOURS = 72


@pytest.fixture
async def listener(populated: PopulatedService) -> ListeningService:
    """Provides the service beside the fake shop, whose webhooks lead to it."""
    return await open_listener(populated)


async def test_events_of_a_closed_period_run_after_it_up_to_the_limit(listener: ListeningService) -> None:
    """Runs the first events after the period, though they waited longer than the queue limit.

    Counts the others as dropped.
    """
    await listener.waits_at_most(WAITING)
    automation = await listener.automation("orders/create")
    shop = listener.shop
    await PeriodEditor(shop.engine, shop.clock, shop.owner).close("05-01T00:00", "05-06T00:00")
    for batch in range(BATCHES):
        for number in range(batch * EVENTS // BATCHES, (batch + 1) * EVENTS // BATCHES):
            shop.clock.tick(1)  # below the limits of a flood
            await listener.deliver("order.created", order(number + 1))
        await listener.tick("match")
        await listener.later(hours=HOURS / BATCHES)
    waiting = await listener.runs(automation)
    refused = EVENTS - WAITING
    assert Counter((run["status"], run["code"]) for run in waiting) == {
        ("queued", None): WAITING,
        ("refused", "too_many_waiting"): refused,
    }
    first = (await listener.token.get(f"/v1/automations/runs/{waiting[0]['id']}")).data["run"]
    assert first["held_by"] == {"name": "Christmas", "until": "2026-05-06T00:00:00.000Z"}
    await listener.later(hours=43)
    ended = await listener.runs(automation)
    assert Counter((run["status"], run["code"]) for run in ended) == {
        ("succeeded", None): WAITING,
        ("refused", "too_many_waiting"): refused,
    }
    assert (await listener.trigger(automation))["events_dropped"] == refused
