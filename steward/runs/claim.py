"""Claims ready runs in fair order, and hands back those that this release does not know."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from steward.database.engine.base import Autocommit, Engine, Tx
from steward.database.runs import fairness, transitions, workers
from steward.database.runs.transitions import Claim, Lease
from steward.failpoint import failpoint
from steward.model.ids import OrgId, WorkerId
from steward.run_queue.claim_bound import ClaimBound
from steward.runs.lease import LeaseLost
from steward.version import __version__

BATCH = 50
# How long a run sleeps that this release cannot walk, before any worker claims it again.
HANDED_BACK = timedelta(seconds=10)


async def claim(
    engine: Engine,
    now: datetime,
    worker: WorkerId,
    *,
    free: int,
    full: Sequence[OrgId],
    bound: ClaimBound | None = None,
) -> list[Lease]:
    """Leases up to `free` ready runs, none of the organizations in `full`, which are at their limit."""
    limit = min(free, BATCH)
    if limit <= 0:
        return []
    first_vt = 0 if bound is None else bound.first_vt()
    take = partial(_claim, worker=worker, free=limit, full=full, first_vt=first_vt)
    claimed = await engine.write(now, Autocommit(take))
    failpoint("after_claim")
    if bound is not None:
        bound.note(first_vt, claimed, leaves_out=bool(full))
    return [] if claimed is None else claimed.leases


async def _claim(
    tx: Tx, *, worker: WorkerId, free: int, full: Sequence[OrgId], first_vt: int
) -> Claim | None:
    claimed = await transitions.claim(tx, worker, free=free, full=full, first_vt=first_vt)
    if claimed is not None and tx.dialect == "sqlite":
        await fairness.advance(tx, claimed.last_vt)
    return claimed


async def hand_back(tx: Tx, *, lease: Lease) -> bool:
    """Puts a run to sleep for a short time, so that a worker of another release may claim it.

    Returns False when none lives. Raises LeaseLost.
    """
    if not await workers.is_other_release_alive(tx, __version__):
        return False
    if not await transitions.sleep(tx, lease, until=tx.now + HANDED_BACK, leased_ms=0, settles=True):
        raise LeaseLost(lease)
    return True
