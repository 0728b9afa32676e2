"""Reconciles writes with an unknown outcome (docs/design/writes.md#reconciliation)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from steward.connectors.base.store_operation import read_back
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.database.runs import changes
from steward.database.runs.transitions import Lease
from steward.database.runs.write_ledger import OPEN, Effect, EffectState
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

    Before an effect's `settle_after` nothing is done to it: a call of a lost worker may be in flight. Raises
    LeaseLost.
    """
    ledger = await ctx.engine.read(
        ctx.clock.now(), partial(open_ledger, org=lease.org, run=lease.run), org=lease.org
    )
    now = ledger.now  # the clock that wrote `settle_after`: a host's own may be ahead
    unsettled = [effect for effect in ledger.effects if _is_unsettled(effect)]
    due = [effect for effect in unsettled if effect.settle_after <= now]
    retry_at = await _settle_due(ctx, lease, ledger, due)
    if retry_at is not None:
        return retry_at
    return min((effect.settle_after for effect in unsettled if effect.settle_after > now), default=None)


async def _settle_due(
    ctx: WriteContext, lease: Lease, ledger: OpenLedger, due: Sequence[Effect]
) -> datetime | None:
    """Looks up each due effect and stores the verdicts, up to the first that is to be looked up again.

    Returns when that is due. Raises LeaseLost.
    """
    looked_up: set[str] = set()
    for effect in due:
        if effect.key in looked_up:
            continue
        remaining = [other for other in due if other.key not in looked_up]
        verdicts = (
            await _repeat_batch(ctx, lease, ledger, effect)
            or await _read_back_page(ctx, lease.org, ledger, remaining)
            or [await _look_up(ctx, lease.org, ledger, effect)]
        )
        looked_up |= {verdict.effect.key for verdict in verdicts}
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


def _is_unsettled(effect: Effect) -> bool:
    """Returns whether more can be learned; an unknown at-most-once write stays unknown."""
    if effect.state not in OPEN:
        return False
    return not (effect.state is EffectState.UNKNOWN and effect.recovery is Recovery.AT_MOST_ONCE)


async def _repeat_batch(ctx: WriteContext, lease: Lease, ledger: OpenLedger, effect: Effect) -> list[Verdict]:
    """Repeats a whole batch under its idempotency key; returns nothing when it has to be read back instead.

    Only the account's own decisions count: while it answers none, the first attempt may have done all.
    """
    now = ledger.now
    connection = ledger.connected(effect)
    if effect.recovery is not Recovery.IDEMPOTENT or now - effect.intent_at >= _TRUST_KEY_FOR:
        return []
    if connection is None:
        return []
    batch = ledger.batch_of(effect)
    try:
        parts = [ledger.part(member) for member in batch]
        outcomes = await apply.repeat(ctx, lease, connection, parts=parts, effects_of_batch=batch)
    except NotConnected:
        return []
    except (WritesClosed, PeriodsUnreadable) as closed:  # open until it may be repeated, or is too old
        if isinstance(closed, PeriodsUnreadable):
            ctx.log.error("closed_periods_unreadable", closed, run=lease.run, org=lease.org)
        retry_at = now + timedelta(seconds=closed.seconds)
        return [Verdict(member, None, retry_at=retry_at) for member in batch if _is_unsettled(member)]
    return [] if outcomes is None else _verdicts_of_batch(batch, outcomes, now)


def _verdicts_of_batch(
    batch: Sequence[Effect], outcomes: Sequence[WriteOutcome], now: datetime
) -> list[Verdict]:
    """Returns the verdicts of a repeated batch; a retry of all of it when nothing was sent."""
    if all(outcome.state is WriteState.NOT_SENT for outcome in outcomes):
        retry_at = now + timedelta(seconds=max(max(outcome.wait_s or 0 for outcome in outcomes), 5))
        return [Verdict(member, None, retry_at=retry_at) for member in batch if _is_unsettled(member)]
    pairs = zip(batch, outcomes, strict=True)
    return [_verdict_of_call(member, outcome, now) for member, outcome in pairs if _is_unsettled(member)]


def _verdict_of_call(effect: Effect, outcome: WriteOutcome, now: datetime) -> Verdict:
    states = {
        WriteState.APPLIED: EffectState.DONE,
        WriteState.CONFLICT: EffectState.CONFLICT,
        WriteState.REFUSED: EffectState.REFUSED,
        WriteState.NOT_SENT: EffectState.NOT_SENT,
    }
    state = states.get(outcome.state)
    if state is None or outcome.error in _INCONCLUSIVE_ERRORS:
        return _retry_later(effect, now)
    message = None if state is EffectState.DONE else outcome.reason
    return Verdict(effect, state, by="call", message=message)


async def _read_back_page(
    ctx: WriteContext, org: OrgId, ledger: OpenLedger, remaining: Sequence[Effect]
) -> list[Verdict]:
    """Reads a page of objects back from a store after a lost batch: the first of `remaining` and others like
    it.

    Returns nothing when there are no others or they cannot be read together: then the first is read alone.
    """
    first = remaining[0]
    connection = ledger.connected(first)
    if connection is None or not connection.is_store:
        return []
    page = _effects_like(first, ledger, remaining)[:_READ_BACK_PAGE]
    if len(page) < 2 or first not in page:
        return []
    try:
        reader = await ctx.access.reader(org, connection, urgency=Urgency.WRITE)
        current_values = await reader.current([ledger.part(effect) for effect in page])
    except (CallError, NotConnected):
        return []
    operation = ctx.access.changes(connection.kind)[ledger.part(first).operation]
    pairs = zip(page, current_values, strict=True)
    return [_read_back(effect, read_back(operation, current), ledger.now) for effect, current in pairs]


def _effects_like(first: Effect, ledger: OpenLedger, effects: Sequence[Effect]) -> list[Effect]:
    """Returns those of `effects` that can be read back and have the operation and connection of `first`."""
    name = ledger.part(first).operation
    return [
        effect
        for effect in effects
        if effect.recovery is Recovery.READABLE
        and effect.integration == first.integration
        and ledger.part(effect).operation == name
    ]


async def _look_up(ctx: WriteContext, org: OrgId, ledger: OpenLedger, effect: Effect) -> Verdict:
    """Determines whether a write took effect: by its marker or by reading the object back."""
    now = ledger.now
    if effect.recovery is Recovery.AT_MOST_ONCE:
        return Verdict(effect, EffectState.UNKNOWN, message=changes.STILL_OPEN)
    connection = ledger.connected(effect)
    if connection is None:
        return _retry_later(effect, now)
    part = ledger.part(effect)
    try:
        reader = await ctx.access.reader(org, connection, urgency=Urgency.WRITE)
        if effect.recovery is Recovery.MARKED:
            return await _search(effect, await reader.find_marker(part, effect.key), now)
        outcome = await reader.confirm(part)
    except (CallError, NotConnected):
        return _retry_later(effect, now)
    return _read_back(effect, outcome, now)


def _read_back(effect: Effect, outcome: WriteOutcome, now: datetime) -> Verdict:
    if outcome.state is WriteState.APPLIED:
        return Verdict(effect, EffectState.DONE)
    if outcome.state is WriteState.NOT_SENT:
        return Verdict(effect, EffectState.NOT_SENT)
    if outcome.state is WriteState.CONFLICT:
        return Verdict(effect, EffectState.CONFLICT, message=outcome.reason)
    return _retry_later(effect, now)


async def _search(effect: Effect, is_found: bool, now: datetime) -> Verdict:
    """Returns the verdict of a search for the marker; one that is not found is searched for once more."""
    if is_found:
        return Verdict(effect, EffectState.DONE, by="marker")
    if effect.state is EffectState.INTENT:
        return Verdict(effect, EffectState.UNKNOWN, by="marker", retry_at=now + _SECOND_SEARCH_AFTER)
    return Verdict(effect, EffectState.NOT_SENT, by="marker")


def _retry_later(effect: Effect, now: datetime) -> Verdict:
    age = now - effect.intent_at
    if age > _GIVE_UP_AFTER:
        return Verdict(effect, EffectState.UNKNOWN, message=changes.STILL_OPEN)
    wait = next((step for step in _RETRY_DELAYS if age < step * 4), _RETRY_DELAYS[-1])
    return Verdict(effect, None, retry_at=now + wait)


async def settle_finished(ctx: WriteContext, org: OrgId, run: RunId) -> None:
    """Continues to read back the unknown writes of a finished run, for 24 hours."""
    engine, now = ctx.engine, ctx.clock.now()
    ledger = await engine.read(now, partial(open_ledger, org=org, run=run), org=org)
    for effect in ledger.effects:
        if effect.state not in OPEN or effect.settle_after > ledger.now:
            continue
        verdict = await _look_up(ctx, org, ledger, effect)
        if not _is_unsettled(effect) or ledger.now - effect.intent_at > _GIVE_UP_AFTER:
            verdict = Verdict(effect, None, retry_at=ledger.now + timedelta(days=36_500))
        elif verdict.state is EffectState.NOT_SENT:  # no worker will send it any more
            message = "It did not take effect. Run the automation again to repeat it."
            verdict = Verdict(effect, EffectState.REFUSED, message=message)
        await engine.write(now, partial(store_late_verdict, org=org, ledger=ledger, verdict=verdict), org=org)
