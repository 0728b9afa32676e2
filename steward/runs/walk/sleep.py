"""Puts a run to sleep until an instant, and stores since when its reads fail."""

from datetime import datetime, timedelta

from steward.database.engine.base import Tx
from steward.database.runs import records as runs
from steward.database.runs import steps, transitions
from steward.database.runs.steps import StepValue, ValueState
from steward.failpoint import failpoint
from steward.model.json import JsonObject
from steward.runs.claimed_run import MAX_RUN_AGE, ClaimedRun
from steward.runs.lease import LeaseLost
from steward.runs.run_context import RunContext
from steward.runs.walk.state import FAILING
from steward.runs.writes.apply import MustWait


async def put_to_sleep(
    ctx: RunContext,
    claimed: ClaimedRun,
    until: datetime | timedelta,
    *,
    leased_ms: int,
    settles: bool,
    failing: dict[str, str] | None = None,
    wait: MustWait | None = None,
) -> None:
    """Puts the run to sleep until an instant or for a time of the database's clock, at most to its last day.

    When it waits for a read, since when that execution's reads fail is stored. Raises LeaseLost.
    """
    reading = None if wait is None else wait.reading
    held_by = None if wait is None or wait.held is None else (wait.held.name, wait.held.until)
    lease, started_at = claimed.lease, claimed.run.started_at

    async def sleep(tx: Tx) -> tuple[datetime, datetime] | None:
        wake_at = until if isinstance(until, datetime) else tx.now + until
        if started_at is not None and not settles:
            wake_at = min(wake_at, max(started_at + MAX_RUN_AGE, tx.now))
        if wait is not None and wait.current_step is not None:
            await runs.set_current_step(tx, lease.org, lease.run, epoch=lease.epoch, step=wait.current_step)
        if not await transitions.sleep(
            tx, lease, until=wake_at, leased_ms=leased_ms, settles=settles, held=held_by
        ):
            return None
        if reading is not None and failing is not None and reading not in failing:
            failing_since: JsonObject = {**failing, reading: tx.now.isoformat()}
            row = StepValue(FAILING, "", claimed.state.last_seq, ValueState.DONE, failing_since)
            await steps.save_value(tx, lease.org, lease.run, value=row, output=steps.packed(failing_since))
        return tx.now, wake_at

    span = await ctx.engine.write(ctx.clock.now(), sleep, org=lease.org)
    if span is None:
        raise LeaseLost(lease)
    failpoint("after_sleep")
    ctx.add_sleep(lease, *span)
    if held_by is not None:
        ctx.log.info("run_held", run=lease.run, org=lease.org, period=held_by[0])
