"""Handles a step's proposals: holds them for approval, sends, applies, or refuses them in a test."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from steward.database.engine.base import Tx
from steward.database.runs import approvals, changes, steps, transitions, write_ledger
from steward.database.runs.steps import StepValue, TooMuchData, ValueState, execution_key
from steward.database.runs.write_ledger import OPEN, Effect
from steward.failpoint import failpoint
from steward.model.change import Change, Outcome, Proposal
from steward.model.ids import ApprovalId, ChangeId, RisingIds
from steward.model.json import JsonObject, JsonValue
from steward.model.limits import MAX_CHANGES
from steward.model.plan import PlanStep, StepKind, StepStatus
from steward.model.run import Counts, Mode
from steward.model.undo import Undoability, undoability
from steward.run_queue.summaries import NO_APPROVAL_ROUND, change_counts
from steward.runs import apply, change_outcomes, checkpoint, ledger, reconcile
from steward.runs.apply import MustWait
from steward.runs.checkpoint import Checkpoint, EndedStep
from steward.runs.ledger import ApplyingStep
from steward.runs.run_context import CancelRequested, LeaseLost
from steward.runs.state import ApprovalMismatch, VerifiedSet, Walk
from steward.steps.base import MemoryWrite, StepResult, TooManyChanges
from steward.steps.workflow.handed_on import DoneChange, HandedOn
from steward.steps.workflow.items import encode_outputs

_DID = (Outcome.APPLIED, Outcome.UNCHANGED)
_WAITING = (Outcome.PROPOSED,)
_TO_APPLY = (Outcome.APPROVED, Outcome.UNKNOWN)
_UNDONE = (*_TO_APPLY, Outcome.DECLINED)
_NOT_BEGUN = (Outcome.DECLINED, Outcome.CANCELLED)


@dataclass(frozen=True, slots=True)
class HeldStep:
    """A held execution as it is stored until it is decided and applied."""

    output: JsonValue
    title: str
    message: str | None
    memory: tuple[MemoryWrite, ...]
    counts: Counts
    item_of: tuple[int, ...] | None = None  # a workflow's step: the item each proposal makes true

    @classmethod
    def of(cls, step: PlanStep, produced: StepResult, counts: Counts) -> "HeldStep":
        """Returns what an execution with this result stores."""
        title = produced.title or step.title
        return cls(produced.output, title, produced.message, produced.memory, counts, produced.item_of)

    def to_json(self) -> JsonObject:
        """Returns the journal's form."""
        return {
            "output": self.output,
            "title": self.title,
            "message": self.message,
            "memory": [write.to_json() for write in self.memory],
            "counts": self.counts.wire(),
            **({} if self.item_of is None else {"item_of": list(self.item_of)}),
        }

    @classmethod
    def from_json(cls, stored: JsonValue) -> "HeldStep":
        """Reads the journal's form."""
        assert isinstance(stored, dict)
        return cls(
            output=stored["output"],
            title=stored["title"],
            message=stored["message"],
            memory=tuple(MemoryWrite.from_json(write) for write in stored["memory"]),
            counts=Counts(**stored["counts"]),
            item_of=tuple(stored["item_of"]) if "item_of" in stored else None,
        )

    def after(self, outcomes: Mapping[int, Outcome]) -> JsonValue:
        """Returns the output once decided; a workflow's without the items whose change was not made."""
        if self.item_of is None or not isinstance(self.output, dict):
            return self.output
        dropped_items = {item for index, item in enumerate(self.item_of) if outcomes.get(index) not in _DID}
        first, *rest = self.output["out"]
        remaining_items = [item for index, item in enumerate(first) if index not in dropped_items]
        return {**self.output, "out": [remaining_items, *rest]}


# Returns what a workflow's step hands on once its changes are done; None hands on what was planned for them.
HandOn = Callable[[HeldStep, Sequence[DoneChange]], HandedOn | None]


async def propose(
    walk: Walk,
    step: PlanStep,
    produced: StepResult,
    started_at: datetime,
    *,
    iteration: str = "",
    asks: bool = False,
    hand_on: HandOn | None = None,
) -> None:
    """Handles a step's proposals according to the step's kind and the run's mode.

    `asks`: a send waits for approval as a change does (`send_mode: ask`). `iteration` tells the executions of
    a workflow's step apart. Raises TooManyChanges, LeaseLost, CancelRequested, MustWait.
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
        await apply_step(walk, step, started_at, iteration, hand_on)


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
    known: Counter[Outcome] = Counter(item.outcome for item in items if item.outcome is not Outcome.PROPOSED)
    counts = produced.counts.plus(change_counts(known, sends=False))
    counts = counts.plus(Counts(proposed=len(items) - known.total()))
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
        connection=walk.opened.row() or _connection(walk, items),
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


def _connection(walk: Walk, items: Sequence[Change]) -> JsonObject | None:
    if not items or items[0].proposal.integration_id is None:
        return None
    integration = items[0].proposal.integration_id
    connection = walk.opened.connections.get(integration)
    return {"integration_id": integration, "kind": connection.kind} if connection else None


async def waits_for_decision(walk: Walk, step: PlanStep, iteration: str = "") -> bool:
    """Returns whether a held step's changes are still to be decided."""
    items = await walk.read(partial(_of_step, walk=walk, step=step, iteration=iteration))
    return any(item.outcome in _WAITING for item in items)


async def _of_step(tx: Tx, *, walk: Walk, step: PlanStep, iteration: str = "") -> list[Change]:
    """Returns the changes a step proposed, in order."""
    org, run = walk.lease.org, walk.run.id
    return await changes.of_execution(tx, org, run, name=step.name, iteration=iteration)


async def apply_step(
    walk: Walk,
    step: PlanStep,
    started_at: datetime,
    iteration: str = "",
    hand_on: HandOn | None = None,
) -> None:
    """Applies what was approved of a held step and writes its last row.

    A workflow's step hands on what `hand_on` returns, also of the answers to its writes.

    Raises LeaseLost, CancelRequested, ApprovalMismatch, and MustWait when the run has to sleep first.
    """
    walk.show_progress(step, started_at)
    try:
        await _apply_step(walk, step, started_at, iteration, hand_on)
    finally:
        walk.ctx.progress.pop(walk.run.id, None)


async def _apply_step(
    walk: Walk, step: PlanStep, started_at: datetime, iteration: str, hand_on: HandOn | None
) -> None:
    items = await walk.read(partial(_of_step, walk=walk, step=step, iteration=iteration))
    change_hash = await _verified(walk, items)
    applying = ApplyingStep(
        ctx=walk.ctx,
        lease=walk.lease,
        changes=[item for item in items if item.outcome in _TO_APPLY],
        connections=walk.opened.connections,
        change_hash=change_hash,
        version=walk.run.plan_version or walk.run.template_version,
        done=sum(item.outcome not in _UNDONE for item in items),
        answer_room=ledger.AnswerRoom() if hand_on is not None else None,
    )
    ledger.remember(applying, await _read_effects(walk))
    await apply.apply(applying)
    until = await reconcile.settle_run(walk.ctx, walk.lease)
    if until is not None:
        raise MustWait(max((until - walk.ctx.clock.now()).total_seconds(), 0.001))
    if await _sends_again(walk, step, iteration):
        await _apply_step(walk, step, started_at, iteration, hand_on)
        return
    await _write_last_row(walk, step, started_at, iteration, hand_on)


async def _read_effects(walk: Walk) -> list[Effect]:
    return await walk.read(partial(write_ledger.of_run, org=walk.lease.org, run=walk.run.id))


async def _sends_again(walk: Walk, step: PlanStep, iteration: str) -> bool:
    """Returns whether an effect of a change that is unknown was settled, so that it is applied again."""
    items = await walk.read(partial(_of_step, walk=walk, step=step, iteration=iteration))
    unknown = [item for item in items if item.outcome is Outcome.UNKNOWN]
    if not unknown:
        return False
    effect_by_change = {effect.change: effect for effect in await _read_effects(walk)}
    return any(
        item.id in effect_by_change and effect_by_change[item.id].state not in OPEN for item in unknown
    )


async def _verified(walk: Walk, items: Sequence[Change]) -> str:
    """Returns the hash of the approved set. Raises ApprovalMismatch.

    It is computed from the rows of the whole round before the first change is sent; later steps compare what
    they are about to send with that set.
    """
    if walk.run.approval_id is None or all(item.round == NO_APPROVAL_ROUND for item in items):
        _check_hashes(items)
        return ""
    if walk.verified is None or walk.verified.approval != walk.run.approval_id:
        walk.verified = await _verified_set(walk, walk.run.approval_id)
    approved_items = [item for item in items if item.round != NO_APPROVAL_ROUND]
    if any(walk.verified.hashes.get(item.id) != item.proposal.item_hash() for item in approved_items):
        raise ApprovalMismatch
    return walk.verified.change_hash


async def _verified_set(walk: Walk, approval: ApprovalId) -> VerifiedSet:
    approved = await walk.read(partial(approvals.get, org=walk.lease.org, approval=approval))
    proposed = await walk.read(
        partial(changes.of_round, org=walk.lease.org, run=walk.run.id, round_=approved.round)
    )
    _check_hashes(proposed)
    if walk.change_hash(approved.round, proposed) != approved.change_hash:
        raise ApprovalMismatch
    return VerifiedSet(approval, approved.change_hash, {item.id: item.item_hash for item in proposed})


def _check_hashes(items: Sequence[Change]) -> None:
    if any(item.proposal.item_hash() != item.item_hash for item in items):
        raise ApprovalMismatch


async def stop_steps(walk: Walk) -> None:
    """Ends what is open of a run that stops and writes the last row of each held step that was begun.

    Written changes stay and update the memory, unwritten ones are cancelled, and doubtful ones stay unknown.
    Raises LeaseLost.
    """

    async def drop(tx: Tx) -> None:
        is_owner, _ = await transitions.lock_lease(tx, walk.lease)
        if not is_owner:
            raise LeaseLost(walk.lease)
        await change_outcomes.drop_open(tx, walk.lease.org, walk.run.id, to=Outcome.CANCELLED)

    await walk.ctx.engine.write(walk.ctx.clock.now(), drop, org=walk.lease.org)
    failpoint("after_drop")
    for value in list(walk.journal.values()):
        if value.state is not ValueState.HELD:
            continue
        step = walk.plan.step(value.name)
        items = await walk.read(partial(_of_step, walk=walk, step=step, iteration=value.iteration))
        if all(item.outcome in _NOT_BEGUN for item in items):
            continue
        with suppress(CancelRequested, TooMuchData):  # the run ends in any case
            await _write_last_row(walk, step, walk.ctx.clock.now(), value.iteration)


async def _write_last_row(
    walk: Walk, step: PlanStep, started_at: datetime, iteration: str, hand_on: HandOn | None = None
) -> None:
    """Writes the step's last row: what became of each change, and the memory written because of it."""
    items = await walk.read(partial(_of_step, walk=walk, step=step, iteration=iteration))
    held_step = HeldStep.from_json(walk.journal[execution_key(step.name, iteration)].output)
    tally = Counter(item.outcome for item in items)
    counts = change_counts(tally, sends=step.kind is StepKind.SEND)
    status, code, message = _step_verdict(counts, len(items), tally[Outcome.CANCELLED])
    if code == "some_changes_failed":
        code, message = _sheet_verdict(items, message) or (code, message)
    outcomes = {item.position: item.outcome for item in items}
    output, state = held_step.after(outcomes), _last_state(counts, items)
    handed = None if hand_on is None else hand_on(held_step, await _done_changes(walk, items))
    if handed is not None:
        output, state = _handed_output(held_step, handed), _state_after(handed, state)
        if handed.outputs is None and status is not StepStatus.FAILED:
            status, code, message = StepStatus.FAILED, handed.code, handed.message
    ended = EndedStep(
        step=step,
        title=held_step.title,
        status=status,
        started_at=started_at,
        connection=_connection(walk, items),
        counts=held_step.counts.plus(counts),
        attempt=walk.lease.attempt,
        iteration=iteration,
        code=code,
        message=message or held_step.message,
        changes_total=len(items),
    )
    memory = _due_memory(held_step, outcomes, status)
    await walk.checkpoint(ended, output, state=state, memory=memory)
    walk.outcomes[execution_key(step.name, iteration)] = [item.outcome for item in items]


async def _done_changes(walk: Walk, items: Sequence[Change]) -> list[DoneChange]:
    load = partial(ledger.recorded_answers, vault=walk.ctx.vault, lease=walk.lease, items=items)
    answers = await walk.read(load)
    return [DoneChange(item.outcome, item.message, answers.get(item.id)) for item in items]


def _handed_output(held_step: HeldStep, handed: HandedOn) -> JsonValue:
    """Returns what the journal stores of a workflow's step that is done."""
    assert isinstance(held_step.output, dict)
    stored = {name: value for name, value in held_step.output.items() if name != "answers"}
    return {**stored, "out": encode_outputs(handed.outputs or [])}


def _state_after(handed: HandedOn, state: ValueState) -> ValueState:
    """Returns the state of a workflow's step: one whose failure is tolerated is done."""
    if handed.outputs is None:
        return ValueState.FAILED
    return ValueState.DONE if state is ValueState.FAILED else state


def _last_state(counts: Counts, items: Sequence[Change]) -> ValueState:
    """Returns the state of a held step's value after its changes ended."""
    done = any(item.outcome in _DID for item in items)
    if counts.unknown:
        return ValueState.FAILED
    if done:
        return ValueState.DONE
    return ValueState.FAILED if counts.failed else ValueState.SKIPPED


def _due_memory(
    held_step: HeldStep, outcomes: Mapping[int, Outcome], status: StepStatus
) -> list[MemoryWrite]:
    """Returns what the step remembers: what hangs on a change by its outcome, the rest after a success."""
    is_success = status is StepStatus.SUCCEEDED
    return [
        write
        for write in held_step.memory
        if write.is_due(outcomes) and (write.position is not None or is_success)
    ]


def _step_verdict(counts: Counts, total: int, cancelled: int) -> tuple[StepStatus, str | None, str | None]:
    done = counts.applied + counts.sent + counts.unchanged
    numbers = (
        (counts.unchanged, "already up to date"),
        (counts.declined, "left out"),
        (counts.conflicts, "changed in the meantime and left unchanged"),
        (counts.failed, "failed"),
        (counts.unknown, "unknown"),
        (cancelled, "cancelled"),
    )
    phrases = [f"{number} {phrase}" for number, phrase in numbers if number]
    message = ", ".join([f"{counts.applied + counts.sent} of {total} done", *phrases]) + "."
    if counts.unknown:
        return StepStatus.FAILED, "outcome_unknown", message
    if counts.failed:
        return StepStatus.FAILED, "some_changes_failed", message
    if cancelled:
        return StepStatus.FAILED, "cancelled", message
    if done:
        return StepStatus.SUCCEEDED, None, message if done < total else None
    if counts.declined == total:
        return StepStatus.REFUSED, "not_approved", message
    return StepStatus.FAILED, "nothing_applied", message


def _sheet_verdict(items: Sequence[Change], words: str | None) -> tuple[str, str] | None:
    """Returns the code of a step that failed only because of a sheet, naming its tab."""
    failed = [item for item in items if item.outcome is Outcome.FAILED]
    if any(not part.operation.startswith("sheet.") for item in failed for part in item.proposal.parts):
        return None
    first = failed[0]
    return (
        "sheet_not_writable",
        f"{first.proposal.object.label} not written: {first.message} {words or ''}".strip(),
    )
