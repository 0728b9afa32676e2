"""Checks whether the organization has the record in a path, for requests that are malformed."""

from collections.abc import Mapping

from steward.database.engine.base import Tx
from steward.model.ids import OrgId

_EXISTS: Mapping[str, str] = {
    "automation_id": "SELECT 1 AS found FROM automations WHERE org_id = :org AND id = :value",
    "run_id": "SELECT 1 AS found FROM runs WHERE org_id = :org AND id = :value",
    "approval_id": "SELECT 1 AS found FROM approvals WHERE org_id = :org AND id = :value",
    "import_id": "SELECT 1 AS found FROM imports WHERE org_id = :org AND id = :value",
    "period_id": "SELECT 1 AS found FROM closed_periods WHERE org_id = :org AND id = :value",
    "integration_id": "SELECT 1 AS found FROM connections WHERE org_id = :org AND integration_id = :value",
    "route_id": "SELECT 1 AS found FROM notification_routes WHERE org_id = :org AND id = :value",
    "message_id": "SELECT 1 AS found FROM messages WHERE org_id = :org AND id = :value",
    "user_id": "SELECT 1 AS found FROM members WHERE org_id = :org AND person_id = :value",
}


async def exists(tx: Tx, org: OrgId, name: str, value: str) -> bool:
    """Returns whether the record that the path parameter `name` identifies exists; True for other names."""
    sql = _EXISTS.get(name)
    if sql is None:
        return True
    record_id = int(value) if name in ("integration_id", "user_id") else value
    return await tx.first(sql, {"org": org, "value": record_id}) is not None
