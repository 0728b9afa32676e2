"""The only file that changes stores: read again, store the intent, make one call, store the outcome."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from steward.connectors.base.connector import AnyWriteOperation, CurrentValue
from steward.connectors.base.writing import WriteOutcome, Writer, WriteState
from steward.database.runs.transitions import Lease
from steward.database.runs.write_ledger import WriteEntry
from steward.failpoint import failpoint
from steward.model.change import Batch, Outcome, Part, Recovery, batch_key, request_hash
from steward.model.connection import Connection
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject
from steward.model.refusals import NotConnected
from steward.outbound.call_queue import Urgency
from steward.outbound.errors import CallError, ErrorKind
from steward.outbound.grant import WriteGrant
from steward.runs import connection_checks
from steward.runs.change_outcomes import OUTCOME_OF_STATE
from steward.runs.run_context import WriteContext
from steward.runs.writes import ledger, rounds
from steward.runs.writes.applying_step import ApplyingStep
from steward.runs.writes.ledger import (
    CHANGED_MEANWHILE,
    SEND_WITHIN,
    AttemptsSpent,
    PeriodsUnreadable,
    WritesClosed,
)
from steward.runs.writes.rounds import PartToApply, Round

_REREAD_AFTER = timedelta(seconds=60)
_ATTEMPTS = 5
_SHORT_WAIT_SECONDS = 2.0
GONE = "It no longer exists."
# Errors of the key or its permissions apply to every object.
_ACCOUNT_ERRORS = frozenset({ErrorKind.UNAUTHORIZED, ErrorKind.FORBIDDEN})
# When this many objects in a row, read one by one, fail because the account is unavailable, all others fail.
_MAX_UNAVAILABLE = 3
_UNREACHABLE = "The account could not be reached. Nothing was sent; run it again later."


class MustWait(Exception):
    """The run cannot continue now: it sleeps until the platform's pause, or a closed period, is over.

    `reading` names the execution whose read failed, because retries of a read are bounded in time;
    `current_step` is what the run shows while it sleeps; `held` is the closed period that forbids writing.
    """

    def __init__(
        self,
        seconds: float,
        *,
        reading: str | None = None,
        current_step: JsonObject | None = None,
        held: WritesClosed | None = None,
    ) -> None:
        super().__init__(f"{seconds:.0f} s")
        self.seconds = seconds
        self.reading = reading
        self.current_step = current_step
        self.held = held


async def apply(applying: ApplyingStep) -> None:
    """Applies every change, each part at most once and the parts of a change in order.

    Raises LeaseLost, MustWait, and CancelRequested between two requests.
    """
    await ledger.settle_known(applying)
    while unsettled := applying.unsettled():
        applying.report_progress()
        planned = rounds.next_round(unsettled, applying.results, applying, max_parts=applying.max_parts)
        await ledger.settle_unsent(applying, planned.blocked)
        await _send_round(applying, planned)
    applying.report_progress()


async def _send_round(applying: ApplyingStep, planned: Round) -> None:
    """Rereads the round's objects and sends its requests in order until one has to wait."""
    pending_parts = [pending for request in planned.requests for pending in request]
    if not pending_parts:
        return
    reread_at = applying.ctx.clock.monotonic()
    still_sendable = {
        pending.key for pending in rounds.one_of_each_object(await _reread(applying, pending_parts))
    }
    is_first = True
    for request in planned.requests:
        unsent = [pending for pending in request if pending.key in still_sendable]
        while unsent:
            size = _size(applying, unsent)
            batch, unsent = unsent[:size], unsent[size:]
            wait = await _send(applying, batch, reread_at=reread_at, is_first=is_first)
            if wait is not None:
                await _wait(applying, wait)
                return
            is_first = False
            applying.report_progress()


def _size(applying: ApplyingStep, pending_parts: Sequence[PartToApply]) -> int:
    """Returns how many of the parts go into the next request."""
    part = pending_parts[0].part
    if not applying.is_order_free(part):
        return len(pending_parts)
    return applying.ctx.batch_sizes.next(part, limit=len(pending_parts))


async def _wait(applying: ApplyingStep, seconds: float) -> None:
    """Waits before the next round. Raises MustWait when the wait is long."""
    if seconds > _SHORT_WAIT_SECONDS:
        raise MustWait(seconds)
    await applying.ctx.clock.sleep(seconds)


async def _reread(applying: ApplyingStep, pending_parts: list[PartToApply]) -> list[PartToApply]:
    """Returns the parts whose object is unchanged since the proposal; settles the others without a call."""
    operation = applying.operation(pending_parts[0].part)
    is_blind = operation.recovery_of(pending_parts[0].part) is Recovery.AT_MOST_ONCE
    if is_blind or operation.guard == "compare_and_swap":
        return pending_parts
    ctx, lease = applying.ctx, applying.lease
    connection = applying.connections[pending_parts[0].part.integration_id]
    try:
        reader = await ctx.access.reader(lease.org, connection, urgency=Urgency.WRITE)
        current_values = await reader.current([pending.part for pending in pending_parts])
    except NotConnected as refusal:
        await ledger.settle_unsent(
            applying, [(pending, Outcome.FAILED, refusal.message) for pending in pending_parts]
        )
        return []
    except CallError as error:
        await _handle_read_error(applying, pending_parts, error)
        return []
    applying.max_parts, applying.unavailable = None, 0
    to_send, settled = [], []
    for pending, current in zip(pending_parts, current_values, strict=True):
        applying.modified[pending.key] = current.modified_at
        outcome = _outcome_without_write(operation, pending.part, current)
        if outcome is None:
            to_send.append(pending)
        else:
            settled.append((pending, *outcome))
    await ledger.settle_unsent(applying, settled)
    return to_send


def _outcome_without_write(
    operation: AnyWriteOperation, part: Part, current: CurrentValue
) -> tuple[Outcome, str | None] | None:
    """Returns the outcome and message of a part that needs no write or must not be written; else None."""
    if current.is_gone:
        return Outcome.CONFLICT, GONE
    if operation.same(part.after, current.value):
        return Outcome.UNCHANGED, None
    if operation.same(part.before, current.value):
        return None
    return Outcome.CONFLICT, CHANGED_MEANWHILE


async def _handle_read_error(
    applying: ApplyingStep, pending_parts: list[PartToApply], error: CallError
) -> None:
    """Halves the number of parts read next, so that one unreadable object fails alone. Raises MustWait.

    Errors of the key or its rights fail the whole page. After several objects in a row failed because the
    account is unavailable, every remaining part of that account fails, for each read may take a minute.
    """
    wait = error.wait_s
    if wait is not None and wait > _SHORT_WAIT_SECONDS:
        raise MustWait(wait)
    await _schedule_check(applying, pending_parts, [error.kind])
    is_account_error = error.kind in _ACCOUNT_ERRORS
    if len(pending_parts) > 1 and not is_account_error and applying.is_order_free(pending_parts[0].part):
        applying.max_parts = len(pending_parts) // 2
        return
    if error.kind is ErrorKind.UNAVAILABLE:
        applying.unavailable += 1
        if applying.unavailable >= _MAX_UNAVAILABLE:
            pending_parts = applying.next_of(pending_parts[0].part.integration_id)
    message = f"It could not be read again before the change, so nothing was sent. {error.message}"
    await ledger.settle_unsent(applying, [(pending, Outcome.FAILED, message) for pending in pending_parts])


async def _schedule_check(
    applying: ApplyingStep, pending_parts: Sequence[PartToApply], kinds: Sequence[ErrorKind | None]
) -> None:
    integrations = [pending.part.integration_id for pending in pending_parts]
    ctx = applying.ctx
    await connection_checks.schedule_check(
        ctx.engine, ctx.clock, applying.lease.org, integrations, kinds=kinds
    )


async def _send(
    applying: ApplyingStep, pending_parts: Sequence[PartToApply], *, reread_at: float, is_first: bool
) -> float | None:
    """Stores the intents, makes the call and stores its outcomes.

    `is_first`: no request was sent since the objects were read again. Returns None when the next request may
    follow, else the seconds to wait before a new round. Raises LeaseLost, CancelRequested;
    MustWait while a closed period forbids the write or the periods cannot be read.
    """
    ctx, lease = applying.ctx, applying.lease
    await ctx.wait_for_lease(lease)
    if ctx.clock.monotonic() - reread_at > _REREAD_AFTER.total_seconds():
        # The values read are too old to write on. If not even the first request was in time, that counts as
        # an attempt: the account is too slow to be read.
        await _fail_unreachable(applying, _count_attempt(applying, pending_parts) if is_first else [])
        return 0.0
    keys = tuple(pending.key for pending in pending_parts)
    batch = Batch(tuple(pending.part for pending in pending_parts), keys, batch_key(keys))
    failpoint("before_intent")
    record_intents = partial(
        ledger.record_intents, applying=applying, pending_parts=pending_parts, key=batch.key
    )
    # Closed periods are judged for the instant at which the transaction is asked for, so the 5 s begin here.
    window_start = ctx.clock.monotonic()
    try:
        await ctx.engine.write(ctx.clock.now(), record_intents, org=lease.org)
    except WritesClosed as closed:
        failpoint("before_gate_sleep")
        raise MustWait(closed.seconds, held=closed) from closed
    except PeriodsUnreadable as fault:
        ctx.log.error("closed_periods_unreadable", fault, run=lease.run, org=lease.org)
        raise MustWait(fault.seconds) from fault
    except AttemptsSpent as spent:
        await _fail_unreachable(applying, [pending for pending in pending_parts if pending.key in spent.keys])
        return 0.0
    failpoint("after_intent")
    outcomes = applying.admit_responses(await _send_batch(applying, batch, window_start=window_start))
    failpoint("after_call")
    settle = partial(ledger.settle, applying=applying, pending_parts=pending_parts, outcomes=outcomes)
    await ctx.engine.write(ctx.clock.now(), settle, org=lease.org)
    failpoint("after_outcome")
    await _schedule_check(applying, pending_parts, [outcome.error for outcome in outcomes])
    return await _wait_after(applying, pending_parts, outcomes)


async def _send_batch(applying: ApplyingStep, batch: Batch, *, window_start: float) -> list[WriteOutcome]:
    """Makes the request of a batch whose intents are stored, and adapts the size of the next batch.

    `window_start` is the monotonic instant from which the request may be sent for 5 s.
    """
    ctx, part = applying.ctx, batch.parts[0]
    connection = applying.connections[part.integration_id]
    connections = {key: part.integration_id for key in batch.write_keys}
    grant = _grant(
        ctx, applying.lease, connections, change_hash=applying.change_hash, window_start=window_start
    )
    try:
        writer: Writer = await ctx.access.writer(applying.lease.org, connection, grant)
        started = ctx.clock.monotonic()
        outcomes = await writer.apply(batch)
    except NotConnected as refusal:  # disconnected since the read: nothing was sent
        return [WriteOutcome(WriteState.REFUSED, reason=refusal.message)] * len(batch.parts)
    states = {outcome.state for outcome in outcomes}
    if states & {WriteState.APPLIED, WriteState.UNKNOWN}:
        seconds, has_response = ctx.clock.monotonic() - started, WriteState.APPLIED in states
        ctx.batch_sizes.note(part, items=len(batch.parts), seconds=seconds, has_response=has_response)
    return outcomes


async def _wait_after(
    applying: ApplyingStep, pending_parts: Sequence[PartToApply], outcomes: Sequence[WriteOutcome]
) -> float | None:
    """Records the outcomes and returns the longest wait the account asks for, or None."""
    waits, unsent = [], []
    for pending, outcome in zip(pending_parts, outcomes, strict=True):
        if outcome.state is WriteState.NOT_SENT:
            waits.append(outcome.wait_s or 1.0)
            unsent.append(pending)
        else:
            state, words = ledger.ledger_state_of(outcome)
            applying.results[pending.key] = (OUTCOME_OF_STATE[state], words)
    if not waits:
        return None
    if max(waits) <= _SHORT_WAIT_SECONDS:
        await _fail_unreachable(applying, _count_attempt(applying, unsent))
    return max(waits)


def _count_attempt(applying: ApplyingStep, pending_parts: Sequence[PartToApply]) -> list[PartToApply]:
    """Counts an attempt for each of `pending_parts` and returns those that have used their last."""
    for pending in pending_parts:
        applying.attempts[pending.key] = applying.attempts.get(pending.key, 0) + 1
    return [pending for pending in pending_parts if applying.attempts[pending.key] >= _ATTEMPTS]


async def _fail_unreachable(applying: ApplyingStep, pending_parts: Sequence[PartToApply]) -> None:
    await ledger.settle_unsent(
        applying, [(pending, Outcome.FAILED, _UNREACHABLE) for pending in pending_parts]
    )


def _grant(
    ctx: WriteContext,
    lease: Lease,
    connections: dict[str, IntegrationId],
    *,
    change_hash: str,
    window_start: float,
) -> WriteGrant:
    """Returns the permission to send within the rest of the 5 s that began at `window_start`."""
    remaining = SEND_WITHIN - timedelta(seconds=ctx.clock.monotonic() - window_start)
    return WriteGrant(
        org=lease.org,
        run=lease.run,
        epoch=lease.epoch,
        change_hash=change_hash,
        connections=connections,
        confirmed_until=ctx.confirmed_until,
        send_by=ctx.clock.now() + remaining,
    )


async def repeat(
    ctx: WriteContext,
    lease: Lease,
    connection: Connection,
    *,
    parts: Sequence[Part],
    entries_of_batch: Sequence[WriteEntry],
) -> list[WriteOutcome] | None:
    """Repeats a whole batch under the idempotency key it was first sent with.

    `entries_of_batch` are all writes of that batch, in order; the account does not repeat what it did under
    the key before. Returns None when the batch cannot be rebuilt as it was. Raises LeaseLost, NotConnected,
    WritesClosed, PeriodsUnreadable.
    """
    keys = tuple(entry.key for entry in entries_of_batch)
    if batch_key(keys) != entries_of_batch[0].batch_key:
        return None
    if any(
        entry.request_sha256 != request_hash([part])
        for entry, part in zip(entries_of_batch, parts, strict=True)
    ):
        raise RuntimeError(f"batch {entries_of_batch[0].batch_key} would be another request than it was")
    await ctx.wait_for_lease(lease)
    window_start = ctx.clock.monotonic()
    check = partial(ledger.check_repeat, access=ctx.access, lease=lease, connection=connection)
    await ctx.engine.read(ctx.clock.now(), check, org=lease.org)
    connections = {entry.key: connection.integration_id for entry in entries_of_batch}
    grant = _grant(ctx, lease, connections, change_hash=request_hash(parts), window_start=window_start)
    writer: Writer = await ctx.access.writer(lease.org, connection, grant)
    failpoint("before_repeat")
    outcomes = await writer.apply(Batch(tuple(parts), keys, batch_key(keys)))
    failpoint("after_repeat")
    return outcomes
