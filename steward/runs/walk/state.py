"""A run being executed: its plan, its journal so far, and the only functions that write checkpoints."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TypeVar

from steward.database.engine.base import Tx
from steward.database.runs import changes, steps
from steward.database.runs.steps import StepValue, TooMuchData, ValueState, execution_key
from steward.database.runs.transitions import Lease
from steward.failpoint import failpoint
from steward.model.change import Change, Outcome
from steward.model.ids import ApprovalId, ChangeId
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import Plan, PlanStep, StepKind
from steward.model.run import Counts, Mode, Run
from steward.run_queue.summaries import RunTotals, step_counts
from steward.runs import checkpoint, finish
from steward.runs.checkpoint import Checkpoint, EndedStep
from steward.runs.claimed_run import ClaimedRun
from steward.runs.finish import FinishRequest
from steward.runs.lease import CancelRequested
from steward.runs.open_connections import OpenConnections
from steward.runs.run_context import Progress, RunContext
from steward.steps.base import MemoryWrite
from steward.steps.workflow.static_data import StaticData
from steward.templates.base import Template

T = TypeVar("T")
# A journal row that is no execution: since when the reads of each unfinished execution have failed.
FAILING = "@failing"


class ApprovalMismatch(Exception):
    """The approved changes and those about to be applied differ; nothing is written."""


class RunTimedOut(Exception):
    """The run was running for longer than its time limit."""


@dataclass(frozen=True, slots=True)
class VerifiedSet:
    """An approved set verified against its rows: the hash of each of its changes."""

    approval: ApprovalId
    change_hash: str
    hashes: Mapping[ChangeId, str]


@dataclass(slots=True)
class Walk:
    """A run being walked through its plan."""

    ctx: RunContext
    claimed: ClaimedRun
    template: Template | None  # None for a workflow, whose plan is stored with its automation
    plan: Plan
    opened: OpenConnections
    seq: int
    round: int
    journal: dict[str, StepValue]
    counted: Counts  # by the steps themselves, without their changes
    started: float  # by the monotonic clock
    output_bytes: int = 0
    step_messages: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    outcomes: dict[str, Sequence[Outcome]] = field(default_factory=dict)
    bindings: JsonObject = field(default_factory=dict)
    verified: VerifiedSet | None = None

    is_ended: bool = False  # its end was committed with its last step
    static_data: StaticData | None = None  # what a workflow's scripts keep from run to run
    sends_wait_for_approval: bool = True  # a workflow's sends wait for approval (`send_mode: ask`)

    @property
    def lease(self) -> Lease:
        """The lease under which the run is held."""
        return self.claimed.lease

    @property
    def run(self) -> Run:
        """The run as it was claimed."""
        return self.claimed.run

    def needs_approval(self, step: PlanStep) -> bool:
        """Returns whether what the step would change or send waits for a person."""
        if self.run.mode is Mode.TEST:
            return False
        asks_for_sends = self.template is None and self.sends_wait_for_approval
        return step.kind is StepKind.CHANGE or (step.kind is StepKind.SEND and asks_for_sends)

    def seconds_left(self) -> float:
        """Returns the rest of the run's time limit; waiting and sleeping do not count."""
        used = self.claimed.state.leased_ms / 1000 + self.ctx.clock.monotonic() - self.started
        return self.ctx.rules.time_limit.total_seconds() - used

    def leased_ms(self) -> int:
        """Returns the milliseconds since this worker started the run."""
        return int((self.ctx.clock.monotonic() - self.started) * 1000)

    async def read(self, act: Callable[[Tx], Awaitable[T]]) -> T:
        """Reads as the run's organization."""
        return await self.ctx.engine.read(self.ctx.clock.now(), act, org=self.lease.org)

    def show_progress(self, step: PlanStep, started_at: datetime) -> None:
        """Makes the run's `current_step` show the step."""
        self.ctx.progress[self.run.id] = Progress(self.lease, step, started_at)

    def failing_since(self) -> dict[str, str]:
        """Returns since when reads fail, by execution; stored with the run while it sleeps."""
        row = self.journal.get(FAILING)
        return dict(row.output) if row is not None and isinstance(row.output, dict) else {}

    def totals(self) -> RunTotals:
        """Returns the run's totals so far; `outcomes` has to match the stored rows."""
        executions = [name for name in self.journal if not name.startswith("@")]
        sending = {step.name for step in self.plan.steps if step.kind is StepKind.SEND}
        return RunTotals(
            mode=self.run.mode,
            template=self.template,
            inputs=self.claimed.automation.inputs,
            journal=self.journal,
            executions=executions,
            counted=self.counted,
            outcomes=self.outcomes,
            sends={execution for execution in self.outcomes if execution.partition("\x00")[0] in sending},
        )

    async def proposed_so_far(self) -> int:
        """Returns how many changes the run has proposed in all its rounds."""
        return await self.read(partial(changes.count, org=self.lease.org, run=self.run.id))

    async def checkpoint(
        self,
        ended: EndedStep,
        output: JsonValue,
        *,
        state: ValueState,
        changes: Sequence[Change] = (),
        memory: Sequence[MemoryWrite] = (),
    ) -> None:
        """Writes the next row of the run. Raises LeaseLost, CancelRequested, TooMuchData."""
        new_checkpoint = self._checkpoint(ended, output, state=state, changes=changes, memory=memory)
        failpoint("before_checkpoint")
        cancel = await checkpoint.commit(self.ctx.engine, self.ctx.clock.now(), new_checkpoint)
        failpoint("after_checkpoint")
        self._record_checkpoint(ended, new_checkpoint)
        if cancel is not None:
            raise CancelRequested(cancel)

    async def last_checkpoint(
        self, ended: EndedStep, output: JsonValue, *, end: Callable[[], FinishRequest]
    ) -> FinishRequest | None:
        """Writes the last row of a run and, in the same commit, its `end` when it succeeded.

        Returns that end if it was written.

        Raises LeaseLost, CancelRequested, TooMuchData.
        """
        new_checkpoint = self._checkpoint(ended, output, state=ValueState.DONE)
        self._record_checkpoint(ended, new_checkpoint)  # the run's summary includes this step
        request, now, engine = end(), self.ctx.clock.now(), self.ctx.engine
        failpoint("before_checkpoint")
        if request.is_success:
            failpoint("before_finish")
            last_checkpoint = checkpoint.step_checkpoint(new_checkpoint, ended)
            closed = await finish.end_with_step(engine, now, request, last_checkpoint)
            is_ended, cancel = closed.ended, closed.cancel
        else:
            is_ended, cancel = False, await checkpoint.commit(engine, now, new_checkpoint)
        failpoint("after_checkpoint")
        if cancel is not None:
            raise CancelRequested(cancel)
        return request if is_ended else None

    def _checkpoint(
        self,
        ended: EndedStep,
        output: JsonValue,
        *,
        state: ValueState,
        changes: Sequence[Change] = (),
        memory: Sequence[MemoryWrite] = (),
    ) -> Checkpoint:
        packed = steps.packed(output)
        if self.output_bytes + len(packed) > steps.RUN_BYTES:
            raise TooMuchData
        value = StepValue(ended.step.name, ended.iteration, self.seq + 1, state, output)
        return Checkpoint(
            lease=self.lease,
            automation=self.run.automation_id,
            seq=self.seq + 1,
            ended=ended,
            value=value,
            output=packed,
            changes=changes,
            memory=memory,
        )

    def _record_checkpoint(self, ended: EndedStep, new_checkpoint: Checkpoint) -> None:
        """Updates the walk with a checkpoint."""
        self.seq += 1
        self.output_bytes += len(new_checkpoint.output)
        key = execution_key(ended.step.name, ended.iteration)
        self.journal[key] = new_checkpoint.value
        counts = step_counts(ended.counts, status=ended.status, has_changes=ended.changes_total > 0)
        self.counted = self.counted.plus(counts)
        self.step_messages[key] = (ended.code, ended.message)
