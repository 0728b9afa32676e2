"""The journal of a workflow's run: its rows, from which executions are restored."""

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from steward.database.runs.steps import ValueState, execution_key
from steward.model.json import JsonValue
from steward.model.plan import OnError, PlanStep, StepKind, StepStatus
from steward.model.run import Counts, Mode
from steward.outbound.errors import CallError
from steward.runs.checkpoint import EndedStep
from steward.runs.walk import apply_held, proposals, read_retries
from steward.runs.walk.state import RunTimedOut, Walk
from steward.runs.walk.workflow_outputs import output_function_of
from steward.runs.writes.apply import MustWait
from steward.steps.base import StepFailed, StepResult
from steward.steps.workflow.execute import ExecutionResult, origin_of
from steward.steps.workflow.items import decode_outputs, encode_outputs
from steward.steps.workflow.output_after_changes import (
    encode_response_uses,
)
from steward.steps.workflow.plan_order import Execution
from steward.steps.workflow.step_types import UNKNOWN_IN_TEST, NodeResult
from steward.steps.workflow.walk import ExecutionHold, SettledExecution

T = TypeVar("T")
_STATIC_DATA = "static_data"  # in the row of an execution: the objects it changed
_SHORT_WAIT = 2.0  # a wait of at most this many seconds stays in memory


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
        """Returns the data that the row of an execution stores."""
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
        """Returns the public row of an execution that succeeded, was switched off, or tolerated a failure."""
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
        """Handles the changes that an execution proposes: held for approval, or sent at once."""
        asks = self.walk.needs_approval(execution.step)
        output = self._output(done)
        if asks:
            output["held"] = True
        if result.response_uses and self.walk.run.mode is Mode.LIVE:
            output["answers"] = encode_response_uses(result.response_uses)
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
                compute_output=output_function_of(execution, self.walk.plan.mode),
            )
        except StepFailed as failure:
            await self.fail(execution, failure.code, failure.message)
            return SettledExecution(None, failure.message, failure.code)
        return ExecutionHold.HELD if asks else self._outcome(execution)

    async def _apply(self, execution: Execution) -> None:
        await self.walk.ctx.wait_for_lease(self.walk.lease)
        now = self.walk.ctx.clock.now()
        iteration, compute_output = (
            self.iteration(execution),
            output_function_of(execution, self.walk.plan.mode),
        )
        await apply_held.apply_step(self.walk, execution.step, now, iteration, compute_output)

    async def decided(self, execution: Execution) -> SettledExecution | None:
        """Returns the output of a held execution after the decision; None while it waits."""
        value = self.walk.journal[self.key(execution)]
        if value.state is ValueState.HELD:
            if await apply_held.waits_for_decision(self.walk, execution.step, self.iteration(execution)):
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
        message = await read_retries.fail_read(self.walk, error, reading, step, started_at)
        assert self.current is not None  # fail_read raises an error of no execution
        return await self.fail(self.current, error.kind, message)

    async def fail_too_much_data(self) -> None:
        """Writes the row of an execution that exceeded the data limit; none for a replayed one."""
        if self.current is not None and self.key(self.current) not in self.walk.journal:
            words = "Its output is larger than a run may store. Narrow down what it reads or creates."
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


def _settled(output: Mapping[str, Any]) -> SettledExecution:
    return SettledExecution(decode_outputs(output.get("out")), output.get("error"))
