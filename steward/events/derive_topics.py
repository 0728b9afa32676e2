"""Derives the topics of events from what was last seen of their objects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from steward.connectors.base.deliveries import DerivedTopics, Event
from steward.database.engine.base import Tx
from steward.database.events import catch_ups, last_seen, subscriptions
from steward.database.events.catch_ups import CatchUp
from steward.database.events.last_seen import ObjectSnapshot, ReportedTimes
from steward.events import deduplicate
from steward.events.match_batch import (
    EventTopics,
    MatchOutcome,
    ObjectKey,
    ReadEvent,
    StoreBatch,
)
from steward.model.json import JsonObject


@dataclass(slots=True)
class _Derivation:
    """Derives topics event by event; later events see the changes of earlier ones."""

    batch: StoreBatch
    catch_ups: Mapping[str, CatchUp]
    snapshots: Mapping[ObjectKey, ObjectSnapshot]
    active_since: Mapping[str, datetime | None]
    changed: dict[ObjectKey, ObjectSnapshot | None] = field(default_factory=dict)

    def topics(self, item: ReadEvent, *, outcome: MatchOutcome) -> tuple[str, ...]:
        """Returns the topics of an event and records the object's new state."""
        event, key = item.event, object_key(item.event)
        if event is None or key is None:
            return self._topics_by_name(item)
        snapshot = self._snapshot_of(key)
        catch_up = self._catch_up_of(event)
        derived = self._derive(event, snapshot, catch_up)
        if derived.dropped is not None:
            outcome.runs_not_started[derived.dropped] += 1
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

    def _snapshot_of(self, key: ObjectKey) -> ObjectSnapshot | None:
        return self.changed[key] if key in self.changed else self.snapshots.get(key)

    def _topics_by_name(self, item: ReadEvent) -> tuple[str, ...]:
        """Returns the topics of the native topic; of a body too large to store, nothing else is known."""
        if not item.row.oversize:
            return ()
        offered = self.batch.offered.items()
        return tuple(topic for topic, spec in offered if not spec.derived and item.row.native in spec.native)

    def _snapshot_after(
        self,
        key: ObjectKey,
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


async def derive_topics(
    tx: Tx, batch: StoreBatch, ready: Sequence[ReadEvent], *, outcome: MatchOutcome
) -> list[EventTopics]:
    """Derives the topics of each event in order, and stores the objects' new state."""
    org, integration = batch.store.org, batch.store.integration_id
    derivation = await _start_derivation(tx, batch, ready)
    topical = [EventTopics(item, derivation.topics(item, outcome=outcome)) for item in ready]
    snapshots = [snapshot for snapshot in derivation.changed.values() if snapshot is not None]
    if snapshots:
        await last_seen.put(tx, org, integration, snapshots)
    if gone := [key for key, snapshot in derivation.changed.items() if snapshot is None]:
        await last_seen.forget(tx, org, integration, gone)
    return topical


async def _start_derivation(tx: Tx, batch: StoreBatch, ready: Sequence[ReadEvent]) -> _Derivation:
    org, integration = batch.store.org, batch.store.integration_id
    keys = {key for item in ready if (key := object_key(item.event)) is not None}
    is_polled = any(item.row.polled for item in ready)
    return _Derivation(
        batch,
        catch_ups=await catch_ups.of(tx, org, integration) if keys else {},
        snapshots=await last_seen.of(tx, org, integration, keys) if keys else {},
        active_since=await subscriptions.active_since(tx, org, integration) if is_polled else {},
    )


def object_key(event: Event | None) -> ObjectKey | None:
    return None if event is None or event.object_id is None else (event.object_type, event.object_id)
