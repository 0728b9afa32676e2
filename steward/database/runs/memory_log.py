"""The values that a run's changes replaced in the memory of its automation."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from steward.database.engine.base import Json, Tx, to_column
from steward.database.engine.bulk import BulkInsert
from steward.model.ids import OrgId, RunId
from steward.model.json import JsonValue
from steward.model.undo import RememberedValue

_INSERT = BulkInsert(
    "memory_log",
    {
        "org_id": "bigint",
        "run_id": "text",
        "name": "text",
        "iteration": "text",
        "seq": "bigint",
        "position": "bigint",
        "space": "text",
        "key": "text",
        "before_value": "text",
        "after_value": "text",
    },
    "ON CONFLICT (org_id, run_id, name, iteration, position, space, key)"
    " DO UPDATE SET after_value = excluded.after_value",
)


@dataclass(frozen=True, slots=True)
class StepPlace:
    """A step execution of a run; `seq` is the row of the journal that writes its memory."""

    run: RunId
    name: str
    iteration: str
    seq: int


async def insert(
    tx: Tx, org: OrgId, step: StepPlace, replaced: Iterable[tuple[int, RememberedValue]]
) -> None:
    """Stores the values that changes of `step` replace, each with the position of its change."""
    rows = (
        (
            org,
            step.run,
            step.name,
            step.iteration,
            step.seq,
            position,
            value.space,
            value.key,
            _column(value.before, tx),
            _column(value.after, tx),
        )
        for position, value in replaced
    )
    await _INSERT.insert(tx, rows)


def _column(value: JsonValue, tx: Tx) -> object:
    return None if value is None else to_column(Json(value), tx.dialect)


async def of_run(tx: Tx, org: OrgId, run: RunId) -> dict[tuple[str, str, int], tuple[RememberedValue, ...]]:
    """Returns the values that a run's changes stored in the automation's memory, and those they replaced.

    The keys are execution and position.
    """
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
