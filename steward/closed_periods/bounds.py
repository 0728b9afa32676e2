"""The lower bound of an organization's next closing; before it, no closed period has to be read."""

from collections.abc import Collection
from datetime import datetime, timedelta

from steward.database.closed_periods import records
from steward.database.engine.base import Tx
from steward.model.closed_period import ClosedPeriod
from steward.model.ids import OrgId
from steward.scheduling.closings import closings
from steward.scheduling.zones import LAST

BATCH = 50
# How long beyond the late limit an ended closing still counts, so that its last slots are decided by it.
_GRACE = timedelta(minutes=5)


def _first_start(period: ClosedPeriod, since: datetime) -> datetime | None:
    """Returns the start of the version's first closing that ends after `since`, or None."""
    first = next(closings(period, since=since, until=LAST), None)
    return None if first is None else first.start


def lowered(bound: datetime | None, period: ClosedPeriod, now: datetime) -> datetime | None:
    """Returns the bound after a version was added; it may be too early, never too late."""
    start = _first_start(period, now)
    return min((instant for instant in (bound, start) if instant is not None), default=None)


def bound_of(periods: Collection[ClosedPeriod], since: datetime) -> datetime | None:
    """Returns the start of the first closing of all versions that ends after `since`."""
    starts = [_first_start(period, since) for period in periods]
    return min((start for start in starts if start is not None), default=None)


async def passed(tx: Tx, *, late_limit: timedelta, after: OrgId) -> list[OrgId]:
    """Returns the next organizations after `after`, by id, whose bound has passed; at most `BATCH`."""
    before = tx.now - late_limit - _GRACE
    return await records.passed_bounds(tx, before=before, after=after, limit=BATCH)


async def raise_bound(tx: Tx, *, org: OrgId, late_limit: timedelta) -> None:
    """Raises an organization's bound to its next closing."""
    since = tx.now - late_limit - _GRACE
    bound = await records.lock(tx, org)
    coming = bound_of(await records.valid(tx, org, since=since), since)
    if coming != bound:
        await records.set_closed_from(tx, org, coming)
