"""Tests that an undo killed at any failpoint loses and doubles nothing and writes what was approved.

`UNDO_KILLS=500` kills at that many visits on each engine, chosen by `CRASH_SEED`; the suite draws a few.
"""

import os
import random
from collections import Counter
from contextlib import suppress

from steward.model.change import Outcome
from steward.model.run import TERMINAL, Run, RunStatus
from tests.crash.killing import ROUNDS, Killer, ProcessKilled, bury, watching
from tests.runs.shop import Shop
from tests.runs.undoing import approved, tables, undo_now

KILLS = int(os.environ.get("UNDO_KILLS", "3"))
SEED = os.environ.get("CRASH_SEED", "undo kills")


async def _play(shop: Shop, run: Run, killer: Killer) -> Run:
    """Undoes a run from start to end, with kills by `killer`."""
    undo_run = (await undo_now(shop, run)).run
    with watching(shop, killer):
        for _ in range(ROUNDS):
            fresh = await shop.run(undo_run)
            if fresh.status in TERMINAL:
                break
            if fresh.status is RunStatus.WAITING_APPROVAL:
                await shop.approve(undo_run)
            with suppress(ProcessKilled):
                await shop.until_settled(undo_run)
            if killer.is_dead:
                await bury(shop, killer)
    return await shop.run(undo_run)


async def test_an_undo_continues_wherever_the_process_dies(shop: Shop) -> None:
    """Each value is restored once, with the template's memory, and the undo ends as without a kill."""
    automation = await shop.hiding()
    before = tables(shop)
    visits, draw = 0, random.Random(f"{SEED} {shop.engine.dialect}")
    for kill in range(KILLS + 1):
        run = await approved(shop, await shop.waiting(automation))
        killer = Killer([draw.randrange(visits)] if kill else [])
        writes = len(shop.applied())
        ended = await _play(shop, run, killer)
        visits = visits or len(killer.visited)
        changes = await shop.changes(ended)
        assert {change.outcome for change in changes} == {Outcome.APPLIED}, killer.kills
        assert ended.status is RunStatus.SUCCEEDED, killer.kills
        assert tables(shop) == before, killer.kills
        assert await shop.remembered(run, "visibility") == {}, killer.kills
        written = Counter(
            (item["id"], *item["fields"]) for entry in shop.applied()[writes:] for item in entry["objects"]
        )
        assert set(written.values()) == {1}, killer.kills
        assert len(killer.kills) == min(kill, 1)
        print(f"{shop.engine.dialect}: {kill} of {KILLS} kills: {killer.kills}", flush=True)
