"""An automation without a success in its last periods is reported once, and again after a week."""

from datetime import timedelta

import pytest

from steward.database.engine.base import Engine, Tx
from steward.model.automation import Automation
from steward.model.notice import Topic
from steward.occurrences.audit import audit_slots
from steward.telemetry.log import Log
from steward.telemetry.metrics import Metrics
from steward.telemetry.redact import SecretRegister
from tests.automations.world import DAILY, HOURLY, World, make_world
from tests.fake_clock import FakeClock


@pytest.fixture
async def world(engine: Engine, clock: FakeClock) -> World:
    """Returns a world of two organizations with connections."""
    return await make_world(engine, clock)


async def _align(world: World, automation: Automation, step_hours: int) -> None:
    """Advances the clock to a moment from which steps of so many hours lead to each slot."""
    moment = (await world.read(automation)).next_run_at
    assert moment is not None
    await world.clock.advance((moment - world.now).total_seconds() % (3600 * step_hours))


async def _hours(
    world: World, automation: Automation, hours: int, *, step_hours: int = 6, status: str = "failed"
) -> None:
    """Passes hours in which each slot's run ends with a status and the auditor looks at it."""
    await _align(world, automation, step_hours)
    for _ in range(0, hours, step_hours):
        await world.clock.advance(3600 * step_hours)
        await world.dispatch()
        await world.end(automation)
        await world.write(
            lambda tx: tx.execute(
                "UPDATE runs SET status = :status WHERE org_id = :org AND finished_at = :now",
                {"org": automation.org, "status": status},
            )
        )
        await audit_slots(
            world.engine,
            world.now,
            late_limit=timedelta(minutes=10),
            log=Log(world.lines.append, world.clock, SecretRegister()),
            metrics=Metrics(),
        )


async def _told(world: World, automation: Automation) -> int:
    async def count(tx: Tx) -> int:
        row = await tx.first(
            "SELECT count(*) AS n FROM notices WHERE org_id = :org AND automation_id = :automation"
            " AND topic = :topic",
            {"org": automation.org, "automation": automation.id, "topic": Topic.AUTOMATION_QUIET},
        )
        return 0 if row is None else int(row["n"])

    return await world.write(count)


async def test_three_days_of_failures_send_a_notice_and_another_after_a_week(world: World) -> None:
    """Reports failures after three days, again after a week, and again after a success in between."""
    automation = await world.create(schedule=DAILY)
    await _hours(world, automation, 42)
    assert await _told(world, automation) == 0
    await _hours(world, automation, 48)
    assert await _told(world, automation) == 1
    await _hours(world, automation, 24 * 5)
    assert await _told(world, automation) == 1
    await _hours(world, automation, 54)
    assert await _told(world, automation) == 2
    await _hours(world, automation, 24, status="succeeded")
    await _hours(world, automation, 96)
    assert await _told(world, automation) == 3


async def test_an_automation_whose_run_was_held_is_silent_for_a_reason(world: World) -> None:
    """Reports no automation whose run is held or was held within the periods, and reports it afterwards."""
    automation = await world.create(schedule=DAILY)
    await _hours(world, automation, 42)

    async def hold(tx: Tx) -> None:
        held = "UPDATE runs SET held_at = :now WHERE org_id = :org AND automation_id = :id"
        await tx.execute(held, {"org": automation.org, "id": automation.id})

    await world.write(hold)
    await _hours(world, automation, 48)
    assert await _told(world, automation) == 0
    await _hours(world, automation, 48)
    assert await _told(world, automation) == 1


async def test_an_hourly_automation_is_given_a_day(world: World) -> None:
    """Reports an hourly automation after a day and not after three hours."""
    automation = await world.create(schedule=HOURLY)
    await _hours(world, automation, 24, step_hours=1)
    assert await _told(world, automation) == 0
    await _hours(world, automation, 3, step_hours=1)
    assert await _told(world, automation) == 1


async def test_successes_send_no_notice(world: World) -> None:
    """Reports nothing while runs succeed."""
    automation = await world.create(schedule=DAILY)
    await _hours(world, automation, 24 * 5, status="succeeded")
    assert await _told(world, automation) == 0
