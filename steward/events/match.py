"""Matches stored events: decides which automations an event starts, in batches by organization."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial

from steward.connections.vault import Vault
from steward.connectors.base.deliveries import Event, EventSource, StoredEvent
from steward.database.accounts import connections
from steward.database.due_rows import attempt
from steward.database.engine.base import Autocommit, Tx
from steward.database.events import own_changes, subscriptions
from steward.database.events import records as events
from steward.database.events.records import EventRow
from steward.database.runs import active_run
from steward.events.context import EventContext
from steward.events.derive_topics import derive_topics, object_key
from steward.events.echoes import Echoes
from steward.events.match_batch import (
    AutomationsByTopic,
    EventTopics,
    MatchOutcome,
    ObjectKey,
    ReadEvent,
    StoreBatch,
    StoreEvents,
)
from steward.events.start_runs import pointer, start_automations
from steward.failpoint import failpoint
from steward.model.connection import Connection
from steward.model.ids import AutomationId, IntegrationId, OrgId
from steward.outbound.errors import UnusableResponse

BATCH = 200
# Events of an object that an automation is writing wait for the outcome, which the echo guard needs.
_WAIT_FOR_OUTCOME = timedelta(seconds=2)


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
    result = await attempt(_match_together(ctx, org, ids))
    if isinstance(result, int):
        return result
    if len(ids) == 1:
        await _defer(ctx, org, ids[0], result)
        return 0
    return sum([await _match(ctx, org, [event]) for event in ids])


async def _defer(ctx: EventContext, org: OrgId, event: str, error: Exception) -> None:
    now = ctx.clock.now()
    is_poison = await ctx.engine.write(now, partial(events.record_failure, org=org, event=event), org=org)
    ctx.metrics.count("steward_events_failed_total", poison=str(is_poison).lower())
    ctx.log.error("event_not_matched", error, org=org, event=event, poison=is_poison)


async def _match_together(ctx: EventContext, org: OrgId, ids: Sequence[str]) -> int:
    load = partial(_load, org=org, ids=ids)
    rows, stores = await ctx.engine.read(ctx.clock.now(), load, org=org)
    read = [ReadEvent(row, _parse(ctx, row, stores.get(row.integration))) for row in rows]
    failpoint("before_match")
    match = partial(_commit, org=org, ctx=ctx, read=read, stores=stores)
    outcome: MatchOutcome = await ctx.engine.write(ctx.clock.now(), match, org=org)
    failpoint("after_match")
    for why, count in outcome.runs_not_started.items():
        ctx.metrics.count("steward_events_not_run_total", count, why=why)
    return len(outcome.matched)


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
    read: Sequence[ReadEvent],
    stores: Mapping[IntegrationId, Connection],
) -> MatchOutcome:
    """Locks the events, enqueues their runs and marks them as matched, all or nothing."""
    outcome = MatchOutcome()
    batches = await _batches(tx, org, ctx.vault, read, stores, outcome=outcome)
    # Until the commit nobody can pause one of these automations, and no other process matches events of these
    # stores; the reported times of objects are read only after that. All schedules are locked first, before
    # an automation is paused or a run is stamped.
    startable = {automation for batch in batches for ids in batch.automations.values() for automation in ids}
    if startable:
        await active_run.lock(tx, org, startable)
    of_stores = [await _topics_of_store(tx, batch, outcome=outcome) for batch in batches]
    for store_events in of_stores:
        await start_automations(tx, ctx, store_events, outcome=outcome)
    await connections.check_soon(tx, org, outcome.stores_to_check)
    await events.mark_matched(tx, org, outcome.matched)
    if outcome.postponed:
        await events.postpone(tx, org, outcome.postponed, until=tx.now + _WAIT_FOR_OUTCOME)
    return outcome


async def _batches(
    tx: Tx,
    org: OrgId,
    vault: Vault,
    read: Sequence[ReadEvent],
    stores: Mapping[IntegrationId, Connection],
    *,
    outcome: MatchOutcome,
) -> list[StoreBatch]:
    """Locks the events and groups them by store; events of stores that cannot send any match nothing."""
    locked = await events.lock(tx, org, [item.row.id for item in read])
    by_store: dict[IntegrationId, list[ReadEvent]] = {}
    for item in read:
        if item.row.id in locked:
            by_store.setdefault(item.row.integration, []).append(item)
    batches = []
    for integration, items in sorted(by_store.items()):
        store = stores.get(integration)
        source = _source(vault, store)
        if store is None or source is None:
            outcome.matched |= {item.row.id: {} for item in items}
            continue
        offered = vault.connectors[store.kind].topics
        by_topic = await subscriptions.automations_by_topic(tx, org, integration, offered)
        batches.append(StoreBatch(store, source, offered, items, by_topic))
    return batches


async def _topics_of_store(tx: Tx, batch: StoreBatch, *, outcome: MatchOutcome) -> StoreEvents:
    """Derives the topics of a store's events; postpones events of objects that are being written."""
    org, integration = batch.store.org, batch.store.integration_id
    automation_ids = sorted({automation for ids in batch.automations.values() for automation in ids})
    ready = await _postpone_written(tx, batch, automation_ids, outcome=outcome)
    topical = await derive_topics(tx, batch, ready, outcome=outcome)
    outcome.matched |= {item.read.row.id: pointer(item.event) for item in topical}
    if any(item.row.native in batch.source.revocation_topics for item in ready):
        outcome.stores_to_check.append(integration)
    starting = _automations_started(batch, topical)
    changes = await own_changes.of(tx, org, integration, automation_ids) if starting else []
    return StoreEvents(batch.store, topical, starting, Echoes(changes))


async def _postpone_written(
    tx: Tx, batch: StoreBatch, automation_ids: Sequence[AutomationId], *, outcome: MatchOutcome
) -> list[ReadEvent]:
    """Returns the events that can be matched now; postpones events of objects being written."""
    if not automation_ids:
        return list(batch.events)
    org, integration = batch.store.org, batch.store.integration_id
    writing = await own_changes.in_progress(tx, org, integration, automation_ids)
    being_written = {(object_type, object_id) for _, object_type, object_id in writing}
    ready: list[ReadEvent] = []
    for item in batch.events:
        if being_written.isdisjoint(_objects(item.event)):
            ready.append(item)
        else:
            outcome.postponed.append(item.row.id)
    return ready


def _automations_started(batch: StoreBatch, topical: Sequence[EventTopics]) -> AutomationsByTopic:
    topics = {topic for item in topical for topic in item.topics}
    return {topic: ids for topic, ids in batch.automations.items() if topic in topics}


def _objects(event: Event | None) -> tuple[ObjectKey, ...]:
    """Returns the objects whose changes this event may echo."""
    key = object_key(event)
    return () if event is None or key is None else event.objects or (key,)
