"""A workflow's run: walks its steps with the run's rows as the journal."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from steward.database.automations import plans
from steward.database.runs.steps import TooMuchData, ValueState, execution_key
from steward.model import plan_json
from steward.model.automation import AutomationState
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import DataMode, OnError, Plan, PlanStep, PlanTrigger, StepKind, StepStatus
from steward.model.run import Counts, Mode, Run
from steward.outbound.errors import CallError
from steward.run_queue.summaries import START
from steward.runs import connection_checks, context, proposals, read_retries
from steward.runs.apply import MustWait
from steward.runs.checkpoint import EndedStep
from steward.runs.state import RunTimedOut, Walk
from steward.runs.storage import static_data
from steward.steps.base import StepFailed, StepResult
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.shopify_flow.walk import flow_handed_on, is_flow_type, walk_flow
from steward.steps.start_reads import plan_of_run
from steward.steps.workflow import start_times
from steward.steps.workflow.execute import ExecutionResult, origin_of
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.handed_on import (
    DoneChange,
    DoneStep,
    HandedOn,
    decode_answers,
    encode_answers,
    hand_on,
)
from steward.steps.workflow.items import Item, Items, decode_outputs, encode_outputs, trigger_items
from steward.steps.workflow.memory_budget import MemoryBudgetExceeded
from steward.steps.workflow.plan_order import Execution
from steward.steps.workflow.repeats import repeating_steps
from steward.steps.workflow.step_types import UNKNOWN_IN_TEST, NodeResult, RunEnvironment
from steward.steps.workflow.walk import ExecutionHold, SettledExecution, WalkContext, WalkResult, walk

T = TypeVar("T")
# Codes of executions without output, and the message of the steps that follow them.
_LEFT_OUT: Mapping[str, str] = {
    UNKNOWN_IN_TEST: "What comes before it was left out of this test run: it is not known whether it runs.",
    "not_approved": "Nothing of what comes before it was approved, so it did not run.",
    "nothing_applied": "Nothing of what comes before it was done, so it did not run.",
}
_STATIC_DATA = "static_data"  # in the row of an execution: the objects it changed
_SHORT_WAIT = 2.0  # a wait of at most this many seconds stays in memory


async def plan_of(walk_: Walk) -> tuple[Plan, JsonObject]:
    """Returns the plan of the run's own version and its bindings."""
    run = walk_.run
    stored_plan = await walk_.read(
        partial(plans.get, org=run.org, automation=run.automation_id, version=run.plan_version or 1)
    )
    if stored_plan is None:
        raise StepFailed("step_failed", "The steps of this automation are no longer there. Import it again.")
    return plan_of_run(plan_json.from_json(stored_plan.plan), run, walk_.marks[0]), stored_plan.bindings


def unknown_types(plan: Plan) -> set[str]:
    """Returns the types of the plan's steps that run and that this release does not know."""
    is_known = is_flow_type if plan.mode is DataMode.ENVIRONMENT else BY_TYPE.__contains__
    unknown = {
        step.origin.source_type
        for step in plan.steps
        if step.origin is not None
        and (step.origin.supported and step.origin.reachable and not step.origin.disabled)
        and not is_known(step.origin.source_type)
    }
    return unknown.union(*(unknown_types(inner) for inner in plan.inner.values()))


async def advance(walk_: Walk) -> EndedStep | None:
    """Takes every step that can be taken now; returns the failed one that stopped it, or None."""
    plan = walk_.plan
    entry = plan.entry()
    if entry is None:
        return None
    run = walk_.run
    ctx = walk_.ctx
    walk_.static_data = static_data.of_run(ctx.engine, ctx.clock, ctx.vault, walk_.run)
    scene = RunEnvironment(
        zone=walk_.claimed.automation.timezone,
        now=walk_.ctx.clock.now(),
        seed=run.id,
        mode=run.mode,
        workflow_id=run.automation_id,
        active=walk_.claimed.automation.state is AutomationState.ACTIVE,
        context=context.step_context(walk_.ctx, walk_.claimed, walk_.opened, {}, {}),
        binding=partial(_binding, walk_.bindings),
        files=context.run_files(walk_.ctx, run),
        static_data=walk_.static_data,
        marks=walk_.marks,
    )
    means = WalkContext(
        evaluator=Evaluator(walk_.ctx.sandbox_pool, str(run.org), run.id),
        environment=scene,
        types=BY_TYPE,
        sleep=walk_.ctx.clock.sleep,
        clock=walk_.ctx.clock.now,
    )
    rows = WorkflowJournal(walk_, repeating_steps(plan))
    start_item = await walk_.start_item(entry)
    try:
        if plan.mode is DataMode.ENVIRONMENT:
            is_scheduled = entry.kind == "schedule"
            trigger_data = start_times.flow_item(_started_at(run)) if is_scheduled else {}
            walked = await walk_flow(plan, entry.name, trigger_data, context=means, journal=rows)
        else:
            walked = await walk(
                plan, entry.name, _trigger_items(walk_, entry, start_item), context=means, journal=rows
            )
    except CallError as error:
        return await rows.call_failed(error)
    except MemoryBudgetExceeded:
        await rows.fail_too_much_data()
        raise TooMuchData from None
    finally:
        walk_.ctx.progress.pop(run.id, None)
    if walked.failed is not None:
        return await _failed_execution(rows, walked, walked.failed)
    if not walked.held:
        await _skip_unreached(rows, walked)
    return None


async def _failed_execution(rows: "WorkflowJournal", walked: WalkResult, failed: Execution) -> EndedStep:
    """Returns the row of the execution that ended the walk."""
    if walked.limit_exceeded:
        words = "The workflow ran more than 10,000 steps and was stopped. Check what ends its circles."
        return await rows.fail(failed, "step_failed", words)
    failure = walked.failure
    words = (failure.error if failure is not None else None) or "This step failed."
    code = (failure.code if failure is not None else None) or "step_failed"
    return rows.failed_row(failed, code, words)


async def _skip_unreached(rows: "WorkflowJournal", walked: WalkResult) -> None:
    """Writes rows of the steps that this run will not reach any more."""
    for code, words in _LEFT_OUT.items():
        for step in _not_reached(rows.walk.plan, rows.walk.step_messages, code):
            await rows.skip(step, code, words)
    for step in walked.starved:
        await rows.skip(step, "input_missing", "One of its inputs never came, so it did not run.")


def _not_reached(
    plan: Plan, step_messages: Mapping[str, tuple[str | None, str | None]], code: str
) -> list[PlanStep]:
    """Returns the steps after executions that ended with this code and that did not run."""
    open_ = [key.partition("\x00")[0] for key, (step_code, _) in step_messages.items() if step_code == code]
    ran = {key.partition("\x00")[0] for key in step_messages}
    unreached: set[str] = set()
    while open_:
        name = open_.pop()
        following = {edge.target for edge in plan.edges if edge.source == name} - unreached - ran
        unreached |= following
        open_ += following
    return [step for step in plan.steps if step.name in unreached]


def _binding(bindings: JsonObject, name: str) -> JsonObject | None:
    binding = bindings.get(name)
    return binding if isinstance(binding, Mapping) else None


def _trigger_items(walk_: Walk, entry: PlanTrigger, start_item: Item | None) -> Items:
    """Returns the trigger's items: the payload's, the event's body, the schedule's time, or an empty one."""
    if start_item is not None:
        return [start_item]
    start = walk_.journal.get(START)
    event = start.output.get("event") if start is not None and isinstance(start.output, dict) else None
    if isinstance(event, Mapping):
        payload = event.get("payload", {})
        if entry.replaced == "webhook":
            return trigger_items([{"body": payload, "headers": {}, "query": {}, "params": {}}])
        return trigger_items([payload if isinstance(payload, Mapping) else {"body": payload}])
    if entry.kind == "schedule":
        return trigger_items(
            [start_times.schedule_item(_started_at(walk_.run), walk_.claimed.automation.timezone)]
        )
    return trigger_items([{}])


def _started_at(run: Run) -> datetime:
    return run.slot_at or run.started_at or run.queued_at


@dataclass(slots=True)
class WorkflowJournal:
    """The run's journal: an execution with a row is not run again; one that runs gets a row."""

    walk: Walk
    repeats: frozenset[str]
    started_at: dict[str, datetime] = field(default_factory=dict)
    current: Execution | None = None

    def iteration(self, execution: Execution) -> str:
        """Returns which execution of its step it is, from 1; empty for a step that can run only once."""
        if execution.iteration is not None:
            return execution.iteration
        return str(execution.run + 1) if execution.step.name in self.repeats else ""

    def key(self, execution: Execution) -> str:
        """Returns the execution's key in the walk's journal."""
        return execution_key(execution.step.name, self.iteration(execution))

    async def recorded(self, execution: Execution) -> SettledExecution | ExecutionHold | None:
        """Returns the stored result of the execution, if any. Raises MustWait while it sleeps."""
        value = self.walk.journal.get(self.key(execution))
        if value is None:
            return None
        output: Mapping[str, Any] = value.output if isinstance(value.output, dict) else {}
        self._restore_static_data(output["output"] if value.state is ValueState.HELD else output)
        if value.state is ValueState.HELD:
            return await self._undecided(execution)
        if output.get("held"):
            # As it was when it ran, even if applying it failed: others of its round are still to be applied.
            return ExecutionHold.HELD
        if value.state is ValueState.FAILED:
            return self._outcome(execution)
        if "until" in output:
            seconds_left = (
                datetime.fromisoformat(output["until"]) - self.walk.ctx.clock.now()
            ).total_seconds()
            if seconds_left > 0:
                raise MustWait(seconds_left)
        return _settled(output)

    def _restore_static_data(self, output: Mapping[str, Any]) -> None:
        if self.walk.static_data is not None and _STATIC_DATA in output:
            self.walk.static_data.restore(output[_STATIC_DATA])

    def _output(self, done: ExecutionResult) -> dict[str, JsonValue]:
        """Returns what the row of an execution keeps of it."""
        output: dict[str, JsonValue] = {"out": encode_outputs(done.outputs or [])}
        if done.error is not None:
            output["error"] = done.error
        if self.walk.static_data is not None and (changes := self.walk.static_data.take_unrecorded()):
            output[_STATIC_DATA] = changes
        return output

    async def _undecided(self, execution: Execution) -> SettledExecution | ExecutionHold:
        if self.walk.needs_approval(execution.step):
            return ExecutionHold.HELD
        await self._apply(execution)  # a send at its step that was cut short
        return self._outcome(execution)

    async def before(self, execution: Execution) -> None:
        """Checks that the lease holds and time is left. Raises LeaseLost, WorkerStopping, RunTimedOut."""
        if self.walk.seconds_left() <= 0:
            raise RunTimedOut
        ctx = self.walk.ctx
        await ctx.wait_for_lease(self.walk.lease)
        self.current = execution
        self.walk.opened.touched.clear()
        started_at = ctx.clock.now()
        self.started_at[self.key(execution)] = started_at
        self.walk.show_progress(execution.step, started_at)

    async def within_time_limit(self, work: Awaitable[T]) -> T:
        """Awaits the work within what is left of the run's time. Raises RunTimedOut."""
        limit = asyncio.timeout(self.walk.seconds_left())
        try:
            async with limit:
                return await work
        except TimeoutError:
            if limit.expired():
                raise RunTimedOut from None
            raise

    async def record(self, execution: Execution, done: ExecutionResult) -> SettledExecution | ExecutionHold:
        """Writes the execution's row. Raises MustWait for a wait that sleeps."""
        self.walk.ctx.progress.pop(self.walk.run.id, None)
        if done.outputs is None:
            await self.fail(execution, done.code or "step_failed", done.error or "This step failed.")
            return SettledExecution(None, done.error, done.code)
        result = done.result
        if result is not None and result.proposals:
            if execution.step.kind not in (StepKind.CHANGE, StepKind.SEND):
                # No approval would be requested: a step's class decides that when the workflow is imported.
                words = "This step only reads, and would have changed something. Nothing was sent."
                await self.fail(execution, "step_failed", words)
                return SettledExecution(None, words, "step_failed")
            return await self._propose(execution, done, result)
        output = self._output(done)
        wait = self._wait(result)
        if wait is not None:
            output["until"] = wait.isoformat()
        await self.walk.checkpoint(self._ended(execution, done), output, state=ValueState.DONE)
        if wait is not None:
            seconds_left = (wait - self.walk.ctx.clock.now()).total_seconds()
            if seconds_left > _SHORT_WAIT:
                raise MustWait(seconds_left)
            await self.walk.ctx.clock.sleep(max(seconds_left, 0))
        return SettledExecution(done.outputs, done.error, done.code)

    def _wait(self, result: NodeResult | None) -> datetime | None:
        if result is None or self.walk.run.mode is Mode.TEST:
            return None
        return result.wait_until

    def _ended(self, execution: Execution, done: ExecutionResult) -> EndedStep:
        result = done.result
        off = origin_of(execution.step).disabled
        message = "Switched off in the tool: items passed it unchanged." if off else None
        left_out = done.code == UNKNOWN_IN_TEST
        if done.error is not None:
            message = done.error[:500] if left_out else f"A failure was tolerated: {done.error}"
        return EndedStep(
            step=execution.step,
            title=execution.step.title,
            status=StepStatus.SKIPPED if off or left_out else StepStatus.SUCCEEDED,
            started_at=self.started_at[self.key(execution)],
            connection=self.walk.opened.row(),
            counts=result.counts if result is not None else Counts(),
            attempt=self.walk.lease.attempt,
            iteration=self.iteration(execution),
            message=message or (result.message if result is not None else None),
            code=done.code if left_out else None,
        )

    async def _propose(
        self, execution: Execution, done: ExecutionResult, result: NodeResult
    ) -> SettledExecution | ExecutionHold:
        asks = self.walk.needs_approval(execution.step)
        output = self._output(done)
        if asks:
            output["held"] = True
        if result.answers and self.walk.run.mode is Mode.LIVE:
            output["answers"] = encode_answers(result.answers)
        produced = StepResult(
            output=output,
            counts=result.counts,
            message=result.message,
            proposals=result.proposals,
            item_of=result.item_of,
        )
        started_at = self.started_at[self.key(execution)]
        try:
            await proposals.propose(
                self.walk,
                execution.step,
                produced,
                started_at,
                iteration=self.iteration(execution),
                asks=asks,
                hand_on=self._hand_on(execution),
            )
        except StepFailed as failure:
            await self.fail(execution, failure.code, failure.message)
            return SettledExecution(None, failure.message, failure.code)
        return ExecutionHold.HELD if asks else self._outcome(execution)

    async def _apply(self, execution: Execution) -> None:
        await self.walk.ctx.wait_for_lease(self.walk.lease)
        now = self.walk.ctx.clock.now()
        iteration, hand_on = self.iteration(execution), self._hand_on(execution)
        await proposals.apply_step(self.walk, execution.step, now, iteration, hand_on)

    def _hand_on(self, execution: Execution) -> proposals.HandOn:
        """Returns how the execution's output follows from what became of its changes."""
        return partial(_handed_on, execution, self.walk.plan.mode)

    async def decided(self, execution: Execution) -> SettledExecution | None:
        """Returns what a held execution hands on after the decision; None while it waits."""
        value = self.walk.journal[self.key(execution)]
        if value.state is ValueState.HELD:
            if await proposals.waits_for_decision(self.walk, execution.step, self.iteration(execution)):
                return None
            await self._apply(execution)
        return self._outcome(execution)

    def _outcome(self, execution: Execution) -> SettledExecution:
        value = self.walk.journal[self.key(execution)]
        if value.state is ValueState.FAILED:
            code, words = self.walk.step_messages.get(self.key(execution), (None, None))
            # One that failed on its own, not because of what it sent, stored no output and ended the run.
            stops = value.output is None or origin_of(execution.step).on_error is OnError.STOP
            stops = stops or code == "outcome_unknown"
            return SettledExecution(None if stops else [], words, code)
        return _settled(value.output if isinstance(value.output, dict) else {})

    async def fail(self, execution: Execution, code: str, words: str) -> EndedStep:
        """Writes the row of an execution that failed and ended the run."""
        failed = self.failed_row(execution, code, words)
        ended = failed._replace(attempt=self.walk.lease.attempt)
        await self.walk.checkpoint(ended, None, state=ValueState.FAILED)
        return ended

    def failed_row(self, execution: Execution, code: str, words: str) -> EndedStep:
        """Returns that row without writing it."""
        return EndedStep(
            step=execution.step,
            title=execution.step.title,
            status=StepStatus.FAILED,
            started_at=self.started_at.get(self.key(execution)) or self.walk.ctx.clock.now(),
            connection=self.walk.opened.row(),
            counts=Counts(),
            iteration=self.iteration(execution),
            code=code,
            message=words[:500],
        )

    async def call_failed(self, error: CallError) -> EndedStep:
        """Fails the step after a failed read, or lets the run wait after a temporary failure."""
        reading = "" if self.current is None else self.key(self.current)
        step = None if self.current is None else self.current.step
        started_at = self.started_at.get(reading) or self.walk.ctx.clock.now()
        wait = await read_retries.wait_for(self.walk, error, reading, step, started_at)
        if wait is not None:
            raise wait from error
        if self.current is None:
            raise error
        touched = self.walk.opened.touched
        await connection_checks.schedule_check(
            self.walk.ctx.engine, self.walk.ctx.clock, self.walk.run.org, touched, kinds=[error.kind]
        )
        return await self.fail(self.current, error.kind, read_retries.failure_message(error))

    async def fail_too_much_data(self) -> None:
        """Writes the row of an execution that exceeded the data limit; none for a replayed one."""
        if self.current is not None and self.key(self.current) not in self.walk.journal:
            words = "It gives more data than a run may keep. Narrow down what it reads or makes."
            await self.fail(self.current, "too_much_data", words)

    async def skip(self, step: PlanStep, code: str, words: str) -> None:
        """Writes the row of a step that did not run because its inputs never arrived or are not known."""
        if step.name in self.walk.step_messages:
            return
        ended = EndedStep(
            step=step,
            title=step.title,
            status=StepStatus.SKIPPED,
            started_at=self.walk.ctx.clock.now(),
            connection=None,
            counts=Counts(),
            attempt=self.walk.lease.attempt,
            code=code,
            message=words,
        )
        await self.walk.checkpoint(ended, {"out": []}, state=ValueState.SKIPPED)


def _handed_on(
    execution: Execution, mode: DataMode | None, held_step: proposals.HeldStep, done: Sequence[DoneChange]
) -> HandedOn | None:
    origin = origin_of(execution.step)
    output: Mapping[str, Any] = held_step.output if isinstance(held_step.output, dict) else {}
    step = DoneStep(
        planned=decode_outputs(output.get("out")),
        item_of=held_step.item_of or (),
        answers=decode_answers(output.get("answers")),
        on_error=origin.on_error,
        inputs=[items[:1] for items in execution.inputs] if origin.once else execution.inputs,
        always_output=origin.always_output,
    )
    return flow_handed_on(step, done) if mode is DataMode.ENVIRONMENT else hand_on(step, done, BY_TYPE)


def _settled(output: Mapping[str, Any]) -> SettledExecution:
    return SettledExecution(decode_outputs(output.get("out")), output.get("error"))
