"""Tests that calendar, next run, preview and dispatch agree on random automations, periods and edits.

`STEWARD_CLOSED_WALKS` sets the number of random histories (default 1) and `STEWARD_CLOSED_SEED` the
seed. A history edits four automations in 14 steps, and compares what the parts above say after each step.
"""

import os
import random
from datetime import datetime, timedelta
from functools import lru_cache, partial

from steward.closed_periods import applicable
from steward.database.closed_periods.records import StoredPeriod
from steward.database.engine.base import Tx
from steward.model.automation import Automation
from steward.model.closed_period import ClosedKind, ClosedPeriod, ClosedScope, ClosedScopeKind, Stops
from steward.model.json import JsonObject
from steward.model.occurrence import OccurrenceState
from steward.model.refusals import ValidationFailed
from steward.occurrences import closings
from steward.scheduling.preview import preview_open
from tests.automations.world import HOURLY, World
from tests.closed_periods.edit_periods import WHOLE, PeriodEditor
from tests.fake_clock import START
from tests.occurrences.calendar_edits import CalendarClient
from tests.scheduling.closings_walk import Walk, closed_minutes, walk
from tests.scheduling.shorthand import place

_WALKS = int(os.environ.get("STEWARD_CLOSED_WALKS", "1"))
_SEED = os.environ.get("STEWARD_CLOSED_SEED", "steward")
_STEPS = 14
_AUTOMATIONS = 4
_RANGE = timedelta(days=20)
_WALK_DAYS = 20
_MINUTE, _DAY = timedelta(minutes=1), timedelta(days=1)
PENDING, SKIPPED = OccurrenceState.PENDING, OccurrenceState.SKIPPED


async def test_all_responses_agree_and_every_slot_has_one_record(world: World) -> None:
    """Decides every slot as it was shown before, while periods are made and ended and runs let through."""
    closer, diary = PeriodEditor(world.engine, world.clock, world.owner), CalendarClient(world)
    schedules = [HOURLY, {"cadence": "every_6_hours"}, {"cadence": "daily", "run_at": "08:00"}]
    compared = 0
    for number in range(_WALKS):
        draw = random.Random(f"{_SEED} {number}")
        automations = [
            await world.create(timezone="UTC", schedule=draw.choice(schedules)) for _ in range(_AUTOMATIONS)
        ]
        active: list[StoredPeriod] = []
        for step in range(_STEPS):
            case = f"seed {_SEED}, walk {number}, step {step}"
            await _edit(draw, world, closer, diary, draw.choice(automations), active)
            while await world.write(partial(closings.follow_changes, org=world.org)):
                pass
            for automation in automations:
                await _assert_agree(world, diary, automation, case)
                compared += 1
            await _pass(draw, world, diary, automations, case)
        for stored in active:
            await closer.end(stored)
        for automation in automations:
            await world.turn("archive", automation)
    print(f"{world.engine.dialect}: {compared} comparisons")


async def _edit(
    draw: random.Random,
    world: World,
    closer: PeriodEditor,
    diary: CalendarClient,
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
    draw: random.Random,
    world: World,
    diary: CalendarClient,
    automation: Automation,
    active: list[StoredPeriod],
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
        and period.scope in (WHOLE, ClosedScope(ClosedScopeKind.AUTOMATION, automation=automation.id))
        and _is_closed(period, run_at, run_at)
        and not (row in let_through and _is_closed(period, row.run_at, run_at))
    ]
    try:
        moved = await diary.move(automation, row.slot_at, run_at, version=row.version)
    except ValidationFailed as refused:
        words = str(refused.errors)
        if "Another run" in words:  # said first, also of a time inside a closing
            assert run_at in {other.run_at for other in stored.values()}, (words, row, run_at)
        else:
            assert obstacles, (words, row, run_at)
            assert "in the closed period" in words
    else:
        assert not obstacles, (row, run_at)
        assert (moved.occurrence.state, moved.occurrence.run_at) == (PENDING, run_at)


def _is_closed(period: ClosedPeriod, item: datetime, other: datetime) -> bool:
    """Returns whether a period closes each minute between two instants, by a walk along the clock."""
    since, until = min(item, other), max(item, other) + _MINUTE
    walked = _walked((since - START).days // _WALK_DAYS)
    return len(closed_minutes(period.when, walked, since, until)) == (until - since) / _MINUTE


@lru_cache(maxsize=2)
def _walked(block: int) -> Walk:
    """Returns what the clock shows in a block of days, two weeks before it and a month after it."""
    since = START + block * _WALK_DAYS * _DAY
    return walk(place("UTC"), since - 14 * _DAY, since + (_WALK_DAYS + 30) * _DAY)


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


async def _assert_agree(world: World, diary: CalendarClient, initial: Automation, case: str) -> None:
    """Checks the next run and the preview against the calendar's open runs."""
    rows = await diary.rows(initial, since=world.now, until=world.now + _RANGE, limit=500)
    pending = [row for row in rows if row.state is PENDING and row.run_at > world.now]
    automation = await world.read(initial)
    if pending:
        assert automation.next_run_at == pending[0].run_at, case
    else:
        assert automation.next_run_at is None or automation.next_run_at >= world.now + _RANGE, case

    async def periods(tx: Tx) -> applicable.ApplicablePeriods:
        return await applicable.read(tx, world.org, since=tx.now)

    closed = (await world.write(periods)).on_runs(automation)
    closed_preview = preview_open(initial.schedule, place("UTC"), closed, after=world.now)
    unedited = [row.slot_at for row in pending if row.version == 0]
    comparable = {row.slot_at for row in rows if row.version == 0}
    displayed = [run.slot_at for run in closed_preview.next if run.slot_at in comparable]
    assert unedited[: len(displayed)] == displayed, case


async def _pass(
    draw: random.Random, world: World, diary: CalendarClient, automations: list[Automation], case: str
) -> None:
    """Lets time pass slot by slot and checks that each was decided as the calendar showed it."""
    until = world.now + timedelta(hours=draw.randrange(1, 14))
    shown = [
        row
        for automation in automations
        for row in await diary.rows(
            automation, since=world.now, until=until + timedelta(seconds=1), limit=500
        )
        if row.run_at > world.now
    ]
    for run_at in sorted({row.run_at for row in shown}):
        await world.clock.advance_to(run_at)
        await world.dispatch()
    await world.clock.advance_to(until)
    stored = {
        (automation.id, row.slot_at): row
        for automation in automations
        for row in await world.rows(automation)
    }
    for row in shown:
        decided = stored[row.automation_id, row.slot_at]
        assert decided.state is not PENDING, case
        assert decided.closed_name == row.closed_name, case
        assert (decided.closed_name is None) or row.state is SKIPPED, case
