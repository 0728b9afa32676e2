"""The match tick: which automations an event starts, in batches by organisation (engine 14, connectors 8)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from steward.automations import lifecycle, readiness
from steward.connectors.base.deliveries import Event, EventSource, StoredEvent
from steward.database.accounts import connections
from steward.database.automations import records as automations
from steward.database.engine.base import Autocommit, Tx
from steward.database.events import catch_ups, last_seen, own_changes, subscriptions
from steward.database.events import records as events
from steward.database.events.last_seen import Seen, Told
from steward.database.events.records import KeptEvent
from steward.database.runs import active_run
from steward.events import telling
from steward.events.apart import tried
from steward.events.echoes import Echoes
from steward.failpoint import failpoint
from steward.model.connection import Connection
from steward.model.ids import AutomationId, IntegrationId, OrgId
from steward.model.json import JsonObject
from steward.model.run import EventRef
from steward.outbound.errors import UnusableResponse
from steward.run_queue import queue as run_queue
from steward.run_queue.queue import TOO_LARGE, EventRunRequest
from steward.runs.worker_context import WorkerContext

BATCH = 200
# An object an automation is writing at this moment: its event waits for the outcome, so that the guard knows.
WAIT_FOR_OUTCOME = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class Read:
    """An event with what its body says; None when it says nothing, or was too large to be kept."""

    kept: KeptEvent
    event: Event | None


@dataclass(frozen=True, slots=True)
class Topical:
    """The canonical topics an event stands for."""

    read: Read
    topics: tuple[str, ...]

    @property
    def event(self) -> Event | None:
        """What its body says."""
        return self.read.event


@dataclass(frozen=True, slots=True)
class FromStore:
    """What events of one store tell: its topics, whom each of them starts, and what those changed."""

    store: Connection
    topical: Sequence[Topical]
    waiting: Mapping[str, Sequence[AutomationId]]
    echoes: Echoes


@dataclass(slots=True)
class Outcome:
    """What a transaction did: ended events with their pointers, those left for later, offered runs."""

    matched: dict[str, JsonObject] = field(default_factory=dict)
    later: list[str] = field(default_factory=list)
    not_run: Counter[str] = field(default_factory=Counter)  # by why
    doubted: list[IntegrationId] = field(default_factory=list)  # stores that say their keys are gone


async def match_due(ctx: WorkerContext) -> bool:
    """Matches events that wait, organisation by organisation; True when there were some.

    One that fails is put off alone, and is poison after the fifth time (engine 16).
    """
    found = await ctx.engine.read(ctx.clock.now(), Autocommit(partial(events.due, most=BATCH)))
    by_org: dict[OrgId, list[str]] = {}
    for org, event in found:
        by_org.setdefault(org, []).append(event)
    matched = 0
    for org, ids in sorted(by_org.items()):
        matched += await _match(ctx, org, ids)
    if matched:
        ctx.wake("ready")
    return matched > 0


async def _match(ctx: WorkerContext, org: OrgId, ids: Sequence[str]) -> int:
    """Matches events of one organisation in one transaction; when that fails, each in its own."""
    result = await tried(_together(ctx, org, ids))
    if isinstance(result, int):
        return result
    if len(ids) == 1:
        await _failed(ctx, org, ids[0], result)
        return 0
    return sum([await _match(ctx, org, [one]) for one in ids])


async def _failed(ctx: WorkerContext, org: OrgId, event: str, error: Exception) -> None:
    now = ctx.clock.now()
    is_poison = await ctx.engine.write(now, partial(events.failed, org=org, event=event), org=org)
    ctx.metrics.count("steward_events_failed_total", poison=str(is_poison).lower())
    ctx.log.error("event_not_matched", error, org=org, event=event, poison=is_poison)


async def _together(ctx: WorkerContext, org: OrgId, ids: Sequence[str]) -> int:
    look = partial(_look, org=org, ids=ids)
    kept, stores = await ctx.engine.read(ctx.clock.now(), look, org=org)
    read = [Read(one, _read(ctx, one, stores.get(one.integration))) for one in kept]
    failpoint("before_match")
    match = partial(_commit, org=org, ctx=ctx, read=read, stores=stores)
    done: Outcome = await ctx.engine.write(ctx.clock.now(), match, org=org)
    failpoint("after_match")
    for why, count in done.not_run.items():
        ctx.metrics.count("steward_events_not_run_total", count, why=why)
    return len(done.matched)


async def _look(
    tx: Tx, org: OrgId, ids: Sequence[str]
) -> tuple[list[KeptEvent], dict[IntegrationId, Connection]]:
    kept = await events.read(tx, org, ids)
    return kept, await connections.among(tx, org, {one.integration for one in kept})


def _source(ctx: WorkerContext, store: Connection | None) -> EventSource | None:
    connector = None if store is None else ctx.vault.connectors.get(store.kind)
    return None if connector is None else connector.events


def _read(ctx: WorkerContext, kept: KeptEvent, store: Connection | None) -> Event | None:
    """What the body says; a body that is no event of its store's is one nothing matches (contract 2.11)."""
    source = _source(ctx, store)
    if source is None or kept.body is None:
        return None
    try:
        return source.read_event(StoredEvent(kept.native, kept.body, kept.received_at))
    except UnusableResponse:
        ctx.metrics.count("steward_events_not_run_total", why="broken")
        return None


async def _commit(
    tx: Tx,
    *,
    org: OrgId,
    ctx: WorkerContext,
    read: Sequence[Read],
    stores: Mapping[IntegrationId, Connection],
) -> Outcome:
    """Locks the events, offers their runs and ends them, all or nothing."""
    locked = await events.lock(tx, org, [one.kept.id for one in read])
    done = Outcome()
    by_store: dict[IntegrationId, list[Read]] = {}
    for one in read:
        if one.kept.id in locked:
            by_store.setdefault(one.kept.integration, []).append(one)
    known: list[tuple[Connection, EventSource, list[Read], Mapping[str, Sequence[AutomationId]]]] = []
    for integration, own in sorted(by_store.items()):
        store = stores.get(integration)
        source = _source(ctx, store)
        if store is None or source is None:
            done.matched |= {one.kept.id: {} for one in own}
        else:
            offered = ctx.vault.connectors[store.kind].topics
            waiting = await subscriptions.waiting_for(tx, org, integration, offered)
            known.append((store, source, own, waiting))
    # From here on nobody pauses one of them before the commit, and no other process matches events of these
    # stores: what was told of an object is read once that has committed. All at once, and before one is
    # paused here or anything is stamped: schedules are locked first.
    startable = {automation for *_, waiting in known for names in waiting.values() for automation in names}
    if startable:
        await active_run.lock(tx, org, startable)
    told = [await _hear(tx, ctx, *one, done=done) for one in known]
    for from_store in told:
        await _start(tx, ctx, from_store, done=done)
    await connections.check_soon(tx, org, done.doubted)
    await events.matched(tx, org, done.matched)
    if done.later:
        await events.postpone(tx, org, done.later, until=tx.now + WAIT_FOR_OUTCOME)
    return done


async def _hear(
    tx: Tx,
    ctx: WorkerContext,
    store: Connection,
    source: EventSource,
    read: Sequence[Read],
    waiting: Mapping[str, Sequence[AutomationId]],
    *,
    done: Outcome,
) -> FromStore:
    """What a store's events tell; those of objects that are being written at this moment wait."""
    org, integration = store.org, store.integration_id
    everyone = sorted({one for names in waiting.values() for one in names})
    writing = await own_changes.under_way(tx, org, integration, everyone) if everyone else set()
    touched = {(kind, one) for _, kind, one in writing}
    ready = [one for one in read if not touched & set(_objects(one.event))]
    done.later += [one.kept.id for one in read if touched & set(_objects(one.event))]
    topical = await _topics(tx, ctx, store, source, ready, waiting, done=done)
    done.matched |= {one.read.kept.id: _pointer(one.read.event) for one in topical}
    if any(one.kept.native in source.revocation_topics for one in ready):
        done.doubted.append(integration)
    told = {topic for one in topical for topic in one.topics}
    wanted = {topic: names for topic, names in waiting.items() if topic in told}
    own = await own_changes.of(tx, org, integration, everyone) if wanted else []
    return FromStore(store, topical, wanted, Echoes(own))


async def _start(tx: Tx, ctx: WorkerContext, told: FromStore, *, done: Outcome) -> None:
    """Offers the runs of what a store told, all lanes locked, but for automations paused by now."""
    org, topical, echoes = told.store.org, told.topical, told.echoes
    if not told.waiting:
        return
    for automation, reason in echoes.loops(told.waiting, topical):
        await lifecycle.pause_by_service(tx, org, automation, reason=reason, rules=ctx.automation_rules)
    still = await subscriptions.waiting_for(tx, org, told.store.integration_id, told.waiting)
    # What began to wait since it was looked at first did so after these events had come, and is not locked.
    waiting = {
        topic: [one for one in names if one in still.get(topic, ())] for topic, names in told.waiting.items()
    }
    offers: dict[AutomationId, list[EventRunRequest]] = {}
    for one in topical:
        for automation, topic in _started(one, waiting):
            if one.read.event is not None and echoes.is_own(automation, one.read.kept, one.read.event):
                done.not_run["echo"] += 1
                continue
            ref = EventRef(one.read.kept.id, topic, one.read.kept.received_at)
            offers.setdefault(automation, []).append(
                EventRunRequest(ref, TOO_LARGE if one.read.kept.oversize else None)
            )
    await _offer(tx, ctx, org, offers, done=done)


async def _topics(
    tx: Tx,
    ctx: WorkerContext,
    store: Connection,
    source: EventSource,
    read: Sequence[Read],
    waiting: Mapping[str, Sequence[AutomationId]],
    *,
    done: Outcome,
) -> list[Topical]:
    """The topics of each event, in order; what was last seen of the objects follows (connectors 8)."""
    org, integration = store.org, store.integration_id
    keys = {key for one in read if (key := _key(one.event)) is not None}
    seen = await last_seen.of(tx, org, integration, keys) if keys else {}
    since = await catch_ups.of(tx, org, integration) if keys else {}
    is_polled = any(one.kept.polled for one in read)
    heard = await subscriptions.heard_since(tx, org, integration) if is_polled else {}
    offered = ctx.vault.connectors[store.kind].topics
    changed: dict[tuple[str, str], Seen | None] = {}
    found: list[Topical] = []
    for one in read:
        event, key = one.event, _key(one.event)
        if event is None or key is None:
            direct = [name for name, spec in offered.items() if not spec.derived]
            told = [name for name in direct if one.kept.native in offered[name].native]
            # Of a body that was not kept only its native topic is known.
            found.append(Topical(one, tuple(told) if one.kept.oversize else ()))
            continue
        known = changed[key] if key in changed else seen.get(key)
        begun = since.get(event.object_type) or since.get("product" if event.parent_id else "")
        derived = source.derive(
            event,
            None if known is None else known.fields,
            since=None if begun is None else begun.since,
            seen_at=None if known is None else known.modified_at,
            awaited_topics=waiting,
        )
        if derived.dropped is not None:
            done.not_run[derived.dropped] += 1
        polled = one.kept.polled
        topics = telling.fresh_topics(event, derived, known, heard=heard if polled else None, offered=offered)
        if derived.forget:
            changed[key] = None
        elif derived.seen is not None or (begun is not None and derived.topics):
            is_repeat = not polled and bool(derived.topics) and not topics
            fields = None if is_repeat else derived.seen
            told_now = telling.told_with(event, derived, known, polled=polled, offered=offered)
            changed[key] = _seen(key, event, known, fields, told=told_now)
        found.append(Topical(one, topics))
    if kept := [one for one in changed.values() if one is not None]:
        await last_seen.put(tx, org, integration, kept)
    if gone := [key for key, one in changed.items() if one is None]:
        await last_seen.forget(tx, org, integration, gone)
    return found


def _seen(
    key: tuple[str, str],
    event: Event,
    known: Seen | None,
    fields: JsonObject | None,
    *,
    told: Mapping[str, Told],
) -> Seen:
    """The object as it is known after an event that says `fields` of it; None leaves what was known."""
    before = Seen(*key, {}, None) if known is None else known
    times = [at for at in (before.modified_at, event.modified_at) if at is not None]
    return Seen(*key, before.fields if fields is None else fields, max(times, default=None), told)


def _key(event: Event | None) -> tuple[str, str] | None:
    return None if event is None or event.object_id is None else (event.object_type, event.object_id)


def _objects(event: Event | None) -> tuple[tuple[str, str], ...]:
    """The objects of changes this may be the echo of."""
    key = _key(event)
    return () if event is None or key is None else event.objects or (key,)


def _started(
    one: Topical, waiting: Mapping[str, Sequence[AutomationId]]
) -> Iterator[tuple[AutomationId, str]]:
    """Each automation the event starts, once, with the first of its topics."""
    done: set[AutomationId] = set()
    for topic in one.topics:
        for automation in waiting.get(topic, ()):
            if automation not in done:
                done.add(automation)
                yield automation, topic


async def _offer(
    tx: Tx,
    ctx: WorkerContext,
    org: OrgId,
    offers: Mapping[AutomationId, Sequence[EventRunRequest]],
    *,
    done: Outcome,
) -> None:
    """Makes the runs by automation, under its lane's lock (engine 8)."""
    if not offers:
        return
    found = await automations.among(tx, org, offers)
    obstacles = await readiness.obstacles(tx, org, list(found.values()), templates=ctx.templates)
    held = await run_queue.read_many(tx, org, sorted(offers))
    for automation, own in sorted(offers.items()):
        what = obstacles.get(automation)
        if what is not None:
            own = [EventRunRequest(one.event, one.refused or (what.code, what.message)) for one in own]
        made = await run_queue.enqueue_events(
            tx, found[automation], held[automation], own, max_waiting=ctx.rules.max_waiting_events
        )
        done.not_run.update(one.code for one in made if one.code is not None)


def _pointer(event: Event | None) -> JsonObject:
    """What the event's runs read again (connectors 1 rule 6)."""
    if event is None or event.object_id is None:
        return {}
    occurred = None if event.occurred_at is None else event.occurred_at.isoformat()
    return {
        "object_type": event.object_type,
        "object_id": event.object_id,
        "parent_id": event.parent_id,
        "occurred_at": occurred,
    }
