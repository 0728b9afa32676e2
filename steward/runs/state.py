"""One run in a worker's hands: what is known of it so far, and the one way to write a checkpoint."""

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
from steward.model.run import Counts, Run
from steward.run_queue.summaries import RunTotals, step_counts
from steward.runs import approval, checkpoint, finish
from steward.runs.checkpoint import Checkpoint, Ended
from steward.runs.claim import ClaimedRun
from steward.runs.context import Opened
from steward.runs.finish import Finish
from steward.runs.worker_context import CancelRequested, Progress, WorkerContext
from steward.steps.base import MemoryWrite
from steward.templates.base import Template

T = TypeVar("T")
# A row of the journal that is no execution: since when reads of each that has not ended have failed.
FAILING = "@failing"


class ApprovalMismatch(Exception):
    """What was approved and what would be applied differ: nothing is written (engine 12)."""


class TimedOut(Exception):
    """The run was in workers' hands for longer than its time limit."""


@dataclass(frozen=True, slots=True)
class VerifiedSet:
    """An approved set whose rows were found to be what was approved: the hash of each of its changes."""

    approval: ApprovalId
    change_hash: str
    hashes: Mapping[ChangeId, str]


@dataclass(slots=True)
class Walk:
    """A run being walked."""

    ctx: WorkerContext
    claimed: ClaimedRun
    template: Template | None  # None: a workflow, whose plan was kept with the automation
    plan: Plan
    opened: Opened
    seq: int
    round: int
    journal: dict[str, StepValue]
    counted: Counts  # by the steps themselves, without their changes
    began: float
    kept_bytes: int = 0
    step_messages: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    outcomes: dict[str, Sequence[Outcome]] = field(default_factory=dict)
    bindings: JsonObject = field(default_factory=dict)
    verified: VerifiedSet | None = None

    is_ended: bool = False  # with its last step
    asks: bool = True  # a workflow's sends wait for approval (`send_mode: ask`)

    @property
    def lease(self) -> Lease:
        """The lease the run is held by."""
        return self.claimed.lease

    @property
    def run(self) -> Run:
        """The run as it was taken."""
        return self.claimed.run

    def seconds_left(self) -> float:
        """What is left of the run's time limit; waiting and sleeping do not count (engine 10.1)."""
        used = self.claimed.hot.leased_ms / 1000 + self.ctx.clock.monotonic() - self.began
        return self.ctx.rules.time_limit.total_seconds() - used

    def leased_ms(self) -> int:
        """Milliseconds in this worker's hands."""
        return int((self.ctx.clock.monotonic() - self.began) * 1000)

    async def read(self, act: Callable[[Tx], Awaitable[T]]) -> T:
        """A read of the run's organisation."""
        return await self.ctx.engine.read(self.ctx.clock.now(), act, org=self.lease.org)

    def show(self, step: PlanStep, started_at: datetime) -> None:
        """Lets the run's `current_step` tell what it is at (engine 3.5)."""
        self.ctx.progress[self.run.id] = Progress(self.lease, step, started_at)

    def failing(self) -> dict[str, str]:
        """Since when reads fail, by execution; kept with the run while it sleeps."""
        row = self.journal.get(FAILING)
        return dict(row.output) if row is not None and isinstance(row.output, dict) else {}

    def record(self) -> RunTotals:
        """What is recorded of the run by now; `outcomes` has to be as the rows have it."""
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
            sends={one for one in self.outcomes if one.partition("\x00")[0] in sending},
        )

    async def proposed_so_far(self) -> int:
        """How many changes the run has proposed in all its rounds."""
        return await self.read(partial(changes.count, org=self.lease.org, run=self.run.id))

    def change_hash(self, round_: int, items: Sequence[Change]) -> str:
        """The hash of a round's changes as they stand in the rows."""
        return approval.change_set(self.run, round_, items).change_hash()

    async def checkpoint(
        self,
        ended: Ended,
        output: JsonValue,
        *,
        state: ValueState,
        changes: Sequence[Change] = (),
        memory: Sequence[MemoryWrite] = (),
    ) -> None:
        """Writes the next row of the run. Raises LeaseLost, CancelRequested, TooMuchData."""
        point = self._point(ended, output, state=state, changes=changes, memory=memory)
        failpoint("before_checkpoint")
        cancel = await checkpoint.keep(self.ctx.engine, self.ctx.clock.now(), point)
        failpoint("after_checkpoint")
        self._note(ended, point)
        if cancel is not None:
            raise CancelRequested(cancel)

    async def last_checkpoint(
        self, ended: Ended, output: JsonValue, *, end: Callable[[], Finish]
    ) -> Finish | None:
        """Writes the last row of a run, and in the same commit its `end` if that went well; it, if so.

        Raises LeaseLost, CancelRequested, TooMuchData.
        """
        point = self._point(ended, output, state=ValueState.DONE)
        assert point.value is not None
        self._note(ended, point)  # the run's last words tell of this step too
        wanted, now, engine = end(), self.ctx.clock.now(), self.ctx.engine
        failpoint("before_checkpoint")
        if wanted.went_well:
            failpoint("before_finish")
            kept = checkpoint.plain_point(point, ended, point.value, now)
            closed = await finish.end_with_step(engine, now, wanted, kept)
            is_ended, cancel = closed.ended, closed.cancel
        else:
            is_ended, cancel = False, await checkpoint.keep(engine, now, point)
        failpoint("after_checkpoint")
        if cancel is not None:
            raise CancelRequested(cancel)
        return wanted if is_ended else None

    def _point(
        self,
        ended: Ended,
        output: JsonValue,
        *,
        state: ValueState,
        changes: Sequence[Change] = (),
        memory: Sequence[MemoryWrite] = (),
    ) -> Checkpoint:
        packed = steps.packed(output)
        if self.kept_bytes + len(packed) > steps.RUN_BYTES:
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

    def _note(self, ended: Ended, point: Checkpoint) -> None:
        """What is known of the run with this checkpoint."""
        assert point.value is not None
        self.seq += 1
        self.kept_bytes += len(point.output)
        key = execution_key(ended.step.name, ended.iteration)
        self.journal[key] = point.value
        own = step_counts(ended.counts, status=ended.status, has_changes=ended.changes_total > 0)
        self.counted = self.counted.plus(own)
        self.step_messages[key] = (ended.code, ended.message)
