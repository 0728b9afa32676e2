"""Reads and changes a person's own notification preferences."""

import json
from collections.abc import Sequence

from steward.database.engine.base import Json, Tx
from steward.model.ids import AutomationId, OrgId, PersonId
from steward.model.notice import (
    DEFAULT_PREFERENCES,
    Preferences,
    preferences_from_json,
    preferences_to_json,
)


async def get(tx: Tx, org: OrgId, person: PersonId) -> Preferences:
    """Returns the preferences; the defaults for a person without a row."""
    row = await tx.first(
        "SELECT preferences FROM notification_preferences WHERE org_id = :org AND person_id = :person",
        {"org": org, "person": person},
    )
    return DEFAULT_PREFERENCES if row is None else preferences_from_json(json.loads(row["preferences"]))


async def save(tx: Tx, org: OrgId, person: PersonId, preferences: Preferences) -> None:
    """Stores the preferences."""
    await tx.execute(
        "INSERT INTO notification_preferences (org_id, person_id, preferences, updated_at)"
        " VALUES (:org, :person, :preferences, :now) ON CONFLICT (org_id, person_id)"
        " DO UPDATE SET preferences = excluded.preferences, updated_at = excluded.updated_at",
        {"org": org, "person": person, "preferences": Json(preferences_to_json(preferences))},
    )


async def automation_names(
    tx: Tx, org: OrgId, automations: Sequence[AutomationId]
) -> dict[AutomationId, str]:
    """Returns the names of the automations with these ids that the organization has."""
    if not automations:
        return {}
    rows = await tx.all(
        "SELECT id, name FROM automations WHERE org_id = :org AND id IN (:automations)",
        {"org": org, "automations": list(automations)},
    )
    return {AutomationId(row["id"]): row["name"] for row in rows}
