"""Ends a run: computes its result and summary, and reports the reason if it was stopped."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from steward.failpoint import failpoint
from steward.model.run import RunStatus
from steward.runs import finish
from steward.runs.checkpoint import EndedStep
from steward.runs.claimed_run import ClaimedRun
from steward.runs.finish import FinishRequest, RunEnd
from steward.runs.run_context import RunContext
from steward.runs.storage import static_data
from steward.runs.walk.state import Walk

# What the metric of undone changes calls the outcomes of a run's counts.
_UNDO_OUTCOMES = {
    "put_back": ("applied",),
    "left": ("conflicts",),
    "unchanged": ("unchanged",),
    "failed": ("failed", "unknown"),
}


_CANCELLED_WORDS = {
    "by_person": "A person cancelled this run.",
    "archived": "The automation was archived during this run.",
}


def success_request(walk: Walk) -> FinishRequest:
    """Returns the end of a run that is committed with its last step."""
    claimed = walk.claimed
    end = end_by_outcomes(walk, None)
    return FinishRequest(
        claimed.lease,
        end,
        claimed.run.automation_id,
        claimed.run.mode,
        walk.ctx.automation_rules,
        is_undo=claimed.run.undo_of is not None,
    )


def end_by_outcomes(walk: Walk, failure: EndedStep | None) -> RunEnd:
    """Returns the end of a run by its changes' outcomes and by the step that stopped it, if one did."""
    record = walk.totals()
    totals = record.counts
    status, code = finish.final_status(totals)
    if code == "all_conflicted" and walk.run.undo_of is not None and walk.run.approval_id is None:
        status, code = RunStatus.SUCCEEDED, None  # every object was left, as the summary states
    message = finish.final_message(code, totals)
    if failure is not None and code is None:
        status, code = RunStatus.FAILED, "step_failed"
        message = failure.message or f"The step “{failure.step.title}” failed."
        if failure.code == "too_many_changes":
            code = failure.code
    result = None if failure is not None else finish.shrink_result(record.run_summary.result)
    return RunEnd(status, code, message, record.summary(status, code, message), result)


def stopped_by(end: RunEnd, walk: Walk) -> RunEnd:
    """Returns `end` with the summary of what the run did until then."""
    return replace(end, summary=walk.totals().summary(end.status, end.code, end.message))


def cancelled(code: str) -> Callable[[Walk], RunEnd]:
    """Returns how a run ends whose cancellation was requested with this code."""
    words = _CANCELLED_WORDS.get(code, "The run was cancelled.")
    return partial(stopped_by, RunEnd(RunStatus.CANCELLED, code, words))


async def end_run(
    ctx: RunContext,
    claimed: ClaimedRun,
    end: RunEnd,
    on_success: finish.EndWrites | None = None,
) -> None:
    """Stores the end of a run. Raises LeaseLost."""
    failpoint("before_finish")
    request = FinishRequest(
        claimed.lease,
        end,
        claimed.run.automation_id,
        claimed.run.mode,
        ctx.automation_rules,
        on_success,
        claimed.run.undo_of is not None,
    )
    await finish.end_run(ctx.engine, ctx.clock.now(), request)
    report_end(ctx, claimed, end)


async def end_walked_run(walk: Walk) -> None:
    """Ends a run whose plan is walked to its end."""
    on_success = None
    if walk.static_data is not None:
        on_success = await static_data.writes_at_end(walk.ctx.vault, walk.run, walk.static_data)
    await end_run(walk.ctx, walk.claimed, end_by_outcomes(walk, None), on_success)


def report_end(ctx: RunContext, claimed: ClaimedRun, end: RunEnd) -> None:
    """Logs and counts a stored end, and wakes what waits for it."""
    failpoint("after_finish")
    ctx.wake("ready")
    if end.status is not RunStatus.SUCCEEDED:
        ctx.wake("notice")
    ctx.metrics.count("steward_runs_finished_total", status=str(end.status))
    run, org = claimed.run.id, claimed.lease.org
    if claimed.run.undo_of is not None:
        _count_undo(ctx, end)
    ctx.log.info("run_finished", run=run, org=org, status=end.status, code=end.code)
    if end.code == finish.INTERRUPTED:
        ctx.metrics.count("steward_runs_interrupted_total")
        ctx.log.error("run_interrupted", run=run, org=org, automation=claimed.run.automation_id)


def _count_undo(ctx: RunContext, end: RunEnd) -> None:
    ctx.metrics.count("steward_undo_runs_total", outcome=str(end.status))
    counts = end.summary.get("counts") if end.summary is not None else None
    for outcome, names in _UNDO_OUTCOMES.items():
        number = sum(int(str(counts[name])) for name in names) if isinstance(counts, dict) else 0
        if number:
            ctx.metrics.count("steward_undo_changes_total", number, outcome=outcome)
