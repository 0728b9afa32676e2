"""Tests matching beside a pause of the automation it would start: no deadlock."""

import asyncio
from functools import partial
from typing import Any

import asyncpg
import pytest

from steward.database.automations import schedules
from steward.database.engine.base import Tx
from tests.events.world import ListeningService, order
from tests.fake_clock import FakeClock
from tests.occurrences.interleaving import BLOCKED


async def test_an_event_is_matched_while_its_automation_is_paused(
    listener: ListeningService, database_url: str, clock: FakeClock
) -> None:
    """Schedules are locked first; a paused automation is not started by a later event.

    See docs/design/storage.md#lock-order.
    """
    if listener.shop.engine.dialect == "sqlite":
        pytest.skip("SQLite has one writer, and no rows to lock")
    automation = await listener.automation("orders/create")
    await listener.deliver("order.created", order(1))
    watcher = await asyncpg.connect(database_url)

    async def both_wait(tx: Tx) -> list["asyncio.Task[Any]"]:
        await schedules.lock(tx, listener.shop.owner.org, automation["id"])
        going: list[asyncio.Task[Any]] = []
        for act in (partial(listener.act, automation, "pause"), partial(listener.tick, "match")):
            going.append(asyncio.create_task(act()))
            while await watcher.fetchval(BLOCKED) < len(going):
                assert not going[-1].done()
        return going

    going = await listener.shop.write(both_wait)
    retried = asyncio.create_task(clock.until_sleeping())  # what a deadlock has ended waits to begin again
    both = asyncio.gather(*going)
    waits: set[asyncio.Future[Any]] = {both, retried}
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    assert not retried.done()
    retried.cancel()
    await watcher.close()
    assert (await both)[0].status == 200
    assert await listener.runs(automation) == []
    assert await listener.rows("SELECT state FROM events WHERE org_id = :org") == [{"state": "matched"}]
