"""The results of live runs, totalled by quarter of an hour; see docs/design/web.md#overview."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from steward.database.engine.base import Row, Tx, from_ms, ms
from steward.database.run_indexes import BY_AGE
from steward.model.ids import AutomationId, OrgId
from steward.model.run import RunStatus

QUARTER = timedelta(minutes=15)
_QUARTER_MS = 900_000
DAY_MS = 86_400_000
_MAX_QUARTERS = 500  # in one pass over quarters with open runs
_MAX_RUNS = 5_000  # of one pass
KEPT_FOR = timedelta(days=32)

_WHOLE = ""  # stands for the organization in the column of automations
_COLUMNS = "id, automation_id, queued_at, status, summary"
_LIVE_RUNS = (
    f"SELECT {_COLUMNS} FROM runs WHERE org_id = :org AND mode = 'live' AND {BY_AGE.format(run='runs')}"
)
_FAILED = frozenset({RunStatus.FAILED, RunStatus.EXPIRED})
_STOPPED = frozenset({RunStatus.REFUSED, RunStatus.CANCELLED})
_ADD = (
    "INSERT INTO run_totals"
    " (org_id, automation_id, starts_at, succeeded, failed, stopped, applied, conflicts, open) VALUES"
    " (:org, :automation, :starts_at, :succeeded, :failed, :stopped, :applied, :conflicts, :open)"
    " ON CONFLICT (org_id, automation_id, starts_at) DO UPDATE SET"
    " succeeded = run_totals.succeeded + excluded.succeeded, failed = run_totals.failed + excluded.failed,"
    " stopped = run_totals.stopped + excluded.stopped, applied = run_totals.applied + excluded.applied,"
    " conflicts = run_totals.conflicts + excluded.conflicts, open = excluded.open"
)


class _Counted(msgspec.Struct):
    applied: int = 0
    conflicts: int = 0
    unknown: int = 0


class _Summary(msgspec.Struct):
    counts: _Counted = msgspec.field(default_factory=_Counted)


_summary = msgspec.json.Decoder(_Summary).decode


@dataclass(slots=True)
class RunNumbers:
    """Numbers of runs by how they ended, and of changes that were made or in conflict."""

    succeeded: int = 0
    failed: int = 0
    stopped: int = 0
    waiting: int = 0
    applied: int = 0
    conflicts: int = 0

    def add(self, other: "RunNumbers") -> None:
        """Adds the numbers of `other`."""
        self.succeeded += other.succeeded
        self.failed += other.failed
        self.stopped += other.stopped
        self.waiting += other.waiting
        self.applied += other.applied
        self.conflicts += other.conflicts


@dataclass(slots=True)
class _Bucket:
    totals: RunNumbers = field(default_factory=RunNumbers)
    open: list[str] = field(default_factory=list)


def quarter_of(instant: datetime) -> datetime:
    """Returns the start of the quarter of an hour that contains an instant."""
    return from_ms(ms(instant) // _QUARTER_MS * _QUARTER_MS)


def _totals_of(row: Row) -> tuple[RunNumbers, bool]:
    """Returns the numbers of one run, and whether they are final."""
    status = RunStatus(row["status"])
    counted = _summary(row["summary"]).counts if row["summary"] else _Counted()
    totals = RunNumbers(applied=counted.applied, conflicts=counted.conflicts)
    if status is RunStatus.SUCCEEDED:
        totals.succeeded = 1
    elif status in _FAILED:
        totals.failed = 1
    elif status in _STOPPED:
        totals.stopped = 1
    else:
        totals.waiting = 1
    # Writes whose outcome is unknown are read back for a day after the end of the run.
    return totals, not totals.waiting and not counted.unknown


async def lock(tx: Tx, org: OrgId) -> None:
    """Locks the organization against another pass."""
    await tx.first("SELECT org_id FROM organizations WHERE org_id = :org {for_update}", {"org": org})


async def counted_until(tx: Tx, org: OrgId) -> datetime | None:
    """Returns the end of the last totalled quarter; None without one."""
    row = await tx.first(
        "SELECT max(starts_at) AS last FROM run_totals WHERE org_id = :org AND automation_id = :whole",
        {"org": org, "whole": _WHOLE},
    )
    return None if row is None or row["last"] is None else from_ms(row["last"]) + QUARTER


async def add_up(tx: Tx, org: OrgId, *, since: datetime, until: datetime) -> datetime:
    """Totals runs queued in [since, until), at most _MAX_RUNS or one quarter; returns the end reached.

    Both instants are starts of quarters. The last quarter always gets a row, from which the next pass
    continues.
    """
    where = f"{_LIVE_RUNS} AND queued_at >= :since"
    args: dict[str, object] = {"org": org, "since": since, "until": until, "limit": _MAX_RUNS + 1}
    rows = await tx.all(f"{where} AND queued_at < :until ORDER BY queued_at LIMIT :limit", args)
    if len(rows) > _MAX_RUNS:
        until = max(quarter_of(from_ms(rows[-1]["queued_at"])), since + QUARTER)
        rows = await tx.all(f"{where} AND queued_at < :until", args | {"until": until})
    buckets = _buckets(rows)
    buckets[_WHOLE, ms(until) - _QUARTER_MS]  # creates the last quarter's bucket, even without runs
    await _write(tx, org, buckets)
    return until


def _buckets(rows: Iterable[Row]) -> defaultdict[tuple[str, int], _Bucket]:
    """Adds up runs by quarter-hour for the organization, and by day for each automation."""
    buckets: defaultdict[tuple[str, int], _Bucket] = defaultdict(_Bucket)
    for row in rows:
        totals, is_final = _totals_of(row)
        quarter = buckets[_WHOLE, row["queued_at"] // _QUARTER_MS * _QUARTER_MS]
        if not is_final:
            quarter.open.append(row["id"])
            continue
        quarter.totals.add(totals)
        if totals.applied:
            buckets[row["automation_id"], row["queued_at"] // DAY_MS * DAY_MS].totals.add(totals)
    return buckets


async def _write(tx: Tx, org: OrgId, buckets: Mapping[tuple[str, int], _Bucket]) -> None:
    rows = [
        (
            org,
            automation,
            starts_at,
            bucket.totals.succeeded,
            bucket.totals.failed,
            bucket.totals.stopped,
            bucket.totals.applied,
            bucket.totals.conflicts,
            msgspec.json.encode(bucket.open).decode() if bucket.open else None,
        )
        for (automation, starts_at), bucket in sorted(buckets.items())
    ]
    await tx.many(_ADD, rows)


async def close_open(tx: Tx, org: OrgId) -> None:
    """Adds open runs that have ended since to the numbers, oldest quarters first."""
    rows = await tx.all(
        "SELECT starts_at, open FROM run_totals WHERE org_id = :org AND open IS NOT NULL"
        " ORDER BY starts_at LIMIT :limit",
        {"org": org, "limit": _MAX_QUARTERS},
    )
    ids = [run for row in rows for run in msgspec.json.decode(row["open"])]
    buckets = _buckets(await _runs(tx, org, ids))
    # A quarter whose runs have all ended, or are gone, has an empty bucket: it loses its open runs.
    for row in rows:
        buckets[_WHOLE, row["starts_at"]]  # creates the bucket
    await _write(tx, org, buckets)


async def _runs(tx: Tx, org: OrgId, ids: Sequence[str]) -> list[Row]:
    if not ids:
        return []
    return await tx.all(
        f"SELECT {_COLUMNS} FROM runs WHERE org_id = :org AND id IN (:ids)", {"org": org, "ids": list(ids)}
    )


async def forget(tx: Tx, org: OrgId, *, before: datetime) -> None:
    """Removes the numbers of quarters before an instant."""
    await tx.execute(
        "DELETE FROM run_totals WHERE org_id = :org AND starts_at < :before", {"org": org, "before": before}
    )


async def _uncounted(tx: Tx, org: OrgId, since: datetime) -> list[Row]:
    """Returns the runs whose end is not in the numbers: open ones, and those of the current quarters."""
    start = max(since, await counted_until(tx, org) or since)
    recent = await tx.all(f"{_LIVE_RUNS} AND queued_at >= :since", {"org": org, "since": start})
    rows = await tx.all(
        "SELECT open FROM run_totals WHERE org_id = :org AND open IS NOT NULL AND starts_at >= :since",
        {"org": org, "since": since},
    )
    return [*recent, *await _runs(tx, org, [run for row in rows for run in msgspec.json.decode(row["open"])])]


async def by_days(tx: Tx, org: OrgId, bounds: Sequence[datetime]) -> list[RunNumbers]:
    """Returns the numbers between each two neighbouring bounds, which are starts of quarters."""
    starts = [ms(bound) for bound in bounds]
    days = [RunNumbers() for _ in starts[1:]]

    def day_of(instant: int) -> RunNumbers | None:
        return next((day for day, end in zip(days, starts[1:], strict=True) if instant < end), None)

    rows = await tx.all(
        "SELECT starts_at, succeeded, failed, stopped, applied, conflicts FROM run_totals"
        " WHERE org_id = :org AND automation_id = :whole AND starts_at >= :since",
        {"org": org, "whole": _WHOLE, "since": bounds[0]},
    )
    for row in rows:
        day = day_of(row["starts_at"])
        if day is not None:
            day.add(
                RunNumbers(
                    row["succeeded"], row["failed"], row["stopped"], 0, row["applied"], row["conflicts"]
                )
            )
    for row in await _uncounted(tx, org, bounds[0]):
        day = day_of(row["queued_at"])
        if day is not None:
            day.add(_totals_of(row)[0])
    return days


async def changes_made(
    tx: Tx, org: OrgId, automations: Collection[AutomationId], *, since: datetime
) -> dict[AutomationId, int]:
    """Returns how many changes each automation made in runs queued since the start of a UTC day."""
    changes_by_automation: dict[AutomationId, int] = dict.fromkeys(automations, 0)
    rows = await tx.all(
        "SELECT automation_id, sum(applied) AS applied FROM run_totals WHERE org_id = :org"
        " AND automation_id IN (:automations) AND starts_at >= :since GROUP BY automation_id",
        {"org": org, "automations": list(automations), "since": since},
    )
    for row in rows:
        changes_by_automation[AutomationId(row["automation_id"])] += int(row["applied"])
    for row in await _uncounted(tx, org, since):
        automation = AutomationId(row["automation_id"])
        if automation in changes_by_automation:
            changes_by_automation[automation] += _totals_of(row)[0].applied
    return changes_by_automation
