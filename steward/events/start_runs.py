"""Starts the runs of the automations that matched events start."""

from collections.abc import Iterator, Mapping, Sequence

from steward.automations import pauses, readiness
from steward.connectors.base.deliveries import Event
from steward.database.automations import records as automations
from steward.database.engine.base import Tx
from steward.database.events import subscriptions
from steward.events.context import EventContext
from steward.events.match_batch import (
    AutomationsByTopic,
    EventTopics,
    MatchOutcome,
    StoreEvents,
)
from steward.model.ids import AutomationId, OrgId
from steward.model.json import JsonObject
from steward.model.run import EventRef
from steward.run_queue import queue as run_queue
from steward.run_queue.queue import TOO_LARGE, EventRunRequest


async def start_automations(
    tx: Tx, ctx: EventContext, from_store: StoreEvents, *, outcome: MatchOutcome
) -> None:
    """Enqueues the runs of a store's events, except for automations paused in the meantime."""
    org = from_store.store.org
    if not from_store.automations:
        return
    for automation, reason in from_store.echoes.loops(from_store.automations, from_store.topical):
        await pauses.pause_by_service(tx, org, automation, reason=reason, rules=ctx.automation_rules)
    integration = from_store.store.integration_id
    active = await subscriptions.automations_by_topic(tx, org, integration, from_store.automations)
    # An automation added since `active_run.lock` is not locked, but these events precede it.
    by_topic = {
        topic: [automation for automation in ids if automation in active.get(topic, ())]
        for topic, ids in from_store.automations.items()
    }
    await _enqueue(tx, ctx, org, _run_requests(from_store, by_topic, outcome=outcome), outcome=outcome)


def _run_requests(
    from_store: StoreEvents, by_topic: AutomationsByTopic, *, outcome: MatchOutcome
) -> dict[AutomationId, list[EventRunRequest]]:
    """Returns the runs to enqueue for each automation; echoes of its own changes start none."""
    requests: dict[AutomationId, list[EventRunRequest]] = {}
    for item in from_store.topical:
        row = item.read.row
        for automation, topic in _started(item, by_topic):
            if item.event is not None and from_store.echoes.is_own(automation, row, item.event):
                outcome.runs_not_started["echo"] += 1
                continue
            request = EventRunRequest(
                EventRef(row.id, topic, row.received_at), TOO_LARGE if row.oversize else None
            )
            requests.setdefault(automation, []).append(request)
    return requests


def _started(item: EventTopics, by_topic: AutomationsByTopic) -> Iterator[tuple[AutomationId, str]]:
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
    outcome: MatchOutcome,
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
        outcome.runs_not_started.update(result.code for result in results if result.code is not None)


def pointer(event: Event | None) -> JsonObject:
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
