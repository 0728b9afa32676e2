"""Rewrites the next run times of automations after their organization's closed periods changed."""

from steward.automations import next_runs
from steward.database.automations import records as automations
from steward.database.closed_periods import records
from steward.database.engine.base import Tx
from steward.model.ids import OrgId

BATCH = 500


async def follow_changes(tx: Tx, *, org: OrgId) -> bool:
    """Rewrites one batch of an organization's automations, by id; returns whether more are left.

    Dispatch, the calendar and the preview read the periods themselves and need not wait for this.
    """
    work = await records.lock_work(tx, org)
    if work is None:
        return False
    ids = await automations.active_after(tx, org, after=work.after, limit=BATCH)
    await next_runs.rewrite_many(tx, org, ids)
    is_done = len(ids) < BATCH
    await records.advance_work(tx, org, after=None if is_done else ids[-1])
    return not is_done
