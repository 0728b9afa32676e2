"""Searches automations by name, runs by id, and waiting approvals."""

from collections.abc import Sequence
from dataclasses import dataclass

from steward.database.automations import lists
from steward.database.engine.base import PerEngine, Row, Tx
from steward.model.automation import facets
from steward.model.ids import AutomationId, OrgId, RunId

# The number of names that one search compares, in alphabetical order.
_MAX_NAMES = 5_000
_RUN = "runs.id, runs.automation_name, runs.status, runs.mode, runs.message, runs.queued_at"
_NAMES = lists.list_statement(facets(), lists.Sort.NAME)
_NAMED = (
    "SELECT a.id, a.name, a.state, a.store_label FROM ({names}) AS page"
    " JOIN automations AS a ON a.org_id = :org AND a.id = page.id WHERE {conditions}"
    " ORDER BY page.value, page.id LIMIT :hits"
)
_OF_IDS = PerEngine(
    f"SELECT {_RUN} FROM json_each(:runs) AS r CROSS JOIN runs"
    " WHERE runs.org_id = :org AND runs.id = r.value",
    f"SELECT {_RUN} FROM unnest(CAST(:runs AS text[])) AS r(id) CROSS JOIN LATERAL"
    " (SELECT * FROM runs WHERE runs.org_id = :org AND runs.id = r.id OFFSET 0) AS runs",
)


@dataclass(frozen=True, slots=True)
class NamedAutomation:
    """An automation as a search shows it."""

    id: AutomationId
    name: str
    state: str
    store_label: str


async def automations_named(tx: Tx, org: OrgId, words: Sequence[str], *, limit: int) -> list[NamedAutomation]:
    """Returns automations whose name contains each of `words`, in alphabetical order."""
    conditions, args = [], {}
    for number, word in enumerate(words):
        conditions.append(f"page.value LIKE :word_{number} ESCAPE '!'")
        args[f"word_{number}"] = "%" + "".join(f"!{char}" if char in "!%_" else char for char in word) + "%"
    text = PerEngine(*(_NAMED.format(names=names, conditions=" AND ".join(conditions)) for names in _NAMES))
    rows = await tx.all(text, {"org": org, "facets": facets(), "limit": _MAX_NAMES, "hits": limit, **args})
    return [
        NamedAutomation(AutomationId(row["id"]), row["name"], row["state"], row["store_label"])
        for row in rows
    ]


async def by_id(tx: Tx, org: OrgId, beginning: str, *, before: RunId | None, limit: int) -> list[RunId]:
    """Returns the newest runs, before `before`, whose id starts with `beginning`."""
    end = beginning + "~"
    rows = await tx.all(
        "SELECT runs.id FROM runs WHERE runs.org_id = :org AND runs.id >= :first AND runs.id < :end"
        " ORDER BY runs.id DESC LIMIT :limit",
        {"org": org, "first": beginning, "end": min(before or end, end), "limit": limit},
    )
    return [RunId(row["id"]) for row in rows]


async def runs_of(tx: Tx, org: OrgId, runs: Sequence[RunId]) -> dict[RunId, Row]:
    """Returns these runs by id."""
    rows = await tx.all(_OF_IDS, {"org": org, "runs": list(runs)})
    return {RunId(row["id"]): row for row in rows}


async def waiting_runs(tx: Tx, org: OrgId, automations: Sequence[AutomationId]) -> list[RunId]:
    """Returns the live runs of these automations that wait for approval."""
    rows = await tx.all(
        "SELECT runs.id FROM runs WHERE runs.org_id = :org AND runs.automation_id IN (:automations)"
        " AND runs.mode = 'live' AND runs.queue = 'parked' AND runs.status = 'waiting_approval'",
        {"org": org, "automations": list(automations)},
    )
    return [RunId(row["id"]) for row in rows]
