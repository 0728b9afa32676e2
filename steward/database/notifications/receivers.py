"""Reads who may be notified: an organization's people with their preferences, and its routes."""

import json
from collections.abc import Collection
from dataclasses import dataclass

from steward.database.engine.base import Row, Tx
from steward.model.account import Role
from steward.model.ids import AutomationId, IntegrationId, OrgId, PersonId, RouteId, RunId
from steward.model.notice import DEFAULT_PREFERENCES, ChannelName, Preferences, Topic, preferences_from_json

# After this many permanently refused mails in a row, a person gets none until somebody tries again.
_REFUSALS_TO_STOP = 3


@dataclass(frozen=True, slots=True)
class NotifiableMember:
    """A member who has joined and is active."""

    person: PersonId
    role: Role
    email: str
    preferences: Preferences
    mail_refusals: int

    @property
    def takes_mail(self) -> bool:
        """Whether the person's mail server accepts messages."""
        return self.mail_refusals < _REFUSALS_TO_STOP


@dataclass(frozen=True, slots=True)
class NotifiableRoute:
    """A working route with its filter; null means all."""

    route: RouteId
    channel: ChannelName
    topics: frozenset[Topic]
    automations: frozenset[AutomationId] | None
    integrations: frozenset[IntegrationId] | None


_PEOPLE = (
    "SELECT m.person_id, m.role, p.email, n.preferences, coalesce(n.mail_refusals, 0) AS mail_refusals"
    " FROM members AS m JOIN people AS p ON p.person_id = m.person_id"
    " LEFT JOIN notification_preferences AS n ON n.org_id = :org AND n.person_id = m.person_id"
    " WHERE m.org_id = :org AND m.active AND m.account_active AND NOT m.invited AND p.active"
    " AND NOT p.unclaimed"
)


async def people(tx: Tx, org: OrgId, involved: Collection[PersonId]) -> dict[PersonId, NotifiableMember]:
    """Returns the organization's active members who have joined and may be notified.

    These are the `involved` ones and those who may receive notices about others: by their role or because
    they have stored preferences. In a large organization most members are neither.
    """
    may_be_notified = "(m.role <> 'member' OR n.person_id IS NOT NULL OR m.person_id IN (:involved))"
    rows = await tx.all(f"{_PEOPLE} AND {may_be_notified}", {"org": org, "involved": list(involved)})
    return {PersonId(row["person_id"]): _person(row) for row in rows}


async def members(tx: Tx, org: OrgId, people: Collection[PersonId]) -> dict[PersonId, NotifiableMember]:
    """Returns which of the people are active members who have joined."""
    if not people:
        return {}
    rows = await tx.all(f"{_PEOPLE} AND m.person_id IN (:people)", {"org": org, "people": list(people)})
    return {PersonId(row["person_id"]): _person(row) for row in rows}


def _person(row: Row) -> NotifiableMember:
    stored = row["preferences"]
    return NotifiableMember(
        PersonId(row["person_id"]),
        Role(row["role"]),
        row["email"],
        preferences_from_json(json.loads(stored)) if stored else DEFAULT_PREFERENCES,
        row["mail_refusals"],
    )


async def routes(tx: Tx, org: OrgId) -> list[NotifiableRoute]:
    """Returns the organization's routes that are not broken."""
    rows = await tx.all(
        "SELECT id, channel, topics, automation_ids, integration_ids FROM notification_routes"
        " WHERE org_id = :org AND state = 'ok' ORDER BY id",
        {"org": org},
    )
    return [
        NotifiableRoute(
            RouteId(row["id"]),
            ChannelName(row["channel"]),
            frozenset(Topic(topic) for topic in json.loads(row["topics"])),
            frozenset(json.loads(row["automation_ids"])) if row["automation_ids"] else None,
            frozenset(json.loads(row["integration_ids"])) if row["integration_ids"] else None,
        )
        for row in rows
    ]


async def open_routes(tx: Tx, org: OrgId, routes: Collection[RouteId]) -> set[RouteId]:
    """Returns which of the routes still exist and are not broken."""
    if not routes:
        return set()
    rows = await tx.all(
        "SELECT id FROM notification_routes WHERE org_id = :org AND id IN (:routes) AND state = 'ok'",
        {"org": org, "routes": list(routes)},
    )
    return {RouteId(row["id"]) for row in rows}


async def makers(
    tx: Tx, org: OrgId, automations: Collection[AutomationId]
) -> dict[AutomationId, PersonId | None]:
    """Returns the person who created each of the automations."""
    rows = await tx.all(
        "SELECT id, created_by FROM automations WHERE org_id = :org AND id IN (:automations)",
        {"org": org, "automations": list(automations)},
    )
    return {AutomationId(row["id"]): row["created_by"] for row in rows}


async def starters(tx: Tx, org: OrgId, runs: Collection[RunId]) -> dict[RunId, PersonId | None]:
    """Returns the person who started each of the runs by hand."""
    rows = await tx.all(
        "SELECT id, created_by FROM runs WHERE org_id = :org AND id IN (:runs)",
        {"org": org, "runs": list(runs)},
    )
    return {RunId(row["id"]): row["created_by"] for row in rows}


async def count_refusal(tx: Tx, org: OrgId, who: PersonId) -> int:
    """Counts a mail that the person's server refused permanently; returns how many in a row."""
    row = await tx.first(
        "INSERT INTO notification_preferences AS n"
        " (org_id, person_id, preferences, mail_refusals, updated_at)"
        " VALUES (:org, :person, '{}', 1, :now) ON CONFLICT (org_id, person_id)"
        " DO UPDATE SET mail_refusals = n.mail_refusals + 1 RETURNING mail_refusals",
        {"org": org, "person": who},
    )
    return 0 if row is None else int(row["mail_refusals"])


async def forget_refusals(tx: Tx, org: OrgId, people: Collection[PersonId]) -> None:
    """Resets the people's counts of refused mails: one was accepted, or mail is to be tried again."""
    if people:
        await tx.execute(
            "UPDATE notification_preferences SET mail_refusals = 0"
            " WHERE org_id = :org AND person_id IN (:people) AND mail_refusals > 0",
            {"org": org, "people": list(people)},
        )


async def refusing(tx: Tx, org: OrgId, people: Collection[PersonId]) -> set[PersonId]:
    """Returns which of the people get no mail because their server has refused it repeatedly."""
    rows = await tx.all(
        "SELECT person_id FROM notification_preferences"
        " WHERE org_id = :org AND person_id IN (:people) AND mail_refusals >= :most",
        {"org": org, "people": list(people), "most": _REFUSALS_TO_STOP},
    )
    return {PersonId(row["person_id"]) for row in rows}
