"""Tests updating an automation: its version, each field, and its stored coming occurrences.

See docs/design/api/automations.md#requests.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from steward.database.automations import history
from steward.database.automations.occurrences import StoredSlot
from steward.model.automation import Automation
from steward.model.connection import ConnectionState
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.model.refusals import NotConnected, StaleVersion, ValidationFailed
from tests.automations.world import BY_HAND, DAILY, HOURLY, ON_ORDERS, STOCK, World, reads, template

PENDING, SKIPPED = OccurrenceState.PENDING, OccurrenceState.SKIPPED


async def refused(world: World, automation: Automation, **fields: Any) -> list[str]:
    """Returns the paths of the errors that an update is refused with."""
    with pytest.raises(ValidationFailed) as raised:
        await world.update(automation, **fields)
    assert await world.read(automation) == automation
    return sorted(raised.value.errors or {})


async def test_a_change_raises_the_version_once(world: World) -> None:
    """An update raises the version by one and sets `updated_at`.

    See docs/design/api/automations.md#requests.
    """
    automation = await world.create()
    await world.clock.advance(60)
    changed = await world.update(automation, name="Renamed", inputs={"threshold": 7})
    assert (changed.version, changed.name, changed.inputs) == (2, "Renamed", {"threshold": 7})
    assert changed.updated_at == automation.updated_at + timedelta(seconds=60)
    assert changed == await world.read(automation)


async def test_a_body_that_changes_nothing_leaves_the_version(world: World) -> None:
    """A body equal after defaults and normalizing leaves the version.

    See docs/design/api/automations.md#requests.
    """
    automation = await world.create(inputs={"threshold": 5})
    same = await world.update(
        automation,
        name=automation.name,
        inputs={},
        schedule={"run_at": "08:00", "cadence": "daily", "day_of_week": 2},
        timezone="UTC",
        integration_id=world.store,
        has_integration=True,
    )
    assert same == automation


async def test_a_body_that_changes_nothing_needs_no_connected_store(world: World) -> None:
    """A body that changes nothing succeeds even if the store is not connected.

    See docs/design/api/automations.md#requests.
    """
    automation = await world.create()
    await world.set_connection(world.store, ConnectionState.DISCONNECTED)
    same = await world.update(automation, integration_id=world.store, has_integration=True)
    assert same == automation
    assert (await world.update(automation, name="Renamed")).version == 2


async def test_a_stale_version_is_refused_with_what_is_current(world: World) -> None:
    """A stale version is refused with the current automation.

    Interface statements: 2.1 StaleOccurrence.
    """
    automation = await world.create()
    changed = await world.update(automation, name="First")
    with pytest.raises(StaleVersion) as raised:
        await world.update(automation, name="Second")
    assert raised.value.data == {"occurrence": None, "automation": changed}


async def test_the_shape_is_judged_before_the_version(world: World) -> None:
    """Invalid fields are refused before a stale version.

    See docs/design/api/conventions.md#order-of-refusals.
    """
    automation = await world.create()
    stale = replace(automation, version=99)
    with pytest.raises(ValidationFailed):
        await world.update(stale, timezone="Mars")
    with pytest.raises(StaleVersion):  # the world comes after (step 13)
        await world.update(stale, integration_id=world.foreign_store, has_integration=True)


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({"inputs": {"threshold": -1}, "timezone": "X"}, ["inputs.threshold", "timezone"]),
        ({"schedule": {"cadence": "daily"}}, ["schedule.run_at"]),
        ({"template_version": 2}, ["template_version"]),
        ({"bindings": {}}, ["bindings"]),
        ({"send_mode": "ask"}, ["send_mode"]),
        ({"integration_id": None, "has_integration": True}, ["integration_id"]),
        ({"connections": reads((1, "woocommerce"))}, ["connections"]),
        ({"trigger": ON_ORDERS}, ["schedule.cadence"]),
    ],
)
async def test_fields_are_refused_as_at_set_up(
    world: World, fields: dict[str, Any], paths: list[str]
) -> None:
    """An update refuses the field values that creating refuses.

    See docs/design/api/automations.md#requests.
    """
    assert await refused(world, await world.create(), **fields) == paths


async def test_the_schedule_must_stay_manual_while_events_start_it(world: World) -> None:
    """An event-triggered automation refuses a cadence other than manual.

    See docs/design/schedule.md#slot-rules.
    """
    automation = await world.create(schedule=BY_HAND, trigger=ON_ORDERS)
    assert await refused(world, automation, schedule=DAILY) == ["schedule.cadence"]


async def test_another_store_of_the_platform_may_be_chosen(world: World) -> None:
    """Another store of the platform can be chosen and changes `store_label`.

    See docs/design/api/automations.md#requests.
    """
    automation = await world.create()
    changed = await world.update(automation, integration_id=world.other_store, has_integration=True)
    assert (changed.integration_id, changed.store_label) == (world.other_store, "Second")
    assert changed.next_run_at == automation.next_run_at


async def test_a_foreign_or_unconnected_store_may_not(world: World) -> None:
    """Another organization's store or one that is not connected is refused.

    See docs/design/api/automations.md#requests.
    """
    automation = await world.create()
    foreign = {"integration_id": world.foreign_store, "has_integration": True}
    assert await refused(world, automation, **foreign) == ["integration_id"]
    await world.set_connection(world.other_store, ConnectionState.DISCONNECTED)
    with pytest.raises(NotConnected):
        await world.update(automation, integration_id=world.other_store, has_integration=True)


async def test_connections_replace_the_whole_list(world: World) -> None:
    """Given connections replace the whole list and change `store_label`.

    See docs/design/api/automations.md#requests.
    """
    item, other = (world.store, "woocommerce"), (world.other_store, "woocommerce")
    automation = await world.create(
        template_id="stores-report", integration_id=None, connections=reads(item, other)
    )
    changed = await world.update(automation, connections=reads(other))
    assert (changed.connections, changed.store_label) == (reads(other), "Second")


async def test_inputs_are_checked_against_a_newer_template(world: World) -> None:
    """Given and stored inputs are checked against the template's present version.

    See docs/design/api/automations.md#requests.
    """
    automation = await world.create(inputs={"note": "x"})
    schema = {**STOCK.facts.inputs_schema, "properties": {"threshold": {"type": "integer", "default": 9}}}
    newer = template("stock-watch", template_version=2, inputs_schema=schema)
    world.rules = replace(world.rules, templates={**world.rules.templates, "stock-watch": newer})
    assert await refused(world, automation, template_version=2) == ["inputs.note"]
    changed = await world.update(automation, template_version=2, inputs={})
    assert (changed.template_version, changed.inputs) == (2, {"threshold": 9})


async def test_a_day_that_is_over_is_refused_only_when_it_changes(world: World) -> None:
    """A past `once` date is refused only if schedule or zone change.

    See docs/design/schedule.md#slot-rules.
    """
    once = {"cadence": "once", "run_at": "12:00", "date": "2026-05-01"}
    automation = await world.create(schedule=once)
    await world.at("2026-05-02T00:00")
    await world.dispatch()
    automation = await world.read(automation)
    assert automation.next_run_at is None
    assert (await world.update(automation, schedule=once)).version == 1
    assert await refused(world, automation, schedule={**once, "run_at": "11:00"}) == ["schedule.date"]
    again = await world.update(automation, schedule={**once, "date": "2026-05-03"})
    assert again.next_run_at == datetime(2026, 5, 3, 12, automation.spread_minutes, tzinfo=UTC)


async def test_a_new_schedule_begins_now(world: World) -> None:
    """Slots of a new schedule start at the present. See docs/design/schedule.md#slot-rules."""
    automation = await world.create()
    await world.at("2026-05-01T07:00")
    changed = await world.update(automation, schedule={"cadence": "daily", "run_at": "07:00"})
    assert changed.next_run_at == datetime(2026, 5, 2, 7, automation.spread_minutes, tzinfo=UTC)
    assert (await world.timing(automation)).slots_after == world.now


async def test_a_change_decides_all_slots_until_now_first(world: World) -> None:
    """An update first decides every slot that is due, even a year of hourly ones.

    See docs/design/schedule.md#dispatch.
    """
    automation = await world.create(schedule=HOURLY)
    await world.clock.advance(366 * 24 * 3600 + 1800)
    await world.update(automation, schedule=DAILY)
    rows = await world.rows(automation)
    assert len(rows) == 366 * 24
    assert {row.reason for row in rows} == {SkipReason.TOO_LATE}


async def test_other_fields_leave_coming_rows_alone(world: World) -> None:
    """Updating other fields leaves the stored occurrences. See docs/design/schedule.md#calendar."""
    automation = await world.create()
    row = moved(automation, day=4, to="2026-05-04T20:00")
    await world.store_row(automation, row)
    await world.update(automation, name="Renamed")
    assert await world.rows(automation) == [row]


def moved(automation: Automation, *, day: int, to: str) -> StoredSlot:
    """Builds a moved slot of that day in May."""
    slot_at = datetime(2026, 5, day, 8, automation.spread_minutes, tzinfo=UTC)
    run_at = datetime.fromisoformat(f"{to}+00:00")
    return StoredSlot(slot_at, run_at, f"2026-05-{day:02}T08:00", moved_from=slot_at, version=1)


def skipped(automation: Automation, *, day: int) -> StoredSlot:
    """Builds a slot of that day in May that a person skipped."""
    slot_at = datetime(2026, 5, day, 8, automation.spread_minutes, tzinfo=UTC)
    key = f"2026-05-{day:02}T08:00"
    return StoredSlot(slot_at, slot_at, key, SKIPPED, SkipReason.BY_MERCHANT, version=3)


async def test_moved_and_kept_rows_are_dropped_by_a_new_schedule(world: World) -> None:
    """A new schedule deletes moved rows and those kept by `this_and_later`.

    See docs/design/schedule.md#calendar.
    """
    automation = await world.create()
    slot_at = datetime(2026, 5, 5, 8, automation.spread_minutes, tzinfo=UTC)
    await world.store_row(automation, moved(automation, day=4, to="2026-05-04T20:00"))
    await world.store_row(automation, StoredSlot(slot_at, slot_at, "2026-05-05T08:00", is_from_move=True))
    changed = await world.update(automation, schedule={"cadence": "daily", "run_at": "09:00"})
    assert await world.rows(automation) == []
    assert changed.next_run_at == datetime(2026, 5, 1, 9, automation.spread_minutes, tzinfo=UTC)


async def test_a_moved_row_whose_slot_has_come_keeps_its_record(world: World) -> None:
    """A moved row whose slot is past keeps its record. See docs/design/schedule.md#calendar."""
    automation = await world.create()
    row = moved(automation, day=1, to="2026-05-01T20:00")
    await world.store_row(automation, row)
    await world.at("2026-05-01T10:00")
    await world.update(await world.read(automation), timezone="Asia/Tokyo")
    assert await world.rows(automation) == [replace(row, state=SKIPPED, reason=SkipReason.BY_MERCHANT)]


async def test_skips_stay_on_their_day(world: World) -> None:
    """A person's skip stays on its date if both cadences have at most one slot a day.

    See docs/design/schedule.md#calendar.
    """
    automation = await world.create()
    await world.store_row(automation, skipped(automation, day=4))
    await world.store_row(automation, skipped(automation, day=9))
    await world.update(automation, schedule={"cadence": "weekdays", "run_at": "10:30"})
    slot_at = datetime(2026, 5, 4, 10, 30 + automation.spread_minutes, tzinfo=UTC)
    assert await world.rows(automation) == [
        StoredSlot(slot_at, slot_at, "2026-05-04T10:30", SKIPPED, SkipReason.BY_MERCHANT, version=3)
    ]


async def test_skips_are_dropped_when_a_cadence_has_several_a_day(world: World) -> None:
    """Skips are deleted if a cadence has several slots a day. See docs/design/schedule.md#calendar."""
    automation = await world.create()
    await world.store_row(automation, skipped(automation, day=4))
    await world.update(automation, schedule=HOURLY)
    assert await world.rows(automation) == []


async def test_a_skip_whose_slot_has_come_is_kept(world: World) -> None:
    """A skip whose slot is past stays. See docs/design/schedule.md#calendar."""
    automation = await world.create()
    row = skipped(automation, day=1)
    await world.store_row(automation, row)
    await world.at("2026-05-01T12:00")
    await world.update(await world.read(automation), schedule=HOURLY)
    assert await world.rows(automation) == [row]


async def test_archive_deletes_coming_rows(world: World) -> None:
    """Archiving deletes the coming occurrences. See docs/design/schedule.md#calendar."""
    automation = await world.create()
    past, late = skipped(automation, day=1), moved(automation, day=2, to="2026-05-05T20:00")
    coming = [skipped(automation, day=4), moved(automation, day=6, to="2026-05-06T20:00")]
    for row in (past, late, *coming):
        await world.store_row(automation, row)
    await world.at("2026-05-02T12:00")
    await world.turn("archive", automation)
    assert await world.rows(automation) == [past, replace(late, state=SKIPPED, reason=SkipReason.BY_MERCHANT)]


async def test_moved_rows_come_back_after_a_pause_when_still_ahead(world: World) -> None:
    """Moved occurrences reappear after a pause if they still lie ahead.

    See docs/design/schedule.md#calendar.
    """
    automation = await world.create()
    missed, ahead = (
        moved(automation, day=2, to="2026-05-02T10:00"),
        moved(automation, day=3, to="2026-05-09T10:00"),
    )
    skip = skipped(automation, day=10)
    for row in (missed, ahead, skip):
        await world.store_row(automation, row)
    await world.turn("pause", automation)
    await world.at("2026-05-09T09:00")
    resumed = await world.turn("resume", automation)
    assert resumed.next_run_at == ahead.run_at
    assert await world.rows(automation) == [
        replace(missed, state=SKIPPED, reason=SkipReason.TOO_LATE),
        ahead,
        skip,
    ]


async def test_history_shows_each_field_before_and_after(world: World) -> None:
    """The history lists each changed field with both values. See docs/design/api/automations.md#history."""
    automation = await world.create(inputs={"note": "x"})
    await world.clock.advance(1)
    await world.update(automation, name="Renamed", inputs={"threshold": 7}, timezone="Europe/Paris")
    [line, _] = await world.write(
        partial(history.find, org=automation.org, automation=automation.id, limit=10)
    )
    assert [(edit.field, edit.before, edit.after) for edit in line.fields] == [
        ("name", "Stock watch", "Renamed"),
        ("timezone", "UTC", "Europe/Paris"),
        ("inputs.note", "x", None),
        ("inputs.threshold", 5, 7),
    ]
