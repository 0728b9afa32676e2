"""The current names of the objects of audit entries; the entries themselves hold only ids."""

from collections.abc import Collection, Mapping
from typing import Final

from steward.database.engine.base import Tx
from steward.model.ids import OrgId

# Queries by kind of object: id and name of the objects among `:ids`.
_LABELS: Final[Mapping[str, str]] = {
    "person": "SELECT m.person_id AS id, trim(coalesce(nullif(trim(m.first_name || ' ' || m.last_name), ''),"
    " m.email_norm)) AS label FROM members AS m WHERE m.org_id = :org AND m.person_id IN (:ids)",
    "credential": "SELECT client_id AS id, label FROM credentials"
    " WHERE org_id = :org AND client_id IN (:ids)",
    "connection": "SELECT integration_id AS id, name AS label FROM connections"
    " WHERE org_id = :org AND integration_id IN (:ids)",
    "closed_period": "SELECT id, name AS label FROM closed_periods"
    " WHERE org_id = :org AND id IN (:ids) AND valid_until IS NULL",
    "route": "SELECT id, name AS label FROM notification_routes WHERE org_id = :org AND id IN (:ids)",
    "run": "SELECT r.id, a.name AS label FROM runs AS r JOIN automations AS a"
    " ON a.org_id = r.org_id AND a.id = r.automation_id WHERE r.org_id = :org AND r.id IN (:ids)",
    "approval": "SELECT p.id, a.name AS label FROM approvals AS p JOIN automations AS a"
    " ON a.org_id = p.org_id AND a.id = p.automation_id WHERE p.org_id = :org AND p.id IN (:ids)",
}
_NUMBERED = frozenset({"person", "connection"})


async def labels(tx: Tx, org: OrgId, kind: str, ids: Collection[str]) -> dict[str, str]:
    """Returns the names of those `ids` that still exist; empty for a kind without names."""
    if kind not in _LABELS or not ids:
        return {}
    keys: list[object] = [int(key) for key in ids if key.isdigit()] if kind in _NUMBERED else list(ids)
    rows = await tx.all(_LABELS[kind], {"org": org, "ids": keys})
    return {str(row["id"]): str(row["label"]) for row in rows if row["label"]}
