"""Sets the gauges of queue, slots, leases and writes that docs/guides/operators.md describes."""

from datetime import datetime

from steward.database.automations import schedules
from steward.database.engine.base import Tx
from steward.database.operator import gauges, health
from steward.runs.worker_context import WorkerContext


async def export_gauges(ctx: WorkerContext) -> None:
    """Sets the gauges of what waits, what is late and which workers live."""
    metrics = ctx.metrics

    async def look(
        tx: Tx,
    ) -> tuple[datetime, list[gauges.Waiting], dict[str, int], datetime | None, health.Leases]:
        return (
            tx.now,
            await gauges.queues(tx),
            await gauges.open_effects(tx),
            await schedules.next_due(tx),
            await health.leases(tx),
        )

    now, queues, effects, due, leases = await ctx.engine.read(ctx.clock.now(), look)
    for waiting in queues:
        metrics.set("steward_queue_runs", waiting.many, state=waiting.queue)
        metrics.set("steward_queue_oldest_seconds", _age(now, waiting.oldest_at), state=waiting.queue)
    for state, many in effects.items():
        metrics.set("steward_effects_open", many, state=state)
    metrics.set("steward_schedule_behind_seconds", _age(now, due))
    metrics.set("steward_workers", leases.alive, lease="held")
    metrics.set("steward_workers", leases.expired, lease="expired")
    lease_left = ctx.lease_confirmation.until - ctx.clock.monotonic()
    metrics.set("steward_lease_left_seconds", round(max(lease_left, 0.0), 3))


def _age(now: datetime, since: datetime | None) -> float:
    """Returns the seconds since an instant; 0 for None and for an instant still to come."""
    return 0.0 if since is None else max((now - since).total_seconds(), 0.0)
