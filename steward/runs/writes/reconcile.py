"""Reconciles writes with an unknown outcome (docs/design/writes.md#reconciliation)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from steward.connectors.base.store_operation import read_back
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.database.runs import changes
from steward.database.runs.transitions import Lease
from steward.database.runs.write_ledger import OPEN, LedgerState, WriteEntry
from steward.failpoint import failpoint
from steward.model.change import Recovery
from steward.model.ids import OrgId, RunId
from steward.model.refusals import NotConnected
from steward.outbound.call_queue import Urgency
from steward.outbound.errors import CallError, ErrorKind
from steward.runs.run_context import WriteContext
from steward.runs.writes import apply
from steward.runs.writes.ledger import PeriodsUnreadable, WritesClosed
from steward.runs.writes.open_ledger import OpenLedger, open_ledger
from steward.runs.writes.verdicts import Verdict, store_late_verdict, store_verdicts

_GIVE_UP_AFTER = timedelta(hours=24)
_NEVER = timedelta(days=36_500)
_READ_BACK_PAGE = 100
_SECOND_SEARCH_AFTER = timedelta(seconds=60)
# An account remembers a key for 24 h. Nothing is repeated under it in the last four of these hours.
_TRUST_KEY_FOR = timedelta(hours=20)
# An account that denies access now gives no information about earlier writes.
_INCONCLUSIVE_ERRORS = frozenset(
    {ErrorKind.UNAUTHORIZED, ErrorKind.FORBIDDEN, ErrorKind.WRONG_ADDRESS, ErrorKind.UNAVAILABLE}
)
_RETRY_DELAYS = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=30), timedelta(hours=1))


async def settle_run(ctx: WriteContext, lease: Lease) -> datetime | None:
    """Settles what can be settled of a claimed run; returns until when the run has to sleep, or None.

    Before a write's `settle_after` nothing is done to it: a call of a lost worker may be in flight. Raises
    LeaseLost.
    """
    ledger = await ctx.engine.read(
        ctx.clock.now(), partial(open_ledger, org=lease.org, run=lease.run), org=lease.org
    )
    now = ledger.now  # the clock that wrote `settle_after`: a host's own may be ahead
    unsettled = [entry for entry in ledger.entries if _is_unsettled(entry)]
    due = [entry for entry in unsettled if entry.settle_after <= now]
    retry_at = await _settle_due(ctx, lease, ledger, due)
    if retry_at is not None:
        return retry_at
    return min((entry.settle_after for entry in unsettled if entry.settle_after > now), default=None)


async def _settle_due(
    ctx: WriteContext, lease: Lease, ledger: OpenLedger, due: Sequence[WriteEntry]
) -> datetime | None:
    """Looks up each due write and stores the verdicts, up to the first that is to be looked up again.

    Returns when that is due. Raises LeaseLost.
    """
    looked_up: set[str] = set()
    for entry in due:
        if entry.key in looked_up:
            continue
        remaining = [other for other in due if other.key not in looked_up]
        verdicts = (
            await _repeat_batch(ctx, lease, ledger, entry)
            or await _read_back_page(ctx, lease.org, ledger, remaining)
            or [await _look_up(ctx, lease.org, ledger, entry)]
        )
        looked_up |= {verdict.entry.key for verdict in verdicts}
        store = partial(store_verdicts, org=lease.org, lease=lease, ledger=ledger, verdicts=verdicts)
        failpoint("before_settle")
        await ctx.engine.write(ctx.clock.now(), store, org=lease.org)
        failpoint("after_settle")
        retry_at = _first_retry(verdicts)
        if retry_at is not None:
            return retry_at
    return None


def _first_retry(verdicts: Sequence[Verdict]) -> datetime | None:
    return min((verdict.retry_at for verdict in verdicts if verdict.retry_at is not None), default=None)


def _is_unsettled(entry: WriteEntry) -> bool:
    """Returns whether more can be learned; an unknown at-most-once write stays unknown."""
    if entry.state not in OPEN:
        return False
    return not (entry.state is LedgerState.UNKNOWN and entry.recovery is Recovery.AT_MOST_ONCE)


async def _repeat_batch(
    ctx: WriteContext, lease: Lease, ledger: OpenLedger, entry: WriteEntry
) -> list[Verdict]:
    """Repeats a whole batch under its idempotency key; returns nothing when it has to be read back instead.

    Only the account's own decisions count: while there is none, the first attempt may have written all.
    """
    now = ledger.now
    connection = ledger.connected(entry)
    if entry.recovery is not Recovery.IDEMPOTENT or now - entry.intent_at >= _TRUST_KEY_FOR:
        return []
    if connection is None:
        return []
    batch = ledger.batch_of(entry)
    try:
        parts = [ledger.part(member) for member in batch]
        outcomes = await apply.repeat(ctx, lease, connection, parts=parts, entries_of_batch=batch)
    except NotConnected:
        return []
    except (WritesClosed, PeriodsUnreadable) as closed:  # open until it may be repeated, or is too old
        if isinstance(closed, PeriodsUnreadable):
            ctx.log.error("closed_periods_unreadable", closed, run=lease.run, org=lease.org)
        retry_at = now + timedelta(seconds=closed.seconds)
        return [Verdict(member, None, retry_at=retry_at) for member in batch if _is_unsettled(member)]
    return [] if outcomes is None else _verdicts_of_batch(batch, outcomes, now)


def _verdicts_of_batch(
    batch: Sequence[WriteEntry], outcomes: Sequence[WriteOutcome], now: datetime
) -> list[Verdict]:
    """Returns the verdicts of a repeated batch; a retry of all of it when nothing was sent."""
    if all(outcome.state is WriteState.NOT_SENT for outcome in outcomes):
        retry_at = now + timedelta(seconds=max(max(outcome.wait_s or 0 for outcome in outcomes), 5))
        return [Verdict(member, None, retry_at=retry_at) for member in batch if _is_unsettled(member)]
    pairs = zip(batch, outcomes, strict=True)
    return [_verdict_of_call(member, outcome, now) for member, outcome in pairs if _is_unsettled(member)]


def _verdict_of_call(entry: WriteEntry, outcome: WriteOutcome, now: datetime) -> Verdict:
    states = {
        WriteState.APPLIED: LedgerState.DONE,
        WriteState.CONFLICT: LedgerState.CONFLICT,
        WriteState.REFUSED: LedgerState.REFUSED,
        WriteState.NOT_SENT: LedgerState.NOT_SENT,
    }
    state = states.get(outcome.state)
    if state is None or outcome.error in _INCONCLUSIVE_ERRORS:
        return _retry_later(entry, now)
    message = None if state is LedgerState.DONE else outcome.reason
    return Verdict(entry, state, by="call", message=message)


async def _read_back_page(
    ctx: WriteContext, org: OrgId, ledger: OpenLedger, remaining: Sequence[WriteEntry]
) -> list[Verdict]:
    """Reads a page of objects back from a store after a lost batch: the first of `remaining` and others like
    it.

    Returns nothing when there are no others or they cannot be read together: then the first is read alone.
    """
    first = remaining[0]
    connection = ledger.connected(first)
    if connection is None or not connection.is_store:
        return []
    page = _entries_like(first, ledger, remaining)[:_READ_BACK_PAGE]
    if len(page) < 2 or first not in page:
        return []
    try:
        reader = await ctx.access.reader(org, connection, urgency=Urgency.WRITE)
        current_values = await reader.current([ledger.part(entry) for entry in page])
    except (CallError, NotConnected):
        return []
    operation = ctx.access.changes(connection.kind)[ledger.part(first).operation]
    pairs = zip(page, current_values, strict=True)
    return [_read_back(entry, read_back(operation, current), ledger.now) for entry, current in pairs]


def _entries_like(first: WriteEntry, ledger: OpenLedger, entries: Sequence[WriteEntry]) -> list[WriteEntry]:
    """Returns those of `entries` that can be read back and have the operation and connection of `first`."""
    name = ledger.part(first).operation
    return [
        entry
        for entry in entries
        if entry.recovery is Recovery.READABLE
        and entry.integration == first.integration
        and ledger.part(entry).operation == name
    ]


async def _look_up(ctx: WriteContext, org: OrgId, ledger: OpenLedger, entry: WriteEntry) -> Verdict:
    """Determines whether a write took effect: by its marker or by reading the object back."""
    now = ledger.now
    if entry.recovery is Recovery.AT_MOST_ONCE:
        return Verdict(entry, LedgerState.UNKNOWN, message=changes.STILL_OPEN)
    connection = ledger.connected(entry)
    if connection is None:
        return _retry_later(entry, now)
    part = ledger.part(entry)
    try:
        reader = await ctx.access.reader(org, connection, urgency=Urgency.WRITE)
        if entry.recovery is Recovery.MARKED:
            return await _search(entry, await reader.find_marker(part, entry.key), now)
        outcome = await reader.confirm(part)
    except (CallError, NotConnected):
        return _retry_later(entry, now)
    return _read_back(entry, outcome, now)


def _read_back(entry: WriteEntry, outcome: WriteOutcome, now: datetime) -> Verdict:
    if outcome.state is WriteState.APPLIED:
        return Verdict(entry, LedgerState.DONE)
    if outcome.state is WriteState.NOT_SENT:
        return Verdict(entry, LedgerState.NOT_SENT)
    if outcome.state is WriteState.CONFLICT:
        return Verdict(entry, LedgerState.CONFLICT, message=outcome.reason)
    return _retry_later(entry, now)


async def _search(entry: WriteEntry, is_found: bool, now: datetime) -> Verdict:
    """Returns the verdict of a search for the marker; one that is not found is searched for once more."""
    if is_found:
        return Verdict(entry, LedgerState.DONE, by="marker")
    if entry.state is LedgerState.INTENT:
        return Verdict(entry, LedgerState.UNKNOWN, by="marker", retry_at=now + _SECOND_SEARCH_AFTER)
    return Verdict(entry, LedgerState.NOT_SENT, by="marker")


def _retry_later(entry: WriteEntry, now: datetime) -> Verdict:
    age = now - entry.intent_at
    if age > _GIVE_UP_AFTER:
        return Verdict(entry, LedgerState.UNKNOWN, message=changes.STILL_OPEN)
    wait = next((step for step in _RETRY_DELAYS if age < step * 4), _RETRY_DELAYS[-1])
    return Verdict(entry, None, retry_at=now + wait)


async def settle_finished(ctx: WriteContext, org: OrgId, run: RunId) -> None:
    """Looks up the open writes of a finished run until each has a verdict, at most for 24 hours."""
    engine, now = ctx.engine, ctx.clock.now()
    ledger = await engine.read(now, partial(open_ledger, org=org, run=run), org=org)
    for entry in ledger.entries:
        if entry.state not in OPEN or entry.settle_after > ledger.now:
            continue
        verdict = await _late_verdict(ctx, org, ledger, entry)
        await engine.write(now, partial(store_late_verdict, org=org, ledger=ledger, verdict=verdict), org=org)


async def _late_verdict(ctx: WriteContext, org: OrgId, ledger: OpenLedger, entry: WriteEntry) -> Verdict:
    """Looks up a write of a finished run; one that stays unknown after 24 hours is never looked up again.

    A look-up later than 24 hours, as after an outage of the service, still counts if it is conclusive.
    """
    never = ledger.now + _NEVER
    if not _is_unsettled(entry):
        return Verdict(entry, None, retry_at=never)
    verdict = await _look_up(ctx, org, ledger, entry)
    if verdict.state is LedgerState.NOT_SENT:  # no worker will send it any more
        message = "It did not take effect. Run the automation again to repeat it."
        return Verdict(entry, LedgerState.REFUSED, message=message)
    if verdict.state is LedgerState.UNKNOWN and verdict.retry_at is None:
        return replace(verdict, retry_at=never)
    return verdict
