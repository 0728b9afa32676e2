"""The only file that changes stores: re-read, intent, one call, outcome (engine 11.2)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from steward.connectors.base import CallError, ChangeOp, Current
from steward.connectors.writing import WriteOutcome, Writer, WriteState
from steward.crashpoint import crashpoint
from steward.model.change import (
    Batch,
    Change,
    Outcome,
    Part,
    Recovery,
    batch_key,
    effect_key,
    request_hash,
)
from steward.model.connection import Connection
from steward.model.ids import IntegrationId
from steward.model.refusals import NotConnected
from steward.outbound.errors import ErrorKind
from steward.outbound.grant import WriteGrant
from steward.outbound.turns import Urgency
from steward.runs import doubts, partly
from steward.runs.partly import OUTCOME_OF_EFFECT
from steward.runs.tools import CancelAsked, Fenced, Tools
from steward.store import changes, effects, own_changes, run_queue
from steward.store.effects import Effect, EffectState, Intent
from steward.store.engine import Tx
from steward.store.own_changes import Touched
from steward.store.run_queue import Lease

SEND_WITHIN = timedelta(seconds=5)
REREAD_AFTER = timedelta(seconds=60)
ATTEMPTS = 5
SHORT_WAIT_SECONDS = 2.0
CHANGED_MEANWHILE = "It was changed meanwhile and was left alone."
GONE = "It no longer exists."
UNREACHABLE = "The account could not be reached. Nothing was sent; run it again later."


class MustWait(Exception):
    """The account asks for a pause longer than a worker should hold: the run sleeps until it is over.

    `reading` names the execution whose read failed, for how long such a one is tried is bounded.
    """

    def __init__(self, seconds: float, *, reading: str | None = None) -> None:
        super().__init__(f"{seconds:.0f} s")
        self.seconds = seconds
        self.reading = reading


class _Spent(Exception):
    """Five attempts at an effect were not sent: no sixth is made."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of one change, with the key of its effect."""

    change: Change
    number: int
    part: Part
    key: str


@dataclass(slots=True)
class Applying:
    """The changes of one step being applied, and what is known of their parts so far."""

    tools: Tools
    lease: Lease
    changes: Sequence[Change]
    connections: Mapping[IntegrationId, Connection]
    change_hash: str
    version: int
    done: int = 0  # changes of the step whose outcome was known before
    known: dict[str, tuple[Outcome, str | None]] = field(default_factory=dict)
    modified: dict[str, datetime | None] = field(default_factory=dict)  # before the write, by effect key

    def pieces(self, change: Change) -> list[Piece]:
        """The change's parts in order, with the keys they have for good (engine 11.1)."""
        return [
            Piece(
                change,
                number,
                part,
                effect_key(
                    self.lease.run,
                    change.name,
                    change.iteration,
                    position=change.position,
                    part=number,
                    version=self.version,
                ),
            )
            for number, part in enumerate(change.proposal.parts, start=1)
        ]

    def tell(self) -> None:
        """Lets the run's `current_step` say how many of the step's changes are done."""
        doing = self.tools.progress.get(self.lease.run)
        if doing is None:
            return
        ended = sum(all(piece.key in self.known for piece in self.pieces(one)) for one in self.changes)
        done, total = self.done + ended, self.done + len(self.changes)
        self.tools.progress[self.lease.run] = replace(doing, done=done, total=total)

    def operation(self, part: Part) -> ChangeOp[Any]:
        """The connector's definition of what the part does."""
        kind = self.connections[part.integration_id].kind
        return self.tools.access.changes(kind)[part.operation]


def remember(applying: Applying, found: Sequence[Effect]) -> None:
    """Takes over what the ledger says of effects that are settled."""
    for effect in found:
        if effect.state in OUTCOME_OF_EFFECT:
            applying.known[effect.key] = (OUTCOME_OF_EFFECT[effect.state], effect.message)


async def apply(applying: Applying) -> None:
    """Applies every change to its end, each part at most once, in order.

    Raises Fenced (the lease is gone), CancelAsked (between two requests), MustWait.
    """
    await _settle_known(applying)
    applying.tell()
    for group in _groups(applying):
        await _apply_group(applying, group)
        applying.tell()


def _groups(applying: Applying) -> Iterator[list[Piece]]:
    """Changes of one part each that may share a request go together; the others go change by change."""
    together: list[Piece] = []
    for change in applying.changes:
        pieces = applying.pieces(change)
        alone = len(pieces) > 1
        if together and (alone or not _alike(together[-1].part, pieces[0].part)):
            yield from _split(applying, together)
            together = []
        if alone:
            for piece in pieces:
                yield [piece]
        else:
            together += pieces
    if together:
        yield from _split(applying, together)


def _alike(one: Part, other: Part) -> bool:
    return (one.operation, one.integration_id) == (other.operation, other.integration_id)


def _split(applying: Applying, pieces: list[Piece]) -> Iterator[list[Piece]]:
    by_part = {id(piece.part): piece for piece in pieces}
    for parts in applying.operation(pieces[0].part).group([piece.part for piece in pieces]):
        yield [by_part[id(part)] for part in parts]


async def _apply_group(applying: Applying, group: list[Piece]) -> None:
    """One request's worth of parts, tried again only while nothing was sent."""
    for attempt in range(1, ATTEMPTS + 1):
        open_ = [piece for piece in group if piece.key not in applying.known]
        open_ = await _without_blocked(applying, open_)
        if not open_:
            return
        reread_at = applying.tools.clock.monotonic()
        going = await _reread(applying, open_)
        if not going:
            return
        wait = await _send(applying, going, reread_at=reread_at)
        if wait is None:
            return
        if wait > SHORT_WAIT_SECONDS:
            raise MustWait(wait)
        await applying.tools.clock.sleep(wait if attempt < ATTEMPTS else 0)
    left = [piece for piece in group if piece.key not in applying.known]
    await _settle_unsent(applying, [(piece, Outcome.FAILED, UNREACHABLE) for piece in left])


async def _without_blocked(applying: Applying, pieces: list[Piece]) -> list[Piece]:
    """Leaves out parts that come after one of their change that did not go well: both or neither."""
    free, blocked = [], []
    for piece in pieces:
        earlier = [other for other in applying.pieces(piece.change) if other.number < piece.number]
        bad = [
            applying.known[other.key]
            for other in earlier
            if applying.known[other.key][0] not in (Outcome.APPLIED, Outcome.UNCHANGED)
        ]
        if bad:
            blocked.append((piece, Outcome.CONFLICT, bad[0][1]))
        else:
            free.append(piece)
    await _settle_unsent(applying, blocked)
    return free


async def _reread(applying: Applying, pieces: list[Piece]) -> list[Piece]:
    """Those whose object still is as it was when shown; the others are settled without a call."""
    operation = applying.operation(pieces[0].part)
    blind = operation.recovery_of(pieces[0].part) is Recovery.BLIND
    if blind or operation.guard == "compare_and_swap":
        return pieces
    tools, lease = applying.tools, applying.lease
    connection = applying.connections[pieces[0].part.integration_id]
    try:
        reader = await tools.access.reader(lease.org, connection, urgency=Urgency.WRITE)
        seen = await reader.current([piece.part for piece in pieces])
    except NotConnected as refusal:
        await _settle_unsent(applying, [(piece, Outcome.FAILED, refusal.message) for piece in pieces])
        return []
    except CallError as error:
        await _unreadable(applying, pieces, error)
        return []
    going, settled = [], []
    for piece, current in zip(pieces, seen, strict=True):
        applying.modified[piece.key] = current.modified_at
        verdict = _verdict(operation, piece.part, current)
        if verdict is None:
            going.append(piece)
        else:
            settled.append((piece, *verdict))
    await _settle_unsent(applying, settled)
    return going


def _verdict(operation: ChangeOp[Any], part: Part, current: Current) -> tuple[Outcome, str | None] | None:
    if current.gone:
        return Outcome.CONFLICT, GONE
    if operation.same(part.after, current.value):
        return Outcome.UNCHANGED, None
    if operation.same(part.before, current.value):
        return None
    return Outcome.CONFLICT, CHANGED_MEANWHILE


async def _unreadable(applying: Applying, pieces: list[Piece], error: CallError) -> None:
    wait = error.wait_s
    if wait is not None and wait > SHORT_WAIT_SECONDS:
        raise MustWait(wait)
    await _doubt(applying, pieces, [error.kind])
    words = f"It could not be read again before the change, so nothing was sent. {error.message}"
    await _settle_unsent(applying, [(piece, Outcome.FAILED, words) for piece in pieces])


async def _doubt(applying: Applying, pieces: Sequence[Piece], kinds: Sequence[ErrorKind | None]) -> None:
    asked = [piece.part.integration_id for piece in pieces]
    await doubts.look_soon(applying.tools, applying.lease.org, asked, kinds=kinds)


async def _send(applying: Applying, pieces: list[Piece], *, reread_at: float) -> float | None:
    """Intent, call, outcome: None when all is settled, else the seconds to wait before the next try."""
    tools, lease = applying.tools, applying.lease
    await tools.hold(lease)
    if tools.clock.monotonic() - reread_at > REREAD_AFTER.total_seconds():
        return 0.0  # the lease was long in doubt: what was read is too old to be written on
    keys = tuple(piece.key for piece in pieces)
    batch = Batch(tuple(piece.part for piece in pieces), keys, batch_key(keys))
    crashpoint("before_intent")
    intend = partial(_intend, applying=applying, pieces=pieces, key=batch.key)
    try:
        await tools.engine.write(tools.clock.now(), intend, org=lease.org)
    except _Spent:
        return 0.0
    crashpoint("after_intent")
    connection = applying.connections[pieces[0].part.integration_id]
    grant = WriteGrant(
        org=lease.org,
        run=lease.run,
        epoch=lease.epoch,
        change_hash=applying.change_hash,
        effects={piece.key: piece.part.integration_id for piece in pieces},
        confirmed_until=tools.confirmed_until,
        send_by=tools.clock.now() + SEND_WITHIN,
    )
    try:
        writer: Writer = await tools.access.writer(lease.org, connection, grant)
        outcomes = await writer.apply(batch)
    except NotConnected as refusal:  # disconnected since it was read: nothing left
        outcomes = [WriteOutcome(WriteState.REFUSED, reason=refusal.message)] * len(pieces)
    crashpoint("after_call")
    settle = partial(_settle, applying=applying, pieces=pieces, outcomes=outcomes)
    await tools.engine.write(tools.clock.now(), settle, org=lease.org)
    crashpoint("after_outcome")
    await _doubt(applying, pieces, [outcome.error for outcome in outcomes])
    for piece, outcome in zip(pieces, outcomes, strict=True):
        if outcome.state is not WriteState.NOT_SENT:
            state, words = _effect_of(outcome)
            applying.known[piece.key] = (OUTCOME_OF_EFFECT[state], words)
    waits = [outcome.wait_s or 1.0 for outcome in outcomes if outcome.state is WriteState.NOT_SENT]
    return max(waits) if waits else None


async def repeat(
    tools: Tools, lease: Lease, connection: Connection, *, parts: Sequence[Part], found: Sequence[Effect]
) -> list[WriteOutcome] | None:
    """Asks the account once more for a whole batch under the key it was sent with (engine 11.1, keyed).

    `found` are all effects of that batch; their intents are kept since it was first sent. What the account
    did then it does not do again. None when the batch cannot be made again as it was. Raises Fenced,
    NotConnected.
    """
    keys = tuple(effect.key for effect in found)
    if batch_key(keys) != found[0].batch_key:
        return None
    if any(effect.request_sha256 != request_hash([part]) for effect, part in zip(found, parts, strict=True)):
        raise RuntimeError(f"batch {found[0].batch_key} would be another request than it was")
    await tools.hold(lease)
    grant = WriteGrant(
        org=lease.org,
        run=lease.run,
        epoch=lease.epoch,
        change_hash=request_hash(parts),
        effects={effect.key: connection.integration_id for effect in found},
        confirmed_until=tools.confirmed_until,
        send_by=tools.clock.now() + SEND_WITHIN,
    )
    writer: Writer = await tools.access.writer(lease.org, connection, grant)
    crashpoint("before_repeat")
    outcomes = await writer.apply(Batch(tuple(parts), keys, batch_key(keys)))
    crashpoint("after_repeat")
    return outcomes


async def _intend(tx: Tx, *, applying: Applying, pieces: list[Piece], key: str) -> None:
    """Keeps the intents, fenced. Raises Fenced, CancelAsked."""
    lease = applying.lease
    ours, cancel = await run_queue.held_by(tx, lease)
    if not ours:
        raise Fenced(lease)
    if cancel is not None:
        raise CancelAsked(cancel)
    rules = applying.tools.rules
    deadline = int((SEND_WITHIN + rules.write_timeout).total_seconds() * 1000)
    for piece in pieces:
        recovery = applying.operation(piece.part).recovery_of(piece.part)
        quiet = 0 if recovery is Recovery.KEYED else int(rules.settle_quiet.total_seconds() * 1000)
        attempt = await effects.intend(
            tx,
            lease.org,
            lease.run,
            epoch=lease.epoch,
            intent=Intent(
                key=piece.key,
                change=piece.change.id,
                part=piece.number,
                batch_key=key,
                integration=piece.part.integration_id,
                recovery=recovery,
                request_sha256=request_hash([piece.part]),
                deadline_ms=deadline,
                quiet_ms=quiet,
            ),
        )
        if attempt == 0:
            [found] = [one for one in await effects.of_run(tx, lease.org, lease.run) if one.key == piece.key]
            if found.state is EffectState.NOT_SENT and found.request_sha256 == request_hash([piece.part]):
                raise _Spent
            raise RuntimeError(f"effect {piece.key} would be sent again in state {found.state}")


async def _settle(tx: Tx, *, applying: Applying, pieces: list[Piece], outcomes: list[WriteOutcome]) -> None:
    """Keeps the outcomes of one call, and of the changes that are complete with it. Raises Fenced."""
    lease = applying.lease
    ours, _ = await run_queue.held_by(tx, lease)
    if not ours:
        raise Fenced(lease)
    known = dict(applying.known)
    for piece, outcome in zip(pieces, outcomes, strict=True):
        state, words = _effect_of(outcome)
        await effects.settle(tx, lease.org, piece.key, state=state, by="call", message=words)
        if state is not EffectState.NOT_SENT:
            known[piece.key] = (OUTCOME_OF_EFFECT[state], words)
    for change in {piece.change.id: piece.change for piece in pieces}.values():
        await _settle_change(tx, applying, change, known)
    await own_changes.note(tx, lease.org, lease.run, _touched(applying, pieces, outcomes))


def _touched(applying: Applying, pieces: Sequence[Piece], outcomes: Sequence[WriteOutcome]) -> list[Touched]:
    """The objects of stores that were changed: their events are this automation's own (connectors 9.5)."""
    return [
        Touched(
            piece.part.integration_id,
            piece.change.proposal.object.type,
            piece.change.proposal.object.id,
            outcome.modified_at,
            moved=outcome.modified_at is not None and outcome.modified_at != applying.modified.get(piece.key),
        )
        for piece, outcome in zip(pieces, outcomes, strict=True)
        if outcome.state is WriteState.APPLIED
        and piece.change.proposal.object.id is not None
        and applying.connections[piece.part.integration_id].is_store
    ]


def _effect_of(outcome: WriteOutcome) -> tuple[EffectState, str | None]:
    if outcome.state is WriteState.APPLIED:
        return EffectState.DONE, None
    if outcome.state is WriteState.CONFLICT:
        return EffectState.CONFLICT, outcome.reason or CHANGED_MEANWHILE
    if outcome.state is WriteState.REFUSED:
        return EffectState.REFUSED, outcome.reason or "The account refused it."
    if outcome.state is WriteState.NOT_SENT:
        return EffectState.NOT_SENT, outcome.reason
    return EffectState.UNKNOWN, changes.STILL_OPEN


async def _settle_unsent(applying: Applying, verdicts: Sequence[tuple[Piece, Outcome, str | None]]) -> None:
    """Outcomes found without a call: nothing was sent for these parts."""
    if not verdicts:
        return
    lease = applying.lease
    for piece, outcome, words in verdicts:
        applying.known[piece.key] = (outcome, words)

    async def keep(tx: Tx) -> None:
        ours, _ = await run_queue.held_by(tx, lease)
        if not ours:
            raise Fenced(lease)
        for change in {piece.change.id: piece.change for piece, _, _ in verdicts}.values():
            await _settle_change(tx, applying, change, applying.known)

    await applying.tools.engine.write(applying.tools.clock.now(), keep, org=lease.org)
    crashpoint("after_unsent")


async def _settle_change(
    tx: Tx, applying: Applying, change: Change, known: Mapping[str, tuple[Outcome, str | None]]
) -> None:
    """Writes the change's outcome once every part of it is known (runs/partly.py)."""
    results = [known.get(piece.key) for piece in applying.pieces(change)]
    result = partly.change_result(change.proposal.parts, results, goes_on=True)
    if result is None or None in results:
        return
    outcome, message = result
    await changes.settle(
        tx, applying.lease.org, applying.lease.run, change.id, outcome=outcome, message=message
    )


async def _settle_known(applying: Applying) -> None:
    """Changes all of whose parts the ledger knows, after a crash or a settling, get their outcome."""

    async def keep(tx: Tx) -> None:
        ours, _ = await run_queue.held_by(tx, applying.lease)
        if not ours:
            raise Fenced(applying.lease)
        for change in applying.changes:
            await _settle_change(tx, applying, change, applying.known)

    if applying.known:
        await applying.tools.engine.write(applying.tools.clock.now(), keep, org=applying.lease.org)
