"""What stores are asked to tell: which automations wait for a topic, subscriptions, and what is heard."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from steward.database.engine.base import Both, Tx, from_ms_or_none
from steward.model.ids import AutomationId, IntegrationId, OrgId

_DUE = Both(
    "SELECT org_id, integration_id FROM listeners WHERE next_at <= {now} ORDER BY next_at LIMIT :most",
    "SELECT org_id, integration_id FROM queue_listeners(:most)",
)
_LONGEST_REASON = 300


class Heard(StrEnum):
    """Whether a canonical topic of a store is listened to."""

    NOT_YET = "pending"
    YES = "active"
    FAILED = "failed"


class SubscriptionState(StrEnum):
    """Where a subscription stands."""

    WANTED = "requested"
    MADE = "active"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A native topic a store was asked to tell; `mended` counts repairs since `mended_since`."""

    native: str
    state: SubscriptionState = SubscriptionState.WANTED
    remote_id: str | None = None
    reason: str | None = None
    unwanted_since: datetime | None = None
    mended: int = 0
    mended_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Listener:
    """A store's subscriptions as last known, by native topic; `asked` counts requests to look at them."""

    asked: int
    tries: int
    subscribed: Mapping[str, Subscribed] = field(default_factory=dict)


async def want(
    tx: Tx, org: OrgId, automation: AutomationId, *, integration: IntegrationId, topics: Sequence[str]
) -> None:
    """The automation is started by these topics of the store from now on, and by no others.

    Only rows are written; the `listen` tick, which looks at the store at once, makes subscriptions.
    """
    await look_again(tx, org, {integration, *await _remove_topics(tx, org, automation)})
    for topic in topics:
        await tx.execute(
            "INSERT INTO automation_topics (org_id, integration_id, topic, automation_id)"
            " VALUES (:org, :integration, :topic, :automation)",
            {"org": org, "integration": integration, "topic": topic, "automation": automation},
        )


async def unwant(tx: Tx, org: OrgId, automation: AutomationId) -> None:
    """No topic starts the automation any more; its store's subscriptions are looked at anew."""
    await look_again(tx, org, await _remove_topics(tx, org, automation))


async def _remove_topics(tx: Tx, org: OrgId, automation: AutomationId) -> set[IntegrationId]:
    """Removes the topics that start the automation; returns the stores they belonged to."""
    rows = await tx.all(
        "DELETE FROM automation_topics WHERE org_id = :org AND automation_id = :automation"
        " RETURNING integration_id",
        {"org": org, "automation": automation},
    )
    return {IntegrationId(row["integration_id"]) for row in rows}


async def look_again(tx: Tx, org: OrgId, integrations: Collection[IntegrationId]) -> None:
    """Locks the stores' listeners and makes them due, so that the next `listen` tick looks at them."""
    for integration in sorted(integrations):
        await tx.execute(
            "INSERT INTO listeners (org_id, integration_id, next_at) VALUES (:org, :integration, :now)"
            " ON CONFLICT (org_id, integration_id) DO UPDATE"
            " SET next_at = excluded.next_at, tries = 0, topics_revision = listeners.topics_revision + 1",
            {"org": org, "integration": integration},
        )


async def look_again_if_listening(tx: Tx, org: OrgId, integration: IntegrationId) -> None:
    """Locks the listener of a store that has one and makes it due; call it before writing the connection."""
    await tx.execute(
        "UPDATE listeners SET next_at = :now, tries = 0, topics_revision = topics_revision + 1"
        " WHERE org_id = :org AND integration_id = :integration",
        {"org": org, "integration": integration},
    )


async def due(tx: Tx, most: int = 20) -> list[tuple[OrgId, IntegrationId]]:
    """Stores of all organisations whose subscriptions are to be looked at."""
    rows = await tx.all(_DUE, {"most": most})
    return [(OrgId(row["org_id"]), IntegrationId(row["integration_id"])) for row in rows]


async def topics_wanted(tx: Tx, org: OrgId, integration: IntegrationId) -> list[str]:
    """The canonical topics active automations wait for."""
    rows = await tx.all(
        "SELECT DISTINCT topic FROM automation_topics"
        " WHERE org_id = :org AND integration_id = :integration ORDER BY topic",
        {"org": org, "integration": integration},
    )
    return [row["topic"] for row in rows]


async def waiting_for(
    tx: Tx, org: OrgId, integration: IntegrationId, topics: Collection[str]
) -> dict[str, list[AutomationId]]:
    """The active automations each topic starts; who has an automation's schedule locked finds it as it is."""
    rows = await tx.all(
        "SELECT topic, automation_id FROM automation_topics"
        " WHERE org_id = :org AND integration_id = :integration AND topic IN (:topics)"
        " ORDER BY automation_id, topic",
        {"org": org, "integration": integration, "topics": sorted(topics)},
    )
    found: dict[str, list[AutomationId]] = {}
    for row in rows:
        found.setdefault(row["topic"], []).append(AutomationId(row["automation_id"]))
    return found


async def lock(tx: Tx, org: OrgId, integration: IntegrationId) -> Listener | None:
    """Locks the store's listener and reads its subscriptions; None when the store is not listened to.

    This lock guards `automation_topics`, `topics_heard`, `subscriptions` and `catch_ups` of the store and the
    keys of its event address. Lock order: schedules, listeners by id, connections, the rest.
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
        row["topic"]: Subscribed(
            row["topic"],
            SubscriptionState(row["state"]),
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
    """Native topics by the platform's id of the subscription, of those that were made."""
    rows = await tx.all(
        "SELECT topic, remote_id FROM subscriptions"
        " WHERE org_id = :org AND integration_id = :integration AND remote_id IS NOT NULL",
        {"org": org, "integration": integration},
    )
    return {row["remote_id"]: row["topic"] for row in rows}


async def put(tx: Tx, org: OrgId, integration: IntegrationId, one: Subscribed) -> None:
    """Keeps where a subscription stands."""
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
            "topic": one.native,
            "state": one.state,
            "remote": one.remote_id,
            "reason": None if one.reason is None else one.reason[:_LONGEST_REASON],
            "unused": one.unwanted_since,
            "repairs": one.mended,
            "repairs_since": one.mended_since,
        },
    )


async def remove(tx: Tx, org: OrgId, integration: IntegrationId, natives: Collection[str]) -> None:
    """These subscriptions are no more."""
    await tx.execute(
        "DELETE FROM subscriptions WHERE org_id = :org AND integration_id = :integration"
        " AND topic IN (:natives)",
        {"org": org, "integration": integration, "natives": sorted(natives)},
    )


async def set_heard(
    tx: Tx, org: OrgId, integration: IntegrationId, topic: str, *, state: Heard, reason: str | None
) -> None:
    """Says whether a canonical topic is listened to; the first call for a topic begins it now."""
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


async def heard_since(tx: Tx, org: OrgId, integration: IntegrationId) -> dict[str, datetime | None]:
    """The topics that are listened to, with the instant it began; None for one that has always been."""
    rows = await tx.all(
        "SELECT topic, active_since FROM topic_deliveries WHERE org_id = :org AND integration_id ="
        " :integration",
        {"org": org, "integration": integration},
    )
    return {row["topic"]: from_ms_or_none(row["active_since"]) for row in rows}


async def forget_unheard(tx: Tx, org: OrgId, integration: IntegrationId) -> None:
    """Topics nobody waits for are no longer listened to: they begin anew when somebody does."""
    await tx.execute(
        "DELETE FROM topic_deliveries WHERE org_id = :org AND integration_id = :integration"
        " AND topic NOT IN (SELECT t.topic FROM automation_topics AS t"
        " WHERE t.org_id = :org AND t.integration_id = :integration)",
        {"org": org, "integration": integration},
    )


async def looked(
    tx: Tx, org: OrgId, integration: IntegrationId, *, next_at: datetime, tries: int, asked: int
) -> None:
    """Ends a look at the store's subscriptions that began when `asked` was read.

    The next one is due at `next_at`, or at once when a topic was added or removed meanwhile.
    """
    await tx.execute(
        "UPDATE listeners SET checked_at = :now, tries = :tries,"
        " next_at = CASE WHEN topics_revision > :revision THEN :now ELSE CAST(:next AS bigint) END"
        " WHERE org_id = :org AND integration_id = :integration",
        {"org": org, "integration": integration, "next": next_at, "tries": tries, "revision": asked},
    )


async def end(tx: Tx, org: OrgId, integration: IntegrationId) -> None:
    """The store is no longer listened to, and nothing is left of it but its waiting automations."""
    for table in ("subscriptions", "topic_deliveries", "catch_ups", "listeners"):
        await tx.execute(
            f"DELETE FROM {table} WHERE org_id = :org AND integration_id = :integration",
            {"org": org, "integration": integration},
        )
