"""Walks a run's plan, one checkpoint a step (docs/design/runs.md#execution)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import msgspec

from steward.database.engine.base import Tx
from steward.database.runs import approvals, changes, steps, transitions
from steward.database.runs import records as runs
from steward.database.runs.steps import StepValue, TooMuchData, ValueState, execution_key
from steward.database.runs.transitions import Lease
from steward.failpoint import failpoint
from steward.model.automation import AutomationKind
from steward.model.change import Outcome
from steward.model.json import JsonObject
from steward.model.plan import Plan, PlanStep, StepKind, StepStatus
from steward.model.refusals import NotConnected, Unavailable
from steward.model.run import Counts, RunStatus
from steward.outbound.errors import CallError
from steward.run_queue import summaries
from steward.runs import (
    approval,
    change_outcomes,
    claim,
    connection_checks,
    context,
    finish,
    proposals,
    read_retries,
    reconcile,
    workflow,
)
from steward.runs.apply import MustWait
from steward.runs.checkpoint import EndedStep
from steward.runs.claim import LONGEST, ClaimedRun
from steward.runs.finish import FinishRequest, RunEnd
from steward.runs.run_context import CancelRequested, LeaseLost, RunContext, UnknownPlan, WorkerStopping
from steward.runs.state import FAILING, ApprovalMismatch, RunTimedOut, Walk
from steward.steps.base import StepContext, StepFailed, StepResult

_ATTEMPTS = 3
_SETTLED = (ValueState.DONE, ValueState.SKIPPED)
_INTERRUPTED_WORDS = (
    "This run was interrupted by the service three times and was stopped. The automation is not at fault:"
    " run it again, and tell the operator of the service if it happens again."
)
_STOPPING_WORDS = (
    "The service was interrupted while it stopped this run. What was not changed by then was left as it was:"
    " run it again."
)
# What the metric of undone changes calls the outcomes of a run's counts.
_UNDO_OUTCOMES = {
    "put_back": ("applied",),
    "left": ("conflicts",),
    "unchanged": ("unchanged",),
    "failed": ("failed", "unknown"),
}
_CANCELLED_WORDS = {
    "by_person": "A person cancelled this run.",
    "archived": "The automation was archived while this run was going on.",
}


async def work(ctx: RunContext, lease: Lease) -> bool:
    """Takes one leased run as far as it can go: to its end, to an approval, or to sleep.

    Returns False when it was given up because the database could not be used.
    """
    ctx.begin_trace(lease)
    try:
        claimed = await claim.start_claimed(ctx.engine, ctx.clock.now(), lease, ctx.automation_rules)
        failpoint("after_start")
        if claimed is not None:
            if claimed.state.last_seq == 0 and lease.attempt == 1:
                waited = ctx.clock.now() - claimed.run.queued_at
                ctx.metrics.observe("steward_run_start_seconds", waited.total_seconds())
            await _continue_run(ctx, claimed)
    except LeaseLost:
        ctx.metrics.count("steward_runs_fenced_total")
        ctx.log.info("run_lost", run=lease.run, org=lease.org, epoch=lease.epoch)
    except WorkerStopping:
        ctx.log.info("run_released", run=lease.run, org=lease.org)
    except Unavailable as error:  # the database, not the run: its lease is given up (worker.give_up)
        ctx.log.warning("run_abandoned", run=lease.run, org=lease.org, reason=error.message)
        return False
    except MemoryError as error:  # this process, not the run: another may have the memory (worker.give_up)
        ctx.log.error("run_abandoned", error, run=lease.run, org=lease.org, reason="out of memory")
    except Exception as error:
        ctx.log.error("run_crashed", error, run=lease.run, org=lease.org)
        await _fail_crashed_run(ctx, lease)
        await ctx.add_trace(lease)
    else:
        await ctx.add_trace(lease)
    return True


async def _continue_run(ctx: RunContext, claimed: ClaimedRun) -> None:
    lease = claimed.lease
    until = (
        None if claimed.state.last_seq == 0 and lease.attempt == 1 else await reconcile.settle_run(ctx, lease)
    )
    if until is not None:
        await _sleep(ctx, claimed, until, leased_ms=0, settles=True)
        return
    end = _end_at_start(claimed)
    opened = context.NO_CONNECTIONS
    if end is None:
        try:
            opened = await context.open_connections(ctx, claimed)
        except NotConnected as refusal:
            end = partial(_stopped_by, RunEnd(RunStatus.FAILED, "step_failed", refusal.message))
    try:
        walk = await _start_walk(ctx, claimed, opened)
    except UnknownPlan as unknown:
        if not await ctx.engine.write(ctx.clock.now(), partial(claim.hand_back, lease=lease), org=lease.org):
            raise
        ctx.log.info("run_handed_back", run=lease.run, org=lease.org, reason=str(unknown))
        return
    if end is None and _was_stopping(walk):
        end = partial(_stopped_by, RunEnd(RunStatus.FAILED, finish.INTERRUPTED, _STOPPING_WORDS))
    await (_walk_to_pause(walk) if end is None else _close(walk, end))


def _was_stopping(walk: Walk) -> bool:
    """Returns whether a worker was lost between cancelling changes and storing the run's end.

    Why it stopped the run, such as its time limit, is not stored; that nothing is left to write is.
    """
    return any(Outcome.CANCELLED in outcomes for outcomes in walk.outcomes.values())


def _end_at_start(claimed: ClaimedRun) -> Callable[[Walk], RunEnd] | None:
    """Returns how the run ends before a further step; None when it continues."""
    if claimed.state.cancel_code is not None:
        return _cancelled(claimed.state.cancel_code)
    if claimed.lease.attempt > _ATTEMPTS:
        return partial(_stopped_by, RunEnd(RunStatus.FAILED, finish.INTERRUPTED, _INTERRUPTED_WORDS))
    if claimed.is_past_longest:
        message = f"The run went on for more than {LONGEST.days} days, waits included, and was stopped."
        return partial(_stopped_by, RunEnd(RunStatus.FAILED, "timed_out", message))
    return None


async def _start_walk(ctx: RunContext, claimed: ClaimedRun, opened: context.OpenConnections) -> Walk:
    is_workflow = claimed.automation.kind is AutomationKind.WORKFLOW and claimed.run.undo_of is None
    template = None if is_workflow else context.template_of(ctx.automation_rules.templates, claimed)
    walk = Walk(
        ctx=ctx,
        claimed=claimed,
        template=template,
        plan=Plan((), ()) if template is None else template.plan,
        opened=opened,
        seq=claimed.state.last_seq,
        round=1,
        journal={execution_key(value.name, value.iteration): value for value in claimed.journal},
        counted=Counts(),
        started=ctx.clock.monotonic(),
        kept_bytes=sum(value.stored_bytes for value in claimed.journal),
    )
    if template is None:
        walk.plan, walk.bindings = await workflow.plan_of(walk)
        if unknown := workflow.unknown_types(walk.plan):
            raise UnknownPlan(f"step types {', '.join(sorted(unknown))}")
        walk.sends_wait_for_approval = claim.sends_wait_for_approval(claimed)
    if claimed.state.last_seq or len(claimed.journal) > 1:
        await walk.read(partial(_resume, walk=walk))
    return walk


async def _resume(tx: Tx, *, walk: Walk) -> None:
    """Restores what a continued run reads from its rows: totals, outcomes and the approval round."""
    org, run = walk.lease.org, walk.run.id
    record = await summaries.of_run(tx, org, run, without_template=True)
    walk.counted, walk.outcomes = record.counted, dict(record.outcomes)
    for iteration, wire in await steps.rows_of(tx, org, run):
        row = msgspec.json.decode(wire)
        walk.step_messages[execution_key(row["name"], iteration)] = (row["code"], row["message"])
    if walk.run.approval_id is not None:
        approval = await approvals.get(tx, org, walk.run.approval_id)
        walk.round = approval.round + 1


async def _walk_to_pause(walk: Walk) -> None:
    """Takes steps until none can be taken, then requests approval or ends the run."""
    try:
        await _take_steps_and_end(walk)
    except MustWait as wait:
        pause = timedelta(seconds=wait.seconds)
        await _sleep(
            walk.ctx,
            walk.claimed,
            pause,
            leased_ms=walk.leased_ms(),
            settles=False,
            failing=walk.failing_since() if wait.reading is not None else None,
            wait=wait,
        )
    except CancelRequested as cancel:
        await _close(walk, _cancelled(cancel.code))
    except ApprovalMismatch:
        walk.ctx.log.error("approval_mismatch", run=walk.run.id, org=walk.lease.org)
        message = "What was approved and what would be done differ. Nothing more was changed; run it again."
        await _close(walk, partial(_stopped_by, RunEnd(RunStatus.FAILED, "approval_mismatch", message)))
    except RunTimedOut:
        limit = int(walk.ctx.rules.time_limit.total_seconds())
        message = f"The run took longer than {limit} seconds and was stopped."
        await _close(walk, partial(_stopped_by, RunEnd(RunStatus.FAILED, "timed_out", message)))
    except TooMuchData:
        message = "A step returned more data than a run may store. Narrow down what the automation reads."
        await _close(walk, partial(_stopped_by, RunEnd(RunStatus.FAILED, "too_much_data", message)))


async def _take_steps_and_end(walk: Walk) -> None:
    failure = await (_take_steps(walk) if walk.template is not None else workflow.advance(walk))
    if walk.is_ended:
        return
    if failure is not None:
        await _close(walk, partial(_result, failure=failure))
    elif any(value.state is ValueState.HELD for value in walk.journal.values()):
        await _request_approval(walk)
    else:
        await _end(walk.ctx, walk.claimed, _result(walk, None), await walk.on_success())


async def _close(walk: Walk, end: Callable[[Walk], RunEnd]) -> None:
    """Ends a run before its plan's end, after its open writes are settled.

    `end` is called once every change has its outcome. Until open writes can be settled the run sleeps. A
    worker that takes it over after changes were cancelled ends it too (`_was_stopping`).
    """
    until = await reconcile.settle_run(walk.ctx, walk.lease)
    if until is not None:
        await _sleep(walk.ctx, walk.claimed, until, leased_ms=walk.leased_ms(), settles=True)
        return
    await proposals.stop_steps(walk)
    load = partial(summaries.outcomes_of, org=walk.lease.org, run=walk.run.id)
    walk.outcomes = dict((await walk.read(load))[0])
    await _end(walk.ctx, walk.claimed, end(walk))


async def _take_steps(walk: Walk) -> EndedStep | None:
    """Takes every step that can be taken, in the plan's order; returns the failed step that stopped it."""
    for step in walk.plan.steps:
        value = walk.journal.get(step.name)
        if value is not None and value.state in _SETTLED:
            continue
        if value is not None and value.state is ValueState.FAILED:
            return _failed_row(walk, step)
        if value is None and not _runnable(walk, step):
            continue
        if walk.seconds_left() <= 0:
            raise RunTimedOut
        failure = await _take_step(walk, step, is_held=value is not None)
        if failure is not None:
            return failure
    return None


def _runnable(walk: Walk, step: PlanStep) -> bool:
    """Returns whether every edge into the step comes from a settled execution; held is not settled."""
    sources = [walk.journal.get(edge.source) for edge in walk.plan.before(step.name)]
    return all(source is not None and source.state in _SETTLED for source in sources)


async def _take_step(walk: Walk, step: PlanStep, *, is_held: bool) -> EndedStep | None:
    """Takes one step and returns its row when it failed."""
    await walk.ctx.wait_for_lease(walk.lease)
    started_at = walk.ctx.clock.now()
    if is_held:
        if await proposals.waits_for_decision(walk, step):
            return None
        await proposals.apply_step(walk, step, started_at)
        return _failure_after(walk, step)
    if _skipped_before(walk, step):
        await _skip(walk, step, started_at)
        return None
    walk.opened.touched.clear()
    walk.show_progress(step, started_at)
    try:
        produced = await _produce(walk, step)
        if step.kind in (StepKind.CHANGE, StepKind.SEND) and produced.proposals:
            await proposals.propose(walk, step, produced, started_at)
            return _failure_after(walk, step)
        await _succeed(walk, step, produced, started_at)
    except StepFailed as failure:
        return await _fail_step(walk, step, started_at, code=failure.code, message=failure.message)
    except CallError as error:
        return await _call_failed(walk, step, started_at, error)
    finally:
        walk.ctx.progress.pop(walk.run.id, None)
    return None


async def _produce(walk: Walk, step: PlanStep) -> StepResult:
    """Returns what the step's function gives within what is left of the run's time. Raises RunTimedOut."""
    try:
        async with asyncio.timeout(None) as bound:
            # Most steps never wait, and setting up a timeout costs as much as the row of their checkpoint.
            loop = asyncio.get_running_loop()
            until = loop.call_soon(bound.reschedule, loop.time() + walk.seconds_left())
            try:
                if walk.template is None:
                    raise AssertionError("a workflow's steps run in workflow.py")
                return await walk.template.steps[step.name](_context(walk))
            finally:
                until.cancel()
    except TimeoutError:
        raise RunTimedOut from None


def _context(walk: Walk) -> StepContext:
    outputs = summaries.outputs(walk.journal)
    return context.step_context(walk.ctx, walk.claimed, walk.opened, outputs, dict(walk.outcomes))


def _skipped_before(walk: Walk, step: PlanStep) -> bool:
    sources = [walk.journal[edge.source] for edge in walk.plan.before(step.name)]
    return any(source.state is ValueState.SKIPPED for source in sources)


async def _skip(walk: Walk, step: PlanStep, started_at: datetime) -> None:
    ended = EndedStep(
        step=step,
        title=step.title,
        status=StepStatus.SKIPPED,
        started_at=started_at,
        connection=None,
        counts=Counts(),
        attempt=walk.lease.attempt,
        code="nothing_applied",
        message="Nothing of the step before was done, so there was nothing to do here.",
    )
    await walk.checkpoint(ended, None, state=ValueState.SKIPPED)


async def _succeed(walk: Walk, step: PlanStep, produced: StepResult, started_at: datetime) -> None:
    ended = EndedStep(
        step=step,
        title=produced.title or step.title,
        status=StepStatus.SUCCEEDED,
        started_at=started_at,
        connection=walk.opened.row(),
        counts=produced.counts,
        attempt=walk.lease.attempt,
        message=produced.message,
    )
    live = walk.run.mode == "live"
    writes = [write for write in produced.memory if write.position is None] if live else []
    if not writes and _is_last(walk, step):
        finished = await walk.last_checkpoint(ended, produced.output, end=partial(_success_request, walk))
        if finished is not None:
            walk.is_ended = True
            _report_end(walk.ctx, walk.claimed, finished.end)
        return
    await walk.checkpoint(ended, produced.output, state=ValueState.DONE, memory=writes)


def _is_last(walk: Walk, step: PlanStep) -> bool:
    """Returns whether every other step of the plan is settled, so that the run ends with this one."""
    others = (walk.journal.get(other.name) for other in walk.plan.steps if other.name != step.name)
    return all(value is not None and value.state in _SETTLED for value in others)


def _success_request(walk: Walk) -> FinishRequest:
    claimed = walk.claimed
    end = _result(walk, None)
    return FinishRequest(
        claimed.lease,
        end,
        claimed.run.automation_id,
        claimed.run.mode,
        walk.ctx.automation_rules,
        is_undo=claimed.run.undo_of is not None,
    )


async def _fail_step(
    walk: Walk, step: PlanStep, started_at: datetime, *, code: str, message: str
) -> EndedStep:
    ended = EndedStep(
        step=step,
        title=step.title,
        status=StepStatus.FAILED,
        started_at=started_at,
        connection=walk.opened.row(),
        counts=Counts(),
        attempt=walk.lease.attempt,
        code=code,
        message=message,
    )
    await walk.checkpoint(ended, None, state=ValueState.FAILED)
    return ended


async def _call_failed(walk: Walk, step: PlanStep, started_at: datetime, error: CallError) -> EndedStep:
    """Fails the step after a failed read, or lets the run sleep and retry a temporary failure."""
    wait = await read_retries.wait_for(walk, error, step.name, step, started_at)
    if wait is not None:
        raise wait from error
    ctx, touched = walk.ctx, walk.opened.touched
    await connection_checks.schedule_check(ctx.engine, ctx.clock, walk.run.org, touched, kinds=[error.kind])
    message = read_retries.failure_message(error)
    return await _fail_step(walk, step, started_at, code=error.kind, message=message)


def _failure_after(walk: Walk, step: PlanStep) -> EndedStep | None:
    """Returns the failed row of a step some of whose changes failed or are unknown; None otherwise."""
    value = walk.journal[step.name]
    return _failed_row(walk, step) if value.state is ValueState.FAILED else None


def _failed_row(walk: Walk, step: PlanStep) -> EndedStep:
    code, message = walk.step_messages.get(step.name, (None, None))
    return EndedStep(
        step=step,
        title=step.title,
        status=StepStatus.FAILED,
        started_at=walk.ctx.clock.now(),
        connection=None,
        counts=Counts(),
        code=code,
        message=message,
    )


async def _request_approval(walk: Walk) -> None:
    """Turns all held changes into one approval; the run waits without a worker."""
    ctx = walk.ctx
    items = await walk.read(
        partial(changes.of_run, org=walk.lease.org, run=walk.run.id, outcomes=(Outcome.PROPOSED,))
    )
    request = approval.ApprovalRequest(
        run=walk.run,
        automation=walk.claimed.automation,
        round=walk.round,
        items=items,
        valid_for=ctx.rules.approval,
        leased_ms=walk.leased_ms(),
        summary=walk.totals().summary(RunStatus.WAITING_APPROVAL, None, None),
        follows=approval.following_steps(
            walk.plan,
            {value.name for value in walk.journal.values() if value.state is ValueState.HELD},
            asks=walk.needs_approval,
        ),
    )
    failpoint("before_ask")
    await ctx.engine.write(
        ctx.clock.now(),
        partial(approval.request_approval, lease=walk.lease, request=request),
        org=walk.lease.org,
    )
    failpoint("after_ask")
    ctx.wake("notice")
    ctx.log.info("run_waits_for_approval", run=walk.run.id, org=walk.lease.org, changes=len(items))


def _result(walk: Walk, failure: EndedStep | None) -> RunEnd:
    """Returns the end of a run by its changes' outcomes and by the step that stopped it, if one did."""
    record = walk.totals()
    totals = record.counts()
    status, code = finish.verdict(totals)
    if code == "all_conflicted" and walk.run.undo_of is not None and walk.run.approval_id is None:
        status, code = RunStatus.SUCCEEDED, None  # every object was left, as the summary states
    message = finish.verdict_message(code, totals)
    if failure is not None and code is None:
        status, code = RunStatus.FAILED, "step_failed"
        message = failure.message or f"The step “{failure.step.title}” failed."
        if failure.code == "too_many_changes":
            code = failure.code
    result = None if failure is not None else finish.shrink_result(record.run_summary().result)
    return RunEnd(status, code, message, record.summary(status, code, message), result)


def _stopped_by(end: RunEnd, walk: Walk) -> RunEnd:
    return replace(end, summary=walk.totals().summary(end.status, end.code, end.message))


def _cancelled(code: str) -> Callable[[Walk], RunEnd]:
    words = _CANCELLED_WORDS.get(code, "The run was cancelled.")
    return partial(_stopped_by, RunEnd(RunStatus.CANCELLED, code, words))


async def _end(
    ctx: RunContext,
    claimed: ClaimedRun,
    end: RunEnd,
    on_success: finish.EndWrites | None = None,
) -> None:
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
    _report_end(ctx, claimed, end)


def _report_end(ctx: RunContext, claimed: ClaimedRun, end: RunEnd) -> None:
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


async def _sleep(
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
            wake_at = min(wake_at, max(started_at + LONGEST, tx.now))
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


async def _fail_crashed_run(ctx: RunContext, lease: Lease) -> None:
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
            await change_outcomes.drop_open(tx, lease.org, lease.run, to=Outcome.CANCELLED)
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
