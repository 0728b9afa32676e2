"""What becomes of a step's proposals: held for a person, sent at the step, refused in a test, or applied."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from steward.database.engine.base import Tx
from steward.database.runs import approvals, changes, steps
from steward.database.runs import transitions as run_queue
from steward.database.runs import write_ledger as effects
from steward.database.runs.steps import StepValue, TooMuchData, ValueState, execution_key
from steward.database.runs.write_ledger import OPEN, Effect
from steward.failpoint import failpoint
from steward.model.change import Change, Outcome
from steward.model.ids import ApprovalId, ChangeId, RisingIds
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import PlanStep, StepKind, StepStatus
from steward.model.run import Counts, Mode
from steward.run_queue.summaries import NEVER_ASKED, change_counts
from steward.runs import apply, change_outcomes, checkpoint, ledger, reconcile
from steward.runs.apply import MustWait
from steward.runs.checkpoint import Checkpoint, Ended
from steward.runs.ledger import Applying
from steward.runs.state import ApprovalMismatch, VerifiedSet, Walk
from steward.runs.worker_context import CancelRequested, LeaseLost
from steward.steps.base import MemoryWrite, StepResult, TooManyChanges

MOST_CHANGES = 5000
DID = (Outcome.APPLIED, Outcome.UNCHANGED)
WAITING = (Outcome.PROPOSED,)
TO_APPLY = (Outcome.APPROVED, Outcome.UNKNOWN)
UNDONE = (*TO_APPLY, Outcome.DECLINED)
NOT_BEGUN = (Outcome.DECLINED, Outcome.CANCELLED)


@dataclass(frozen=True, slots=True)
class HeldStep:
    """What a held execution keeps until it is decided and applied."""

    output: JsonValue
    title: str
    message: str | None
    memory: tuple[MemoryWrite, ...]
    counts: Counts
    item_of: tuple[int, ...] | None = None  # a workflow's step: the item each proposal makes true

    def kept(self) -> JsonObject:
        """As journaled."""
        return {
            "output": self.output,
            "title": self.title,
            "message": self.message,
            "memory": [one.to_json() for one in self.memory],
            "counts": self.counts.wire(),
            **({} if self.item_of is None else {"item_of": list(self.item_of)}),
        }

    @classmethod
    def read(cls, kept: JsonValue) -> "HeldStep":
        """From the journal."""
        assert isinstance(kept, dict)
        return cls(
            output=kept["output"],
            title=kept["title"],
            message=kept["message"],
            memory=tuple(MemoryWrite.from_json(one) for one in kept["memory"]),
            counts=Counts(**kept["counts"]),
            item_of=tuple(kept["item_of"]) if "item_of" in kept else None,
        )

    def after(self, outcomes: Mapping[int, Outcome]) -> JsonValue:
        """The output once decided; of a workflow without the items nothing became of (engine 10.1.7)."""
        if self.item_of is None or not isinstance(self.output, dict):
            return self.output
        lost = {item for place, item in enumerate(self.item_of) if outcomes.get(place) not in DID}
        first, *rest = self.output["out"]
        kept = [item for place, item in enumerate(first) if place not in lost]
        return {**self.output, "out": [kept, *rest]}


async def propose(
    walk: Walk,
    step: PlanStep,
    produced: StepResult,
    started_at: datetime,
    *,
    iteration: str = "",
    asks: bool = False,
) -> None:
    """Takes a change or send step's proposals to where its class and the run's mode lead (engine 10).

    `asks`: a send waits for approval as a change does (`send_mode: ask`). Of a workflow's step `iteration`
    says which of its runs it is.
    """
    if await walk.proposed_so_far() + len(produced.proposals) > MOST_CHANGES:
        raise TooManyChanges(len(produced.proposals), MOST_CHANGES)
    if walk.run.mode is Mode.TEST:
        await _refuse(walk, step, produced, started_at, iteration)
    elif step.kind is StepKind.CHANGE or asks:
        await _hold(walk, step, produced, started_at, iteration)
    else:
        await _prepare(walk, step, produced, iteration)
        await apply_step(walk, step, started_at, iteration)


async def _refuse(
    walk: Walk, step: PlanStep, produced: StepResult, started_at: datetime, iteration: str
) -> None:
    """A test run: everything is shown, nothing is sent, and the walk goes on as if it had been."""
    items = _changes(walk, step, produced, Outcome.REFUSED_TEST, iteration)
    ended = Ended(
        step=step,
        title=produced.title or step.title,
        status=StepStatus.REFUSED,
        started_at=started_at,
        connection=walk.opened.row() or _connection(walk, items),
        counts=produced.counts.plus(Counts(proposed=len(items))),
        attempt=walk.lease.attempt,
        iteration=iteration,
        message=produced.message or "A test run: this was worked out and not done.",
        changes_total=len(items),
    )
    await walk.checkpoint(ended, produced.output, state=ValueState.DONE, changes=items)
    walk.outcomes[execution_key(step.name, iteration)] = [item.outcome for item in items]


async def _hold(
    walk: Walk, step: PlanStep, produced: StepResult, started_at: datetime, iteration: str
) -> None:
    items = _changes(walk, step, produced, Outcome.PROPOSED, iteration)
    kept = HeldStep(
        produced.output,
        produced.title or step.title,
        produced.message,
        produced.memory,
        Counts(),
        produced.item_of,
    )
    ended = Ended(
        step=step,
        title=produced.title or step.title,
        status=StepStatus.HELD,
        started_at=started_at,
        connection=walk.opened.row() or _connection(walk, items),
        counts=produced.counts.plus(Counts(proposed=len(items))),
        attempt=walk.lease.attempt,
        iteration=iteration,
        message=produced.message,
        changes_total=len(items),
    )
    await walk.checkpoint(ended, kept.kept(), state=ValueState.HELD, changes=items)
    walk.outcomes[execution_key(step.name, iteration)] = [item.outcome for item in items]


async def _prepare(walk: Walk, step: PlanStep, produced: StepResult, iteration: str) -> None:
    """A send needs no approval, but its messages are durable before one leaves (engine 11.2 step 0)."""
    items = _changes(walk, step, produced, Outcome.APPROVED, iteration, round_=NEVER_ASKED)
    counts = produced.counts.plus(Counts(proposed=len(items)))
    kept = HeldStep(
        produced.output,
        produced.title or step.title,
        produced.message,
        produced.memory,
        counts,
        produced.item_of,
    ).kept()
    point = Checkpoint(
        lease=walk.lease,
        automation=walk.run.automation_id,
        seq=walk.seq,
        ended=None,
        value=StepValue(step.name, iteration, walk.seq + 1, ValueState.HELD, kept),
        output=steps.packed(kept),
        changes=items,
    )
    await walk.ctx.engine.write(
        walk.ctx.clock.now(), partial(checkpoint.write, point=point), org=walk.lease.org
    )
    failpoint("after_prepare")
    walk.journal[execution_key(step.name, iteration)] = StepValue(
        step.name, iteration, walk.seq + 1, ValueState.HELD, kept
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
            round=walk.round if round_ is None else round_,
            proposal=proposal,
            item_hash=proposal.item_hash(),
            outcome=outcome,
            message=proposal.message,
            applied_at=None,
        )
        for position, proposal in enumerate(produced.proposals)
    ]


def _connection(walk: Walk, items: Sequence[Change]) -> JsonObject | None:
    if not items or items[0].proposal.integration_id is None:
        return None
    integration = items[0].proposal.integration_id
    connection = walk.opened.connections.get(integration)
    return {"integration_id": integration, "kind": connection.kind} if connection else None


async def waits_for_decision(walk: Walk, step: PlanStep, iteration: str = "") -> bool:
    """Whether a held step's changes are still to be decided."""
    items = await walk.read(partial(of_step, walk=walk, step=step, iteration=iteration))
    return any(item.outcome in WAITING for item in items)


async def of_step(tx: Tx, *, walk: Walk, step: PlanStep, iteration: str = "") -> list[Change]:
    """The changes a step proposed, in order."""
    org, run = walk.lease.org, walk.run.id
    return await changes.of_execution(tx, org, run, name=step.name, iteration=iteration)


async def apply_step(walk: Walk, step: PlanStep, started_at: datetime, iteration: str = "") -> None:
    """Applies what was approved of a held step and writes its last row.

    Raises LeaseLost, CancelRequested, MustWait (sleep, then come again), ApprovalMismatch.
    """
    walk.show(step, started_at)
    try:
        await _apply_step(walk, step, started_at, iteration)
    finally:
        walk.ctx.progress.pop(walk.run.id, None)


async def _apply_step(walk: Walk, step: PlanStep, started_at: datetime, iteration: str) -> None:
    items = await walk.read(partial(of_step, walk=walk, step=step, iteration=iteration))
    change_hash = await _verified(walk, items)
    applying = Applying(
        ctx=walk.ctx,
        lease=walk.lease,
        changes=[item for item in items if item.outcome in TO_APPLY],
        connections=walk.opened.connections,
        change_hash=change_hash,
        version=walk.run.plan_version or walk.run.template_version,
        done=sum(item.outcome not in UNDONE for item in items),
    )
    ledger.remember(applying, await _settled(walk))
    await apply.apply(applying)
    until = await reconcile.settle_run(walk.ctx, walk.lease)
    if until is not None:
        raise MustWait(max((until - walk.ctx.clock.now()).total_seconds(), 0.001))
    if await _sends_again(walk, step, iteration):
        await _apply_step(walk, step, started_at, iteration)
        return
    await _end(walk, step, started_at, iteration)


async def _settled(walk: Walk) -> list[Effect]:
    return await walk.read(partial(effects.of_run, org=walk.lease.org, run=walk.run.id))


async def _sends_again(walk: Walk, step: PlanStep, iteration: str) -> bool:
    """Whether settling found a write of the step that did not take effect and may be repeated."""
    items = await walk.read(partial(of_step, walk=walk, step=step, iteration=iteration))
    unknown = [item for item in items if item.outcome is Outcome.UNKNOWN]
    if not unknown:
        return False
    found = {effect.change: effect for effect in await _settled(walk)}
    return any(item.id in found and found[item.id].state not in OPEN for item in unknown)


async def _verified(walk: Walk, items: Sequence[Change]) -> str:
    """The hash of the approved set (engine 12). Raises ApprovalMismatch.

    It is worked out anew from the rows of the whole round before the first of it is sent; of each later step
    what it is about to send is compared with that set.
    """
    if walk.run.approval_id is None or all(item.round == NEVER_ASKED for item in items):
        _same_as_hashed(items)
        return ""
    if walk.verified is None or walk.verified.approval != walk.run.approval_id:
        walk.verified = await _verified_set(walk, walk.run.approval_id)
    if any(walk.verified.hashes.get(item.id) != item.proposal.item_hash() for item in items):
        raise ApprovalMismatch
    return walk.verified.change_hash


async def _verified_set(walk: Walk, approval: ApprovalId) -> VerifiedSet:
    approved = await walk.read(partial(approvals.get, org=walk.lease.org, approval=approval))
    asked = await walk.read(
        partial(changes.of_round, org=walk.lease.org, run=walk.run.id, round_=approved.round)
    )
    _same_as_hashed(asked)
    if walk.change_hash(approved.round, asked) != approved.change_hash:
        raise ApprovalMismatch
    return VerifiedSet(approval, approved.change_hash, {item.id: item.item_hash for item in asked})


def _same_as_hashed(items: Sequence[Change]) -> None:
    if any(item.proposal.item_hash() != item.item_hash for item in items):
        raise ApprovalMismatch


async def stop_steps(walk: Walk) -> None:
    """Ends what is still open of a run that stops, and writes the last row of each held step that was begun.

    What was written stays and is remembered; what was not is cancelled; what is in doubt stays unknown.
    Raises LeaseLost.
    """

    async def drop(tx: Tx) -> None:
        ours, _ = await run_queue.lock_lease(tx, walk.lease)
        if not ours:
            raise LeaseLost(walk.lease)
        await change_outcomes.drop_open(tx, walk.lease.org, walk.run.id, to=Outcome.CANCELLED)

    await walk.ctx.engine.write(walk.ctx.clock.now(), drop, org=walk.lease.org)
    failpoint("after_drop")
    for value in list(walk.journal.values()):
        if value.state is not ValueState.HELD:
            continue
        step = walk.plan.step(value.name)
        items = await walk.read(partial(of_step, walk=walk, step=step, iteration=value.iteration))
        if all(item.outcome in NOT_BEGUN for item in items):
            continue
        with suppress(CancelRequested, TooMuchData):  # the run ends in any case
            await _end(walk, step, walk.ctx.clock.now(), value.iteration)


async def _end(walk: Walk, step: PlanStep, started_at: datetime, iteration: str) -> None:
    """The step's last row: what became of each change, and what is remembered because of it."""
    items = await walk.read(partial(of_step, walk=walk, step=step, iteration=iteration))
    kept = HeldStep.read(walk.journal[execution_key(step.name, iteration)].output)
    tally: dict[Outcome, int] = {}
    for item in items:
        tally[item.outcome] = tally.get(item.outcome, 0) + 1
    sends = step.kind is StepKind.SEND
    counts = change_counts(tally, sends=sends)
    status, code, message = _step_verdict(counts, len(items), tally.get(Outcome.CANCELLED, 0))
    if code == "some_changes_failed":
        code, message = _sheet_verdict(items, message) or (code, message)
    ended = Ended(
        step=step,
        title=kept.title,
        status=status,
        started_at=started_at,
        connection=_connection(walk, items),
        counts=kept.counts.plus(counts),
        attempt=walk.lease.attempt,
        iteration=iteration,
        code=code,
        message=message or kept.message,
        changes_total=len(items),
    )
    done = any(item.outcome in DID for item in items)
    state = ValueState.DONE if done else ValueState.SKIPPED
    outcomes = {item.position: item.outcome for item in items}
    went_well = status is StepStatus.SUCCEEDED
    writes = [one for one in kept.memory if one.is_due(outcomes) and (one.position is not None or went_well)]
    if counts.unknown or counts.failed:
        state = ValueState.DONE if done and not counts.unknown else ValueState.FAILED
    await walk.checkpoint(ended, kept.after(outcomes), state=state, memory=writes)
    walk.outcomes[execution_key(step.name, iteration)] = [item.outcome for item in items]


def _step_verdict(counts: Counts, total: int, cancelled: int) -> tuple[StepStatus, str | None, str | None]:
    done = counts.applied + counts.sent + counts.unchanged
    parts = [f"{counts.applied + counts.sent} of {total} done"]
    parts += [f"{counts.unchanged} already so"] if counts.unchanged else []
    parts += [f"{counts.declined} left out"] if counts.declined else []
    parts += [f"{counts.conflicts} changed meanwhile and left alone"] if counts.conflicts else []
    parts += [f"{counts.failed} failed"] if counts.failed else []
    parts += [f"{counts.unknown} unknown"] if counts.unknown else []
    parts += [f"{cancelled} cancelled"] if cancelled else []
    words = ", ".join(parts) + "."
    if counts.unknown:
        return StepStatus.FAILED, "outcome_unknown", words
    if counts.failed:
        return StepStatus.FAILED, "some_changes_failed", words
    if cancelled:
        return StepStatus.FAILED, "cancelled", words
    if not done:
        code = "not_approved" if counts.declined == total else "nothing_applied"
        return (StepStatus.REFUSED if counts.declined == total else StepStatus.FAILED), code, words
    return StepStatus.SUCCEEDED, None, words if done < total else None


def _sheet_verdict(items: Sequence[Change], words: str | None) -> tuple[str, str] | None:
    """The code of a step that failed at nothing but a sheet, naming its tab (templates 5.6)."""
    failed = [item for item in items if item.outcome is Outcome.FAILED]
    if any(not part.operation.startswith("sheet.") for item in failed for part in item.proposal.parts):
        return None
    first = failed[0]
    return (
        "sheet_not_writable",
        f"{first.proposal.object.label} not written: {first.message} {words or ''}".strip(),
    )
