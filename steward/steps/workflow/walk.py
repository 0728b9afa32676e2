"""Walks an imported plan from its trigger to its end or to an approval.

A real run passes a journal of rows (runs/); sub-workflows and recorded cases pass one in memory. The walk
runs what the journal lacks and replays the rest in the same order. `walk` serves n8n workflows; Shopify Flow
passes its own order and step runner to `follow`. See docs/design/imports-n8n.md#execution.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Protocol, TypeVar

from steward.model.change import Proposal
from steward.model.plan import Plan, PlanStep, PlanTrigger
from steward.model.run import Counts
from steward.steps.workflow.execute import ExecutionContext, ExecutionResult, execute, origin_of
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.items import History, Items, Outputs, PastRun
from steward.steps.workflow.memory_budget import MemoryBudget
from steward.steps.workflow.plan_order import Execution, PlanOrder
from steward.steps.workflow.step_types import (
    MAX_SUB_WORKFLOW_DEPTH,
    ItemFailed,
    ResponseUse,
    RunEnvironment,
    StepType,
    SubWorkflowResult,
    WorkflowStepFailed,
)

T = TypeVar("T")
_MAX_EXECUTIONS = 10_000


class ExecutionHold(Enum):
    """Marks an execution whose successors wait for an approval."""

    HELD = "held"


@dataclass(frozen=True, slots=True)
class SettledExecution:
    """The outputs of a finished execution; None if it failed and the run ends."""

    outputs: Outputs | None
    error: str | None = None
    code: str | None = None


class Journal(Protocol):
    """Records executions and returns what was recorded."""

    async def recorded(self, execution: Execution) -> SettledExecution | ExecutionHold | None:
        """Returns the recorded result of the execution, or None."""
        ...

    async def record(self, execution: Execution, done: ExecutionResult) -> SettledExecution | ExecutionHold:
        """Records the result of the execution and returns its outputs."""
        ...

    async def before(self, execution: Execution) -> None:
        """Prepares for an execution before it runs. Raises if the run must not continue."""
        ...

    async def within_time_limit(self, work: Awaitable[T]) -> T:
        """Awaits a step's work, but never the applying of changes, within the run's remaining time."""
        ...

    async def decided(self, execution: Execution) -> SettledExecution | None:
        """Returns the outputs of a held execution once it is decided, or None while it waits."""
        ...


@dataclass(slots=True)
class WalkResult:
    """The end of a walk. `failed` is the execution that ended it; those in `held` wait for an approval."""

    order: "ExecutionOrder"
    failed: Execution | None = None
    failure: SettledExecution | None = None
    held: list[Execution] = field(default_factory=list)
    starved: list[PlanStep] = field(default_factory=list)
    limit_exceeded: bool = False
    history: History = field(default_factory=dict)  # the runs of an n8n plan


class ExecutionOrder(Protocol):
    """Decides which execution is next."""

    def next(self) -> Execution | None:
        """Returns the next execution, or None if only held ones or missing inputs remain."""
        ...

    def settle(self, execution: Execution, outputs: Outputs | None, error: str | None = None) -> None:
        """Accepts the outputs of an execution; None means that it failed and nothing follows."""
        ...

    def start_waiting(self) -> bool:
        """Starts a step that waits for inputs with those it has, if nothing else can run.

        Returns whether a step can run.
        """
        ...

    def starved(self) -> list[PlanStep]:
        """Returns the steps still waiting for an input."""
        ...


@dataclass(frozen=True, slots=True)
class WalkContext:
    """The dependencies of a walk besides its plan and journal."""

    evaluator: Evaluator
    environment: RunEnvironment
    types: Mapping[str, StepType]
    sleep: Callable[[float], Awaitable[None]]
    clock: Callable[[], datetime]
    budget: MemoryBudget = field(default_factory=MemoryBudget)


async def walk(plan: Plan, entry: str, items: Items, *, context: WalkContext, journal: Journal) -> WalkResult:
    """Runs the plan as far as possible now. Raises MemoryBudgetExceeded."""
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
            context.environment,
            depth=depth,
            binding=lambda inside: context.environment.binding(name),
            # n8n stores nothing for a workflow embedded in its caller
            static_data=context.environment.static_data.of_called(name, is_kept=called.is_chosen),
        )
        return await _run_sub_workflow(called, items_, context=replace(context, environment=environment))

    environment = replace(context.environment, sub_workflow=plan.inner.get, run_sub_workflow=run_inner)
    execution_context = ExecutionContext(
        plan=plan,
        entry=entry,
        history=order.history,
        evaluator=context.evaluator,
        run_environment=environment,
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
        is_rerun=_reruns(types),
        on_outputs=execution_context.partials.note,
    )
    walked.history = order.history
    return walked


def _reruns(types: Mapping[str, StepType]) -> Callable[[PlanStep], bool]:
    """Returns a predicate for replayed steps that run again to restore their memory."""

    def is_rerun(step: PlanStep) -> bool:
        kind = types.get(origin_of(step).source_type)
        return kind is not None and kind.stateful and not origin_of(step).disabled

    return is_rerun


async def follow(
    order: ExecutionOrder,
    run: Callable[[Execution], Awaitable[ExecutionResult]],
    *,
    journal: Journal,
    context: WalkContext,
    is_rerun: Callable[[PlanStep], bool] = lambda step: False,
    on_outputs: Callable[[Outputs | None], None] = lambda outputs: None,
) -> WalkResult:
    """Runs or replays executions in order as far as possible now. Raises MemoryBudgetExceeded.

    `on_outputs` receives the outputs of each that is not held. Before each, other tasks get a turn; otherwise
    thousands of replayed executions might never await, and no time limit could end them.
    """
    walked = WalkResult(order)
    count = 0
    while True:
        execution = order.next()
        if execution is None:
            if walked.held:
                if not await _release(walked, journal, context.budget) or walked.failed is not None:
                    return walked
            elif not order.start_waiting():
                walked.starved = order.starved()
                return walked
            continue
        count += 1
        if count > _MAX_EXECUTIONS:
            walked.limit_exceeded, walked.failed = True, execution
            return walked
        await context.sleep(0)
        settled = await _run_or_replay(
            run, execution, journal=journal, budget=context.budget, is_rerun=is_rerun
        )
        if settled is ExecutionHold.HELD:
            walked.held.append(execution)
            continue
        on_outputs(settled.outputs)
        if settled.outputs is None:
            order.settle(execution, None, settled.error)
            walked.failed, walked.failure = execution, settled
            return walked
        order.settle(execution, settled.outputs, settled.error)


async def _run_or_replay(
    run: Callable[[Execution], Awaitable[ExecutionResult]],
    execution: Execution,
    *,
    journal: Journal,
    budget: MemoryBudget,
    is_rerun: Callable[[PlanStep], bool],
) -> SettledExecution | ExecutionHold:
    settled = await journal.recorded(execution)
    if settled is None:
        await journal.before(execution)
        done = await journal.within_time_limit(run(execution))
        budget.reserve(done.outputs)  # before encoding, since one value may occur in it a thousand times
        settled = await journal.record(execution, done)
        if isinstance(settled, SettledExecution) and settled.outputs is not done.outputs:
            budget.reserve(settled.outputs)  # outputs derived from responses
        return settled
    if is_rerun(execution.step):
        done = await journal.within_time_limit(run(execution))  # already in the journal
        settled = SettledExecution(done.outputs, done.error, done.code)
    if isinstance(settled, SettledExecution):
        budget.reserve(settled.outputs)
    return settled


async def _release(walked: WalkResult, journal: Journal, budget: MemoryBudget) -> bool:
    """Settles the held executions, last one first, once all are decided.

    Returns False while one still waits. All approved changes have been applied by then; nothing new starts
    after a failure.
    """
    decided = [(execution_, await journal.decided(execution_)) for execution_ in walked.held]
    if any(settled is None for _, settled in decided):
        return False
    walked.held = []
    for execution, settled in reversed(decided):  # so that the first one held ends up on top of the stack
        if settled is not None:
            budget.reserve(settled.outputs)
            walked.order.settle(execution, settled.outputs, settled.error)
            if settled.outputs is None:
                walked.failed, walked.failure = execution, settled
    return True


@dataclass(slots=True)
class InMemoryJournal:
    """A journal in memory, for sub-workflows and recorded cases. `ran` lists executions in order.

    `acted` holds the executions that read, or would change or send, something.
    """

    ran: list[tuple[str, int]] = field(default_factory=list)
    acted: list[ExecutionResult] = field(default_factory=list)

    async def recorded(self, execution: Execution) -> SettledExecution | ExecutionHold | None:
        """Returns None: nothing is replayed."""
        return None

    async def before(self, execution: Execution) -> None:
        """Records that the execution ran."""
        self.ran.append((execution.step.name, execution.run))

    async def within_time_limit(self, work: Awaitable[T]) -> T:
        """Awaits the work; the enclosing run has the time limit."""
        return await work

    async def record(self, execution: Execution, done: ExecutionResult) -> SettledExecution | ExecutionHold:
        """Returns the outputs unchanged."""
        if done.result is not None and (done.result.proposals or done.result.counts.read):
            self.acted.append(done)
        return SettledExecution(done.outputs, done.error, done.code)

    async def decided(self, execution: Execution) -> SettledExecution | None:
        """Returns empty outputs, because nothing is ever held."""
        return SettledExecution([])


def _last_ran(history: History, ran: Sequence[tuple[str, int]], entry: str) -> PastRun:
    """Returns the last successful execution, whose items a sub-workflow returns."""
    for name, run in reversed(ran):
        if history[name][run].outputs is not None:
            return history[name][run]
    return history[entry][-1]


async def _run_sub_workflow(plan: Plan, items: Items, *, context: WalkContext) -> SubWorkflowResult:
    """Runs a sub-workflow; all its steps use the calling step's binding. Raises WorkflowStepFailed."""
    if context.environment.depth > MAX_SUB_WORKFLOW_DEPTH:
        raise WorkflowStepFailed(f"Workflows are nested more than {MAX_SUB_WORKFLOW_DEPTH} deep.")
    entry = plan.entry()
    if entry is None:
        raise ItemFailed("The called workflow has no trigger.")
    environment = replace(context.environment, zone=plan.timezone or context.environment.zone)
    within = replace(context, environment=environment, budget=context.budget.for_sub_workflow())
    journal = InMemoryJournal()
    walked = await walk(plan, entry.name, _trigger_items(entry, items), context=within, journal=journal)
    if walked.failed is not None:
        error = walked.failure.error if walked.failure is not None else None
        raise ItemFailed(error or "The called workflow did not finish.")
    last = _last_ran(walked.history, journal.ran, entry.name)
    return _sub_workflow_result(last, journal.acted)


def _trigger_items(entry: PlanTrigger, items: Items) -> Items:
    """Returns the items that the called workflow's trigger outputs; some triggers pick fields."""
    if entry.picks is None:
        return items
    return [replace(item, json={name: item.json.get(name) for name in entry.picks}) for item in items]


def _sub_workflow_result(last: PastRun, acted: Sequence[ExecutionResult]) -> SubWorkflowResult:
    proposals: list[Proposal] = []
    item_of: list[int] = []
    response_uses: Mapping[int, ResponseUse] = {}
    counts = Counts()
    for done in acted:
        if done.result is None:
            continue
        proposals += done.result.proposals
        is_last = done.outputs is last.outputs
        item_of += done.result.item_of if is_last else [-1] * len(done.result.proposals)
        response_uses = done.result.response_uses if is_last else response_uses
        counts = counts.plus(done.result.counts)
    items = [replace(item, paired=None) for output in last.outputs or [] for item in output]
    return SubWorkflowResult(items, tuple(proposals), tuple(item_of), counts, response_uses)
