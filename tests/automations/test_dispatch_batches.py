"""Tests how much one dispatch pass takes: reads, transactions, and slots of the slow path."""

import pytest

from steward.runs import dispatch
from tests.automations.world import HOURLY, World


async def test_a_full_batch_says_there_is_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full batch returns True, so that the next pass follows at once.

    See docs/design/runs.md#periodic-tasks-and-failing-rows.
    """
    monkeypatch.setattr(dispatch, "BATCH", {"sqlite": 2, "postgresql": 2})
    monkeypatch.setattr(dispatch, "READ_LIMIT", {"sqlite": 4, "postgresql": 8})
    automations = [await world.create() for _ in range(5)]
    await world.clock.advance(2 * 3600 + 540)
    assert await world.dispatch() == (2 if world.engine.dialect == "sqlite" else 3)
    assert [len(await world.runs(automation)) for automation in automations] == [1] * 5


async def test_a_long_look_makes_no_long_tick(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an outage a pass takes one batch by the slow path, and later passes the rest.

    See docs/design/schedule.md#dispatch and docs/design/runs.md#periodic-tasks-and-failing-rows.
    """
    monkeypatch.setattr(dispatch, "BATCH", {"sqlite": 2, "postgresql": 2})
    monkeypatch.setattr(dispatch, "READ_LIMIT", {"sqlite": 5, "postgresql": 8})
    automations = [await world.create(schedule=HOURLY) for _ in range(5)]
    await world.clock.advance(4 * 3600 + 540)
    assert await world.dispatch() == 3
    assert [len(await world.runs(automation)) for automation in automations] == [1] * 5
    assert len({len(await world.rows(automation)) for automation in automations}) == 1
