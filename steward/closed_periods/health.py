"""Checks for `steward doctor` that closed periods are applied as stored."""

from datetime import datetime, timedelta

from steward.closed_periods import bounds
from steward.database.closed_periods import records
from steward.database.engine.base import Tx
from steward.model.ids import OrgId
from steward.scheduling.zones import zone

# How long after a change of periods the next run times may stay unwritten.
_WORK_WITHIN = timedelta(seconds=60)


async def problems(tx: Tx, *, org: OrgId, now: datetime) -> list[str]:
    """Returns descriptions of problems with the closed periods of an organization."""
    wrong = []
    periods = await records.valid(tx, org, since=now)
    unknown = sorted({period.timezone for period in periods if zone(period.timezone) is None})
    if unknown:
        wrong.append(f"closed periods of organization {org} are read as UTC, not {', '.join(unknown)}")
    bound, coming = await records.closed_from(tx, org), bounds.bound_of(periods, now)
    if coming is not None and (bound is None or bound > coming):
        wrong.append(f"organization {org} is closed from {coming:%Y-%m-%d %H:%M} UTC and looks open")
    requested_at = await records.work_since(tx, org)
    if requested_at is not None and now - requested_at > _WORK_WITHIN:
        message = f"next runs of organization {org} are not rewritten since {requested_at:%Y-%m-%d %H:%M} UTC"
        wrong.append(f"{message}: is a worker running?")
    return wrong
