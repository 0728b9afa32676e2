"""Stores intents and outcomes of approved changes, each in one transaction fenced by the run's epoch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from msgspec import MsgspecError

from steward.closed_periods import acting
from steward.connections import vault as vaults
from steward.connections.vault import Vault
from steward.connectors.base.connector import AnyWriteOperation
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.database.engine.base import Tx
from steward.database.events import own_changes
from steward.database.events.own_changes import ChangedObject
from steward.database.runs import approvals, changes, held, transitions, write_ledger
from steward.database.runs.changes import SettledChange
from steward.database.runs.held import WriterLock
from steward.database.runs.transitions import Lease
from steward.database.runs.write_ledger import Effect, EffectOutcome, EffectState, Intent
from steward.failpoint import failpoint
from steward.model.answer import WriteAnswer
from steward.model.change import (
    Change,
    Outcome,
    Part,
    Recovery,
    effect_key,
    request_hash,
)
from steward.model.closed_period import Closing
from steward.model.connection import Connection
from steward.model.ids import ChangeId, IntegrationId
from steward.model.undo import Irreversible
from steward.runs import change_outcomes
from steward.runs.change_outcomes import OUTCOME_OF_EFFECT
from steward.runs.rounds import KnownResults, PartToApply, UnsentOutcome
from steward.runs.run_context import CancelRequested, ConnectionAccess, LeaseLost, WriteContext

SEND_WITHIN = acting.SEND_WITHIN
# A held run checks again at least this often, because a closed period may be ended early.
_LOOK_AGAIN = timedelta(minutes=10)
_ANSWERS_BYTES = 7 * 1024 * 1024  # of one step, which may hand on 8 MiB
# The states of a write whose answer a later step may read.
_ANSWERED = (WriteState.APPLIED, WriteState.REFUSED, WriteState.UNKNOWN)
CHANGED_MEANWHILE = "It was changed in the meantime and was left unchanged."


class WritesClosed(Exception):
    """A closed period forbids the write for now; nothing was stored."""

    def __init__(self, closing: Closing, now: datetime) -> None:
        super().__init__(closing.period.name)
        self.name = closing.period.name
        self.until = closing.end
        latest = now + _LOOK_AGAIN
        wake_at = latest if closing.end is None else min(closing.end, latest)
        self.seconds = max((wake_at - now).total_seconds(), 1.0)


class PeriodsUnreadable(Exception):
    """The closed periods could not be judged, so writes count as closed; nothing was stored."""

    seconds = 60.0


class AttemptsSpent(Exception):
    """Some effects have used up their five attempts without sending any; nothing was stored."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(f"{len(keys)} effects")
        self.keys = frozenset(keys)


@dataclass(slots=True)
class AnswerRoom:
    """The bytes of answers that one step may still keep."""

    remaining: int = _ANSWERS_BYTES

    def admit(self, outcome: WriteOutcome) -> WriteAnswer | None:
        """Returns the answer to a write, whether made, refused or not known; its body if there is room.

        Of a refused write only what its failure tells is kept, so that the room is left to the writes made.
        """
        if outcome.state not in _ANSWERED:
            return None
        answer = outcome.answer_maker() if outcome.answer_maker is not None else outcome.answer
        if answer is None:
            return None
        if outcome.state is WriteState.REFUSED:
            answer = answer.as_refusal()
        size = len(answer.to_text())
        if size > self.remaining:
            return answer.without_body()
        self.remaining -= size
        return answer


@dataclass(slots=True)
class ApplyingStep:
    """The changes of one step being applied, and the results of their parts so far."""

    ctx: WriteContext
    lease: Lease
    changes: Sequence[Change]
    connections: Mapping[IntegrationId, Connection]
    change_hash: str
    version: int
    done: int = 0  # changes of the step whose outcome was known before
    results: dict[str, tuple[Outcome, str | None]] = field(default_factory=dict)
    modified: dict[str, datetime | None] = field(default_factory=dict)  # before the write, by effect key
    attempts: dict[str, int] = field(default_factory=dict)  # of this worker, by effect key
    max_parts: int | None = None  # of a round, once one could not be read
    unavailable: int = 0  # consecutive single-object reads that failed: account unavailable
    answer_room: AnswerRoom | None = None  # None where no later step can read the answers
    _parts: dict[ChangeId, list[PartToApply]] = field(default_factory=dict)
    _unsettled: list[list[PartToApply]] | None = None

    def parts_of(self, change: Change) -> list[PartToApply]:
        """Returns the change's parts in order, with their permanent keys."""
        parts = self._parts.get(change.id)
        if parts is None:
            parts = self._parts[change.id] = [
                PartToApply(change, number, part, self._key(change, number))
                for number, part in enumerate(change.proposal.parts, start=1)
            ]
        return parts

    def _key(self, change: Change, number: int) -> str:
        return effect_key(
            self.lease.run,
            change.name,
            change.iteration,
            position=change.position,
            part=number,
            version=self.version,
        )

    def unsettled(self) -> list[list[PartToApply]]:
        """Returns the parts of every change that has an unsettled part, in order."""
        if self._unsettled is None:
            self._unsettled = [self.parts_of(change) for change in self.changes]
        self._unsettled = [
            parts for parts in self._unsettled if any(pending.key not in self.results for pending in parts)
        ]
        return self._unsettled

    def next_of(self, integration: IntegrationId) -> list[PartToApply]:
        """Returns the next part of each unsettled change whose next part uses the connection."""
        following = [
            next(pending for pending in parts if pending.key not in self.results)
            for parts in self.unsettled()
        ]
        return [pending for pending in following if pending.part.integration_id == integration]

    def report_progress(self) -> None:
        """Updates how many of the step's changes the run's `current_step` shows as done."""
        progress = self.ctx.progress.get(self.lease.run)
        if progress is not None:
            total = self.done + len(self.changes)
            done = total - len(self.unsettled())
            self.ctx.progress[self.lease.run] = replace(progress, done=done, total=total)

    def admit_answers(self, outcomes: Sequence[WriteOutcome]) -> list[WriteOutcome]:
        """Returns the outcomes with the answers that are kept: those that a later step may read."""
        room = self.answer_room
        return [
            replace(outcome, answer=None if room is None else room.admit(outcome)) for outcome in outcomes
        ]

    def operation(self, part: Part) -> AnyWriteOperation:
        """Returns the connector's definition of the part's operation."""
        kind = self.connections[part.integration_id].kind
        return self.ctx.access.changes(kind)[part.operation]

    def is_order_free(self, part: Part) -> bool:
        """Returns whether the part sets a reversible value of a store's object, so that any order will do.

        Messages, rows of a sheet and what cannot be undone are sent in order.
        """
        operation = self.operation(part)
        is_blind = operation.recovery_of(part) is Recovery.AT_MOST_ONCE
        if is_blind or not self.connections[part.integration_id].is_store:
            return False
        return not isinstance(operation.inverse(part), Irreversible)


def remember(applying: ApplyingStep, settled: Sequence[Effect]) -> None:
    """Adds the ledger's results of settled effects to those of the step."""
    for effect in settled:
        if effect.state in OUTCOME_OF_EFFECT:
            applying.results[effect.key] = (OUTCOME_OF_EFFECT[effect.state], effect.message)


async def intend(tx: Tx, *, applying: ApplyingStep, pending_parts: Sequence[PartToApply], key: str) -> None:
    """Stores the intents of one call.

    Raises LeaseLost, CancelRequested, AttemptsSpent, WritesClosed, PeriodsUnreadable.
    """
    lease = applying.lease
    writer = await held.lock_writer(tx, lease)
    if writer is None:
        raise LeaseLost(lease)
    if writer.cancel_code is not None:
        raise CancelRequested(writer.cancel_code)
    used = [applying.connections[pending.part.integration_id] for pending in pending_parts]
    await _check_open(tx, applying.ctx.access, lease, writer, used)
    intents = [_intent(applying, pending, key) for pending in pending_parts]
    stored = await write_ledger.intend(tx, lease.org, lease.run, epoch=lease.epoch, intents=intents)
    not_stored = {intent.key: intent for intent in intents if intent.key not in stored}
    if not_stored:
        await _check_not_sent(tx, lease, not_stored)
        raise AttemptsSpent(list(not_stored))


async def _check_open(
    tx: Tx,
    access: ConnectionAccess,
    lease: Lease,
    writer: WriterLock,
    connections: Sequence[Connection],
) -> None:
    """Raises WritesClosed when a closed period holds writes to one of the connections now or within 5 s.

    Raises PeriodsUnreadable when a stored period makes no sense. Messages to people are no changes and are
    never held. The periods are read without locks: a write whose transaction read them just before one was
    made may still be sent.
    """
    if writer.closed_from is None or writer.closed_from > tx.now + SEND_WITHIN:
        return
    integrations = {
        connection.integration_id
        for connection in connections
        if not access.receives_messages(connection.kind)
    }
    if not integrations:
        return
    try:
        periods = await acting.read(tx, lease.org, since=tx.now)
        acting_periods = periods.on_writes(writer.automation, integrations, is_exempt=writer.is_exempt)
        closing = acting.write_closing(acting_periods, tx.now)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MsgspecError) as error:
        raise PeriodsUnreadable from error
    if closing is not None and not await approvals.writes_now(tx, lease.org, lease.run):
        raise WritesClosed(closing, tx.now)


async def check_repeat(tx: Tx, *, access: ConnectionAccess, lease: Lease, connection: Connection) -> None:
    """Raises WritesClosed when a closed period forbids repeating a write to the connection.

    Raises LeaseLost, PeriodsUnreadable.
    """
    writer = await held.read_writer(tx, lease)
    if writer is None:
        raise LeaseLost(lease)
    await _check_open(tx, access, lease, writer, [connection])


async def _check_not_sent(tx: Tx, lease: Lease, intents: Mapping[str, Intent]) -> None:
    """Raises RuntimeError when an effect of `intents` may have been sent, or was of another request."""
    for effect in await write_ledger.of_run(tx, lease.org, lease.run):
        intent = intents.get(effect.key)
        if intent is None:
            continue
        is_same = effect.request_sha256 == intent.request_sha256
        if effect.state is not EffectState.NOT_SENT or not is_same:
            raise RuntimeError(f"effect {effect.key} would be sent again in state {effect.state}")


def _intent(applying: ApplyingStep, pending: PartToApply, batch: str) -> Intent:
    rules = applying.ctx.rules
    recovery = applying.operation(pending.part).recovery_of(pending.part)
    deadline = int((SEND_WITHIN + rules.write_timeout).total_seconds() * 1000)
    quiet = 0 if recovery is Recovery.IDEMPOTENT else int(rules.settle_quiet.total_seconds() * 1000)
    return Intent(
        key=pending.key,
        change=pending.change.id,
        part=pending.number,
        batch_key=batch,
        integration=pending.part.integration_id,
        recovery=recovery,
        request_sha256=request_hash([pending.part]),
        deadline_ms=deadline,
        quiet_ms=quiet,
    )


async def settle(
    tx: Tx, *, applying: ApplyingStep, pending_parts: Sequence[PartToApply], outcomes: Sequence[WriteOutcome]
) -> None:
    """Stores the outcomes of one call and of the changes it completes. Raises LeaseLost."""
    lease = applying.lease
    is_held, _ = await transitions.lock_lease(tx, lease)
    if not is_held:
        raise LeaseLost(lease)
    settled = [
        (pending, *effect_of(outcome)) for pending, outcome in zip(pending_parts, outcomes, strict=True)
    ]
    ended = [EffectOutcome(pending.key, state, words) for pending, state, words in settled]
    await write_ledger.settle(tx, lease.org, ended, by="call")
    await _keep_answers(tx, applying, pending_parts, outcomes)
    results = dict(applying.results)
    results |= {
        pending.key: (OUTCOME_OF_EFFECT[state], words)
        for pending, state, words in settled
        if state is not EffectState.NOT_SENT
    }
    await _settle_changes(tx, applying, [pending.change for pending in pending_parts], results)
    if lease.attempt > 1 and any(state is EffectState.DONE for _, state, _ in settled):
        await transitions.forget_losses(tx, lease)
    await own_changes.note(tx, lease.org, lease.run, _touched(applying, pending_parts, outcomes))


async def _keep_answers(
    tx: Tx, applying: ApplyingStep, pending_parts: Sequence[PartToApply], outcomes: Sequence[WriteOutcome]
) -> None:
    """Stores the answers encrypted, each bound to its effect."""
    org = applying.lease.org
    for pending, outcome in zip(pending_parts, outcomes, strict=True):
        if outcome.answer is None:
            continue
        key_no, sealed = await vaults.seal_text(
            tx, applying.ctx.vault, org, field=_answer_field(pending.key), text=outcome.answer.to_text()
        )
        await write_ledger.keep_answer(tx, org, pending.key, key_no=key_no, sealed=sealed)


async def recorded_answers(
    tx: Tx, *, vault: Vault, lease: Lease, items: Sequence[Change]
) -> dict[ChangeId, WriteAnswer]:
    """Returns the recorded answer of each change that has one: that of its last part with one."""
    answers: dict[ChangeId, WriteAnswer] = {}
    for stored_answer in await write_ledger.answers_of(tx, lease.org, lease.run, [item.id for item in items]):
        text = await vaults.open_text(
            tx,
            vault,
            lease.org,
            field=_answer_field(stored_answer.key),
            key_no=stored_answer.key_no,
            sealed=stored_answer.sealed,
        )
        answers[stored_answer.change] = WriteAnswer.from_text(text)
    return answers


def _answer_field(key: str) -> str:
    """Returns the place that an encrypted answer is bound to."""
    return f"answer {key}"


def _touched(
    applying: ApplyingStep, pending_parts: Sequence[PartToApply], outcomes: Sequence[WriteOutcome]
) -> list[ChangedObject]:
    """Returns the store objects that were changed: their events are echoes of this automation."""
    return [
        ChangedObject(
            pending.part.integration_id,
            pending.change.proposal.object.type,
            pending.change.proposal.object.id,
            outcome.modified_at,
            set_modified_at=outcome.modified_at is not None
            and outcome.modified_at != applying.modified.get(pending.key),
        )
        for pending, outcome in zip(pending_parts, outcomes, strict=True)
        if outcome.state is WriteState.APPLIED
        and pending.change.proposal.object.id is not None
        and applying.connections[pending.part.integration_id].is_store
    ]


def effect_of(outcome: WriteOutcome) -> tuple[EffectState, str | None]:
    """Returns the state of an effect after its call, and its message."""
    if outcome.state is WriteState.APPLIED:
        return EffectState.DONE, None
    if outcome.state is WriteState.CONFLICT:
        return EffectState.CONFLICT, outcome.reason or CHANGED_MEANWHILE
    if outcome.state is WriteState.REFUSED:
        return EffectState.REFUSED, outcome.reason or "The account refused it."
    if outcome.state is WriteState.NOT_SENT:
        return EffectState.NOT_SENT, outcome.reason
    return EffectState.UNKNOWN, changes.STILL_OPEN


async def settle_unsent(applying: ApplyingStep, verdicts: Sequence[UnsentOutcome]) -> None:
    """Stores outcomes of parts for which nothing was sent. Raises LeaseLost, CancelRequested."""
    if not verdicts:
        return
    lease = applying.lease
    for pending, outcome, words in verdicts:
        applying.results[pending.key] = (outcome, words)

    async def store(tx: Tx) -> str | None:
        is_held, cancel = await transitions.lock_lease(tx, lease)
        if not is_held:
            raise LeaseLost(lease)
        await _settle_changes(tx, applying, [pending.change for pending, _, _ in verdicts], applying.results)
        return cancel

    cancel = await applying.ctx.engine.write(applying.ctx.clock.now(), store, org=lease.org)
    failpoint("after_unsent")
    if cancel is not None:
        raise CancelRequested(cancel)


async def settle_known(applying: ApplyingStep) -> None:
    """Stores the outcome of changes whose parts are all settled, as after a crash. Raises LeaseLost."""

    async def store(tx: Tx) -> None:
        is_held, _ = await transitions.lock_lease(tx, applying.lease)
        if not is_held:
            raise LeaseLost(applying.lease)
        await _settle_changes(tx, applying, applying.changes, applying.results)

    if applying.results:
        await applying.ctx.engine.write(applying.ctx.clock.now(), store, org=applying.lease.org)


async def _settle_changes(
    tx: Tx, applying: ApplyingStep, touched: Sequence[Change], part_results: KnownResults
) -> None:
    """Stores the outcome of each change whose every part is known."""
    settled = []
    for change in {change.id: change for change in touched}.values():
        results = [part_results.get(pending.key) for pending in applying.parts_of(change)]
        result = change_outcomes.change_result(change.proposal.parts, results, run_continues=True)
        if result is not None and None not in results:
            settled.append(SettledChange(change.id, *result))
    await changes.settle(tx, applying.lease.org, applying.lease.run, settled)
