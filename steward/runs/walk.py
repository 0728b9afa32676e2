"""Walks a run's plan by the frontier rule, one checkpoint a step (engine 10)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import msgspec

from steward.database.engine.base import Tx
from steward.database.runs import approvals, changes, steps
from steward.database.runs import records as runs
from steward.database.runs import transitions as run_queue
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
from steward.runs.checkpoint import Ended
from steward.runs.claim import LONGEST, ClaimedRun
from steward.runs.finish import End, Finish
from steward.runs.state import FAILING, ApprovalMismatch, TimedOut, Walk
from steward.runs.worker_context import CancelRequested, LeaseLost, WorkerContext, WorkerStopping
from steward.steps.base import StepContext, StepFailed, StepResult

ATTEMPTS = 3
SETTLED = (ValueState.DONE, ValueState.SKIPPED)
INTERRUPTED_WORDS = (
    "This run was interrupted by the service three times and was stopped. The automation is not at fault:"
    " run it again, and tell whoever runs the service if it happens again."
)
CANCELLED_WORDS = {
    "by_person": "A person cancelled this run.",
    "archived": "The automation was archived while this run was going on.",
}


async def work(ctx: WorkerContext, lease: Lease) -> None:
    """Takes one leased run as far as it goes now: to its end, to a person's approval, or to sleep."""
    try:
        taken = await claim.start_claimed(ctx, lease)
        failpoint("after_start")
        if taken is not None:
            if taken.hot.last_seq == 0 and lease.attempt == 1:
                waited = ctx.clock.now() - taken.run.queued_at
                ctx.metrics.observe("steward_run_start_seconds", waited.total_seconds())
            await _take_on(ctx, taken)
    except LeaseLost:
        ctx.metrics.count("steward_runs_fenced_total")
        ctx.log.info("run_lost", run=lease.run, org=lease.org, epoch=lease.epoch)
    except WorkerStopping:
        ctx.log.info("run_handed_back", run=lease.run, org=lease.org)
    except Unavailable as error:  # the database, not the run: its lease is given up (worker.give_up)
        ctx.log.warning("run_left", run=lease.run, org=lease.org, reason=error.message)
    except MemoryError as error:  # this process, not the run: another may have the room (worker.give_up)
        ctx.log.error("run_left", error, run=lease.run, org=lease.org, reason="out of memory")
    except Exception as error:
        ctx.log.error("run_broke", error, run=lease.run, org=lease.org)
        await _broke(ctx, lease)


async def _take_on(ctx: WorkerContext, taken: ClaimedRun) -> None:
    lease = taken.lease
    until = None if taken.hot.last_seq == 0 and lease.attempt == 1 else await reconcile.settle_run(ctx, lease)
    if until is not None:
        await _sleep(ctx, taken, until, leased_ms=0, settles=True)
        return
    end = _end_at_start(ctx, taken)
    opened = context.NOTHING
    if end is None:
        try:
            opened = await context.open_connections(ctx, taken)
        except NotConnected as refusal:
            end = partial(_stopped_by, End(RunStatus.FAILED, "step_failed", refusal.message))
    walk = await _begin(ctx, taken, opened)
    await (_go(walk) if end is None else _close(walk, end))


def _end_at_start(ctx: WorkerContext, taken: ClaimedRun) -> Callable[[Walk], End] | None:
    """How the run ends before it takes a further step; None when it goes on."""
    if taken.hot.cancel_code is not None:
        return _cancelled(taken.hot.cancel_code)
    if taken.lease.attempt > ATTEMPTS:
        return partial(_stopped_by, End(RunStatus.FAILED, finish.INTERRUPTED, INTERRUPTED_WORDS))
    if taken.is_old:
        words = f"The run went on for more than {LONGEST.days} days, waits included, and was stopped."
        return partial(_stopped_by, End(RunStatus.FAILED, "timed_out", words))
    return None


async def _begin(ctx: WorkerContext, taken: ClaimedRun, opened: context.Opened) -> Walk:
    is_workflow = taken.automation.kind is AutomationKind.WORKFLOW
    template = None if is_workflow else ctx.templates[taken.run.template_id]
    walk = Walk(
        ctx=ctx,
        claimed=taken,
        template=template,
        plan=Plan((), ()) if template is None else template.plan,
        opened=opened,
        seq=taken.hot.last_seq,
        round=1,
        journal={execution_key(value.name, value.iteration): value for value in taken.journal},
        counted=Counts(),
        began=ctx.clock.monotonic(),
        kept_bytes=sum(value.kept_bytes for value in taken.journal),
    )
    if template is None:
        walk.plan, walk.bindings = await workflow.plan_of(walk)
        walk.asks = claim.asks(taken)
    if taken.hot.last_seq or len(taken.journal) > 1:
        await walk.read(partial(_resume, walk=walk))
    return walk


async def _resume(tx: Tx, *, walk: Walk) -> None:
    """What a continued run takes over from its rows: numbers, outcomes and the round of asking."""
    org, run = walk.lease.org, walk.run.id
    record = await summaries.of_run(tx, org, run, in_general=True)
    walk.counted, walk.outcomes = record.counted, dict(record.outcomes)
    for iteration, wire in await steps.rows_of(tx, org, run):
        row = msgspec.json.decode(wire)
        walk.step_messages[execution_key(row["name"], iteration)] = (row["code"], row["message"])
    if walk.run.approval_id is not None:
        asked = await approvals.get(tx, org, walk.run.approval_id)
        walk.round = asked.round + 1


async def _go(walk: Walk) -> None:
    """Steps until none can be taken, then asks or ends."""
    try:
        failure = await (_steps(walk) if walk.template is not None else workflow.advance(walk))
        if walk.is_ended:
            return
        if failure is None and any(value.state is ValueState.HELD for value in walk.journal.values()):
            await _ask(walk)
            return
        if failure is not None:
            await _close(walk, partial(_result, failure=failure))
            return
        await _end(walk.ctx, walk.claimed, _result(walk, None))
    except MustWait as wait:
        pause = timedelta(seconds=wait.seconds)
        await _sleep(
            walk.ctx,
            walk.claimed,
            pause,
            leased_ms=walk.leased_ms(),
            settles=False,
            failing=walk.failing() if wait.reading is not None else None,
            wait=wait,
        )
    except CancelRequested as wish:
        await _close(walk, _cancelled(wish.code))
    except ApprovalMismatch:
        walk.ctx.log.error("approval_mismatch", run=walk.run.id, org=walk.lease.org)
        words = "What was approved and what would be done differ. Nothing more was changed; run it again."
        await _close(walk, partial(_stopped_by, End(RunStatus.FAILED, "approval_mismatch", words)))
    except TimedOut:
        limit = int(walk.ctx.rules.time_limit.total_seconds())
        words = f"The run took longer than {limit} seconds and was stopped."
        await _close(walk, partial(_stopped_by, End(RunStatus.FAILED, "timed_out", words)))
    except TooMuchData:
        words = "A step gave more data than a run may keep. Narrow down what the automation reads."
        await _close(walk, partial(_stopped_by, End(RunStatus.FAILED, "too_much_data", words)))


async def _close(walk: Walk, end: Callable[[Walk], End]) -> None:
    """Ends a run before its plan's end: open writes are settled first, and what was made is told.

    `end` is asked once every change has its outcome. Until open writes can be settled the run sleeps; it
    comes here again, for what asked for its end is kept.
    """
    until = await reconcile.settle_run(walk.ctx, walk.lease)
    if until is not None:
        await _sleep(walk.ctx, walk.claimed, until, leased_ms=walk.leased_ms(), settles=True)
        return
    await proposals.stop_steps(walk)
    look = partial(summaries.outcomes_of, org=walk.lease.org, run=walk.run.id)
    walk.outcomes = dict((await walk.read(look))[0])
    await _end(walk.ctx, walk.claimed, end(walk))


async def _steps(walk: Walk) -> Ended | None:
    """Takes every step that can be taken, in the plan's order; the failed one that stopped it, or None."""
    for step in walk.plan.steps:
        value = walk.journal.get(step.name)
        if value is not None and value.state in SETTLED:
            continue
        if value is not None and value.state is ValueState.FAILED:
            return _failed_row(walk, step)
        if value is None and not _runnable(walk, step):
            continue
        if walk.seconds_left() <= 0:
            raise TimedOut
        failure = await _take(walk, step, is_held=value is not None)
        if failure is not None:
            return failure
    return None


def _runnable(walk: Walk, step: PlanStep) -> bool:
    """Every edge into the step comes from a settled execution; held is not settled (engine 10.1.3)."""
    sources = [walk.journal.get(edge.source) for edge in walk.plan.before(step.name)]
    return all(source is not None and source.state in SETTLED for source in sources)


async def _take(walk: Walk, step: PlanStep, *, is_held: bool) -> Ended | None:
    """One step; its row when it failed."""
    await walk.ctx.wait_for_lease(walk.lease)
    started_at = walk.ctx.clock.now()
    if is_held:
        if await proposals.waits_for_decision(walk, step):
            return None
        await proposals.apply_step(walk, step, started_at)
        return _stopped(walk, step)
    if _skipped_before(walk, step):
        await _skip(walk, step, started_at)
        return None
    walk.opened.touched.clear()
    walk.show(step, started_at)
    try:
        produced = await _produce(walk, step)
        if step.kind in (StepKind.CHANGE, StepKind.SEND) and produced.proposals:
            await proposals.propose(walk, step, produced, started_at)
            return _stopped(walk, step)
        await _succeed(walk, step, produced, started_at)
    except StepFailed as failure:
        return await _fail(walk, step, started_at, code=failure.code, message=failure.message)
    except CallError as error:
        return await _call_failed(walk, step, started_at, error)
    finally:
        walk.ctx.progress.pop(walk.run.id, None)
    return None


async def _produce(walk: Walk, step: PlanStep) -> StepResult:
    """What the step's function gives within what is left of the run's time. Raises TimedOut."""
    try:
        async with asyncio.timeout(None) as bound:
            # Most steps do not wait, and a clock set for nothing costs as much as their checkpoint's row.
            loop = asyncio.get_running_loop()
            until = loop.call_soon(bound.reschedule, loop.time() + walk.seconds_left())
            try:
                if walk.template is None:
                    raise AssertionError("a workflow's steps run in workflow.py")
                return await walk.template.steps[step.name](_context(walk))
            finally:
                until.cancel()
    except TimeoutError:
        raise TimedOut from None


def _context(walk: Walk) -> StepContext:
    outputs = summaries.outputs(walk.journal)
    return context.step_context(walk.ctx, walk.claimed, walk.opened, outputs, dict(walk.outcomes))


def _skipped_before(walk: Walk, step: PlanStep) -> bool:
    sources = [walk.journal[edge.source] for edge in walk.plan.before(step.name)]
    return any(source.state is ValueState.SKIPPED for source in sources)


async def _skip(walk: Walk, step: PlanStep, started_at: datetime) -> None:
    ended = Ended(
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
    ended = Ended(
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
    writes = [one for one in produced.memory if one.position is None] if live else []
    if not writes and _is_last(walk, step):
        wanted = await walk.last_checkpoint(ended, produced.output, end=partial(_went_well, walk))
        if wanted is not None:
            walk.is_ended = True
            _tell_end(walk.ctx, walk.claimed, wanted.end)
        return
    await walk.checkpoint(ended, produced.output, state=ValueState.DONE, memory=writes)


def _is_last(walk: Walk, step: PlanStep) -> bool:
    """Whether every other step of the plan is settled, so that the run ends with this one."""
    others = (walk.journal.get(other.name) for other in walk.plan.steps if other.name != step.name)
    return all(value is not None and value.state in SETTLED for value in others)


def _went_well(walk: Walk) -> Finish:
    taken = walk.claimed
    end = _result(walk, None)
    return Finish(taken.lease, end, taken.run.automation_id, taken.run.mode, walk.ctx.automation_rules)


async def _fail(walk: Walk, step: PlanStep, started_at: datetime, *, code: str, message: str) -> Ended:
    ended = Ended(
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


async def _call_failed(walk: Walk, step: PlanStep, started_at: datetime, error: CallError) -> Ended:
    """A read that failed for good fails the step; for a reason that passes the run sleeps and tries again."""
    wait = await read_retries.wait_for(walk, error, step.name, step, started_at)
    if wait is not None:
        raise wait from error
    await connection_checks.look_soon(walk.ctx, walk.run.org, walk.opened.touched, kinds=[error.kind])
    return await _fail(walk, step, started_at, code=error.kind, message=error.message)


def _stopped(walk: Walk, step: PlanStep) -> Ended | None:
    """A step some of whose changes failed or are unknown starts nothing after it."""
    value = walk.journal[step.name]
    return _failed_row(walk, step) if value.state is ValueState.FAILED else None


def _failed_row(walk: Walk, step: PlanStep) -> Ended:
    code, message = walk.step_messages.get(step.name, (None, None))
    return Ended(
        step=step,
        title=step.title,
        status=StepStatus.FAILED,
        started_at=walk.ctx.clock.now(),
        connection=None,
        counts=Counts(),
        code=code,
        message=message,
    )


async def _ask(walk: Walk) -> None:
    """All held changes become one approval, and the run waits as a row only (engine 10.1.5)."""
    ctx = walk.ctx
    items = await walk.read(
        partial(changes.of_run, org=walk.lease.org, run=walk.run.id, outcomes=(Outcome.PROPOSED,))
    )
    asked = approval.Asked(
        run=walk.run,
        automation=walk.claimed.automation,
        round=walk.round,
        items=items,
        lasts=ctx.rules.approval,
        leased_ms=walk.leased_ms(),
        summary=walk.record().summary(RunStatus.WAITING_APPROVAL, None, None),
    )
    failpoint("before_ask")
    await ctx.engine.write(
        ctx.clock.now(), partial(approval.ask, lease=walk.lease, asked=asked), org=walk.lease.org
    )
    failpoint("after_ask")
    ctx.log.info("run_waits_for_approval", run=walk.run.id, org=walk.lease.org, changes=len(items))


def _result(walk: Walk, failure: Ended | None) -> End:
    """The end of a run by what became of its changes, and by the step that stopped it, if one did."""
    record = walk.record()
    totals = record.counts()
    status, code = finish.verdict(totals)
    message = finish.words(code, totals)
    if failure is not None and code is None:
        status, code = RunStatus.FAILED, "step_failed"
        message = failure.message or f"The step “{failure.step.title}” failed."
        if failure.code == "too_many_changes":
            code = failure.code
    result = None if failure is not None else finish.fitting(record.run_summary().result)
    return End(status, code, message, record.summary(status, code, message), result)


def _stopped_by(end: End, walk: Walk) -> End:
    return replace(end, summary=walk.record().summary(end.status, end.code, end.message))


def _cancelled(code: str) -> Callable[[Walk], End]:
    words = CANCELLED_WORDS.get(code, "The run was cancelled.")
    return partial(_stopped_by, End(RunStatus.CANCELLED, code, words))


async def _end(ctx: WorkerContext, taken: ClaimedRun, end: End) -> None:
    failpoint("before_finish")
    wanted = Finish(taken.lease, end, taken.run.automation_id, taken.run.mode, ctx.automation_rules)
    await finish.end_run(ctx.engine, ctx.clock.now(), wanted)
    _tell_end(ctx, taken, end)


def _tell_end(ctx: WorkerContext, taken: ClaimedRun, end: End) -> None:
    failpoint("after_finish")
    ctx.wake("ready")
    ctx.metrics.count("steward_runs_finished_total", status=str(end.status))
    run, org = taken.run.id, taken.lease.org
    ctx.log.info("run_finished", run=run, org=org, status=end.status, code=end.code)
    if end.code == finish.INTERRUPTED:
        ctx.metrics.count("steward_runs_interrupted_total")
        ctx.log.error("run_interrupted", run=run, org=org, automation=taken.run.automation_id)


async def _sleep(
    ctx: WorkerContext,
    taken: ClaimedRun,
    until: datetime | timedelta,
    *,
    leased_ms: int,
    settles: bool,
    failing: dict[str, str] | None = None,
    wait: MustWait | None = None,
) -> None:
    """The run sleeps until an instant or for a time of the database's clock, at the longest to its last day.

    When it waits for a read it is kept since when that execution's reads fail. Raises LeaseLost.
    """
    reading = None if wait is None else wait.reading
    lease, began = taken.lease, taken.run.started_at

    async def sleep(tx: Tx) -> bool:
        at = until if isinstance(until, datetime) else tx.now + until
        if began is not None and not settles:
            at = min(at, max(began + LONGEST, tx.now))
        if wait is not None and wait.shown is not None:
            await runs.set_current_step(tx, lease.org, lease.run, epoch=lease.epoch, step=wait.shown)
        if not await run_queue.sleep(tx, lease, until=at, leased_ms=leased_ms, settles=settles):
            return False
        if reading is not None and failing is not None and reading not in failing:
            kept: JsonObject = {**failing, reading: tx.now.isoformat()}
            row = StepValue(FAILING, "", taken.hot.last_seq, ValueState.DONE, kept)
            await steps.keep_value(tx, lease.org, lease.run, value=row, output=steps.packed(kept))
        return True

    if not await ctx.engine.write(ctx.clock.now(), sleep, org=lease.org):
        raise LeaseLost(lease)
    failpoint("after_sleep")


async def _broke(ctx: WorkerContext, lease: Lease) -> None:
    """A defect of ours ends the run at once and says so (engine 16)."""

    async def fail(tx: Tx) -> None:
        hot = await run_queue.read_state(tx, lease.org, lease.run)
        if hot is None:
            return
        words = "A defect of the service stopped this run. Its operator finds it in the log by the run's id."
        summary: JsonObject | None = None
        if hot.started_at is not None:
            await change_outcomes.drop_open(tx, lease.org, lease.run, to=Outcome.CANCELLED)
            record = await summaries.of_run(tx, lease.org, lease.run, in_general=True)
            summary = record.summary(RunStatus.FAILED, "step_failed", words)
        end = End(RunStatus.FAILED, "step_failed", words, summary)
        rules = ctx.automation_rules
        await finish.finish(tx, lease, end, automation=hot.automation, mode=hot.mode, rules=rules)

    try:
        await ctx.engine.write(ctx.clock.now(), fail, org=lease.org)
    except LeaseLost:
        ctx.metrics.count("steward_runs_fenced_total")
        ctx.log.info("run_lost", run=lease.run, org=lease.org, epoch=lease.epoch)
