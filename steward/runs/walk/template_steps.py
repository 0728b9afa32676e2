"""Takes the steps of a template's plan in its order, one checkpoint a step."""

import asyncio
from datetime import datetime
from functools import partial

from steward.database.runs.steps import ValueState
from steward.model.plan import PlanStep, StepKind, StepStatus
from steward.model.run import Counts
from steward.outbound.errors import CallError
from steward.run_queue import summaries
from steward.runs import step_context
from steward.runs.checkpoint import EndedStep
from steward.runs.walk import apply_held, proposals, read_retries
from steward.runs.walk.end import report_end, success_request
from steward.runs.walk.state import RunTimedOut, Walk
from steward.steps.base import StepContext, StepFailed, StepResult

_SETTLED = (ValueState.DONE, ValueState.SKIPPED)


async def execute_steps(walk: Walk) -> EndedStep | None:
    """Executes every step that can run, in the plan's order; returns the failed step that stopped the run."""
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
        failure = await _execute_step(walk, step, is_held=value is not None)
        if failure is not None:
            return failure
    return None


def _runnable(walk: Walk, step: PlanStep) -> bool:
    """Returns whether every edge into the step comes from a settled execution; held is not settled."""
    sources = [walk.journal.get(edge.source) for edge in walk.plan.before(step.name)]
    return all(source is not None and source.state in _SETTLED for source in sources)


async def _execute_step(walk: Walk, step: PlanStep, *, is_held: bool) -> EndedStep | None:
    """Executes one step; returns its row if it failed."""
    await walk.ctx.wait_for_lease(walk.lease)
    started_at = walk.ctx.clock.now()
    if is_held:
        if await apply_held.waits_for_decision(walk, step):
            return None
        await apply_held.apply_step(walk, step, started_at)
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
    """Runs the step's function within the run's remaining time; returns its result. Raises RunTimedOut."""
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
    return step_context.step_context(walk.ctx, walk.claimed, walk.opened, outputs, dict(walk.outcomes))


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
        message="The step before changed nothing, so there was nothing to do here.",
    )
    await walk.checkpoint(ended, None, state=ValueState.SKIPPED)


async def _succeed(walk: Walk, step: PlanStep, produced: StepResult, started_at: datetime) -> None:
    """Writes the row of a step that succeeded, and ends the run with it if it was the last."""
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
        finished = await walk.last_checkpoint(ended, produced.output, end=partial(success_request, walk))
        if finished is not None:
            walk.is_ended = True
            report_end(walk.ctx, walk.claimed, finished.end)
        return
    await walk.checkpoint(ended, produced.output, state=ValueState.DONE, memory=writes)


def _is_last(walk: Walk, step: PlanStep) -> bool:
    """Returns whether every other step of the plan is settled, so that the run ends with this one."""
    others = (walk.journal.get(other.name) for other in walk.plan.steps if other.name != step.name)
    return all(value is not None and value.state in _SETTLED for value in others)


async def _fail_step(
    walk: Walk, step: PlanStep, started_at: datetime, *, code: str, message: str
) -> EndedStep:
    """Writes the row of a step that failed, and returns it."""
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
    message = await read_retries.fail_read(walk, error, step.name, step, started_at)
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
