"""Handles a step's proposals: holds them for approval, sends, applies, or refuses them in a test."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from steward.database.runs import steps
from steward.database.runs.steps import StepValue, ValueState, execution_key
from steward.failpoint import failpoint
from steward.model.change import Change, Outcome, Proposal
from steward.model.ids import ChangeId, RisingIds
from steward.model.limits import MAX_CHANGES
from steward.model.plan import PlanStep, StepKind, StepStatus
from steward.model.run import Counts, Mode
from steward.model.undo import Undoability, undoability
from steward.run_queue.summaries import NO_APPROVAL_ROUND, change_counts
from steward.runs import checkpoint
from steward.runs.checkpoint import Checkpoint, EndedStep
from steward.runs.walk.apply_held import apply_step
from steward.runs.walk.held_step import ComputeOutput, HeldStep
from steward.runs.walk.last_row import connection_row
from steward.runs.walk.state import Walk
from steward.steps.base import StepResult, TooManyChanges


async def propose(
    walk: Walk,
    step: PlanStep,
    produced: StepResult,
    started_at: datetime,
    *,
    iteration: str = "",
    asks: bool = False,
    compute_output: ComputeOutput | None = None,
) -> None:
    """Handles a step's proposals according to the step's kind and the run's mode.

    `asks`: a send waits for approval as a change does (`send_mode: ask`). `iteration` distinguishes the
    executions of a workflow's step. Raises TooManyChanges, LeaseLost, CancelRequested, MustWait.
    """
    if await walk.proposed_so_far() + len(produced.proposals) > MAX_CHANGES:
        raise TooManyChanges(len(produced.proposals), MAX_CHANGES)
    if len(produced.known) == len(produced.proposals):
        await _list_known(walk, step, produced, started_at, iteration)
    elif walk.run.mode is Mode.TEST:
        await _refuse_in_test(walk, step, produced, started_at, iteration)
    elif step.kind is StepKind.CHANGE or asks:
        await _hold(walk, step, produced, started_at, iteration)
    else:
        await _prepare(walk, step, produced, iteration)
        await apply_step(walk, step, started_at, iteration, compute_output)


async def _list_known(
    walk: Walk, step: PlanStep, produced: StepResult, started_at: datetime, iteration: str
) -> None:
    """Records proposals whose outcome is known: they need no approval and no write."""
    items = _changes(walk, step, produced, Outcome.UNCHANGED, iteration)
    outcomes = {item.position: item.outcome for item in items}
    counts = produced.counts.plus(change_counts(Counter(outcomes.values()), sends=False))
    ended = _ended(walk, step, produced, items, started_at, iteration, StepStatus.SUCCEEDED, counts)
    memory = [write for write in produced.memory if write.position is not None and write.is_due(outcomes)]
    await walk.checkpoint(
        ended,
        produced.output,
        state=ValueState.DONE,
        changes=items,
        memory=memory if walk.run.mode is Mode.LIVE else (),
    )
    walk.outcomes[execution_key(step.name, iteration)] = [item.outcome for item in items]


async def _refuse_in_test(
    walk: Walk, step: PlanStep, produced: StepResult, started_at: datetime, iteration: str
) -> None:
    """Records the proposals of a test run as not sent; the run continues as if they had been."""
    items = _changes(walk, step, produced, Outcome.REFUSED_TEST, iteration)
    counts = produced.counts.plus(Counts(proposed=len(items)))
    ended = _ended(walk, step, produced, items, started_at, iteration, StepStatus.REFUSED, counts)
    if not ended.message:
        ended = ended._replace(message="A test run: this was worked out and not done.")
    await walk.checkpoint(ended, produced.output, state=ValueState.DONE, changes=items)
    walk.outcomes[execution_key(step.name, iteration)] = [item.outcome for item in items]


async def _hold(
    walk: Walk, step: PlanStep, produced: StepResult, started_at: datetime, iteration: str
) -> None:
    items = _changes(walk, step, produced, Outcome.PROPOSED, iteration)
    known_outcomes: Counter[Outcome] = Counter(
        item.outcome for item in items if item.outcome is not Outcome.PROPOSED
    )
    counts = produced.counts.plus(change_counts(known_outcomes, sends=False))
    counts = counts.plus(Counts(proposed=len(items) - known_outcomes.total()))
    ended = _ended(walk, step, produced, items, started_at, iteration, StepStatus.HELD, counts)
    await walk.checkpoint(
        ended, HeldStep.of(step, produced, Counts()).to_json(), state=ValueState.HELD, changes=items
    )
    walk.outcomes[execution_key(step.name, iteration)] = [item.outcome for item in items]


def _ended(
    walk: Walk,
    step: PlanStep,
    produced: StepResult,
    items: Sequence[Change],
    started_at: datetime,
    iteration: str,
    status: StepStatus,
    counts: Counts,
) -> EndedStep:
    """Returns the end of an execution that lists its changes."""
    return EndedStep(
        step=step,
        title=produced.title or step.title,
        status=status,
        started_at=started_at,
        connection=walk.opened.row() or connection_row(walk, items),
        counts=counts,
        attempt=walk.lease.attempt,
        iteration=iteration,
        message=produced.message,
        changes_total=len(items),
    )


async def _prepare(walk: Walk, step: PlanStep, produced: StepResult, iteration: str) -> None:
    """Stores the messages of a send that needs no approval before any of them leaves."""
    items = _changes(walk, step, produced, Outcome.APPROVED, iteration, round_=NO_APPROVAL_ROUND)
    counts = produced.counts.plus(Counts(proposed=len(items)))
    held_output = HeldStep.of(step, produced, counts).to_json()
    new_checkpoint = Checkpoint(
        lease=walk.lease,
        automation=walk.run.automation_id,
        seq=walk.seq,
        ended=None,
        value=StepValue(step.name, iteration, walk.seq + 1, ValueState.HELD, held_output),
        output=steps.packed(held_output),
        changes=items,
    )
    await walk.ctx.engine.write(
        walk.ctx.clock.now(), partial(checkpoint.write, new_checkpoint=new_checkpoint), org=walk.lease.org
    )
    failpoint("after_prepare")
    walk.journal[execution_key(step.name, iteration)] = StepValue(
        step.name, iteration, walk.seq + 1, ValueState.HELD, held_output
    )


def _changes(
    walk: Walk,
    step: PlanStep,
    produced: StepResult,
    outcome: Outcome,
    iteration: str,
    *,
    round_: int | None = None,
) -> list[Change]:
    """Returns the proposals as changes of the run, in their order."""
    # Listed by id, they stand in the order the approval's hash has them.
    now, ids = walk.ctx.clock.now(), RisingIds()
    return [
        Change(
            id=ChangeId(ids.next(now)),
            run_id=walk.run.id,
            seq=walk.seq + 1,
            name=step.name,
            iteration=iteration,
            position=position,
            round=_round(walk, produced, position, round_),
            proposal=proposal,
            item_hash=proposal.item_hash(),
            outcome=produced.known.get(position, outcome),
            message=proposal.message,
            applied_at=None,
            undoable=(judged := _undoability(walk, proposal)).undoable,
            undo_words=judged.words,
        )
        for position, proposal in enumerate(produced.proposals)
    ]


def _round(walk: Walk, produced: StepResult, position: int, round_: int | None) -> int:
    """Returns the approval round of a proposal; one whose outcome is known already belongs to no round."""
    if position in produced.known:
        return NO_APPROVAL_ROUND
    return walk.round if round_ is None else round_


def _undoability(walk: Walk, proposal: Proposal) -> Undoability:
    """Returns whether the change can be undone later, by the inverses of its parts."""
    return undoability(
        [
            walk.ctx.access.changes(walk.opened.connections[part.integration_id].kind)[
                part.operation
            ].inverse(part)
            for part in proposal.parts
        ]
    )
