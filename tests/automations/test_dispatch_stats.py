"""Tests the scheduler's statistics.

See docs/design/api/status.md#status and docs/design/runs.md#checkpoints.
"""

from datetime import timedelta
from functools import partial

from steward.database.engine.base import ms
from steward.database.operator import status as stats
from steward.runs import dispatch
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.automations.world import DAILY, World


async def test_the_status_row_counts_each_started_run_by_how_late_it_was_made(world: World) -> None:
    """Each started run is counted by its delay after `run_at`. See docs/design/api/status.md#status."""
    first = await world.create(schedule=DAILY)
    assert first.next_run_at is not None
    await world.clock.advance_to(first.next_run_at + timedelta(minutes=9, seconds=30))
    delays: list[timedelta] = []
    log = Log(world.lines.append, world.clock, SecretRegister())
    while await dispatch.dispatch_due(world.engine, world.now, rules=world.rules, log=log, delays=delays):
        pass
    assert delays == [timedelta(minutes=9, seconds=30)]

    await world.engine.write(world.now, partial(dispatch.record_delays, delays=delays))
    await world.engine.write(world.now, partial(dispatch.record_delays, delays=[timedelta(0)]))
    actual = await world.engine.read(world.now, stats.scheduler)
    assert actual is not None
    [(minute, counts)] = actual.minutes
    assert (minute, sum(counts), actual.oldest_due_at) == (ms(world.now) // 60_000, 2, None)

    world.clock.jump(3600)
    await world.engine.write(world.now, partial(dispatch.record_delays, delays=[]))
    later = await world.engine.read(world.now, stats.scheduler)
    assert later is not None
    assert [sum(counts) for _, counts in later.minutes] == [0]


async def test_due_slots_that_are_not_dispatched_are_reported(world: World) -> None:
    """A due occurrence that is not dispatched makes the scheduler `delayed`.

    See docs/design/api/status.md#status.
    """
    automation = await world.create(schedule=DAILY)
    assert automation.next_run_at is not None
    await world.clock.advance_to(automation.next_run_at + timedelta(minutes=2))
    await world.engine.write(world.now, partial(dispatch.record_delays, delays=[]))
    actual = await world.engine.read(world.now, stats.scheduler)
    assert actual is not None
    assert actual.oldest_due_at == automation.next_run_at
