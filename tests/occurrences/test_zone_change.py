"""Tests a newer time zone package: unedited slots follow it, edits are neither lost nor doubled.

See docs/design/schedule.md#zones.
"""

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from steward.database.automations import slot_audits
from steward.model.automation import Automation
from steward.model.occurrence import OccurrenceState
from steward.occurrences import zone_change
from steward.scheduling import zones
from tests.automations.world import HOURLY, World
from tests.occurrences.calendar_edits import DAY, HOUR, LATER, CalendarClient, short, utc
from tests.occurrences.test_audit import Auditor

PENDING, QUEUED, SKIPPED = OccurrenceState


async def install(world: World, monkeypatch: pytest.MonkeyPatch, like: str) -> None:
    """Installs zone data in which Berlin has another zone's clock, and restarts the process."""
    changed = ZoneInfo(like)
    load = zones._load
    monkeypatch.setattr(zones, "_load", lambda name: changed if name == "Europe/Berlin" else load(name))
    monkeypatch.setattr(zone_change, "tzdata_version", lambda: f"2099{like}")
    await zone_change.adapt_to_zone_package(world.engine, world.now)


async def berlin(world: World, **fields: object) -> Automation:
    """Creates an automation that runs daily at 12:00 in Berlin, 10:00 UTC in May."""
    body = {"schedule": {"cadence": "daily", "run_at": "12:00"}, "timezone": "Europe/Berlin", **fields}
    return await world.create(**body)


@pytest.mark.parametrize(("like", "hour"), [("Europe/Kyiv", "09"), ("Europe/Lisbon", "11")])
async def test_unedited_slots_follow_in_both_directions(
    world: World, diary: CalendarClient, monkeypatch: pytest.MonkeyPatch, like: str, hour: str
) -> None:
    """Unedited slots follow the zone, with one run for each date. See docs/design/schedule.md#zones."""
    await zone_change.adapt_to_zone_package(world.engine, world.now)
    automation = await berlin(world)
    await world.at("2026-05-02T10:00")
    await world.dispatch()
    await world.end(automation)
    await world.at("2026-05-02T10:30")
    await install(world, monkeypatch, like)
    auditor = Auditor(world)
    assert (await world.read(automation)).next_run_at == utc(f"05-03 {hour}:00")
    rows = await diary.rows(automation, until=utc("05-06 00:00"))
    assert [short(row.run_at) for row in rows] == [f"05-0{day} {hour}:00" for day in (3, 4, 5)]
    for _ in range(54):
        await world.clock.advance(3600)
        await world.dispatch()
        await world.end(automation)
        await auditor.tick()
    assert [row.local_key[5:10] for row in await world.rows(automation)] == [
        "05-01",
        "05-02",
        "05-03",
        "05-04",
    ]
    assert auditor.counted() == (0, 0)


async def test_a_skip_goes_over_to_the_new_slot_of_its_key(
    world: World, diary: CalendarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A skip moves to the new slot of its date. See docs/design/schedule.md#zones."""
    await zone_change.adapt_to_zone_package(world.engine, world.now)
    automation = await berlin(world)
    await diary.skip(automation, utc("05-03 10:00"))
    await install(world, monkeypatch, "Europe/Kyiv")
    rows = await diary.rows(automation, until=world.now + 4 * DAY)
    assert [(short(row.slot_at), row.state, row.version) for row in rows] == [
        ("05-01 09:00", PENDING, 0),
        ("05-02 09:00", PENDING, 0),
        ("05-03 09:00", SKIPPED, 1),
        ("05-04 09:00", PENDING, 0),
    ]


async def test_a_moved_run_keeps_its_instant_and_runs_once(
    world: World, diary: CalendarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A moved occurrence keeps its instant and stands for the new slot. See docs/design/schedule.md#zones."""
    await zone_change.adapt_to_zone_package(world.engine, world.now)
    automation = await berlin(world)
    await diary.move(automation, utc("05-02 10:00"), utc("05-02 15:00"))
    await install(world, monkeypatch, "Europe/Kyiv")
    rows = await diary.rows(automation, until=world.now + 3 * DAY)
    assert [(short(row.slot_at), short(row.run_at), row.version) for row in rows] == [
        ("05-01 09:00", "05-01 09:00", 0),
        ("05-02 09:00", "05-02 15:00", 1),
        ("05-03 09:00", "05-03 09:00", 0),
    ]


async def test_rows_of_this_and_later_follow_without_a_double(
    world: World, diary: CalendarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows kept from the old schedule follow; the chosen one keeps its instant.

    See docs/design/schedule.md#zones and docs/design/schedule.md#moving-this-and-later.
    """
    await zone_change.adapt_to_zone_package(world.engine, world.now)
    automation = await berlin(world)
    await diary.move(automation, utc("05-03 10:00"), utc("05-03 12:00"), LATER)
    await install(world, monkeypatch, "Europe/Kyiv")
    rows = await diary.rows(automation, until=world.now + 5 * DAY)
    assert [short(row.run_at) for row in rows] == [
        "05-01 09:00", "05-02 09:00", "05-03 12:00", "05-04 11:00", "05-05 11:00",
    ]  # fmt: skip


async def test_following_twice_changes_nothing_more(
    world: World, diary: CalendarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start with equal rules changes nothing. See docs/design/schedule.md#zones."""
    await zone_change.adapt_to_zone_package(world.engine, world.now)
    automation = await berlin(world)
    hourly = await world.create(schedule=HOURLY, timezone="Europe/Berlin")
    await diary.skip(automation, utc("05-03 10:00"))
    await install(world, monkeypatch, "Europe/Kyiv")
    once = (await world.rows(automation), await world.timing(automation), await world.timing(hourly))
    package = await world.write(slot_audits.time_zone_data)
    assert await zone_change.adapt_to_zone_package(world.engine, world.now) == 0
    await install(world, monkeypatch, "Europe/Athens")
    assert (await world.rows(automation), await world.timing(automation), await world.timing(hourly)) == once
    assert (package, await world.write(slot_audits.time_zone_data)) == (
        "2099Europe/Kyiv",
        "2099Europe/Athens",
    )


async def test_paused_automations_follow_too(
    world: World, diary: CalendarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The skips of a paused automation follow as well. See docs/design/schedule.md#zones."""
    await zone_change.adapt_to_zone_package(world.engine, world.now)
    automation = await berlin(world)
    await diary.skip(automation, utc("05-03 10:00"))
    automation = await world.turn("pause", automation)
    await install(world, monkeypatch, "Europe/Kyiv")
    await world.turn("resume", automation)
    rows = await diary.rows(automation, since=utc("05-03 00:00"), until=utc("05-04 00:00"))
    assert [(short(row.slot_at), row.state) for row in rows] == [("05-03 09:00", SKIPPED)]


async def test_an_audit_restarts_with_a_new_zone_package(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer package raises `audited_until` to the first start with it.

    See docs/design/schedule.md#dispatch.
    """
    await zone_change.adapt_to_zone_package(world.engine, world.now)
    automation = await berlin(world)
    await world.clock.advance((HOUR + timedelta(minutes=1)).total_seconds())
    await install(world, monkeypatch, "Europe/Lisbon")
    assert (await world.timing(automation)).audited_until == utc("05-01 11:00")
