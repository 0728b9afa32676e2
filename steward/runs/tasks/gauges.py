"""Exports gauges of queues, open writes, closed periods, schedules, workers and the database."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from steward.database.automations import schedules
from steward.database.engine.base import Tx
from steward.database.operator import gauges, health
from steward.runs.run_context import TaskContext
from steward.telemetry.metrics import Metrics


class _PendingWork(NamedTuple):
    """The numbers that one transaction reads for the gauges of all organizations."""

    now: datetime
    queues: list[gauges.WaitingRuns]
    open_writes: dict[str, int]
    runs_held: int
    frozen_organizations: int
    next_due_at: datetime | None
    leases: health.Leases


async def export_gauges(
    ctx: TaskContext, lease_until: float, *, expects_standbys: bool, holds: health.RowHolds
) -> bool:
    """Sets the gauges of what waits, what is late, which workers live and which standbys follow.

    `lease_until` is the end of this process's lease by its monotonic clock; `holds` lasts from call to call.
    See docs/guides/operators.md#metrics.
    """
    metrics = ctx.metrics

    async def load(tx: Tx) -> _PendingWork:
        followers = await health.followers(tx)
        await _export_open_transactions(tx, ctx, holds.update(followers, tx.now))
        await _export_standbys(tx, ctx, followers, are_expected=expects_standbys)
        await _export_tables(tx, metrics)
        held, frozen = await gauges.closed(tx)
        return _PendingWork(
            now=tx.now,
            queues=await gauges.queues(tx),
            open_writes=await gauges.open_writes(tx),
            runs_held=held,
            frozen_organizations=frozen,
            next_due_at=await schedules.next_due(tx),
            leases=await health.leases(tx),
        )

    work = await ctx.engine.read(ctx.clock.now(), load)
    for waiting in work.queues:
        metrics.set("steward_queue_runs", waiting.count, state=waiting.queue)
        metrics.set("steward_queue_oldest_seconds", _age(work.now, waiting.oldest_at), state=waiting.queue)
    for state, count in work.open_writes.items():
        metrics.set("steward_writes_open", count, state=state)
    metrics.set("steward_runs_held", work.runs_held)
    metrics.set("steward_frozen_organizations", work.frozen_organizations)
    metrics.set("steward_schedule_behind_seconds", _age(work.now, work.next_due_at))
    metrics.set("steward_workers", work.leases.alive, lease="held")
    metrics.set("steward_workers", work.leases.expired, lease="expired")
    lease_left = lease_until - ctx.clock.monotonic()
    metrics.set("steward_lease_left_seconds", round(max(lease_left, 0.0), 3))
    return False


async def _export_open_transactions(
    tx: Tx, ctx: TaskContext, of_followers: Sequence[health.OpenTransaction]
) -> None:
    """Sets the age of the oldest open transaction of each kind.

    Sets only that of prepared ones if the role may not see other sessions. Logs the oldest when it has been
    open for a minute.
    """
    transactions = [*await health.open_transactions(tx), *of_followers]
    sees_sessions = await health.sees_sessions(tx)
    for kind in ("session", "prepared", "slot", "standby"):
        if kind != "prepared" and not sees_sessions:
            ctx.metrics.remove("steward_oldest_transaction_seconds", kind=kind)
            continue
        of_kind = (transaction for transaction in transactions if transaction.kind == kind)
        oldest = min(of_kind, key=lambda transaction: transaction.since, default=None)
        age = round(_age(tx.now, None if oldest is None else oldest.since), 1)
        before = ctx.metrics.last("steward_oldest_transaction_seconds", kind=kind) or 0
        ctx.metrics.set("steward_oldest_transaction_seconds", age, kind=kind)
        if oldest is not None and before <= health.LONG_READER.total_seconds() < age:
            ctx.log.warning(
                "long_reader",
                kind=kind,
                server_process=oldest.process,
                role=oldest.role,
                application=oldest.application,
                seconds=age,
            )


async def _export_standbys(
    tx: Tx, ctx: TaskContext, followers: Sequence[health.Follower], *, are_expected: bool
) -> None:
    """Sets how many standbys follow and how far their clocks are off; logs when no synchronous one is left.

    A single server that waits for none has no series of their number.
    """
    metrics = ctx.metrics
    for state, is_synchronous in (("synchronous", True), ("asynchronous", False)):
        skews = [
            follower.clock_skew.total_seconds()
            for follower in followers
            if follower.clock_skew is not None and follower.is_synchronous is is_synchronous
        ]
        if skews:
            metrics.set("steward_standby_clock_skew_seconds", max(skews), state=state)
        else:
            metrics.remove("steward_standby_clock_skew_seconds", state=state)
    standbys = await health.standbys(tx)
    if standbys is None or not (are_expected or standbys.is_waiting):
        for state in ("synchronous", "asynchronous"):
            metrics.remove("steward_standbys", state=state)
        return
    if not standbys.synchronous and metrics.last("steward_standbys", state="synchronous") != 0:
        ctx.log.warning("standby_missing", asynchronous=standbys.asynchronous)
    metrics.set("steward_standbys", standbys.synchronous, state="synchronous")
    metrics.set("steward_standbys", standbys.asynchronous, state="asynchronous")


async def _export_tables(tx: Tx, metrics: Metrics) -> None:
    """Sets what the PostgreSQL server has to clean up; SQLite has no such series."""
    for table, count in (await health.dead_rows(tx)).items():
        metrics.set("steward_dead_rows", count, table=table)
    for table, count in (await health.rest_rows(tx)).items():
        metrics.set("steward_rest_rows", count, table=table)
    transaction_age = await health.transaction_age(tx)
    if transaction_age is not None:
        metrics.set("steward_transaction_age", transaction_age)


def _age(now: datetime, since: datetime | None) -> float:
    """Returns the seconds since an instant; 0 for None and for an instant still to come."""
    return 0.0 if since is None else max((now - since).total_seconds(), 0.0)
