"""Tests a move with a dispatch or another move, interleaved at every statement."""

import os
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random
from typing import Any

import asyncpg
import pytest

from steward.database.engine.postgres import PostgresEngine
from steward.model.occurrence import OccurrenceState
from steward.model.refusals import Refusal, StaleVersion, WrongState
from tests.automations.world import World, make_world
from tests.fake_clock import FakeClock
from tests.occurrences.calendar_edits import HOUR, LATER, MINUTE, THIS, CalendarClient, utc
from tests.occurrences.interleaving import stepped, two

# `make soak` sets 1,000.
TRIES = int(os.environ.get("INTERLEAVE_TRIES", "8"))
SEED = int(os.environ.get("INTERLEAVE_FROM", "0"))
FIRST = utc("05-01 08:00")
PENDING, QUEUED, _ = OccurrenceState


@pytest.fixture
async def watched(postgresql_url: str, clock: FakeClock) -> AsyncIterator[tuple[World, Any]]:
    """Provides a world on PostgreSQL and a connection that sees lock waits."""
    engine = await PostgresEngine.open(postgresql_url, size=4, clock=clock, test=True)
    world = await make_world(engine, clock)
    world.rules = replace(world.rules, spread_max=0)
    watcher = await asyncpg.connect(postgresql_url)
    yield world, watcher
    await watcher.close()
    await engine.close()


async def test_of_a_move_and_a_dispatch_one_wins_at_every_statement(watched: tuple[World, Any]) -> None:
    """A move and a dispatch of one slot exclude each other; no run is lost or doubled.

    See docs/design/schedule.md#dispatch.
    """
    world, watcher = watched
    won: Counter[str] = Counter()
    for seed in range(SEED, SEED + TRIES):
        automation = await world.create(schedule={"cadence": "hourly"})
        slot_at = automation.next_run_at
        assert slot_at is not None
        await world.clock.advance_to(slot_at)
        new = slot_at + 17 * MINUTE
        (session, moving), (other, dispatching) = two(world)
        acts = [CalendarClient(moving).move(automation, slot_at, new), dispatching.dispatch()]
        result, decided = await stepped(Random(seed).choice, watcher, [session, other], acts)
        assert not isinstance(decided, BaseException), (seed, decided)
        row, runs = await CalendarClient(world).row(automation, slot_at), await world.runs(automation)
        if isinstance(result, Refusal):
            assert isinstance(result, WrongState), seed
            assert (row.state, row.run_at, row.version, len(runs)) == (QUEUED, slot_at, 0, 1), seed
            won["dispatch"] += 1
        else:
            assert not isinstance(result, BaseException), (seed, result)
            assert (row.state, row.run_at, row.version, runs) == (PENDING, new, 1, []), seed
            await world.clock.advance_to(new)
            await world.dispatch()
            assert len(await world.runs(automation)) == 1, seed
            won["move"] += 1
        await world.turn("archive", await world.read(automation))
    assert set(won) == {"dispatch", "move"}, won


@pytest.mark.parametrize("scope", [THIS, LATER])
async def test_of_two_moves_one_wins_at_every_statement(watched: tuple[World, Any], scope: Any) -> None:
    """Of two moves one is stored and the other refused. See docs/design/api/conventions.md#versions."""
    world, watcher = watched
    won: Counter[int] = Counter()
    for seed in range(SEED, SEED + TRIES):
        automation = await world.create()
        (session, first), (other, second) = two(world)
        acts = [
            CalendarClient(first).move(automation, FIRST, FIRST + HOUR, THIS),
            CalendarClient(second).move(automation, FIRST, FIRST + 2 * HOUR, scope),
        ]
        results = await stepped(Random(seed).choice, watcher, [session, other], acts)
        [lost] = [result for result in results if isinstance(result, BaseException)]
        assert isinstance(lost, StaleVersion), (seed, lost)
        row = await CalendarClient(world).row(automation, FIRST)
        winner = results.index(lost) == 0
        won[winner] += 1
        assert (row.version, row.run_at) == (1, FIRST + HOUR + winner * HOUR), seed
        assert (await world.read(automation)).next_run_at == row.run_at, seed
        await world.turn("archive", await world.read(automation))
    assert len(won) == 2, won
