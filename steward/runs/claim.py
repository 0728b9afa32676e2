"""Claims ready runs in fair order; leaves those that this release cannot execute to another."""

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
# How long a run that this release cannot execute sleeps before any worker claims it again.
OTHER_RELEASE_PAUSE = timedelta(seconds=10)


async def claim(
    engine: Engine,
    now: datetime,
    worker: WorkerId,
    *,
    free: int,
    full: Sequence[OrgId],
    bound: ClaimBound | None = None,
) -> list[Lease]:
    """Leases up to `free` ready runs to the worker, none of the organizations in `full`.

    `full` are those that have reached their limit of leased runs. `bound` is where the worker's claims begin
    in the queue; it is updated.
    """
    limit = min(free, BATCH)
    if limit <= 0:
        return []
    first_vt = 0 if bound is None else bound.first_vt()
    claim_act = partial(_claim, worker=worker, free=limit, full=full, first_vt=first_vt)
    claimed = await engine.write(now, Autocommit(claim_act))
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


async def leave_to_other_release(tx: Tx, *, lease: Lease) -> bool:
    """Puts a run to sleep for a short time, so that a worker of another release may claim it.

    Returns False, and changes nothing, when no such worker is alive. Raises LeaseLost.
    """
    if not await workers.is_other_release_alive(tx, __version__):
        return False
    if not await transitions.sleep(tx, lease, until=tx.now + OTHER_RELEASE_PAUSE, leased_ms=0, settles=True):
        raise LeaseLost(lease)
    return True
