"""Tests that calendar, next run, preview and dispatch agree on random automations, periods and edits.

`STEWARD_CLOSED_WALKS` sets the number of random histories (default 3) and `STEWARD_CLOSED_SEED` the
seed.
"""

import os
import random
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from steward.closed_periods import acting
from steward.database.closed_periods.records import StoredPeriod
from steward.database.engine.base import Engine, Tx
from steward.model.automation import Automation
from steward.model.closed_period import ClosedKind, ClosedPeriod, ClosedScope, ClosedScopeKind, Stops
from steward.model.json import JsonObject
from steward.model.occurrence import OccurrenceState
from steward.model.refusals import ValidationFailed
from steward.occurrences import closings
from steward.scheduling.preview import preview_open
from tests.automations.world import HOURLY, World, make_world
from tests.closed_periods.closing import WHOLE, Closer
from tests.fake_clock import FakeClock
from tests.occurrences.diary import Diary
from tests.scheduling.closings_walk import closed_minutes, walk
from tests.scheduling.short import place

_WALKS = int(os.environ.get("STEWARD_CLOSED_WALKS", "3"))
_SEED = os.environ.get("STEWARD_CLOSED_SEED", "steward")
_STEPS = 14
_MINUTE, _DAY = timedelta(minutes=1), timedelta(days=1)
PENDING, SKIPPED = OccurrenceState.PENDING, OccurrenceState.SKIPPED


@pytest.fixture
async def world(engine: Engine, clock: FakeClock) -> World:
    """Provides an organization whose slots have no spread."""
    world = await make_world(engine, clock)
    world.rules = replace(world.rules, spread_max=0)
    return world


async def test_all_answers_agree_and_every_slot_has_one_record(world: World) -> None:
    """Decides every slot as it was shown before, while periods are made and ended and runs let through."""
    closer, diary = Closer(world.engine, world.clock, world.owner), Diary(world)
    for number in range(_WALKS):
        draw = random.Random(f"{_SEED} {number}")
        schedule = draw.choice(
            [HOURLY, {"cadence": "every_6_hours"}, {"cadence": "daily", "run_at": "08:00"}]
        )
        automation = await world.create(timezone="UTC", schedule=schedule)
        active: list[StoredPeriod] = []
        for step in range(_STEPS):
            case = f"seed {_SEED}, walk {number}, step {step}"
            await _edit(draw, world, closer, diary, automation, active)
            while await closings.follow_changes(world.engine, world.clock.now()):
                pass
            await _assert_agree(world, diary, automation, case)
            await _pass(draw, world, diary, automation, case)
        for stored in active:
            await closer.end(stored)


async def _edit(
    draw: random.Random,
    world: World,
    closer: Closer,
    diary: Diary,
    automation: Automation,
    active: list[StoredPeriod],
) -> None:
    match draw.randrange(6):
        case 0 | 1:
            kind, fields = _when(draw, world.now)
            scope = WHOLE
            if draw.randrange(2):
                scope = ClosedScope(ClosedScopeKind.AUTOMATION, automation=automation.id)
            stops = draw.choice([Stops.RUNS, Stops.RUNS, Stops.CHANGES])
            active.append(await closer.make(kind, fields, f"P{len(active)}", stops, scope))
        case 2 if active:
            await closer.end(active.pop(draw.randrange(len(active))))
        case 3:
            rows = await diary.rows(automation, states=[SKIPPED], since=world.now, limit=20)
            closed = [
                row for row in rows if row.closed_name and not row.is_projected and row.run_at > world.now
            ]
            if closed:
                row = draw.choice(closed)
                await diary.unskip(automation, row.slot_at, version=row.version, actor=closer.actor)
        case 4 | 5:
            await _move(draw, world, diary, automation, active)


async def _move(
    draw: random.Random, world: World, diary: Diary, automation: Automation, active: list[StoredPeriod]
) -> None:
    """Moves a coming run and expects it to be refused exactly where a walk of every minute is closed."""
    stored = {row.slot_at: row for row in await world.rows(automation)}
    coming = [row for row in await diary.rows(automation, states=[PENDING], since=world.now, limit=20)]
    coming = [row for row in coming if not row.is_projected and row.run_at > world.now + _MINUTE]
    let_through = [row for row in coming if row.slot_at in stored and stored[row.slot_at].exempt]
    if not coming:
        return
    row = draw.choice(let_through or coming)
    run_at = world.now.replace(minute=15, second=0) + timedelta(hours=draw.randrange(1, 60))
    obstacles = [
        period
        for period in (stored_period.period for stored_period in active)
        if period.stops is Stops.RUNS
        and _is_closed(period, run_at, run_at)
        and not (row in let_through and _is_closed(period, row.run_at, run_at))
    ]
    try:
        moved = await diary.move(automation, row.slot_at, run_at, version=row.version)
    except ValidationFailed as refused:
        words = str(refused.errors)
        assert bool(obstacles) is ("in the closed period" in words), (words, row, run_at)
        assert obstacles or "Another run" in words, words
    else:
        assert not obstacles, (row, run_at)
        assert (moved.occurrence.state, moved.occurrence.run_at) == (PENDING, run_at)


def _is_closed(period: ClosedPeriod, item: datetime, other: datetime) -> bool:
    """Returns whether a period closes each minute between two instants, by a walk along the clock."""
    since, until = min(item, other), max(item, other) + _MINUTE
    walked = walk(place("UTC"), since - 12 * _DAY, until + 12 * _DAY)
    return len(closed_minutes(period.when, walked, since, until)) == (until - since) / _MINUTE


def _when(draw: random.Random, now: datetime) -> tuple[ClosedKind, JsonObject]:
    start = now + timedelta(hours=draw.randrange(-10, 40))
    end = max(start, now) + timedelta(hours=draw.randrange(1, 60))
    if draw.randrange(2):
        return ClosedKind.ONCE, {"start": f"{start:%Y-%m-%dT%H:00}", "end": f"{end:%Y-%m-%dT%H:30}"}
    return ClosedKind.WEEKLY, {
        "days": sorted(draw.sample(range(1, 8), 3)),
        "from": f"{start:%H}:00",
        "to": f"{end:%H}:30",
    }


async def _assert_agree(world: World, diary: Diary, initial: Automation, case: str) -> None:
    """Checks that the calendar's first open run is the next run and the first of the preview."""
    rows = await diary.rows(initial, since=world.now, until=world.now + timedelta(days=20), limit=500)
    pending = [row for row in rows if row.state is PENDING and row.run_at > world.now]
    automation = await world.read(initial)
    if pending:
        assert automation.next_run_at == pending[0].run_at, case

    async def periods(tx: Tx) -> acting.ActingPeriods:
        return await acting.read(tx, world.org, since=tx.now)

    closed = (await world.write(periods)).on_runs(automation)
    closed_preview = preview_open(initial.schedule, place("UTC"), closed, after=world.now)
    unedited = [row.slot_at for row in pending if row.version == 0]
    displayed = [run.slot_at for run in closed_preview.next if run.slot_at in {row.slot_at for row in rows}]
    assert unedited[: len(displayed)][:1] == displayed[:1] or any(row.version for row in pending), case


async def _pass(draw: random.Random, world: World, diary: Diary, automation: Automation, case: str) -> None:
    """Lets time pass slot by slot and checks that each was decided as the calendar showed it."""
    until = world.now + timedelta(hours=draw.randrange(1, 14))
    shown_rows = {
        row.slot_at: (row.run_at, row.state, row.closed_name)
        for row in await diary.rows(
            automation, since=world.now, until=until + timedelta(seconds=1), limit=500
        )
        if row.run_at > world.now
    }
    for run_at in sorted(run_at for run_at, _, _ in shown_rows.values()):
        await world.clock.advance_to(run_at)
        await world.dispatch()
    await world.clock.advance_to(until)
    stored = {row.slot_at: row for row in await world.rows(automation)}
    for slot_at, (_, state, name) in shown_rows.items():
        row = stored[slot_at]
        assert row.state is not PENDING, case
        assert row.closed_name == name, case
        assert (row.closed_name is None) or state is SKIPPED, case
