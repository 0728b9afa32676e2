"""Adds up the results of live runs by quarter-hour, in bounded passes."""

from datetime import timedelta
from functools import partial

from steward.clock import Clock
from steward.database.engine.base import Engine, Tx, from_ms, ms
from steward.database.runs import totals
from steward.database.runs.totals import DAY_MS, QUARTER, quarter_of
from steward.model.ids import OrgId

# By then, transactions that queue a run at the end of a quarter have committed.
_SETTLED_AFTER = timedelta(minutes=15)
_SPAN = timedelta(days=31)
_MAX_PASSES = 200


async def add_up_ended(engine: Engine, clock: Clock, org: OrgId) -> bool:
    """Adds up the ended quarter-hours in bounded passes; returns whether none is left.

    If no quarter-hour has ended since the last pass, this reads only one row.
    """
    for _ in range(_MAX_PASSES):
        now = clock.now()
        if not await engine.read(now, partial(_is_due, org=org), org=org, small=True):
            return True
        await engine.write(now, partial(_pass, org=org), org=org)
    return False


async def _is_due(tx: Tx, *, org: OrgId) -> bool:
    counted = await totals.counted_until(tx, org)
    return counted is None or counted < quarter_of(tx.now - _SETTLED_AFTER)


async def _pass(tx: Tx, *, org: OrgId) -> None:
    await totals.lock(tx, org)
    limit = quarter_of(tx.now - _SETTLED_AFTER)
    oldest = from_ms(ms(tx.now - _SPAN) // DAY_MS * DAY_MS)
    since = max(await totals.counted_until(tx, org) or oldest, oldest)
    if since >= limit:
        return  # another process was faster
    until = await totals.add_up(tx, org, since=since, until=limit)
    if until == limit:
        await totals.close_open(tx, org)
        if since.date() != limit.date() or until - since > QUARTER:
            await totals.forget(tx, org, before=tx.now - totals.KEPT_FOR)
