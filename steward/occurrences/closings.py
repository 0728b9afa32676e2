"""Rewrites when automations run next after a change of their organization's closed periods."""

from datetime import datetime
from functools import partial

from steward.automations import due
from steward.database.automations import records as automations
from steward.database.closed_periods import records
from steward.database.engine.base import Engine, Tx
from steward.model.ids import OrgId

_ORGS = 20
BATCH = 500


async def follow_changes(engine: Engine, now: datetime) -> bool:
    """Rewrites one batch of automations of each organization concerned; returns True when there is more.

    Dispatch, the calendar and the preview read the periods themselves and need not wait for this.
    """
    orgs = await engine.read(now, partial(records.orgs_with_work, limit=_ORGS))
    more = [await engine.write(now, partial(_rewrite, org=org), org=org) for org in orgs]
    return any(more) or len(orgs) == _ORGS


async def _rewrite(tx: Tx, *, org: OrgId) -> bool:
    """Rewrites the next automations of an organization, by rising id; returns True when more are left."""
    work = await records.lock_work(tx, org)
    if work is None:
        return False
    ids = await automations.active_after(tx, org, after=work.after, limit=BATCH)
    await due.rewrite_many(tx, org, ids)
    is_done = len(ids) < BATCH
    await records.advance_work(tx, org, after=None if is_done else ids[-1])
    return not is_done
