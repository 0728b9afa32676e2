"""Matches stored events: decides which automations an event starts, in batches by organization."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from steward.automations import lifecycle, readiness
from steward.connections.vault import Vault
from steward.connectors.base.deliveries import DerivedTopics, Event, EventSource, StoredEvent, TopicSpec
from steward.database.accounts import connections
from steward.database.automations import records as automations
from steward.database.engine.base import Autocommit, Tx
from steward.database.events import catch_ups, last_seen, own_changes, subscriptions
from steward.database.events import records as events
from steward.database.events.catch_ups import CatchUp
from steward.database.events.last_seen import ObjectSnapshot, ReportedTimes
from steward.database.events.records import EventRow
from steward.database.runs import active_run
from steward.events import deduplicate
from steward.events.context import EventContext
from steward.events.echoes import Echoes
from steward.events.row_errors import tried
from steward.failpoint import failpoint
from steward.model.connection import Connection
from steward.model.ids import AutomationId, IntegrationId, OrgId
from steward.model.json import JsonObject
from steward.model.run import EventRef
from steward.outbound.errors import UnusableResponse
from steward.run_queue import queue as run_queue
from steward.run_queue.queue import TOO_LARGE, EventRunRequest

BATCH = 200
# Events of an object that an automation is writing wait for the outcome, which the echo guard needs.
_WAIT_FOR_OUTCOME = timedelta(seconds=2)
_ObjectKey = tuple[str, str]
_AutomationsByTopic = Mapping[str, Sequence[AutomationId]]


@dataclass(frozen=True, slots=True)
class _ReadEvent:
    """A stored event with its parsed body; None if it is invalid or was too large to store."""

    row: EventRow
    event: Event | None


@dataclass(frozen=True, slots=True)
class _EventTopics:
    """The canonical topics of an event."""

    read: _ReadEvent
    topics: tuple[str, ...]

    @property
    def event(self) -> Event | None:
        """The parsed body."""
        return self.read.event


@dataclass(frozen=True, slots=True)
class _StoreBatch:
    """The locked events of one store, the topics it can send, and the automations each topic starts."""

    store: Connection
    source: EventSource
    offered: Mapping[str, TopicSpec]
    read: Sequence[_ReadEvent]
    automations: _AutomationsByTopic


@dataclass(frozen=True, slots=True)
class _StoreEvents:
    """The topics of one store's events, the automations they start, and those automations' changes."""

    store: Connection
    topical: Sequence[_EventTopics]
    automations: _AutomationsByTopic
    echoes: Echoes


@dataclass(slots=True)
class _MatchOutcome:
    """The result of one transaction: matched events with their pointers, and postponed events."""

    matched: dict[str, JsonObject] = field(default_factory=dict)
    later: list[str] = field(default_factory=list)
    not_run: Counter[str] = field(default_factory=Counter)  # number of runs not started, by reason
    stores_to_check: list[IntegrationId] = field(default_factory=list)  # stores that reported revoked keys


async def match_due(ctx: EventContext) -> bool:
    """Matches waiting events by organization; returns True if there were any.

    An event that fails is deferred on its own, and set aside as poison after the fifth failure.
    """
    due = await ctx.engine.read(ctx.clock.now(), Autocommit(partial(events.due, max_rows=BATCH)))
    by_org: dict[OrgId, list[str]] = {}
    for org, event in due:
        by_org.setdefault(org, []).append(event)
    matched = 0
    for org, ids in sorted(by_org.items()):
        matched += await _match(ctx, org, ids)
    if matched:
        ctx.wake("ready")
    return matched > 0


async def _match(ctx: EventContext, org: OrgId, ids: Sequence[str]) -> int:
    """Matches events of one organization in one transaction or, if that fails, each in its own."""
    result = await tried(_match_together(ctx, org, ids))
    if isinstance(result, int):
        return result
    if len(ids) == 1:
        await _defer(ctx, org, ids[0], result)
        return 0
    return sum([await _match(ctx, org, [event]) for event in ids])


async def _defer(ctx: EventContext, org: OrgId, event: str, error: Exception) -> None:
    now = ctx.clock.now()
    is_poison = await ctx.engine.write(now, partial(events.failed, org=org, event=event), org=org)
    ctx.metrics.count("steward_events_failed_total", poison=str(is_poison).lower())
    ctx.log.error("event_not_matched", error, org=org, event=event, poison=is_poison)


async def _match_together(ctx: EventContext, org: OrgId, ids: Sequence[str]) -> int:
    load = partial(_load, org=org, ids=ids)
    rows, stores = await ctx.engine.read(ctx.clock.now(), load, org=org)
    read = [_ReadEvent(row, _parse(ctx, row, stores.get(row.integration))) for row in rows]
    failpoint("before_match")
    match = partial(_commit, org=org, ctx=ctx, read=read, stores=stores)
    done: _MatchOutcome = await ctx.engine.write(ctx.clock.now(), match, org=org)
    failpoint("after_match")
    for why, count in done.not_run.items():
        ctx.metrics.count("steward_events_not_run_total", count, why=why)
    return len(done.matched)


async def _load(
    tx: Tx, org: OrgId, ids: Sequence[str]
) -> tuple[list[EventRow], dict[IntegrationId, Connection]]:
    rows = await events.read(tx, org, ids)
    return rows, await connections.among(tx, org, {row.integration for row in rows})


def _source(vault: Vault, store: Connection | None) -> EventSource | None:
    connector = None if store is None else vault.connectors.get(store.kind)
    return None if connector is None else connector.events


def _parse(ctx: EventContext, row: EventRow, store: Connection | None) -> Event | None:
    """Parses a body; an invalid one returns None and matches nothing."""
    source = _source(ctx.vault, store)
    if source is None or row.body is None:
        return None
    try:
        return source.read_event(StoredEvent(row.native, row.body, row.received_at))
    except UnusableResponse:
        ctx.metrics.count("steward_events_not_run_total", why="broken")
        return None


async def _commit(
    tx: Tx,
    *,
    org: OrgId,
    ctx: EventContext,
    read: Sequence[_ReadEvent],
    stores: Mapping[IntegrationId, Connection],
) -> _MatchOutcome:
    """Locks the events, enqueues their runs and marks them as matched, all or nothing."""
    done = _MatchOutcome()
    batches = await _batches(tx, org, ctx.vault, read, stores, done=done)
    # Until the commit nobody can pause one of these automations, and no other process matches events of these
    # stores; the reported times of objects are read only after that. All schedules are locked first, before
    # an automation is paused or a run is stamped.
    startable = {automation for batch in batches for ids in batch.automations.values() for automation in ids}
    if startable:
        await active_run.lock(tx, org, startable)
    of_stores = [await _topics_of_store(tx, batch, done=done) for batch in batches]
    for store_events in of_stores:
        await _start(tx, ctx, store_events, done=done)
    await connections.check_soon(tx, org, done.stores_to_check)
    await events.matched(tx, org, done.matched)
    if done.later:
        await events.postpone(tx, org, done.later, until=tx.now + _WAIT_FOR_OUTCOME)
    return done


async def _batches(
    tx: Tx,
    org: OrgId,
    vault: Vault,
    read: Sequence[_ReadEvent],
    stores: Mapping[IntegrationId, Connection],
    *,
    done: _MatchOutcome,
) -> list[_StoreBatch]:
    """Locks the events and groups them by store; events of stores that cannot send any match nothing."""
    locked = await events.lock(tx, org, [item.row.id for item in read])
    by_store: dict[IntegrationId, list[_ReadEvent]] = {}
    for item in read:
        if item.row.id in locked:
            by_store.setdefault(item.row.integration, []).append(item)
    batches = []
    for integration, items in sorted(by_store.items()):
        store = stores.get(integration)
        source = _source(vault, store)
        if store is None or source is None:
            done.matched |= {item.row.id: {} for item in items}
            continue
        offered = vault.connectors[store.kind].topics
        by_topic = await subscriptions.automations_by_topic(tx, org, integration, offered)
        batches.append(_StoreBatch(store, source, offered, items, by_topic))
    return batches


async def _topics_of_store(tx: Tx, batch: _StoreBatch, *, done: _MatchOutcome) -> _StoreEvents:
    """Derives the topics of a store's events; postpones events of objects that are being written."""
    org, integration = batch.store.org, batch.store.integration_id
    automation_ids = sorted({automation for ids in batch.automations.values() for automation in ids})
    ready = await _postpone_written(tx, batch, automation_ids, done=done)
    topical = await _derive_all(tx, batch, ready, done=done)
    done.matched |= {item.read.row.id: _pointer(item.event) for item in topical}
    if any(item.row.native in batch.source.revocation_topics for item in ready):
        done.stores_to_check.append(integration)
    starting = _automations_started(batch, topical)
    changes = await own_changes.of(tx, org, integration, automation_ids) if starting else []
    return _StoreEvents(batch.store, topical, starting, Echoes(changes))


async def _postpone_written(
    tx: Tx, batch: _StoreBatch, automation_ids: Sequence[AutomationId], *, done: _MatchOutcome
) -> list[_ReadEvent]:
    """Returns the events that can be matched now; postpones events of objects being written."""
    if not automation_ids:
        return list(batch.read)
    org, integration = batch.store.org, batch.store.integration_id
    writing = await own_changes.under_way(tx, org, integration, automation_ids)
    being_written = {(object_type, object_id) for _, object_type, object_id in writing}
    ready: list[_ReadEvent] = []
    for item in batch.read:
        if being_written.isdisjoint(_objects(item.event)):
            ready.append(item)
        else:
            done.later.append(item.row.id)
    return ready


def _automations_started(batch: _StoreBatch, topical: Sequence[_EventTopics]) -> _AutomationsByTopic:
    topics = {topic for item in topical for topic in item.topics}
    return {topic: ids for topic, ids in batch.automations.items() if topic in topics}


async def _start(tx: Tx, ctx: EventContext, from_store: _StoreEvents, *, done: _MatchOutcome) -> None:
    """Enqueues the runs of a store's events, except for automations paused in the meantime."""
    org = from_store.store.org
    if not from_store.automations:
        return
    for automation, reason in from_store.echoes.loops(from_store.automations, from_store.topical):
        await lifecycle.pause_by_service(tx, org, automation, reason=reason, rules=ctx.automation_rules)
    integration = from_store.store.integration_id
    active = await subscriptions.automations_by_topic(tx, org, integration, from_store.automations)
    # An automation added since `active_run.lock` is not locked, but these events precede it.
    by_topic = {
        topic: [automation for automation in ids if automation in active.get(topic, ())]
        for topic, ids in from_store.automations.items()
    }
    await _enqueue(tx, ctx, org, _run_requests(from_store, by_topic, done=done), done=done)


def _run_requests(
    from_store: _StoreEvents, by_topic: _AutomationsByTopic, *, done: _MatchOutcome
) -> dict[AutomationId, list[EventRunRequest]]:
    """Returns the runs to enqueue for each automation; echoes of its own changes start none."""
    requests: dict[AutomationId, list[EventRunRequest]] = {}
    for item in from_store.topical:
        row = item.read.row
        for automation, topic in _started(item, by_topic):
            if item.event is not None and from_store.echoes.is_own(automation, row, item.event):
                done.not_run["echo"] += 1
                continue
            request = EventRunRequest(
                EventRef(row.id, topic, row.received_at), TOO_LARGE if row.oversize else None
            )
            requests.setdefault(automation, []).append(request)
    return requests


@dataclass(slots=True)
class _Derivation:
    """Derives topics event by event; later events see the changes of earlier ones."""

    batch: _StoreBatch
    catch_ups: Mapping[str, CatchUp]
    snapshots: Mapping[_ObjectKey, ObjectSnapshot]
    active_since: Mapping[str, datetime | None]
    changed: dict[_ObjectKey, ObjectSnapshot | None] = field(default_factory=dict)

    def topics(self, item: _ReadEvent, *, done: _MatchOutcome) -> tuple[str, ...]:
        """Returns the topics of an event and records the object's new state."""
        event, key = item.event, _key(item.event)
        if event is None or key is None:
            return self._topics_by_name(item)
        snapshot = self._snapshot_of(key)
        catch_up = self._catch_up_of(event)
        derived = self._derive(event, snapshot, catch_up)
        if derived.dropped is not None:
            done.not_run[derived.dropped] += 1
        polled = item.row.polled
        active_since = self.active_since if polled else None
        offered = self.batch.offered
        topics = deduplicate.new_topics(event, derived, snapshot, active_since=active_since, offered=offered)
        if derived.forget:
            self.changed[key] = None
        elif derived.seen is not None or (catch_up is not None and derived.topics):
            fields = _fields_to_store(derived, topics, polled=polled)
            self.changed[key] = self._snapshot_after(key, event, snapshot, derived, fields, polled=polled)
        return topics

    def _derive(
        self, event: Event, snapshot: ObjectSnapshot | None, catch_up: CatchUp | None
    ) -> DerivedTopics:
        return self.batch.source.derive(
            event,
            None if snapshot is None else snapshot.fields,
            since=None if catch_up is None else catch_up.since,
            seen_at=None if snapshot is None else snapshot.modified_at,
            awaited_topics=self.batch.automations,
        )

    def _catch_up_of(self, event: Event) -> CatchUp | None:
        """Returns the catch-up that reads the event's object, or the product it belongs to."""
        catch_up = self.catch_ups.get(event.object_type)
        if catch_up is None and event.parent_id:
            return self.catch_ups.get("product")
        return catch_up

    def _snapshot_of(self, key: _ObjectKey) -> ObjectSnapshot | None:
        return self.changed[key] if key in self.changed else self.snapshots.get(key)

    def _topics_by_name(self, item: _ReadEvent) -> tuple[str, ...]:
        """Returns the topics of the native topic; of a body too large to store, nothing else is known."""
        if not item.row.oversize:
            return ()
        offered = self.batch.offered.items()
        return tuple(topic for topic, spec in offered if not spec.derived and item.row.native in spec.native)

    def _snapshot_after(
        self,
        key: _ObjectKey,
        event: Event,
        snapshot: ObjectSnapshot | None,
        derived: DerivedTopics,
        fields: JsonObject | None,
        *,
        polled: bool,
    ) -> ObjectSnapshot:
        """Returns the object after an event that reports its `fields`; None keeps the earlier fields."""
        reported: Mapping[str, ReportedTimes] = deduplicate.reported_after(
            event, derived, snapshot, polled=polled, offered=self.batch.offered
        )
        before = ObjectSnapshot(*key, {}, None) if snapshot is None else snapshot
        times = [instant for instant in (before.modified_at, event.modified_at) if instant is not None]
        return ObjectSnapshot(
            *key, before.fields if fields is None else fields, max(times, default=None), reported
        )


def _fields_to_store(derived: DerivedTopics, topics: Sequence[str], *, polled: bool) -> JsonObject | None:
    """Returns the fields that the event reports, or None for a repeated delivery."""
    is_repeat = not polled and bool(derived.topics) and not topics
    return None if is_repeat else derived.seen


async def _derive_all(
    tx: Tx, batch: _StoreBatch, ready: Sequence[_ReadEvent], *, done: _MatchOutcome
) -> list[_EventTopics]:
    """Derives the topics of each event in order, and stores the objects' new state."""
    org, integration = batch.store.org, batch.store.integration_id
    derivation = await _start_derivation(tx, batch, ready)
    topical = [_EventTopics(item, derivation.topics(item, done=done)) for item in ready]
    snapshots = [snapshot for snapshot in derivation.changed.values() if snapshot is not None]
    if snapshots:
        await last_seen.put(tx, org, integration, snapshots)
    if gone := [key for key, snapshot in derivation.changed.items() if snapshot is None]:
        await last_seen.forget(tx, org, integration, gone)
    return topical


async def _start_derivation(tx: Tx, batch: _StoreBatch, ready: Sequence[_ReadEvent]) -> _Derivation:
    org, integration = batch.store.org, batch.store.integration_id
    keys = {key for item in ready if (key := _key(item.event)) is not None}
    is_polled = any(item.row.polled for item in ready)
    return _Derivation(
        batch,
        catch_ups=await catch_ups.of(tx, org, integration) if keys else {},
        snapshots=await last_seen.of(tx, org, integration, keys) if keys else {},
        active_since=await subscriptions.active_since(tx, org, integration) if is_polled else {},
    )


def _key(event: Event | None) -> _ObjectKey | None:
    return None if event is None or event.object_id is None else (event.object_type, event.object_id)


def _objects(event: Event | None) -> tuple[_ObjectKey, ...]:
    """Returns the objects whose changes this event may echo."""
    key = _key(event)
    return () if event is None or key is None else event.objects or (key,)


def _started(item: _EventTopics, by_topic: _AutomationsByTopic) -> Iterator[tuple[AutomationId, str]]:
    """Yields each automation that the event starts once, with the first matching topic."""
    started: set[AutomationId] = set()
    for topic in item.topics:
        for automation in by_topic.get(topic, ()):
            if automation not in started:
                started.add(automation)
                yield automation, topic


async def _enqueue(
    tx: Tx,
    ctx: EventContext,
    org: OrgId,
    requests: Mapping[AutomationId, Sequence[EventRunRequest]],
    *,
    done: _MatchOutcome,
) -> None:
    """Enqueues the runs by automation; the caller has locked their queues."""
    if not requests:
        return
    by_id = await automations.among(tx, org, requests)
    templates = ctx.automation_rules.templates
    obstacles = await readiness.obstacles(tx, org, list(by_id.values()), templates=templates)
    queues = await run_queue.read_many(tx, org, sorted(requests))
    for automation, run_requests in sorted(requests.items()):
        obstacle = obstacles.get(automation)
        if obstacle is not None:
            refusal = (obstacle.code, obstacle.message)
            run_requests = [
                EventRunRequest(request.event, request.refused or refusal) for request in run_requests
            ]
        results = await run_queue.enqueue_events(
            tx,
            by_id[automation],
            queues[automation],
            run_requests,
            max_waiting=ctx.rules.max_waiting,
        )
        done.not_run.update(result.code for result in results if result.code is not None)


def _pointer(event: Event | None) -> JsonObject:
    """Returns the pointer to the object that the event's runs read again; empty without an object."""
    if event is None or event.object_id is None:
        return {}
    occurred = None if event.occurred_at is None else event.occurred_at.isoformat()
    return {
        "object_type": event.object_type,
        "object_id": event.object_id,
        "parent_id": event.parent_id,
        "occurred_at": occurred,
    }
