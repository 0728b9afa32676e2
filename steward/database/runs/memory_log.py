"""The values that a run's changes replaced in the memory of its automation."""

import json
from dataclasses import dataclass

from steward.database.engine.base import Json, Tx
from steward.model.ids import AutomationId, OrgId, RunId
from steward.model.json import JsonValue
from steward.model.undo import RememberedValue


@dataclass(frozen=True, slots=True)
class ChangePlace:
    """A change by its run, execution and position; `seq` is the row of the log that wrote its memory."""

    run: RunId
    name: str
    iteration: str
    position: int
    seq: int


async def insert(
    tx: Tx,
    org: OrgId,
    automation: AutomationId,
    change: ChangePlace,
    *,
    space: str,
    key: str,
    after: JsonValue,
) -> None:
    """Stores what is remembered under a key now, and what will be; call it before the value is written."""
    await tx.execute(
        "INSERT INTO memory_log (org_id, run_id, name, iteration, position, seq, space, key, before_value,"
        " after_value)"
        " SELECT :org, :run, :name, :iteration, :position, :seq, :space, :key,"
        " (SELECT m.value FROM memory AS m"
        " WHERE m.org_id = :org AND m.automation_id = :automation AND m.space = :space AND m.key = :key),"
        " :after WHERE true"
        " ON CONFLICT (org_id, run_id, name, iteration, position, space, key)"
        " DO UPDATE SET after_value = excluded.after_value",
        {
            "org": org,
            "run": change.run,
            "name": change.name,
            "iteration": change.iteration,
            "position": change.position,
            "seq": change.seq,
            "automation": automation,
            "space": space,
            "key": key,
            "after": None if after is None else Json(after),
        },
    )


async def of_run(tx: Tx, org: OrgId, run: RunId) -> dict[tuple[str, str, int], tuple[RememberedValue, ...]]:
    """Returns what the changes of a run made its automation remember, by execution and position."""
    rows = await tx.all(
        "SELECT name, iteration, position, space, key, before_value, after_value FROM memory_log"
        " WHERE org_id = :org AND run_id = :run ORDER BY seq, position, space, key",
        {"org": org, "run": run},
    )
    by_change: dict[tuple[str, str, int], tuple[RememberedValue, ...]] = {}
    for row in rows:
        change_key = (row["name"], row["iteration"], row["position"])
        remembered = RememberedValue(
            row["space"], row["key"], _value(row["before_value"]), _value(row["after_value"])
        )
        by_change[change_key] = (*by_change.get(change_key, ()), remembered)
    return by_change


def _value(stored: str | None) -> JsonValue:
    value: JsonValue = None if stored is None else json.loads(stored)
    return value
