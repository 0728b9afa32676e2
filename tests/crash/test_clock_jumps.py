"""Tests that a clock set forward and back gives every slot exactly one record.

See docs/design/runs.md#principles and docs/design/schedule.md#dispatch.
"""

import os
import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from steward.database.engine.base import Engine
from steward.model.automation import Automation
from steward.scheduling.slots import slots
from steward.scheduling.zones import zone
from tests.automations.world import DAILY, HOURLY, World, make_world
from tests.fake_clock import FakeClock

# `make soak` sets more, other ones for each round, and goes on beyond 2038.
FEW = 8
JUMPS = int(os.environ.get("CLOCK_JUMPS", FEW))
SEED = int(os.environ.get("CLOCK_SEED", "1"))
BY_HOURS = (1, -1 / 6, 24, -1, -30, 0.01, 200)
BEYOND = datetime(2038, 1, 19, 3, 15, tzinfo=UTC)


@pytest.fixture
async def world(engine: Engine, clock: FakeClock) -> World:
    """Provides organizations with connections, on each engine."""
    return await make_world(engine, clock)


async def assert_one_record_a_slot(world: World, automation: Automation) -> None:
    """Asserts that every past slot has exactly one record, with its run if it started one."""
    tz = zone(automation.timezone)
    assert tz is not None
    stream = slots(
        automation.schedule,
        tz,
        spread_minutes=automation.spread_minutes,
        after=automation.created_at,
        until=world.now + timedelta(milliseconds=1),
        slots_after=automation.created_at,
    )
    rows = await world.rows(automation)
    assert [row.slot_at for row in rows] == [slot.slot_at for slot in stream]
    runs = Counter(run.slot_at for run in await world.runs(automation))
    assert runs == Counter(row.slot_at for row in rows if row.run_id)
    assert max(runs.values(), default=1) == 1


async def test_slots_have_one_record_each_however_the_clock_jumps(world: World) -> None:
    """Jumps of +1 h, −10 min and +1 day neither lose nor repeat a slot.

    See docs/guides/contributors.md#tests.
    """
    chance = random.Random(SEED)
    automations = [await world.create(schedule=HOURLY), await world.create(schedule=DAILY)]
    latest = world.now
    for _ in range(JUMPS):
        world.clock.jump(chance.choice(BY_HOURS) * 3600)
        await world.dispatch()
        await world.clock.advance(chance.uniform(0, 7200))
        await world.dispatch()
        latest = max(latest, world.now)
        for automation in automations:
            if chance.random() < 0.7:
                await world.end(automation)
    if world.now < latest:
        await world.clock.advance_to(latest)
    await world.dispatch()
    for automation in automations:
        await assert_one_record_a_slot(world, automation)


@pytest.mark.skipif(JUMPS <= FEW, reason="in `make soak`: twelve years of daily slots")
async def test_a_clock_that_is_set_beyond_2038_makes_slots_late_and_loses_none(world: World) -> None:
    """A clock set beyond 2038 makes slots late but loses none. See docs/guides/contributors.md#tests."""
    automation = await world.create(schedule=DAILY)
    world.clock.jump((BEYOND - world.now).total_seconds())
    await world.dispatch()
    await assert_one_record_a_slot(world, automation)
