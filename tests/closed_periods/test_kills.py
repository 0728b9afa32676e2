"""Kills a service while a closed period holds a run: nothing is sent, and all is written afterwards.

`CLOSED_KILLS=500` kills at that many visits of failpoints on each engine, and `CRASH_SEED` selects them;
the suite draws a few. See docs/design/closed-periods.md#writing.
"""

import os
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

from steward.database.closed_periods.records import StoredPeriod
from steward.model.run import RunStatus
from tests.closed_periods.edit_periods import PeriodEditor
from tests.crash.killing import ROUNDS, Killer, ProcessKilled, bury, judge, kill_at, watching
from tests.runs.shop import Shop

KILLS = int(os.environ.get("CLOSED_KILLS", "1"))
SEED = os.environ.get("CRASH_SEED", "closed")


async def test_a_held_run_survives_the_death_of_its_worker(shop: Shop, shopkeeper: PeriodEditor) -> None:
    """Kills the worker before and after the run goes to sleep.

    The run is held again, and its writes are made once after the freeze.
    """
    run = await shop.waiting(await shop.pricing())
    frozen = await shopkeeper.freeze()
    await shop.approve(run)
    await kill_at(shop, "before_gate_sleep", "after_sleep")
    await shop.drain()
    assert shop.writes() == []
    assert (await shop.run(run)).held_name == frozen.period.name
    await _keeper(shop).end(frozen)
    ended = await shop.until_settled(run)
    assert await judge(shop, ended, blind=False) == []


def _keeper(shop: Shop) -> PeriodEditor:
    return PeriodEditor(shop.engine, shop.clock, shop.owner)


async def _live(shop: Shop, killer: Killer, act: Callable[[], Awaitable[object]]) -> None:
    """Repeats an act until no kill interrupts it."""
    for _ in range(ROUNDS):
        with suppress(ProcessKilled):
            await act()
        if not killer.is_dead:
            return
        await bury(shop, killer)
    raise AssertionError("it never came to its end")


async def _play(shop: Shop, killer: Killer, *, approves_first: bool) -> list[str]:
    """Approves a run before or inside a freeze, ends the freeze, and returns what was wrong."""
    await shop.world.reset()
    await shop.restart()
    shop.connected_at = 0
    run = await shop.waiting(await shop.pricing())
    frozen: StoredPeriod
    if approves_first:
        await shop.approve(run)
        frozen = await _keeper(shop).freeze()
    else:
        frozen = await _keeper(shop).freeze()
        await shop.approve(run)
    with watching(shop, killer):
        await _live(shop, killer, shop.drain)
        wrong = [f"{len(shop.writes())} writes while changes are stopped"] if shop.writes() else []
        held = await shop.run(run)
        if (held.status, held.held_name) != (RunStatus.RUNNING, frozen.period.name):
            wrong.append(f"the run is {held.status}, held by {held.held_name}")
        await _keeper(shop).end(frozen)
        await _live(shop, killer, lambda: shop.until_settled(run))
    return wrong + await judge(shop, await shop.run(run), blind=False)


async def test_kills_anywhere_send_nothing_while_changes_are_stopped(shop: Shop) -> None:
    """Kills the process at random failpoints around a freeze; the writes are made once, after it."""
    draw, faults = random.Random(SEED), {}
    visits: dict[bool, int] = {}
    for kill in range(KILLS + 2):
        approves_first = kill % 2 == 0
        number = draw.randrange(visits[approves_first]) if approves_first in visits else None
        killer = Killer([] if number is None else [number])
        wrong = await _play(shop, killer, approves_first=approves_first)
        visits.setdefault(approves_first, len(killer.visited))
        assert len(killer.kills) == (number is not None)
        if wrong:
            faults[(number, *killer.kills)] = wrong
    assert faults == {}
