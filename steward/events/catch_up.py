"""Catch-up: reads stores again and stores undelivered changes as events."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from steward.connections.vault import Vault, open_secrets
from steward.connectors.base.connector import Connector, Reader
from steward.connectors.base.deliveries import (
    CHANGED,
    IDS,
    ChangedQuery,
    Event,
    EventSource,
    IdsQuery,
    dedupe_key,
)
from steward.connectors.base.settings import BadSettings, ConnectionSecrets
from steward.database.accounts import connections
from steward.database.due_rows import attempt
from steward.database.engine.base import Tx
from steward.database.events import catch_ups, last_seen, subscriptions
from steward.database.events import records as events
from steward.database.events.catch_ups import CatchUp, Fill
from steward.database.events.last_seen import ObjectSnapshot
from steward.database.events.records import NewEvent
from steward.events import deduplicate, delivery_state
from steward.events.context import EventContext
from steward.failpoint import failpoint
from steward.model.connection import Connection, ConnectionState
from steward.model.ids import IntegrationId, OrgId, RisingIds
from steward.outbound.errors import CallError, CallRefused

_OVERLAP = timedelta(minutes=2)
# Stores report whole seconds, so another change in the same second as a very recent one would go unnoticed.
# Younger changes are left to the next read.
_MIN_AGE = timedelta(seconds=5)
_ORDERS_SINCE = timedelta(days=90)
_COMPARE_EVERY = timedelta(days=1)
_MAX_WAIT = timedelta(minutes=60)
_MAX_CONCURRENT = 200
_IDS = RisingIds()  # so that creation comes before changes
_DELETED = {"product": "products/delete"}


@dataclass(frozen=True, slots=True)
class _StoreReading:
    """An object type of a store that catch-up reads now."""

    connection: Connection
    connector: Connector
    secrets: ConnectionSecrets
    row: CatchUp
    active_since: Mapping[str, datetime | None]  # the active topics, and since when

    @property
    def org(self) -> OrgId:
        """The organization."""
        return self.connection.org

    @property
    def integration(self) -> IntegrationId:
        """The store."""
        return self.connection.integration_id


async def catch_up_due(ctx: EventContext) -> bool:
    """Reads the object types that are due; a store that cannot be read is deferred and affects no other."""
    due_rows = await ctx.engine.read(ctx.clock.now(), catch_ups.due)
    stored_count = 0
    for org, (integration, object_type) in due_rows:
        result = await attempt(_catch_up(ctx, org, integration, object_type))
        if isinstance(result, int):
            stored_count += result
            continue
        if isinstance(result, CallError):
            ctx.log.info("store_not_read", org=org, integration=integration, reason=result.message)
        else:
            ctx.log.error("store_not_read", result, org=org, integration=integration)
        await _defer(ctx, org, integration, object_type)
    if stored_count:
        ctx.wake("event")
    return bool(due_rows)


async def _defer(ctx: EventContext, org: OrgId, integration: IntegrationId, object_type: str) -> None:
    """Schedules another try after 1, 2, 4 … 60 minutes."""

    async def later(tx: Tx) -> None:
        row = (await catch_ups.of(tx, org, integration)).get(object_type)
        wait = timedelta(minutes=2 ** min(0 if row is None else row.tries, 6))
        next_at = tx.now + min(wait, _MAX_WAIT)
        await catch_ups.defer(tx, org, integration, object_type, next_at=next_at)

    await ctx.engine.write(ctx.clock.now(), later, org=org)


async def _catch_up(ctx: EventContext, org: OrgId, integration: IntegrationId, object_type: str) -> int:
    """Fills the snapshots, or reads changes; returns how many undelivered events it stored."""
    open_ = partial(
        _open_store,
        org=org,
        vault=ctx.vault,
        every=ctx.rules.catch_up,
        integration=integration,
        object_type=object_type,
    )
    reading = await ctx.engine.write(ctx.clock.now(), open_, org=org)
    if reading is None:
        return 0
    try:
        endpoint = reading.connector.endpoint(reading.secrets)
        http = ctx.vault.outbound.read_client(org, integration, endpoint)
        reader = reading.connector.reader(http, reading.secrets)
    except (CallRefused, BadSettings) as error:
        raise CallError(str(error)) from error
    if reading.row.fill is Fill.PENDING:
        await _fill(ctx, reading, reader)
        return 0
    return await _read_changes(ctx, reading, reader)


async def _open_store(
    tx: Tx,
    *,
    org: OrgId,
    vault: Vault,
    every: timedelta,
    integration: IntegrationId,
    object_type: str,
) -> _StoreReading | None:
    """Opens a store for catch-up; returns None, and defers it, if it is not connected."""
    connection = await connections.get(tx, org, integration)
    row = (await catch_ups.of(tx, org, integration)).get(object_type)
    connector = None if connection is None else vault.connectors.get(connection.kind)
    if connection is None or row is None or connector is None:
        return None
    if connection.state is not ConnectionState.CONNECTED:
        later = tx.now + every
        await catch_ups.defer(tx, org, integration, object_type, next_at=later)
        return None
    active_since = await subscriptions.active_since(tx, org, integration)
    opened = await open_secrets(tx, vault, connection)
    return _StoreReading(connection, connector, opened, row, active_since)


async def _fill(ctx: EventContext, reading: _StoreReading, reader: Reader) -> None:
    """Fills the object snapshots of a store, which topics are derived from."""
    now, kind, source = ctx.clock.now(), reading.row.object_type, reading.connector.events
    since = now - _ORDERS_SINCE if kind == "order" else None
    async for page in reader.read(CHANGED, ChangedQuery(kind, since)):
        snapshots = [
            ObjectSnapshot(event.object_type, event.object_id, fields, event.modified_at)
            for event in page.items
            if source is not None
            and event.object_id is not None
            and (fields := source.initial_snapshot(event)) is not None
        ]
        by_key = {(snapshot.object_type, snapshot.object_id): snapshot for snapshot in snapshots}
        fill = partial(
            last_seen.fill, org=reading.org, integration=reading.integration, seen=list(by_key.values())
        )
        if by_key:
            await ctx.engine.write(ctx.clock.now(), fill, org=reading.org)
        failpoint("after_fill_page")

    async def record_read(tx: Tx) -> None:
        next_at = tx.now + ctx.rules.catch_up
        await subscriptions.lock(tx, reading.org, reading.integration)
        await catch_ups.mark_filled(tx, reading.org, reading.integration, kind, next_at=next_at)
        await delivery_state.update_deliveries(tx, reading.org, reading.integration, reading.connector)

    await ctx.engine.write(ctx.clock.now(), record_read, org=reading.org)


async def _read_changes(ctx: EventContext, reading: _StoreReading, reader: Reader) -> int:
    """Reads the changes since the last read and, once a day, the deletions."""
    began, row = ctx.clock.now(), reading.row
    after = max(row.read_until - _OVERLAP, row.since)
    stored_count = 0
    async for page in reader.read(CHANGED, ChangedQuery(row.object_type, after)):
        for start in range(0, len(page.items), _MAX_CONCURRENT):
            part = page.items[start : start + _MAX_CONCURRENT]
            stored_count += await _store_undelivered(ctx, reading, part, now=began)
    compared_at = row.ids_compared_at
    if began - compared_at >= _COMPARE_EVERY:
        stored_count += await _store_deletions(ctx, reading, reader)
        compared_at = began

    async def record_read(tx: Tx) -> None:
        if stored_count:  # may mean that a subscription was removed at the store
            await subscriptions.schedule_check_if_listening(tx, reading.org, reading.integration)
        await catch_ups.mark_read(
            tx,
            reading.org,
            reading.integration,
            row.object_type,
            until=began,
            next_at=tx.now + ctx.rules.catch_up,
            ids_compared_at=compared_at,
        )

    failpoint("before_caught_up")
    await ctx.engine.write(ctx.clock.now(), record_read, org=reading.org)
    if stored_count:
        ctx.metrics.count("steward_events_received_total", stored_count, outcome="polled")
        ctx.log.info(
            "events_caught_up", org=reading.org, integration=reading.integration, events=stored_count
        )
    return stored_count


async def _store_undelivered(
    ctx: EventContext, reading: _StoreReading, changed: Sequence[Event], *, now: datetime
) -> int:
    """Stores changed objects that no delivery reported as events; returns how many."""
    source = reading.connector.events
    if source is None:
        return 0
    keys = {(event.object_type, event.object_id) for event in changed if event.object_id is not None}
    load = partial(last_seen.of, org=reading.org, integration=reading.integration, keys=keys)
    snapshots_by_key = await ctx.engine.read(ctx.clock.now(), load, org=reading.org) if keys else {}
    new = []
    for event in changed:
        if event.modified_at is None or event.modified_at > now - _MIN_AGE:
            continue
        snapshot = snapshots_by_key.get((event.object_type, event.object_id or ""))
        if _starts_runs(reading, source, event, snapshot):
            body = json.dumps(event.payload, separators=(",", ":"))
            new.append(_polled_event(reading, event, body, now=now, modified_at=event.modified_at))
    return await _store_events(ctx, reading.org, new)


def _starts_runs(
    reading: _StoreReading, source: EventSource, event: Event, snapshot: ObjectSnapshot | None
) -> bool:
    """Returns whether the event has a topic that no delivery has reported."""
    derived = source.derive(
        event,
        None if snapshot is None else snapshot.fields,
        since=reading.row.since,
        seen_at=None if snapshot is None else snapshot.modified_at,
        awaited_topics=reading.active_since,
    )
    offered = reading.connector.topics
    return bool(
        deduplicate.new_topics(event, derived, snapshot, active_since=reading.active_since, offered=offered)
    )


def _polled_event(
    reading: _StoreReading, event: Event, body: str, *, now: datetime, modified_at: datetime
) -> NewEvent:
    """Returns an event keyed by `modified_at`, the object's modification time when it was read."""
    parts = ("poll", event.native, event.object_id or "", modified_at.isoformat())
    raw = body.encode("utf-8")
    return NewEvent(
        org=reading.org,
        id=_IDS.next(now),
        integration=reading.integration,
        dedupe_key=dedupe_key(parts),
        native=event.native,
        size=len(raw),
        body=raw,
        occurred_at=event.occurred_at or event.modified_at,
        polled=True,
    )


async def _store_events(ctx: EventContext, org: OrgId, new: Sequence[NewEvent]) -> int:
    if not new:
        return 0
    stored = await ctx.engine.write(ctx.clock.now(), partial(events.store_batch, new=new), org=org)
    return sum(stored)


async def _store_deletions(ctx: EventContext, reading: _StoreReading, reader: Reader) -> int:
    """Stores deletion events for objects that are no longer in the store."""
    kind = reading.row.object_type
    topic = _DELETED.get(kind, "")
    spec = reading.connector.topics.get(topic)
    if topic not in reading.active_since or spec is None or kind not in spec.snapshot_types:
        return 0
    load = partial(last_seen.ids, org=reading.org, integration=reading.integration, object_type=kind)
    missing = await ctx.engine.read(ctx.clock.now(), load, org=reading.org)
    async for page in reader.read(IDS, IdsQuery(kind)):
        missing -= set(page.items)
    now = ctx.clock.now()
    deletions = [
        _polled_event(
            reading,
            Event(spec.native[0], kind, object_id),
            json.dumps({"id": int(object_id)}),
            now=now,
            modified_at=now,
        )
        for object_id in sorted(missing)
        if object_id.isdecimal()
    ]
    return await _store_events(ctx, reading.org, deletions)
