"""A template's own memory per automation; written only with the checkpoint of a live run's step."""

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import NamedTuple

from steward.database.engine.base import Json, Tx, ms, to_column
from steward.database.engine.bulk import BulkInsert
from steward.model.ids import AutomationId, OrgId, RunId
from steward.model.json import JsonValue

_REMEMBER = BulkInsert(
    "memory",
    {
        "org_id": "bigint",
        "automation_id": "text",
        "space": "text",
        "key": "text",
        "value": "text",
        "run_id": "text",
        "updated_at": "bigint",
    },
    "ON CONFLICT (org_id, automation_id, space, key) DO UPDATE"
    " SET value = excluded.value, run_id = excluded.run_id, updated_at = excluded.updated_at",
)


class MemoryKey(NamedTuple):
    """The key of a remembered value, within its space."""

    space: str
    name: str


async def of_space(tx: Tx, org: OrgId, automation: AutomationId, space: str) -> dict[str, JsonValue]:
    """Returns everything remembered in one space."""
    rows = await tx.all(
        "SELECT key, value FROM memory"
        " WHERE org_id = :org AND automation_id = :automation AND space = :space",
        {"org": org, "automation": automation, "space": space},
    )
    return {row["key"]: json.loads(row["value"]) for row in rows}


async def of_template(tx: Tx, org: OrgId, template_id: str, space: str) -> dict[str, JsonValue]:
    """Returns values like `of_space`, for all automations of a template; the newest value of a key wins."""
    rows = await tx.all(
        "SELECT m.key, m.value FROM memory AS m"
        " JOIN automations AS a ON a.org_id = m.org_id AND a.id = m.automation_id"
        " WHERE m.org_id = :org AND a.template_id = :template AND m.space = :space"
        " ORDER BY m.updated_at",
        {"org": org, "template": template_id, "space": space},
    )
    return {row["key"]: json.loads(row["value"]) for row in rows}


async def values(
    tx: Tx, org: OrgId, automation: AutomationId, keys: Iterable[MemoryKey]
) -> dict[MemoryKey, JsonValue]:
    """Returns the values stored under `keys`; keys without a value are absent."""
    remembered: dict[MemoryKey, JsonValue] = {}
    for space, names in _names_by_space(keys):
        rows = await tx.all(
            "SELECT key, value FROM memory"
            " WHERE org_id = :org AND automation_id = :automation AND space = :space AND key IN (:names)",
            {"org": org, "automation": automation, "space": space, "names": names},
        )
        remembered |= {MemoryKey(space, row["key"]): json.loads(row["value"]) for row in rows}
    return remembered


async def write(
    tx: Tx, org: OrgId, automation: AutomationId, values_by_key: Mapping[MemoryKey, JsonValue], *, run: RunId
) -> None:
    """Stores the values of `run`; None removes the value of a key."""
    forgotten = (key for key, value in values_by_key.items() if value is None)
    for space, names in _names_by_space(forgotten):
        await tx.execute(
            "DELETE FROM memory"
            " WHERE org_id = :org AND automation_id = :automation AND space = :space AND key IN (:names)",
            {"org": org, "automation": automation, "space": space, "names": names},
        )
    rows = (
        (org, automation, *key, to_column(Json(value), tx.dialect), run, ms(tx.now))
        for key, value in sorted(values_by_key.items(), key=itemgetter(0))
        if value is not None
    )
    await _REMEMBER.insert(tx, rows)


def _names_by_space(keys: Iterable[MemoryKey]) -> list[tuple[str, list[str]]]:
    spaces = groupby(sorted(keys), key=attrgetter("space"))
    return [(space, [key.name for key in in_space]) for space, in_space in spaces]
