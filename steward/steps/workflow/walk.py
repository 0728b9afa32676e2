"""Walks an imported plan from its trigger to its end or to a person's approval (imports 3, 8; engine 10).

One walk for all: a real run gives it a journal of rows (runs/), a sub-workflow and the recorded cases one in
memory. It runs what the journal does not have, and replays the rest in the same order. `walk` is an items
plan's; a flow's gives `follow` an order and a way to run a step of its own (steps/flow/).
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any, Protocol, TypeVar

from steward.model.change import Proposal
from steward.model.plan import Plan, PlanStep
from steward.model.run import Counts
from steward.steps.workflow.execute import ExecutionContext, ExecutionResult, execute, origin_of
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.items import History, Item, Items, Outputs, PastRun
from steward.steps.workflow.memory_budget import MemoryBudget
from steward.steps.workflow.plan_order import Execution, PlanOrder
from steward.steps.workflow.step_types import (
    MAX_SUB_WORKFLOW_DEPTH,
    ItemFailed,
    RunEnvironment,
    StepType,
    SubWorkflowResult,
    WorkflowStepFailed,
)

T = TypeVar("T")
MAX_EXECUTIONS = 10_000


class ExecutionHold(Enum):
    """An execution that is held: what follows it waits for a person's decision."""

    HELD = "held"


@dataclass(frozen=True, slots=True)
class SettledExecution:
    """What an execution handed on; None: it failed and the run ends."""

    outputs: Outputs | None
    error: str | None = None
    code: str | None = None


class Journal(Protocol):
    """Where executions are kept."""

    async def recorded(self, execution: Execution) -> SettledExecution | ExecutionHold | None:
        """What is already there of it."""
        ...

    async def record(self, execution: Execution, done: ExecutionResult) -> SettledExecution | ExecutionHold:
        """Keeps what became of it, and says what it hands on."""
        ...

    async def before(self, execution: Execution) -> None:
        """It is about to run; raises when the run must not go on."""
        ...

    async def within_time_limit(self, work: Coroutine[Any, Any, T]) -> T:
        """Lets a step work, never its changes be applied, within what is left of the run's time."""
        ...

    async def decided(self, execution: Execution) -> SettledExecution | None:
        """What a held one handed on once it was decided; None while it waits."""
        ...


@dataclass(slots=True)
class WalkResult:
    """How far a walk came. `failed`: the step that ended it. `held`: executions waiting for a decision."""

    order: "ExecutionOrder"
    failed: Execution | None = None
    failure: SettledExecution | None = None
    held: list[Execution] = field(default_factory=list)
    starved: list[PlanStep] = field(default_factory=list)
    limit_exceeded: bool = False
    history: History = field(default_factory=dict)  # what ran, of an items plan


class ExecutionOrder(Protocol):
    """Which execution is next, and what follows from what one handed on."""

    def next(self) -> Execution | None:
        """The next one; None when only held ones, or inputs that never come, are left."""
        ...

    def settle(self, execution: Execution, outputs: Outputs | None, error: str | None = None) -> None:
        """It ended with these outputs; None: it failed and nothing follows."""
        ...

    def start_waiting(self) -> bool:
        """Whether a step that waits for inputs is let run with what it has."""
        ...

    def starved(self) -> list[PlanStep]:
        """Steps that wait for an input that never came."""
        ...


@dataclass(frozen=True, slots=True)
class WalkContext:
    """What a walk is given beside its plan and journal."""

    evaluator: Evaluator
    environment: RunEnvironment
    types: Mapping[str, StepType]
    sleep: Callable[[float], Awaitable[None]]
    clock: Callable[[], datetime]
    budget: MemoryBudget = field(default_factory=MemoryBudget)


async def walk(plan: Plan, entry: str, items: Items, *, context: WalkContext, journal: Journal) -> WalkResult:
    """Runs the plan as far as it goes now. Raises TooMuch when its steps hold more data than they may."""
    types = context.types
    order = PlanOrder(
        plan,
        entry=entry,
        items=items,
        demands=lambda step: types[origin_of(step).source_type].demands_all(step),
    )
    depth = context.environment.depth + 1

    async def run_inner(name: str, called: Plan, items_: Items) -> SubWorkflowResult:
        environment = replace(
            context.environment, depth=depth, binding=lambda inside: context.environment.binding(name)
        )
        return await run_sub_workflow(called, items_, context=replace(context, environment=environment))

    environment = replace(context.environment, sub_workflow=plan.inner.get, run_sub_workflow=run_inner)
    execution_context = ExecutionContext(
        plan=plan,
        entry=entry,
        history=order.history,
        evaluator=context.evaluator,
        scene=environment,
        types=types,
        sleep=context.sleep,
        clock=context.clock,
    )
    run = partial(execute, execution_context)
    walked = await follow(
        order,
        run,
        journal=journal,
        context=context,
        is_rerun=_anew(types),
        on_outputs=execution_context.partials.note,
    )
    walked.history = order.history
    return walked


def _anew(types: Mapping[str, StepType]) -> Callable[[PlanStep], bool]:
    """Whether a step is run again when it is replayed, so that its memory is made again."""

    def again(step: PlanStep) -> bool:
        kind = types.get(origin_of(step).source_type)
        return kind is not None and kind.stateful and not origin_of(step).disabled

    return again


async def follow(
    order: ExecutionOrder,
    run: Callable[[Execution], Coroutine[Any, Any, ExecutionResult]],
    *,
    journal: Journal,
    context: WalkContext,
    is_rerun: Callable[[PlanStep], bool] = lambda step: False,
    on_outputs: Callable[[Outputs | None], None] = lambda outputs: None,
) -> WalkResult:
    """Takes executions in their order as far as it goes now. Raises TooMuch.

    `note` is told what each hands on. Others have their turn before each: thousands that are replayed, or run
    without rows, might wait for nothing, and no limit could end them.
    """
    walked = WalkResult(order)
    count = 0
    while True:
        execution = order.next()
        if execution is None:
            if walked.held:
                if not await _release(walked, journal) or walked.failed is not None:
                    return walked
            elif not order.start_waiting():
                walked.starved = order.starved()
                return walked
            continue
        count += 1
        if count > MAX_EXECUTIONS:
            walked.limit_exceeded, walked.failed = True, execution
            return walked
        await context.sleep(0)
        settled = await _run_or_replay(run, execution, journal=journal, room=context.budget, anew=is_rerun)
        if settled is ExecutionHold.HELD:
            walked.held.append(execution)
            continue
        on_outputs(settled.outputs)
        if settled.outputs is None:
            order.settle(execution, None, settled.error)
            walked.failed, walked.failure = execution, settled
            return walked
        else:
            order.settle(execution, settled.outputs, settled.error)


async def _run_or_replay(
    run: Callable[[Execution], Coroutine[Any, Any, ExecutionResult]],
    execution: Execution,
    *,
    journal: Journal,
    room: MemoryBudget,
    anew: Callable[[PlanStep], bool],
) -> SettledExecution | ExecutionHold:
    settled = await journal.recorded(execution)
    if settled is None:
        await journal.before(execution)
        done = await journal.within_time_limit(run(execution))
        room.reserve(done.outputs)  # before it is written out: a value may stand in it a thousand times
        return await journal.record(execution, done)
    if anew(execution.step):
        done = await journal.within_time_limit(run(execution))  # nothing of it is kept twice
        settled = SettledExecution(done.outputs, done.error, done.code)
    if isinstance(settled, SettledExecution):
        room.reserve(settled.outputs)
    return settled


async def _release(walked: WalkResult, journal: Journal) -> bool:
    """Lets what was decided go on, all of one round and in its order; false while one still waits.

    All that was approved has been applied by then; after one that failed nothing new starts (engine 10.1).
    """
    decided = [(execution_, await journal.decided(execution_)) for execution_ in walked.held]
    if any(settled is None for _, settled in decided):
        return False
    walked.held = []
    for execution, settled in reversed(decided):  # the first held goes on first: it comes to the stack's top
        if settled is not None:
            walked.order.settle(execution, settled.outputs, settled.error)
            if settled.outputs is None:
                walked.failed, walked.failure = execution, settled
    return True


@dataclass(slots=True)
class InMemoryJournal:
    """A journal that forgets: sub-workflows and recorded cases. `ran` is the order things ran in.

    `acted`: executions that read, or would change or send something.
    """

    ran: list[tuple[str, int]] = field(default_factory=list)
    acted: list[ExecutionResult] = field(default_factory=list)

    async def recorded(self, execution: Execution) -> SettledExecution | ExecutionHold | None:
        """Nothing is."""
        return None

    async def before(self, execution: Execution) -> None:
        """Noted."""
        self.ran.append((execution.step.name, execution.run))

    async def within_time_limit(self, work: Coroutine[Any, Any, T]) -> T:
        """The run around it has the limit."""
        return await work

    async def record(self, execution: Execution, done: ExecutionResult) -> SettledExecution | ExecutionHold:
        """Handed on as it is."""
        if done.result is not None and (done.result.proposals or done.result.counts.read):
            self.acted.append(done)
        return SettledExecution(done.outputs, done.error, done.code)

    async def decided(self, execution: Execution) -> SettledExecution | None:
        """Nothing is ever held."""
        return SettledExecution([])


def last_ran(history: History, ran: Sequence[tuple[str, int]], entry: str) -> PastRun:
    """The execution that ran last, whose items are what a called workflow gives back."""
    for name, run in reversed(ran):
        if history[name][run].outputs is not None:
            return history[name][run]
    return history[entry][-1]


async def run_sub_workflow(plan: Plan, items: Items, *, context: WalkContext) -> SubWorkflowResult:
    """Runs a called workflow within a step, whose binding is that of all its steps. Raises StepBroke."""
    if context.environment.depth > MAX_SUB_WORKFLOW_DEPTH:
        raise WorkflowStepFailed(f"Workflows call each other more than {MAX_SUB_WORKFLOW_DEPTH} deep.")
    entry = plan.entry()
    if entry is None:
        raise ItemFailed("The called workflow has no trigger.")
    environment = replace(context.environment, zone=plan.timezone or context.environment.zone)
    within = replace(context, environment=environment, budget=context.budget.for_sub_workflow())
    journal = InMemoryJournal()
    walked = await walk(plan, entry.name, items, context=within, journal=journal)
    if walked.failed is not None:
        error = walked.failure.error if walked.failure is not None else None
        raise ItemFailed(error or "The called workflow did not come to its end.")
    last = last_ran(walked.history, journal.ran, entry.name)
    items_ = [item for output in last.outputs or [] for item in output]
    proposals: list[Proposal] = []
    item_of: list[int] = []
    counts = Counts()
    for done in journal.acted:
        result = done.result
        if result is None:
            continue
        proposals += result.proposals
        item_of += result.item_of if done.outputs is last.outputs else [-1] * len(result.proposals)
        counts = counts.plus(result.counts)
    return SubWorkflowResult(
        [Item(item.json, None, item.error, item.partial) for item in items_],
        tuple(proposals),
        tuple(item_of),
        counts,
    )
