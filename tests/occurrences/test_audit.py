"""Tests the slot auditor: it reports nothing when all is well, and logs and repairs missing slots.

See docs/design/schedule.md#dispatch.
"""

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from steward.database.automations import occurrences, slot_audits
from steward.database.automations.occurrences import StoredSlot
from steward.database.engine.base import Tx
from steward.database.runs import workers
from steward.model.automation import Automation
from steward.model.ids import OrgId
from steward.model.notice import Topic
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.occurrences.audit import audit_slots
from steward.telemetry.log import Log
from steward.telemetry.metrics import Metrics
from steward.telemetry.redact import SecretRegister
from tests.automations.world import BY_HAND, HOURLY, World
from tests.occurrences.calendar_edits import DAY, HOUR, LATER, MINUTE, CalendarClient, short, utc
from tests.occurrences.test_calendar import theirs_too

LATE = timedelta(minutes=10)
BACK = 15 * MINUTE  # the late limit and five minutes
NOW = timedelta(0)  # since the last audit: without a wait
MISSING, UNEXPECTED = "steward_slots_missing_total", "steward_slots_unexpected_total"
LATE_SLOTS = "steward_slots_late_total"


class Auditor:
    """The periodic task with counters of its own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.metrics = Metrics()

    async def tick(self, **limits: Any) -> bool:
        """Runs one pass."""
        return await audit_slots(
            self.world.engine,
            self.world.now,
            late_limit=LATE,
            log=Log(self.world.lines.append, self.world.clock, SecretRegister()),
            metrics=self.metrics,
            **limits,
        )

    @property
    def round_seconds(self) -> float:
        """Returns how long the auditor reports that a round takes."""
        return self.metrics.value("steward_audit_round_seconds")

    def counted(self) -> tuple[float, float]:
        """Returns the counts of missing and unexpected slots."""
        return self.metrics.value(MISSING), self.metrics.value(UNEXPECTED)


@pytest.fixture
async def auditor(world: World) -> Auditor:
    """Provides the auditor of a new process."""
    return Auditor(world)


async def lose(world: World, automation: Automation, *slots: datetime) -> None:
    """Deletes rows, as a defect would."""
    for slot_at in slots:
        gone = await world.write(
            lambda tx, slot_at=slot_at: tx.execute(
                "DELETE FROM occurrences WHERE org_id = :org AND automation_id = :automation"
                " AND slot_at = :slot_at",
                {"org": automation.org, "automation": automation.id, "slot_at": slot_at},
            )
        )
        assert gone == 1


async def _told(tx: Tx, org: OrgId) -> list[tuple[str, int, str]]:
    query = "SELECT topic, count, automation_id FROM notices WHERE org_id = :org AND topic LIKE 'slot%'"
    rows = await tx.all(query, {"org": org})
    return [(row["topic"], row["count"], row["automation_id"]) for row in rows]


async def days(world: World, automation: Automation, last: int) -> None:
    """Dispatches every morning up to the given day of May; each run ends at once."""
    for day in range(1, last + 1):
        if world.now <= utc(f"05-{day:02} 08:00"):
            await world.at(f"2026-05-{day:02}T08:00")
            await world.dispatch()
            await world.end(automation)


async def test_nothing_is_found_when_every_slot_has_its_record(
    world: World, diary: CalendarClient, auditor: Auditor
) -> None:
    """Both counters stay 0 whatever a person edited. See docs/design/schedule.md#dispatch."""
    automation = await world.create()
    hourly = await world.create(schedule=HOURLY)
    await world.create(schedule=BY_HAND)
    await diary.skip(automation, utc("05-02 08:00"))
    await diary.move(automation, utc("05-03 08:00"), utc("05-01 10:00"))
    automation = (await diary.move(automation, utc("05-05 08:00"), utc("05-05 06:00"), LATER)).automation
    for hour in range(24 * 7):
        await world.clock.advance(3600)
        await world.dispatch()
        await world.end(automation)
        await auditor.tick()
        if hour == 80:
            await world.turn("resume", await world.turn("pause", await world.read(hourly)))
        if hour == 130:
            automation = await world.update(
                await world.read(automation), schedule={"cadence": "daily", "run_at": "21:00"}
            )
    assert auditor.counted() == (0, 0)
    assert world.lines == []


async def test_a_missing_slot_is_logged_counted_and_written(world: World, auditor: Auditor) -> None:
    """A missing slot is logged, counted and stored once as `skipped_too_late` by the auditor.

    See docs/design/schedule.md#dispatch.
    """
    automation = await world.create()
    await days(world, automation, 3)
    await lose(world, automation, utc("05-02 08:00"))
    await world.clock.advance(3600)
    await auditor.tick()
    assert auditor.counted() == (1, 0)
    [row] = [row for row in await world.rows(automation) if row.by_auditor]
    assert (row.slot_at, row.state, row.reason) == (
        utc("05-02 08:00"), OccurrenceState.SKIPPED, SkipReason.TOO_LATE,
    )  # fmt: skip
    assert (row.version, row.run_at, row.local_key) == (0, row.slot_at, "2026-05-02T08:00")
    [line] = world.lines
    assert "slot_missing" in line
    actual = await world.write(partial(_told, org=automation.org))
    assert actual == [(Topic.SLOT_MISSING, 1, automation.id)]
    assert automation.id in line
    await world.clock.advance(7200)
    await auditor.tick()
    assert auditor.counted() == (1, 0)


@pytest.mark.parametrize(("before", "missing"), [(timedelta(milliseconds=1), 1), (timedelta(0), 0)])
async def test_slots_are_missing_after_the_late_limit_and_five_minutes(
    world: World, auditor: Auditor, before: timedelta, missing: int
) -> None:
    """A slot counts as missing only after the late limit and five more minutes.

    See docs/design/schedule.md#dispatch.
    """
    automation = await world.create()
    await days(world, automation, 1)
    await lose(world, automation, utc("05-01 08:00"))
    await world.clock.advance_to(utc("05-01 08:00") + BACK + before)
    await auditor.tick(every=NOW)
    assert auditor.counted() == (missing, 0)


async def test_a_decided_row_that_is_no_slot_is_counted(world: World, auditor: Auditor) -> None:
    """A decided row without a slot is unexpected, unless it was moved, kept or edited.

    See docs/design/schedule.md#dispatch.
    """
    automation = await world.create()
    moment = utc("05-01 07:30")
    skipped = StoredSlot(moment, moment, "2026-05-01T07:30", OccurrenceState.SKIPPED, SkipReason.TOO_LATE)
    rows = [
        skipped,
        StoredSlot(
            moment + MINUTE, moment, "2026-05-01T07:31", skipped.state, skipped.reason, moved_from=moment
        ),
        StoredSlot(
            moment + 2 * MINUTE, moment, "2026-05-01T07:32", skipped.state, skipped.reason, is_from_move=True
        ),
        StoredSlot(
            moment + 3 * MINUTE, moment, "2026-05-01T07:33", skipped.state, SkipReason.BY_MERCHANT, version=1
        ),
    ]
    await world.write(lambda tx: occurrences.insert_many(tx, automation.org, automation.id, rows))
    await days(world, automation, 1)
    await world.clock.advance(3600)
    await auditor.tick()
    assert auditor.counted() == (0, 1)
    assert "slot_unexpected" in world.lines[0]


async def test_slots_that_started_too_late_are_counted(world: World, auditor: Auditor) -> None:
    """Slots of an outage are counted as late, each once."""
    automation = await world.create()
    await world.at("2026-05-04T07:00")
    await world.dispatch()
    for _ in range(3):
        await world.clock.advance(3600)
        await world.dispatch()
        await auditor.tick()
    assert auditor.metrics.value(LATE_SLOTS) == 3
    assert auditor.counted() == (0, 0)
    assert len(await world.rows(automation)) == 4


async def test_undecided_slots_are_not_counted_as_missing(world: World, auditor: Auditor) -> None:
    """After an outage a new auditor waits until dispatch has decided the slots.

    See docs/design/schedule.md#dispatch.
    """
    automation = await world.create(schedule=HOURLY)
    await world.clock.advance(86_400 * 3)
    await auditor.tick(every=NOW)
    assert auditor.counted() == (0, 0)
    assert (await world.timing(automation)).audited_until == automation.created_at
    await world.dispatch()
    await auditor.tick()
    assert auditor.counted() == (0, 0)
    assert (await world.timing(automation)).audited_until == world.now - BACK


async def test_each_is_audited_once_an_hour(world: World, auditor: Auditor) -> None:
    """An automation is audited again a millisecond after an hour, not before.

    See docs/design/schedule.md#slot-auditor.
    """
    automation = await world.create()
    start = world.now
    await world.clock.advance(3600 + BACK.total_seconds())
    await auditor.tick()
    assert (await world.timing(automation)).audited_until == start, (
        "an hour has not gone by since it was made"
    )
    await world.clock.advance(0.001)
    await auditor.tick()
    first = world.now - BACK
    assert (await world.timing(automation)).audited_until == first
    await world.clock.advance(60)
    await auditor.tick()
    assert (await world.timing(automation)).audited_until == first


async def test_a_start_makes_all_due(world: World, auditor: Auditor) -> None:
    """A start makes all automations due within the limit of a pass.

    See docs/design/schedule.md#slot-auditor.
    """
    automations = [await world.create(name=f"Automation {number}", schedule=BY_HAND) for number in range(3)]
    await world.clock.advance(3600 + BACK.total_seconds() + 1)
    await auditor.tick()
    await world.clock.advance(60)
    started, before = world.now, world.now - BACK
    await auditor.tick(started=started, max_rows=2)
    assert sorted(
        [(await world.timing(automation)).audited_until == before for automation in automations]
    ) == [False, True, True]
    await world.clock.advance(60)
    await auditor.tick(started=started)
    await auditor.tick(started=started)
    audited = sorted([(await world.timing(each_automation)).audited_until for each_automation in automations])
    assert audited == [before, before, before + MINUTE]


async def test_paused_automations_are_not_audited_for_their_pause(world: World, auditor: Auditor) -> None:
    """Slots of a pause are not missing. See docs/design/schedule.md#dispatch."""
    automation = await world.turn("pause", await world.create())
    await world.clock.advance(86_400 * 4)
    await auditor.tick()
    automation = await world.turn("resume", automation)
    await world.clock.advance(7200)
    await world.dispatch()
    await auditor.tick()
    assert auditor.counted() == (0, 0)


async def test_every_organization_is_audited(world: World, auditor: Auditor) -> None:
    """The auditor covers every organization.

    See docs/design/schedule.md#dispatch and docs/design/storage.md#tenant-context-and-row-level-security.
    """
    automation = await world.create()
    theirs = await world.write(partial(theirs_too, world=world), world.stranger.org)
    await days(world, automation, 1)
    await world.clock.advance(4000)
    assert not await auditor.tick()
    for each_automation in (automation, theirs):
        assert (await world.timing(each_automation)).audited_until == world.now - BACK


async def test_dispatch_leaves_the_mark_of_the_auditor(world: World, auditor: Auditor) -> None:
    """The auditor still checks slots that dispatch decided, so a lost record is reported."""
    automation = await world.create(schedule=HOURLY)
    await days(world, automation, 1)
    assert (await world.timing(automation)).audited_until == automation.created_at
    await lose(world, automation, utc("05-01 08:00"))
    await world.clock.advance(7200)
    await world.dispatch()
    await auditor.tick()
    assert auditor.counted() == (1, 0)


async def test_a_pass_is_limited_and_the_longest_unaudited_come_first(world: World, auditor: Auditor) -> None:
    """Two workers share the limit of a pass; the round's length shows what is left."""
    automations = [await world.create(name=f"Automation {number}", schedule=BY_HAND) for number in range(7)]
    for number, automation in enumerate(automations):
        await set_audited(world, automation, world.now + number * MINUTE)
    began = world.now
    await world.clock.advance(3 * 3600)

    async def audited() -> list[bool]:
        return [
            (await world.timing(each_automation)).audited_until == world.now - BACK
            for each_automation in automations
        ]

    await auditor.tick(max_rows=3)
    assert await audited() == [True] * 3 + [False] * 4
    assert auditor.round_seconds == (world.now - BACK - began).total_seconds()
    for name in ("one", "two"):
        await world.write(partial(workers.register, name=name, version="1", slots=1, lease_ms=60_000))
    await auditor.tick(max_rows=4)
    assert await audited() == [True] * 5 + [False] * 2
    await auditor.tick(max_rows=1)
    assert await audited() == [True] * 6 + [False]
    await auditor.tick()
    assert await audited() == [True] * 7
    assert auditor.round_seconds == 3 * 3600 - BACK.total_seconds() - 6 * 60
    await auditor.tick()
    assert auditor.round_seconds == 3600


async def set_audited(world: World, automation: Automation, until: datetime) -> None:
    """Sets the time up to which an automation is audited."""
    await world.write(partial(slot_audits.set_audited, org=automation.org, audited={automation.id: until}))


async def test_a_pass_takes_more_than_a_batch(world: World, auditor: Auditor) -> None:
    """A pass takes several batches of a hundred, each in its own transaction."""
    automations = [await world.create(name=f"Automation {number}") for number in range(101)]
    await world.clock.advance(3600)
    assert not await auditor.tick(every=NOW)
    assert {(await world.timing(automation)).audited_until for automation in automations} == {
        world.now - BACK
    }


async def test_a_once_that_was_lost_is_found(world: World, auditor: Auditor) -> None:
    """An automation without a next run is audited as well. See docs/design/schedule.md#dispatch."""
    automation = await world.create(schedule={"cadence": "once", "date": "2026-05-01", "run_at": "08:00"})
    await world.at("2026-05-01T08:00")
    await world.dispatch()
    await lose(world, automation, utc("05-01 08:00"))
    await world.clock.advance((2 * HOUR + DAY).total_seconds())
    await auditor.tick()
    assert auditor.counted() == (1, 0)
    assert [short(row.slot_at) for row in await world.rows(automation)] == ["05-01 08:00"]


async def test_a_clock_set_back_and_another_schedule_are_no_finding(world: World, auditor: Auditor) -> None:
    """A slot decided before a clock was set back counts by its former schedule.

    See docs/design/schedule.md#dispatch.
    """
    automation = await world.create(schedule=HOURLY)
    await world.at("2026-05-01T07:00")
    await world.dispatch()
    world.clock.jump(-60)
    automation = await world.update(automation, schedule={"cadence": "daily", "run_at": "06:59"})
    await lose_nothing_for_a_day(world, automation, auditor)
    assert auditor.counted() == (0, 0)


async def lose_nothing_for_a_day(world: World, automation: Automation, auditor: Auditor) -> None:
    """Runs dispatch and the auditor every hour of a day."""
    for _ in range(26):
        await world.clock.advance(3600)
        await world.dispatch()
        await world.end(automation)
        await auditor.tick(every=NOW)
