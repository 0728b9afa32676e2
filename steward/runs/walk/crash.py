"""Ends a run that a defect of the service stopped."""

from steward.database.engine.base import Tx
from steward.database.runs import transitions
from steward.database.runs.transitions import Lease
from steward.model.change import Outcome
from steward.model.json import JsonObject
from steward.model.run import RunStatus
from steward.run_queue import summaries
from steward.runs import change_outcomes, finish
from steward.runs.finish import RunEnd
from steward.runs.lease import LeaseLost
from steward.runs.run_context import RunContext


async def fail_crashed_run(ctx: RunContext, lease: Lease) -> None:
    """Ends a run that a defect of the service stopped."""

    async def fail(tx: Tx) -> None:
        state = await transitions.read_state(tx, lease.org, lease.run)
        if state is None:
            return
        message = (
            "A defect of the service stopped this run. Its operator finds it in the log by the run's id."
        )
        summary: JsonObject | None = None
        if state.started_at is not None:
            await change_outcomes.close_unapplied(tx, lease.org, lease.run, outcome=Outcome.CANCELLED)
            record = await summaries.of_run(tx, lease.org, lease.run, without_template=True)
            summary = record.summary(RunStatus.FAILED, "step_failed", message)
        end = RunEnd(RunStatus.FAILED, "step_failed", message, summary)
        rules = ctx.automation_rules
        await finish.finish(
            tx, lease, end, automation=state.automation, mode=state.mode, rules=rules, is_undo=state.is_undo
        )

    try:
        await ctx.engine.write(ctx.clock.now(), fail, org=lease.org)
    except LeaseLost:
        ctx.metrics.count("steward_runs_fenced_total")
        ctx.log.info("run_lost", run=lease.run, org=lease.org, epoch=lease.epoch)
