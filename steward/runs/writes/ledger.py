"""Stores intents and outcomes of approved changes, each in one transaction fenced by the run's epoch."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import MsgspecError

from steward.closed_periods import applicable
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.database.engine.base import Tx
from steward.database.events import own_changes
from steward.database.events.own_changes import ChangedObject
from steward.database.runs import approvals, changes, closed_period_holds, transitions, write_ledger
from steward.database.runs.changes import SettledChange
from steward.database.runs.closed_period_holds import WriterLock
from steward.database.runs.transitions import Lease
from steward.database.runs.write_ledger import EntryOutcome, Intent, LedgerState, WriteEntry
from steward.failpoint import failpoint
from steward.model.change import (
    Change,
    Recovery,
    request_hash,
)
from steward.model.closed_period import Closing
from steward.model.connection import Connection
from steward.runs import change_outcomes
from steward.runs.change_outcomes import OUTCOME_OF_STATE
from steward.runs.connection_access import ConnectionAccess
from steward.runs.lease import CancelRequested, LeaseLost
from steward.runs.writes.applying_step import ApplyingStep
from steward.runs.writes.rounds import KnownResults, PartToApply, UnsentOutcome
from steward.runs.writes.write_responses import store_responses

SEND_WITHIN = applicable.SEND_WITHIN
# A run that a closed period holds checks again at least this often, because the period may be ended early.
_RECHECK_EVERY = timedelta(minutes=10)
CHANGED_MEANWHILE = "It was changed in the meantime and was left unchanged."


class WritesClosed(Exception):
    """A closed period forbids the write for now; nothing was stored."""

    def __init__(self, closing: Closing, now: datetime) -> None:
        super().__init__(closing.period.name)
        self.name = closing.period.name
        self.until = closing.end
        latest = now + _RECHECK_EVERY
        wake_at = latest if closing.end is None else min(closing.end, latest)
        self.seconds = max((wake_at - now).total_seconds(), 1.0)


class PeriodsUnreadable(Exception):
    """A closed period could not be interpreted, so writes count as forbidden; nothing was stored."""

    seconds = 60.0


class AttemptsSpent(Exception):
    """Some writes have used up their five attempts without sending any; nothing was stored."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(f"{len(keys)} writes")
        self.keys = frozenset(keys)


def add_ledger_results(applying: ApplyingStep, settled: Sequence[WriteEntry]) -> None:
    """Adds the ledger's results of settled writes to those of the step."""
    for entry in settled:
        if entry.state in OUTCOME_OF_STATE:
            applying.results[entry.key] = (OUTCOME_OF_STATE[entry.state], entry.message)


async def record_intents(
    tx: Tx, *, applying: ApplyingStep, pending_parts: Sequence[PartToApply], key: str
) -> None:
    """Stores the intents of one call.

    Raises LeaseLost, CancelRequested, AttemptsSpent, WritesClosed, PeriodsUnreadable.
    """
    lease = applying.lease
    writer = await closed_period_holds.lock_writer(tx, lease)
    if writer is None:
        raise LeaseLost(lease)
    if writer.cancel_code is not None:
        raise CancelRequested(writer.cancel_code)
    used = [applying.connections[pending.part.integration_id] for pending in pending_parts]
    await _check_open(tx, applying.ctx.access, lease, writer, used)
    intents = [_intent(applying, pending, key) for pending in pending_parts]
    stored = await write_ledger.record_intents(tx, lease.org, lease.run, epoch=lease.epoch, intents=intents)
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
    """Raises WritesClosed when a closed period forbids writes to one of the connections now or within 5 s.

    Raises PeriodsUnreadable when a stored period cannot be interpreted. Messages to people are no changes
    and are never forbidden. The periods are read without locks: a write whose transaction read them just
    before one was created may still be sent.
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
        periods = await applicable.read(tx, lease.org, since=tx.now)
        applicable_periods = periods.on_writes(writer.automation, integrations, is_exempt=writer.is_exempt)
        closing = applicable.write_closing(applicable_periods, tx.now)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MsgspecError) as error:
        raise PeriodsUnreadable from error
    if closing is not None and not await approvals.writes_now(tx, lease.org, lease.run):
        raise WritesClosed(closing, tx.now)


async def check_repeat(tx: Tx, *, access: ConnectionAccess, lease: Lease, connection: Connection) -> None:
    """Raises WritesClosed when a closed period forbids repeating a write to the connection.

    Raises LeaseLost, PeriodsUnreadable.
    """
    writer = await closed_period_holds.read_writer(tx, lease)
    if writer is None:
        raise LeaseLost(lease)
    await _check_open(tx, access, lease, writer, [connection])


async def _check_not_sent(tx: Tx, lease: Lease, intents: Mapping[str, Intent]) -> None:
    """Raises RuntimeError when a write of `intents` may have been sent, or was of another request."""
    for entry in await write_ledger.of_run(tx, lease.org, lease.run):
        intent = intents.get(entry.key)
        if intent is None:
            continue
        is_same = entry.request_sha256 == intent.request_sha256
        if entry.state is not LedgerState.NOT_SENT or not is_same:
            raise RuntimeError(f"write {entry.key} would be sent again in state {entry.state}")


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
    is_owner, _ = await transitions.lock_lease(tx, lease)
    if not is_owner:
        raise LeaseLost(lease)
    settled = [
        (pending, *ledger_state_of(outcome)) for pending, outcome in zip(pending_parts, outcomes, strict=True)
    ]
    ended = [EntryOutcome(pending.key, state, words) for pending, state, words in settled]
    await write_ledger.settle(tx, lease.org, ended, by="call")
    await store_responses(tx, applying.ctx.vault, lease.org, pending_parts, outcomes)
    results = dict(applying.results)
    results |= {
        pending.key: (OUTCOME_OF_STATE[state], words)
        for pending, state, words in settled
        if state is not LedgerState.NOT_SENT
    }
    await _settle_changes(tx, applying, [pending.change for pending in pending_parts], results)
    if lease.attempt > 1 and any(state is LedgerState.DONE for _, state, _ in settled):
        await transitions.forget_losses(tx, lease)
    await own_changes.note(tx, lease.org, lease.run, _touched(applying, pending_parts, outcomes))


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


def ledger_state_of(outcome: WriteOutcome) -> tuple[LedgerState, str | None]:
    """Returns the state of a write after its call, and its message."""
    if outcome.state is WriteState.APPLIED:
        return LedgerState.DONE, None
    if outcome.state is WriteState.CONFLICT:
        return LedgerState.CONFLICT, outcome.reason or CHANGED_MEANWHILE
    if outcome.state is WriteState.REFUSED:
        return LedgerState.REFUSED, outcome.reason or "The account refused it."
    if outcome.state is WriteState.NOT_SENT:
        return LedgerState.NOT_SENT, outcome.reason
    return LedgerState.UNKNOWN, changes.STILL_OPEN


async def settle_unsent(applying: ApplyingStep, verdicts: Sequence[UnsentOutcome]) -> None:
    """Stores outcomes of parts for which nothing was sent. Raises LeaseLost, CancelRequested."""
    if not verdicts:
        return
    lease = applying.lease
    for pending, outcome, words in verdicts:
        applying.results[pending.key] = (outcome, words)

    async def store(tx: Tx) -> str | None:
        is_owner, cancel = await transitions.lock_lease(tx, lease)
        if not is_owner:
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
        is_owner, _ = await transitions.lock_lease(tx, applying.lease)
        if not is_owner:
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
