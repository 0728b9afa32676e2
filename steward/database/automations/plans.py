"""Plans of workflow automations: one row per plan version, of which each run reads its own."""

import json
import zlib
from dataclasses import dataclass

from steward.database.engine.base import Tx
from steward.model.ids import AutomationId, OrgId
from steward.model.json import JsonObject


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A stored plan, and the bindings of its steps from that version on."""

    plan: JsonObject
    bindings: JsonObject


async def insert(
    tx: Tx, org: OrgId, automation: AutomationId, version: int, *, stored_plan: StoredPlan, sha256: str
) -> None:
    """Inserts the plan of a version."""
    text = json.dumps({"plan": stored_plan.plan, "bindings": stored_plan.bindings}, ensure_ascii=False)
    await tx.execute(
        "INSERT INTO plans (org_id, automation_id, plan_version, plan, sha256, created_at)"
        " VALUES (:org, :automation, :version, :plan, :sha256, :now)",
        {
            "org": org,
            "automation": automation,
            "version": version,
            "plan": zlib.compress(text.encode("utf-8", "surrogatepass"), 1),
            "sha256": sha256,
            "now": tx.now,
        },
    )


async def get(tx: Tx, org: OrgId, automation: AutomationId, version: int) -> StoredPlan | None:
    """Returns the plan of a version, or None."""
    row = await tx.first(
        "SELECT plan FROM plans WHERE org_id = :org AND automation_id = :automation"
        " AND plan_version = :version",
        {"org": org, "automation": automation, "version": version},
    )
    return None if row is None else _read(row["plan"])


async def newest(tx: Tx, org: OrgId, automation: AutomationId) -> StoredPlan | None:
    """Returns the newest plan of an automation, or None."""
    row = await tx.first(
        "SELECT plan FROM plans WHERE org_id = :org AND automation_id = :automation"
        " ORDER BY plan_version DESC LIMIT 1",
        {"org": org, "automation": automation},
    )
    return None if row is None else _read(row["plan"])


def _read(packed: bytes) -> StoredPlan:
    stored = json.loads(zlib.decompress(packed).decode("utf-8", "surrogatepass"))
    return StoredPlan(stored["plan"], stored["bindings"])
