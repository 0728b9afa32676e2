"""Tests that a worker stopped for longer than its lease writes nothing after it wakes.

See docs/design/runs.md#workers-and-leases.
"""

import os

import pytest

from steward.model.run import RunStatus
from tests.crash import stalled_worker
from tests.crash.killing import KINDS, judge
from tests.runs.shop import Shop

MAX_WRITES = 60
# Of the writes, every one of this number; `make soak` stops before all of them.
EVERY = int(os.environ.get("STALL_EVERY", "4"))


async def stalled_once(shop: Shop, kind: str, index: int, *, approved: bool) -> list[str] | None:
    """Returns what goes wrong when a worker stops before write `index`; None if it makes fewer writes."""
    await shop.world.reset()
    await shop.restart()
    shop.connected_at = 0
    automation = await KINDS[kind](shop)
    run = await shop.run_now(automation)
    if approved:
        await shop.drain()
        await shop.approve(run)
    stalled = await stalled_worker.stall(shop, index)
    if stalled is None:
        return None
    ended = await stalled_worker.finish_elsewhere(shop, run)
    before, arrived = await stalled_worker.rows(shop), len(shop.writes())
    await stalled_worker.wake(stalled)
    after = await stalled_worker.rows(shop)
    wrong = await judge(shop, ended, blind=kind == "teams")
    wrong += [f"{table} was written by a worker that had lost the run" for table in before
              if before[table] != after[table]]  # fmt: skip
    if len(shop.writes()) != arrived:
        wrong.append("a worker that had lost the run sent something")
    return wrong


@pytest.mark.parametrize(
    ("kind", "approved"), [("hide", False), ("price", True), ("teams", False), ("hide", True)]
)
async def test_a_worker_that_lost_its_run_writes_and_sends_nothing(
    shop: Shop, kind: str, approved: bool
) -> None:
    """A worker resumed after its lease finds its epoch outdated at its next write.

    See docs/design/runs.md#workers-and-leases.
    """
    faults = {}
    stalls = 0
    for index in range(1, MAX_WRITES, EVERY):
        wrong = await stalled_once(shop, kind, index, approved=approved)
        if wrong is None:
            break
        stalls += 1
        if wrong:
            faults[index] = wrong
    assert faults == {}
    assert stalls >= 2


async def test_a_stalled_run_is_taken_over_no_earlier_than_its_lease_ends(shop: Shop) -> None:
    """A stalled run is taken over only after its lease has ended.

    See docs/design/runs.md#workers-and-leases.
    """
    run = await shop.run_now(await shop.hiding())
    stalled = await stalled_worker.stall(shop, 2)
    assert stalled is not None
    lease = shop.service.worker_context.worker_rules.lease.total_seconds()
    await shop.clock.advance(lease - 1)
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.RUNNING
    assert (await shop.run(run)).last_seq == 0
    await stalled_worker.finish_elsewhere(shop, run)
    await stalled_worker.wake(stalled)
