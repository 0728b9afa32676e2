"""Tests store events in a period that stops runs: as many as may wait run after it, the others are counted.

`CLOSED_EVENTS=500` delivers that many, of which 200 may wait; the suite delivers a few. See
docs/design/closed-periods.md#runs-that-begin-without-a-slot.
"""

import os
from collections import Counter

import pytest

from tests.closed_periods.edit_periods import PeriodEditor
from tests.events.world import ListeningService, open_ears, order
from tests.furnished_service import FurnishedService, furnished

__all__ = ["furnished"]

EVENTS = int(os.environ.get("CLOSED_EVENTS", "20"))
WAITING = EVENTS * 2 // 5
BATCHES = 4
HOURS = 72


@pytest.fixture
async def ears(furnished: FurnishedService) -> ListeningService:
    """Provides the service beside the fake shop, whose webhooks lead to it."""
    return await open_ears(furnished)


async def test_events_of_a_closed_period_run_after_it_up_to_the_limit(ears: ListeningService) -> None:
    """Runs the first events after the period, though they waited longer than the queue limit.

    Counts the others as dropped.
    """
    await ears.waits_at_most(WAITING)
    automation = await ears.automation("orders/create")
    shop = ears.shop
    await PeriodEditor(shop.engine, shop.clock, shop.owner).close("05-01T00:00", "05-06T00:00")
    for batch in range(BATCHES):
        for number in range(batch * EVENTS // BATCHES, (batch + 1) * EVENTS // BATCHES):
            shop.clock.tick(1)  # below the limits of a flood
            await ears.deliver("order.created", order(number + 1))
        await ears.tick("match")
        await ears.later(hours=HOURS / BATCHES)
    waiting = await ears.runs(automation)
    refused = EVENTS - WAITING
    assert Counter((run["status"], run["code"]) for run in waiting) == {
        ("queued", None): WAITING,
        ("refused", "too_many_waiting"): refused,
    }
    first = (await ears.token.get(f"/v1/automations/runs/{waiting[0]['id']}")).data["run"]
    assert first["held_by"] == {"name": "Christmas", "until": "2026-05-06T00:00:00.000Z"}
    await ears.later(hours=43)
    ended = await ears.runs(automation)
    assert Counter((run["status"], run["code"]) for run in ended) == {
        ("succeeded", None): WAITING,
        ("refused", "too_many_waiting"): refused,
    }
    assert (await ears.trigger(automation))["events_dropped"] == refused
