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
from steward.steps.workflow.execute import Bench, Done, execute, origin_of
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.items import History, Item, Items, Outputs, Ran
from steward.steps.workflow.memory_budget import Room
from steward.steps.workflow.plan_order import Execution, Order
from steward.steps.workflow.step_types import TOO_DEEP, Called, ItemFailed, Scene, StepBroke, StepType

T = TypeVar("T")
MOST_EXECUTIONS = 10_000


class Waiting(Enum):
    """An execution that is held: what follows it waits for a person's decision."""

    HELD = "held"


@dataclass(frozen=True, slots=True)
class Settled:
    """What an execution handed on; None: it failed and the run ends."""

    outputs: Outputs | None
    error: str | None = None
    code: str | None = None


class Journal(Protocol):
    """Where executions are kept."""

    async def kept(self, execution: Execution) -> Settled | Waiting | None:
        """What is already there of it."""
        ...

    async def keep(self, execution: Execution, done: Done) -> Settled | Waiting:
        """Keeps what became of it, and says what it hands on."""
        ...

    async def before(self, execution: Execution) -> None:
        """It is about to run; raises when the run must not go on."""
        ...

    async def bounded(self, work: Coroutine[Any, Any, T]) -> T:
        """Lets a step work, never its changes be applied, within what is left of the run's time."""
        ...

    async def decided(self, execution: Execution) -> Settled | None:
        """What a held one handed on once it was decided; None while it waits."""
        ...


@dataclass(slots=True)
class Walked:
    """How far a walk came. `failed`: the step that ended it. `held`: executions waiting for a decision."""

    order: "Ordering"
    failed: Execution | None = None
    failure: Settled | None = None
    held: list[Execution] = field(default_factory=list)
    starved: list[PlanStep] = field(default_factory=list)
    too_many: bool = False
    history: History = field(default_factory=dict)  # what ran, of an items plan


class Ordering(Protocol):
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
class Means:
    """What a walk is given beside its plan and journal."""

    evaluator: Evaluator
    scene: Scene
    types: Mapping[str, StepType]
    sleep: Callable[[float], Awaitable[None]]
    clock: Callable[[], datetime]
    room: Room = field(default_factory=Room)


async def walk(plan: Plan, entry: str, items: Items, *, means: Means, journal: Journal) -> Walked:
    """Runs the plan as far as it goes now. Raises TooMuch when its steps hold more data than they may."""
    types = means.types
    order = Order(
        plan,
        entry=entry,
        items=items,
        demands=lambda step: types[origin_of(step).source_type].demands_all(step),
    )
    depth = means.scene.depth + 1

    async def run_inner(name: str, called: Plan, given: Items) -> Called:
        scene = replace(means.scene, depth=depth, binding=lambda inside: means.scene.binding(name))
        return await inner(called, given, means=replace(means, scene=scene))

    scene = replace(means.scene, plan=plan.inner.get, inner=run_inner)
    bench = Bench(
        plan=plan,
        entry=entry,
        history=order.history,
        evaluator=means.evaluator,
        scene=scene,
        types=types,
        sleep=means.sleep,
        clock=means.clock,
    )
    run = partial(execute, bench)
    walked = await follow(
        order, run, journal=journal, means=means, anew=_anew(types), note=bench.partials.note
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
    order: Ordering,
    run: Callable[[Execution], Coroutine[Any, Any, Done]],
    *,
    journal: Journal,
    means: Means,
    anew: Callable[[PlanStep], bool] = lambda step: False,
    note: Callable[[Outputs | None], None] = lambda outputs: None,
) -> Walked:
    """Takes executions in their order as far as it goes now. Raises TooMuch.

    `note` is told what each hands on. Others have their turn before each: thousands that are replayed, or run
    without rows, might wait for nothing, and no limit could end them.
    """
    walked = Walked(order)
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
        if count > MOST_EXECUTIONS:
            walked.too_many, walked.failed = True, execution
            return walked
        await means.sleep(0)
        settled = await _one(run, execution, journal=journal, room=means.room, anew=anew)
        if settled is Waiting.HELD:
            walked.held.append(execution)
            continue
        note(settled.outputs)
        if settled.outputs is None:
            order.settle(execution, None, settled.error)
            walked.failed, walked.failure = execution, settled
            return walked
        else:
            order.settle(execution, settled.outputs, settled.error)


async def _one(
    run: Callable[[Execution], Coroutine[Any, Any, Done]],
    execution: Execution,
    *,
    journal: Journal,
    room: Room,
    anew: Callable[[PlanStep], bool],
) -> Settled | Waiting:
    settled = await journal.kept(execution)
    if settled is None:
        await journal.before(execution)
        done = await journal.bounded(run(execution))
        room.take(done.outputs)  # before it is written out: a value may stand in it a thousand times
        return await journal.keep(execution, done)
    if anew(execution.step):
        done = await journal.bounded(run(execution))  # nothing of it is kept twice
        settled = Settled(done.outputs, done.error, done.code)
    if isinstance(settled, Settled):
        room.take(settled.outputs)
    return settled


async def _release(walked: Walked, journal: Journal) -> bool:
    """Lets what was decided go on, all of one round and in its order; false while one still waits.

    All that was approved has been applied by then; after one that failed nothing new starts (engine 10.1).
    """
    decided = [(one, await journal.decided(one)) for one in walked.held]
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
class InMemory:
    """A journal that forgets: sub-workflows and recorded cases. `ran` is the order things ran in.

    `acted`: executions that read, or would change or send something.
    """

    ran: list[tuple[str, int]] = field(default_factory=list)
    acted: list[Done] = field(default_factory=list)

    async def kept(self, execution: Execution) -> Settled | Waiting | None:
        """Nothing is."""
        return None

    async def before(self, execution: Execution) -> None:
        """Noted."""
        self.ran.append((execution.step.name, execution.run))

    async def bounded(self, work: Coroutine[Any, Any, T]) -> T:
        """The run around it has the limit."""
        return await work

    async def keep(self, execution: Execution, done: Done) -> Settled | Waiting:
        """Handed on as it is."""
        if done.result is not None and (done.result.proposals or done.result.counts.read):
            self.acted.append(done)
        return Settled(done.outputs, done.error, done.code)

    async def decided(self, execution: Execution) -> Settled | None:
        """Nothing is ever held."""
        return Settled([])


def last_ran(history: History, ran: Sequence[tuple[str, int]], entry: str) -> Ran:
    """The execution that ran last, whose items are what a called workflow gives back."""
    for name, run in reversed(ran):
        if history[name][run].outputs is not None:
            return history[name][run]
    return history[entry][-1]


async def inner(plan: Plan, items: Items, *, means: Means) -> Called:
    """Runs a called workflow within a step, whose binding is that of all its steps. Raises StepBroke."""
    if means.scene.depth > TOO_DEEP:
        raise StepBroke(f"Workflows call each other more than {TOO_DEEP} deep.")
    entry = plan.entry()
    if entry is None:
        raise ItemFailed("The called workflow has no trigger.")
    scene = replace(means.scene, zone=plan.timezone or means.scene.zone)
    within = replace(means, scene=scene, room=means.room.within())
    journal = InMemory()
    walked = await walk(plan, entry.name, items, means=within, journal=journal)
    if walked.failed is not None:
        error = walked.failure.error if walked.failure is not None else None
        raise ItemFailed(error or "The called workflow did not come to its end.")
    last = last_ran(walked.history, journal.ran, entry.name)
    found = [item for given in last.outputs or [] for item in given]
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
    return Called(
        [Item(item.json, None, item.error, item.partial) for item in found],
        tuple(proposals),
        tuple(item_of),
        counts,
    )
