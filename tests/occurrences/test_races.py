"""Tests two sessions that edit one occurrence at the same time."""

import asyncio
import os
from collections.abc import Awaitable
from dataclasses import replace
from random import Random

import pytest

from steward.model.automation import Automation
from steward.model.occurrence import OccurrenceState
from steward.model.refusals import Refusal, StaleVersion, WrongState
from tests.automations.world import World
from tests.occurrences.calendar_edits import HOUR, LATER, MINUTE, THIS, CalendarClient, utc

TRIES = int(os.environ.get("RACE_TRIES", "15"))
FIRST = utc("05-01 08:00")
PENDING, QUEUED, SKIPPED = OccurrenceState


async def together(random: Random, *acts: Awaitable[object]) -> list[object]:
    """Runs all acts at the same time in random order; returns refusals as results."""
    order = list(range(len(acts)))
    random.shuffle(order)
    results = await asyncio.gather(*(acts[index] for index in order), return_exceptions=True)
    by_place = dict(zip(order, results, strict=True))
    results = [by_place[position] for position in range(len(acts))]
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, Refusal):
            raise result
    return results


@pytest.mark.parametrize("scope", [THIS, LATER])
async def test_of_two_moves_one_wins_and_the_other_is_stale(
    world: World, diary: CalendarClient, scope: object
) -> None:
    """Of two moves one is stored and the other is stale. See docs/design/api/conventions.md#versions."""
    random = Random(1)
    for _ in range(TRIES):
        automation = await world.create()
        results = await together(
            random,
            diary.move(automation, FIRST, FIRST + HOUR, THIS),
            diary.move(automation, FIRST, FIRST + 2 * HOUR, scope),  # type: ignore[arg-type]
        )
        [lost] = [result for result in results if isinstance(result, Refusal)]
        assert isinstance(lost, StaleVersion)
        row = await diary.row(automation, FIRST)
        assert row.version == 1
        assert lost.data is not None
        assert lost.data["occurrence"] == row
        assert row.run_at == FIRST + (results.index(lost) == 0) * HOUR + HOUR
        assert (await world.read(automation)).next_run_at == row.run_at
        await world.turn("archive", await world.read(automation))


async def test_of_a_move_and_a_skip_one_wins(world: World, diary: CalendarClient) -> None:
    """Of a move and a skip one is stored. See docs/design/schedule.md#order-of-checks-of-an-edit."""
    random = Random(2)
    for _ in range(TRIES):
        automation = await world.create()
        results = await together(
            random, diary.move(automation, FIRST, FIRST + HOUR), diary.skip(automation, FIRST)
        )
        [lost] = [result for result in results if isinstance(result, Refusal)]
        assert isinstance(lost, StaleVersion)
        row = await diary.row(automation, FIRST)
        assert row.state is (SKIPPED if results.index(lost) == 0 else PENDING)
        await world.turn("archive", await world.read(automation))


async def test_of_a_move_and_the_dispatch_one_wins(world: World, diary: CalendarClient) -> None:
    """A move and a dispatch exclude each other; no run is lost or started twice.

    See docs/design/schedule.md#dispatch.
    """
    random = Random(3)
    queued = moved = 0
    for number in range(TRIES):
        automation = await world.create(schedule={"cadence": "hourly"})
        slot_at = automation.next_run_at
        assert slot_at is not None
        await world.clock.advance_to(slot_at)
        new = slot_at + 17 * MINUTE
        result, _ = await together(random, diary.move(automation, slot_at, new), world.dispatch())
        row = await diary.row(automation, slot_at)
        runs = await world.runs(automation)
        if isinstance(result, Refusal):
            assert isinstance(result, WrongState), number
            assert (row.state, row.run_at, row.version, len(runs)) == (QUEUED, slot_at, 0, 1)
            queued += 1
        else:
            assert (row.state, row.run_at, row.version, runs) == (PENDING, new, 1, [])
            await world.clock.advance_to(new)
            await world.dispatch()
            assert len(await world.runs(automation)) == 1
            moved += 1
        await world.turn("archive", await world.read(automation))
    assert queued + moved == TRIES


async def test_of_a_later_move_and_the_dispatch_one_wins(world: World, diary: CalendarClient) -> None:
    """A this-and-later move at the due instant leaves one record and one run per slot."""
    random, won = Random(6), set()
    for number in range(TRIES):
        automation = await world.create(schedule={"cadence": "hourly"})
        slot_at = automation.next_run_at
        assert slot_at is not None
        await world.clock.advance_to(slot_at)
        new = slot_at + 17 * MINUTE
        result, _ = await together(random, diary.move(automation, slot_at, new, LATER), world.dispatch())
        assert not isinstance(result, Refusal) or isinstance(result, WrongState | StaleVersion), number
        won.add(isinstance(result, Refusal))
        await world.dispatch()  # passes by rows that the move holds, and finds them the next time
        await world.clock.advance_to(slot_at + 20 * MINUTE)
        await world.dispatch()
        rows = [row for row in await diary.rows(automation) if row.slot_at <= slot_at + 20 * MINUTE]
        assert len({row.slot_at for row in rows}) == len(rows), number
        assert len(await world.runs(automation)) == 1, (number, result)
        await world.turn("archive", await world.read(automation))
    assert won


async def test_of_a_later_move_and_an_update_one_wins(world: World, diary: CalendarClient) -> None:
    """A this-and-later move and an update share the automation's version, so one is stale.

    See docs/design/api/conventions.md#versions.

    Interface statements: 9 automation.
    """
    random = Random(4)
    for _ in range(TRIES):
        automation = await world.create()
        results = await together(
            random,
            diary.move(automation, FIRST, FIRST + HOUR, LATER),
            world.update(automation, schedule={"cadence": "daily", "run_at": "12:00"}),
        )
        [lost] = [result for result in results if isinstance(result, Refusal)]
        assert isinstance(lost, StaleVersion)
        after = await world.read(automation)
        expected = replace(automation.schedule, time_of_day="12:00" if results.index(lost) == 0 else "09:00")
        assert (after.version, after.schedule) == (2, expected)
        assert after.next_run_at == (utc("05-01 12:00") if results.index(lost) == 0 else FIRST + HOUR)
        await world.turn("archive", after)


async def test_edits_of_different_runs_do_not_disturb_each_other(world: World, diary: CalendarClient) -> None:
    """Edits of different occurrences do not affect each other. See docs/design/schedule.md#calendar."""
    random = Random(5)
    for _ in range(TRIES):
        automation: Automation = await world.create()
        results = await together(
            random,
            diary.move(automation, FIRST, FIRST + HOUR),
            diary.skip(automation, utc("05-02 08:00")),
            diary.move(automation, utc("05-03 08:00"), utc("05-01 07:00")),
        )
        assert not [result for result in results if isinstance(result, Refusal)]
        assert (await world.read(automation)).next_run_at == utc("05-01 07:00")
        await world.turn("archive", await world.read(automation))
