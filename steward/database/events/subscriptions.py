"""Stores which topics start which automations, the stores' subscriptions, and their delivery state."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from steward.database.engine.base import PerEngine, Tx, from_ms_or_none
from steward.model.ids import AutomationId, IntegrationId, OrgId

_DUE = PerEngine(
    "SELECT org_id, integration_id FROM listeners WHERE next_at <= {now} ORDER BY next_at LIMIT :most",
    "SELECT org_id, integration_id FROM queue_listeners(:most)",
)
_LONGEST_REASON = 300


class DeliveryState(StrEnum):
    """Whether a store delivers a canonical topic."""

    PENDING = "pending"
    ACTIVE = "active"
    FAILED = "failed"


class StoredState(StrEnum):
    """The state of a stored subscription."""

    REQUESTED = "requested"
    ACTIVE = "active"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class StoredSubscription:
    """A subscription to a native topic; `repairs` counts its repairs since `repairs_since`."""

    native: str
    state: StoredState = StoredState.REQUESTED
    remote_id: str | None = None
    reason: str | None = None
    unused_since: datetime | None = None
    repairs: int = 0
    repairs_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Listener:
    """A store's subscriptions by native topic; `topics_revision` counts changes of its topics."""

    topics_revision: int
    tries: int
    subscribed: Mapping[str, StoredSubscription] = field(default_factory=dict)


async def set_topics(
    tx: Tx, org: OrgId, automation: AutomationId, *, integration: IntegrationId, topics: Sequence[str]
) -> None:
    """Sets the topics of the store that start the automation, in place of earlier ones.

    Only writes rows; the `listen` task, which becomes due at once, creates the subscriptions.
    """
    await schedule_check(tx, org, {integration, *await _remove_topics(tx, org, automation)})
    for topic in topics:
        await tx.execute(
            "INSERT INTO automation_topics (org_id, integration_id, topic, automation_id)"
            " VALUES (:org, :integration, :topic, :automation)",
            {"org": org, "integration": integration, "topic": topic, "automation": automation},
        )


async def clear_topics(tx: Tx, org: OrgId, automation: AutomationId) -> None:
    """Removes the topics that start the automation and schedules a check of its store."""
    await schedule_check(tx, org, await _remove_topics(tx, org, automation))


async def _remove_topics(tx: Tx, org: OrgId, automation: AutomationId) -> set[IntegrationId]:
    """Removes the topics that start the automation; returns the stores they belonged to."""
    rows = await tx.all(
        "DELETE FROM automation_topics WHERE org_id = :org AND automation_id = :automation"
        " RETURNING integration_id",
        {"org": org, "automation": automation},
    )
    return {IntegrationId(row["integration_id"]) for row in rows}


async def schedule_check(tx: Tx, org: OrgId, integrations: Collection[IntegrationId]) -> None:
    """Locks the stores' listeners and makes them due for the next `listen` task."""
    for integration in sorted(integrations):
        await tx.execute(
            "INSERT INTO listeners (org_id, integration_id, next_at) VALUES (:org, :integration, :now)"
            " ON CONFLICT (org_id, integration_id) DO UPDATE"
            " SET next_at = excluded.next_at, tries = 0, topics_revision = listeners.topics_revision + 1",
            {"org": org, "integration": integration},
        )


async def schedule_check_if_listening(tx: Tx, org: OrgId, integration: IntegrationId) -> None:
    """Locks a store's listener, if any, and makes it due; call it before writing the connection."""
    await tx.execute(
        "UPDATE listeners SET next_at = :now, tries = 0, topics_revision = topics_revision + 1"
        " WHERE org_id = :org AND integration_id = :integration",
        {"org": org, "integration": integration},
    )


async def due(tx: Tx, max_rows: int = 20) -> list[tuple[OrgId, IntegrationId]]:
    """Returns the stores of all organizations whose subscriptions are due for a check."""
    rows = await tx.all(_DUE, {"most": max_rows})
    return [(OrgId(row["org_id"]), IntegrationId(row["integration_id"])) for row in rows]


async def needed_topics(tx: Tx, org: OrgId, integration: IntegrationId) -> list[str]:
    """Returns the canonical topics that start active automations of the store."""
    rows = await tx.all(
        "SELECT DISTINCT topic FROM automation_topics"
        " WHERE org_id = :org AND integration_id = :integration ORDER BY topic",
        {"org": org, "integration": integration},
    )
    return [row["topic"] for row in rows]


async def automations_by_topic(
    tx: Tx, org: OrgId, integration: IntegrationId, topics: Collection[str]
) -> dict[str, list[AutomationId]]:
    """Returns the active automations that each topic starts.

    The state is current if the caller holds the lock on an automation's schedule.
    """
    rows = await tx.all(
        "SELECT topic, automation_id FROM automation_topics"
        " WHERE org_id = :org AND integration_id = :integration AND topic IN (:topics)"
        " ORDER BY automation_id, topic",
        {"org": org, "integration": integration, "topics": sorted(topics)},
    )
    by_topic: dict[str, list[AutomationId]] = {}
    for row in rows:
        by_topic.setdefault(row["topic"], []).append(AutomationId(row["automation_id"]))
    return by_topic


async def lock(tx: Tx, org: OrgId, integration: IntegrationId) -> Listener | None:
    """Locks the store's listener and reads its subscriptions; None when the store is not listened to.

    This lock guards `automation_topics`, `topic_deliveries`, `subscriptions` and `catch_ups` of the store and
    the keys of its event address. Lock order: schedules, listeners by id, connections, the rest.
    """
    row = await tx.first(
        "SELECT topics_revision, tries FROM listeners"
        " WHERE org_id = :org AND integration_id = :integration {for_update}",
        {"org": org, "integration": integration},
    )
    if row is None:
        return None
    rows = await tx.all(
        "SELECT topic, state, remote_id, reason, unused_since, repairs, repairs_since FROM subscriptions"
        " WHERE org_id = :org AND integration_id = :integration ORDER BY topic",
        {"org": org, "integration": integration},
    )
    subscribed = {
        row["topic"]: StoredSubscription(
            row["topic"],
            StoredState(row["state"]),
            row["remote_id"],
            row["reason"],
            from_ms_or_none(row["unused_since"]),
            row["repairs"],
            from_ms_or_none(row["repairs_since"]),
        )
        for row in rows
    }
    return Listener(row["topics_revision"], row["tries"], subscribed)


async def remote_ids(tx: Tx, org: OrgId, integration: IntegrationId) -> dict[str, str]:
    """Returns native topics by the platform's id of the subscription, for created subscriptions."""
    rows = await tx.all(
        "SELECT topic, remote_id FROM subscriptions"
        " WHERE org_id = :org AND integration_id = :integration AND remote_id IS NOT NULL",
        {"org": org, "integration": integration},
    )
    return {row["remote_id"]: row["topic"] for row in rows}


async def put(tx: Tx, org: OrgId, integration: IntegrationId, subscription: StoredSubscription) -> None:
    """Stores the state of a subscription."""
    await tx.execute(
        "INSERT INTO subscriptions (org_id, integration_id, topic, state, remote_id, reason, unused_since,"
        " repairs, repairs_since) VALUES (:org, :integration, :topic, :state, :remote, :reason, :unused,"
        " :repairs, :repairs_since)"
        " ON CONFLICT (org_id, integration_id, topic) DO UPDATE SET state = excluded.state,"
        " remote_id = excluded.remote_id, reason = excluded.reason,"
        " unused_since = excluded.unused_since, repairs = excluded.repairs,"
        " repairs_since = excluded.repairs_since",
        {
            "org": org,
            "integration": integration,
            "topic": subscription.native,
            "state": subscription.state,
            "remote": subscription.remote_id,
            "reason": None if subscription.reason is None else subscription.reason[:_LONGEST_REASON],
            "unused": subscription.unused_since,
            "repairs": subscription.repairs,
            "repairs_since": subscription.repairs_since,
        },
    )


async def remove(tx: Tx, org: OrgId, integration: IntegrationId, natives: Collection[str]) -> None:
    """Removes subscriptions."""
    await tx.execute(
        "DELETE FROM subscriptions WHERE org_id = :org AND integration_id = :integration"
        " AND topic IN (:natives)",
        {"org": org, "integration": integration, "natives": sorted(natives)},
    )


async def set_delivery(
    tx: Tx, org: OrgId, integration: IntegrationId, topic: str, *, state: DeliveryState, reason: str | None
) -> None:
    """Stores the delivery state of a canonical topic; its first call sets `active_since` to now."""
    await tx.execute(
        "INSERT INTO topic_deliveries (org_id, integration_id, topic, state, reason, active_since)"
        " VALUES (:org, :integration, :topic, :state, :reason, :now)"
        " ON CONFLICT (org_id, integration_id, topic) DO UPDATE"
        " SET state = excluded.state, reason = excluded.reason",
        {
            "org": org,
            "integration": integration,
            "topic": topic,
            "state": state,
            "reason": None if reason is None else reason[:_LONGEST_REASON],
        },
    )


async def active_since(tx: Tx, org: OrgId, integration: IntegrationId) -> dict[str, datetime | None]:
    """Returns since when each delivered topic is active; None: always."""
    rows = await tx.all(
        "SELECT topic, active_since FROM topic_deliveries WHERE org_id = :org AND integration_id ="
        " :integration",
        {"org": org, "integration": integration},
    )
    return {row["topic"]: from_ms_or_none(row["active_since"]) for row in rows}


async def forget_unneeded(tx: Tx, org: OrgId, integration: IntegrationId) -> None:
    """Removes the delivery state of topics that no longer start any automation."""
    await tx.execute(
        "DELETE FROM topic_deliveries WHERE org_id = :org AND integration_id = :integration"
        " AND topic NOT IN (SELECT t.topic FROM automation_topics AS t"
        " WHERE t.org_id = :org AND t.integration_id = :integration)",
        {"org": org, "integration": integration},
    )


async def finish_check(
    tx: Tx, org: OrgId, integration: IntegrationId, *, next_at: datetime, tries: int, topics_revision: int
) -> None:
    """Ends a check of the store's subscriptions that began at `topics_revision`.

    The next check is due at `next_at`, or at once when a topic was added or removed meanwhile.
    """
    await tx.execute(
        "UPDATE listeners SET checked_at = :now, tries = :tries,"
        " next_at = CASE WHEN topics_revision > :revision THEN :now ELSE CAST(:next AS bigint) END"
        " WHERE org_id = :org AND integration_id = :integration",
        {
            "org": org,
            "integration": integration,
            "next": next_at,
            "tries": tries,
            "revision": topics_revision,
        },
    )


async def end(tx: Tx, org: OrgId, integration: IntegrationId) -> None:
    """Removes the store's listener, subscriptions, delivery states and catch-ups."""
    for table in ("subscriptions", "topic_deliveries", "catch_ups", "listeners"):
        await tx.execute(
            f"DELETE FROM {table} WHERE org_id = :org AND integration_id = :integration",
            {"org": org, "integration": integration},
        )
