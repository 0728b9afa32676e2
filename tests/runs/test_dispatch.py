"""Tests that every schedule slot becomes exactly one record, whatever stood still or raced.

See docs/design/schedule.md#what-a-due-slot-becomes and docs/design/schedule.md#dispatch.
"""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise

import pytest

from steward.automations import next_runs
from steward.database.accounts import organizations
from steward.database.automations import records as automations
from steward.database.automations.occurrences import StoredSlot
from steward.database.engine.base import Engine, Tx
from steward.database.engine.postgres import PostgresEngine
from steward.database.runs import workers
from steward.model.automation import Automation, AutomationState, PausedBy
from steward.model.connection import ConnectionState
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.model.run import RunStatus, StartedBy
from steward.runs import dispatch
from steward.scheduling.slots import slots
from steward.scheduling.zones import zone
from tests.automations.world import BY_HAND, DAILY, HOURLY, ON_ORDERS, World, make_world
from tests.fake_clock import FakeClock

QUEUED, SKIPPED = OccurrenceState.QUEUED, OccurrenceState.SKIPPED


@pytest.fixture
async def world(engine: Engine, clock: FakeClock) -> World:
    """Provides two organizations with connections, and the templates of these tests."""
    return await make_world(engine, clock)


def expected(automation: Automation, until: datetime) -> list[datetime]:
    """Returns every slot that the schedule has had since set-up."""
    tz = zone(automation.timezone)
    assert tz is not None
    stream = slots(
        automation.schedule,
        tz,
        spread_minutes=automation.spread_minutes,
        after=automation.created_at,
        until=until + timedelta(milliseconds=1),
        slots_after=automation.created_at,
    )
    return [slot.slot_at for slot in stream]


async def due(world: World, **fields: object) -> Automation:
    """Creates a daily automation and advances the clock to its first slot."""
    automation = await world.create(**fields)
    assert automation.next_run_at is not None
    await world.clock.advance_to(automation.next_run_at)
    return automation


def slot(automation: Automation, moment: datetime, **fields: object) -> StoredSlot:
    """Builds a stored row of a daily slot."""
    plain = StoredSlot(moment, moment, f"{moment.date()}T08:00")
    return replace(plain, **fields)  # type: ignore[arg-type]


async def test_nothing_is_due_before_its_time(world: World) -> None:
    """No run starts before its slot. See docs/design/schedule.md#dispatch."""
    automation = await world.create()
    assert automation.next_run_at is not None
    await world.clock.advance_to(automation.next_run_at - timedelta(milliseconds=1))
    await world.dispatch()
    assert await world.rows(automation) == []


async def test_a_due_slot_starts_a_run(world: World) -> None:
    """A due slot starts a run. See docs/design/schedule.md#what-a-due-slot-becomes."""
    automation = await due(world)
    await world.dispatch()
    [run] = await world.runs(automation)
    [row] = await world.rows(automation)
    assert (run.status, run.started_by, run.slot_at) == (RunStatus.QUEUED, StartedBy.SCHEDULE, row.slot_at)
    assert (row.state, row.run_id, row.version, row.slot_at) == (QUEUED, run.id, 0, automation.next_run_at)
    assert (run.maker.created_by, run.maker.created_via, run.automation_version) == (None, None, 1)
    after = await world.read(automation)
    assert after.next_run_at == row.slot_at + timedelta(days=1)
    assert (after.version, after.last_run_at) == (automation.version, None)


async def test_a_slot_a_person_skipped_stays_skipped(world: World) -> None:
    """A slot that a person skipped starts no run. See docs/design/schedule.md#what-a-due-slot-becomes."""
    automation = await world.create()
    assert automation.next_run_at is not None
    row = slot(automation, automation.next_run_at, state=SKIPPED, reason=SkipReason.BY_MERCHANT, version=1)
    await world.store_row(automation, row)
    following = automation.next_run_at + timedelta(days=1)
    assert (await world.read(automation)).next_run_at == following
    await world.clock.advance_to(following)
    await world.dispatch()
    rows = await world.rows(automation)
    assert rows[0] == row
    assert [entry.state for entry in rows] == [SKIPPED, QUEUED]


@pytest.mark.parametrize(("late", "state"), [(0, QUEUED), (1, SKIPPED)])
async def test_a_slot_later_than_the_limit_is_skipped(
    world: World, late: int, state: OccurrenceState
) -> None:
    """A slot found later than the late limit is skipped; at the limit it still starts a run.

    See docs/design/schedule.md#what-a-due-slot-becomes.
    """
    automation = await due(world)
    await world.clock.advance(600 + late / 1000)
    await world.dispatch()
    [row] = await world.rows(automation)
    assert row.state is state
    assert row.reason is (None if state is QUEUED else SkipReason.TOO_LATE)
    assert len(await world.runs(automation)) == (state is QUEUED)


async def test_the_late_limit_is_a_setting(world: World) -> None:
    """STEWARD_LATE_LIMIT_MINUTES sets the late limit. See docs/design/command-line.md#settings."""
    automation = await due(world)
    await world.clock.advance(3600)
    await world.dispatch(replace(world.rules, late_limit=timedelta(hours=1)))
    assert [row.state for row in await world.rows(automation)] == [QUEUED]


@pytest.mark.parametrize("is_running", [False, True])
async def test_a_live_run_skips_the_slot(world: World, is_running: bool) -> None:
    """A slot is skipped while a live run of the automation is queued or running.

    See docs/design/schedule.md#what-a-due-slot-becomes.
    """
    automation = await world.create()
    await world.offer(automation)
    if is_running:
        await world.claim()
    await world.clock.advance_to(automation.next_run_at or world.now)
    await world.dispatch()
    [row] = await world.rows(automation)
    assert (row.state, row.reason) == (SKIPPED, SkipReason.PREVIOUS_RUNNING)
    assert len(await world.runs(automation)) == 1


@pytest.mark.parametrize(
    ("has_another", "reason"),
    [(False, SkipReason.WAITING_APPROVAL), (True, SkipReason.PREVIOUS_RUNNING)],
)
async def test_a_waiting_run_skips_the_slot(world: World, has_another: bool, reason: SkipReason) -> None:
    """A slot is skipped while a live run of the automation waits for approval.

    See docs/design/schedule.md#what-a-due-slot-becomes and docs/design/runs.md#run-queue.
    """
    automation = await world.create()
    await world.offer(automation)
    await world.wait_for_approval(automation, await world.claim())
    if has_another:
        await world.offer(automation)
    await world.clock.advance_to(automation.next_run_at or world.now)
    await world.dispatch()
    [row] = await world.rows(automation)
    assert (row.state, row.reason) == (SKIPPED, reason)


async def test_a_live_run_goes_before_a_lost_connection(world: World) -> None:
    """If a live run and a lost connection both apply, the slot is skipped because of the run.

    See docs/design/schedule.md#what-a-due-slot-becomes.
    """
    automation = await world.create()
    await world.offer(automation)
    await world.set_connection(world.store, ConnectionState.DISCONNECTED)
    await world.clock.advance_to(automation.next_run_at or world.now)
    await world.dispatch()
    [row] = await world.rows(automation)
    assert row.reason is SkipReason.PREVIOUS_RUNNING


@pytest.mark.parametrize("state", [ConnectionState.NEEDS_RECONNECTING, ConnectionState.DISCONNECTED])
async def test_a_store_that_is_not_connected_refuses_the_run(world: World, state: ConnectionState) -> None:
    """A slot of an automation whose store is not connected gives a refused run.

    See docs/design/schedule.md#what-a-due-slot-becomes.
    """
    automation = await due(world)
    await world.set_connection(world.store, state)
    await world.dispatch()
    [run] = await world.runs(automation)
    [row] = await world.rows(automation)
    assert (row.state, row.run_id) == (QUEUED, run.id)
    assert (run.status, run.code, run.finished_at) == (RunStatus.REFUSED, "not_connected", world.now)
    assert "Corner" in (run.message or "")
    await world.set_connection(world.store, ConnectionState.CONNECTED)
    await world.clock.advance(24 * 3600)
    await world.dispatch()
    assert (await world.runs(automation))[-1].status is RunStatus.QUEUED


async def test_a_connection_its_inputs_name_refuses_the_run(world: World) -> None:
    """A lost connection that only the inputs name refuses the run as well.

    See docs/design/schedule.md#what-a-due-slot-becomes.
    """
    automation = await due(world, inputs={"teams": {"integration_id": world.teams}})
    await world.set_connection(world.teams, ConnectionState.DISCONNECTED)
    await world.dispatch()
    [run] = await world.runs(automation)
    assert (run.code, "Alerts" in (run.message or "")) == ("not_connected", True)


async def test_an_organization_switched_off_refuses_the_run(world: World) -> None:
    """A slot of an organization whose automations are off gives a refused run.

    See docs/design/schedule.md#what-a-due-slot-becomes.
    """
    automation = await due(world)

    async def switch_off(tx: Tx) -> None:
        await organizations.switch(tx, world.org, False)

    await world.write(switch_off)
    await world.dispatch()
    [run] = await world.runs(automation)
    assert (run.status, run.code) == (RunStatus.REFUSED, "switched_off")


async def test_a_withdrawn_template_pauses_its_automations(world: World) -> None:
    """The service pauses an automation whose template was withdrawn.

    See docs/design/api/automations.md#states.
    """
    automation = await due(world)
    await world.dispatch(replace(world.rules, templates={}))
    after = await world.read(automation)
    assert (after.state, after.paused_by, after.next_run_at) == (
        AutomationState.PAUSED,
        PausedBy.SYSTEM,
        None,
    )
    assert [run.status for run in await world.runs(automation)] == [RunStatus.REFUSED]


async def test_an_unknown_template_of_another_release_pauses_nothing(world: World) -> None:
    """While a worker of another release lives its slots become runs, which that worker takes.

    See docs/design/storage.md#two-releases.
    """
    automation = await due(world)
    register = partial(workers.register, name="other", version="next", slots=1, lease_ms=60_000)
    await world.write(register)
    await world.dispatch(replace(world.rules, templates={}))
    assert (await world.read(automation)).state is AutomationState.ACTIVE
    assert [run.status for run in await world.runs(automation)] == [RunStatus.QUEUED]


@pytest.mark.parametrize(
    ("cadence", "stood_still"),
    [
        (HOURLY, timedelta(minutes=12)),
        (HOURLY, timedelta(days=3)),
        (HOURLY, timedelta(days=100)),
        ({"cadence": "every_6_hours"}, timedelta(days=40)),
        (DAILY, timedelta(days=400)),
        ({"cadence": "weekdays", "run_at": "02:30"}, timedelta(days=60)),
    ],
)
async def test_every_slot_of_a_standstill_is_one_record(
    world: World, cadence: dict[str, object], stood_still: timedelta
) -> None:
    """Each slot of an outage of any length gets exactly one record. See docs/design/runs.md#principles."""
    automation = await world.create(schedule=cadence, timezone="Europe/Berlin")
    await world.clock.advance_to((automation.next_run_at or world.now) + stood_still)
    await world.dispatch()
    rows = await world.rows(automation)
    assert [row.slot_at for row in rows] == expected(automation, world.now)
    in_time = [row for row in rows if row.run_at >= world.now - timedelta(minutes=10)]
    assert all(row.reason is SkipReason.TOO_LATE for row in rows if row not in in_time)
    assert len(await world.runs(automation)) == len(in_time) <= 1
    assert (await world.read(automation)).next_run_at == expected(automation, world.now + timedelta(days=4))[
        len(rows)
    ]


async def test_a_pass_decides_at_most_a_hundred_slots(world: World) -> None:
    """A pass decides the oldest 100 slots; the row stays due until it has caught up.

    See docs/design/schedule.md#dispatch.
    """
    automation = await world.create(schedule=HOURLY)
    await world.clock.advance_to((automation.next_run_at or world.now) + timedelta(hours=249))
    await world.dispatch(until_done=False)
    assert len(await world.rows(automation)) == 100
    assert (await world.read(automation)).next_run_at == expected(automation, world.now)[100]
    ticked = await world.dispatch()
    assert (ticked, len(await world.rows(automation))) == (2, 250)


async def test_of_several_in_time_the_first_starts(world: World) -> None:
    """Of several slots within the late limit the first starts a run and the others are skipped.

    See docs/design/schedule.md#what-a-due-slot-becomes.
    """
    automation = await world.create(schedule=HOURLY)
    await world.clock.advance_to((automation.next_run_at or world.now) + timedelta(hours=2))
    await world.dispatch(replace(world.rules, late_limit=timedelta(hours=24)))
    rows = await world.rows(automation)
    assert [row.state for row in rows] == [QUEUED, SKIPPED, SKIPPED]
    assert {row.reason for row in rows[1:]} == {SkipReason.PREVIOUS_RUNNING}


async def test_due_slots_are_decided_by_when_they_run(world: World) -> None:
    """Due slots are decided in the order of `run_at`, then of `slot_at`.

    See docs/design/schedule.md#what-a-due-slot-becomes.
    """
    automation = await world.create()
    first = automation.next_run_at or world.now
    later = first + timedelta(days=1)
    early = first - timedelta(minutes=1)
    await world.store_row(automation, slot(automation, later, run_at=early, moved_from=later, version=1))
    assert (await world.read(automation)).next_run_at == early
    await world.clock.advance_to(first)
    await world.dispatch()
    rows = await world.rows(automation)
    assert [(row.slot_at, row.state) for row in rows] == [(first, SKIPPED), (later, QUEUED)]
    assert (await world.read(automation)).next_run_at == later + timedelta(days=1)


async def test_a_run_moved_earlier_does_not_hide_slots_before_it(world: World) -> None:
    """`next_slot_at` passes over decided slots only. See docs/design/schedule.md#dispatch."""
    automation = await world.create()
    first = automation.next_run_at or world.now
    far = first + timedelta(days=5)
    await world.store_row(
        automation, slot(automation, far, run_at=first - timedelta(hours=1), moved_from=far, version=1)
    )
    await world.clock.advance_to(first - timedelta(hours=1))
    await world.dispatch()
    assert (await world.read(automation)).next_run_at == first
    assert (await world.timing(automation)).next_slot_at == first
    await world.end(automation)
    await world.clock.advance_to(first + timedelta(days=6))
    await world.dispatch()
    assert [row.slot_at for row in await world.rows(automation)] == expected(automation, world.now)


async def test_a_run_moved_later_waits_for_its_new_time(world: World) -> None:
    """A moved slot is due at its `run_at`. See docs/design/schedule.md#terms."""
    automation = await world.create()
    first = automation.next_run_at or world.now
    moved = slot(automation, first, run_at=first + timedelta(hours=5), moved_from=first, version=1)
    await world.store_row(automation, moved)
    await world.clock.advance_to(first + timedelta(hours=4))
    await world.dispatch()
    assert await world.rows(automation) == [moved]
    await world.clock.advance(3600)
    await world.dispatch()
    [row] = await world.rows(automation)
    assert (row.state, row.version, row.run_at) == (QUEUED, 1, moved.run_at)


async def test_once_runs_once_and_stays_active(world: World) -> None:
    """A `once` schedule runs once, and its automation stays active.

    See docs/design/schedule.md#slot-rules.
    """
    automation = await due(world, schedule={"cadence": "once", "run_at": "12:00", "date": "2026-05-03"})
    await world.dispatch()
    after = await world.read(automation)
    assert (after.state, after.next_run_at) == (AutomationState.ACTIVE, None)
    await world.clock.advance(400 * 24 * 3600)
    await world.dispatch()
    assert len(await world.rows(automation)) == 1


async def test_a_schedule_without_slots_is_never_due(world: World) -> None:
    """A schedule without slots is never due. See docs/design/schedule.md#slot-rules."""
    manual = await world.create(schedule=BY_HAND)
    by_event = await world.turn("resume", await world.create(schedule=BY_HAND, trigger=ON_ORDERS))
    await world.clock.advance(30 * 24 * 3600)
    await world.dispatch()
    assert await world.rows(manual) == await world.rows(by_event) == []


async def test_a_clock_set_back_decides_nothing_again(world: World) -> None:
    """A clock set back decides no slot a second time. See docs/design/schedule.md#dispatch."""
    automation = await world.create(schedule=HOURLY)
    await world.clock.advance_to((automation.next_run_at or world.now) + timedelta(hours=5))
    await world.dispatch()
    rows, following = await world.rows(automation), (await world.read(automation)).next_run_at
    world.clock.jump(-3 * 3600)
    await world.dispatch()
    assert await world.rows(automation) == rows
    assert (await world.read(automation)).next_run_at == following
    await world.clock.advance(6 * 3600)
    await world.dispatch()
    assert [row.slot_at for row in await world.rows(automation)] == expected(automation, world.now)


async def test_resuming_under_a_clock_set_back_runs_no_slot_twice(world: World) -> None:
    """A stored slot of any state is not run again when the automation is resumed.

    See docs/design/runs.md#principles.
    """
    automation = await world.create(schedule=HOURLY)
    await world.clock.advance_to((automation.next_run_at or world.now) + timedelta(hours=5))
    await world.dispatch()
    rows = await world.rows(automation)
    await world.turn("pause", automation)
    world.clock.jump(-3 * 3600)
    resumed = await world.turn("resume", automation)
    assert resumed.next_run_at == rows[-1].slot_at + timedelta(hours=1)


async def test_simultaneous_ticks_give_one_run(world: World) -> None:
    """Simultaneous dispatch passes start at most one run per slot.

    See docs/design/schedule.md#what-a-due-slot-becomes.
    """
    automations = [await world.create() for _ in range(6)]
    await world.clock.advance(2 * 3600 + 540)
    await asyncio.gather(*(world.dispatch(until_done=False) for _ in range(4)))
    for automation in automations:
        assert len(await world.runs(automation)) == len(await world.rows(automation)) == 1


async def test_a_tick_and_a_pause_exclude_each_other(world: World) -> None:
    """A dispatch pass and a pause exclude each other by the schedule's lock.

    See docs/design/schedule.md#dispatch.
    """
    automation = await due(world)
    await asyncio.gather(world.dispatch(until_done=False), world.turn("pause", automation))
    await world.dispatch()
    [row] = await world.rows(automation)
    [run] = await world.runs(automation)
    assert (row.state, run.status) == (QUEUED, RunStatus.CANCELLED)


async def test_organizations_are_served_in_one_tick(world: World) -> None:
    """One pass looks at every organization. See docs/design/schedule.md#dispatch."""
    mine = await world.create()
    owner = world.owner
    world.owner = world.stranger
    theirs = await world.create(integration_id=world.foreign_store)
    world.owner = owner
    await world.clock.advance(2 * 3600 + 540)
    assert await world.dispatch(until_done=False) == 1
    for automation in (mine, theirs):
        assert [run.org for run in await world.runs(automation)] == [automation.org]


class TestPoison:
    """A failing row never stops the others. See docs/design/runs.md#periodic-tasks-and-failing-rows."""

    async def broken(self, world: World) -> Automation:
        """Provides an automation whose time zone is missing from the zone database."""
        automation = await world.create()

        async def spoil(tx: Tx) -> None:
            found_automation = await automations.get(tx, automation.org, automation.id)
            await automations.save(
                tx, automation.org, replace(found_automation, timezone="Atlantis/Capital"), expected_version=1
            )

        await world.write(spoil)
        return automation

    async def test_the_others_are_dispatched(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """A row that raises is rolled back and deferred; rows in the same transaction are dispatched."""
        monkeypatch.setattr(dispatch, "SLOW_PATH_BATCH", 2)
        bad = await self.broken(world)
        good = [await world.create(schedule=HOURLY) for _ in range(4)]
        await world.clock.advance(2 * 3600 + 540)  # more than one slot of each: the long way
        await world.dispatch()
        assert [len(await world.runs(automation)) for automation in good] == [1] * 4
        assert await world.rows(bad) == []
        assert (await world.read(bad)).next_run_at == bad.next_run_at
        assert any("dispatch_failed" in line for line in world.lines)

    async def test_it_is_put_off_for_one_two_four_minutes_and_then_paused(self, world: World) -> None:
        """A failing row is deferred for 1, 2, 4 … minutes, and its automation paused after 5 failures.

        See docs/design/runs.md#periodic-tasks-and-failing-rows.
        """
        bad = await self.broken(world)
        await world.clock.advance(2 * 3600 + 540)
        failed_at = []
        for _ in range(40):
            before = len(world.lines)
            await world.dispatch()
            if len(world.lines) > before:
                failed_at.append(world.now)
            await world.clock.advance(60)
        gaps = [(two - item) // timedelta(minutes=1) for item, two in pairwise(failed_at)]
        assert gaps == [1, 2, 4, 8]
        after = await world.read(bad)
        assert (after.state, after.paused_by) == (AutomationState.PAUSED, PausedBy.SYSTEM)
        assert (after.next_run_at, after.version) == (None, bad.version + 1)

    async def test_processes_that_meet_it_at_once_count_it_once(self, world: World) -> None:
        """Five workers that meet the failing row at the same time count one failure.

        See docs/design/runs.md#periodic-tasks-and-failing-rows and docs/design/runs.md#scale-out.
        """
        bad = await self.broken(world)
        await world.clock.advance(2 * 3600 + 540)
        await asyncio.gather(*(world.dispatch() for _ in range(5)))
        assert (await world.read(bad)).state is AutomationState.ACTIVE
        row = await world.engine.read(world.now, lambda tx: tx.first("SELECT failures FROM deferred_rows"))
        assert dict(row or {}) == {"failures": 1}

    async def test_resuming_what_was_put_right_forgets_the_failures(self, world: World) -> None:
        """Resuming a repaired automation resets its failure count.

        See docs/design/runs.md#periodic-tasks-and-failing-rows.
        """
        bad = await self.broken(world)
        await world.clock.advance(2 * 3600 + 540)
        for _ in range(40):
            await world.dispatch()
            await world.clock.advance(60)
        updated = await world.update(await world.read(bad), timezone="UTC")
        resumed = await world.turn("resume", updated)
        await world.clock.advance_to((resumed.next_run_at or world.now) - timedelta(seconds=1))
        await world.dispatch()
        await world.clock.advance(1)
        await world.dispatch()
        assert len(await world.runs(bad)) == 1


async def test_a_year_of_random_downtimes_loses_and_doubles_nothing(world: World) -> None:
    """Over a year of clock changes and outages no slot is lost or run twice.

    See docs/design/runs.md#principles.
    """
    automation = await world.create(
        schedule={"cadence": "daily", "run_at": "02:30"}, timezone="Australia/Lord_Howe"
    )
    for hours in (1, 30, 0.2, 24, 700, 3, 24, 24, 2200, 50, 9, 0.1, 400, 24 * 60, 5, 90):
        await world.clock.advance(hours * 3600)
        await world.dispatch()
        await world.end(automation)
    rows = await world.rows(automation)
    assert [row.slot_at for row in rows] == expected(automation, world.now)
    assert {row.slot_at for row in rows if row.run_id} == {
        run.slot_at for run in await world.runs(automation)
    }


async def test_dispatch_waits_for_a_schedule_somebody_edits(postgresql_url: str, clock: FakeClock) -> None:
    """Dispatch skips a schedule that is locked, and the next pass finds it (SQLite has one writer).

    See docs/design/storage.md#transactions.
    """
    engine = await PostgresEngine.open(postgresql_url, size=4, clock=clock, test=True)
    world = await make_world(engine, clock)
    automation = await due(world)
    held, go = asyncio.Event(), asyncio.Event()

    async def edit(tx: Tx) -> None:
        await next_runs.lock(tx, automation.org, automation.id)
        held.set()
        await go.wait()

    editing = asyncio.create_task(world.write(edit))
    await held.wait()
    await world.dispatch(until_done=False)
    go.set()
    await editing
    assert await world.rows(automation) == []
    await world.dispatch()
    assert len(await world.rows(automation)) == 1
    await engine.close()
