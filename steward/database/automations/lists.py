"""Lists of automations; a page costs the same however many automations exist, match, or precede it.

States, kinds, sources and triggers are read from an index in the order of the list. A filter that few
automations match is read from its own index and sorted. Otherwise the list is read in its order, and a page
ends after MAX_SCANNED rows, whether it is full or not.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from steward.database.automations.records import COLUMNS, record
from steward.database.engine.base import PerEngine, Tx, ms
from steward.model.automation import Automation, AutomationKind, AutomationState, facets
from steward.model.ids import AutomationId, IntegrationId, OrgId
from steward.model.trigger import TriggerKind

# Rows that a page reads at most, and matches of a filter that are read from its index at most.
MAX_SCANNED = 1_000
_MAX_CHOSEN = 500
# Rows to read at first for each row of the page.
_SCANNED_FIRST = 4


class Sort(StrEnum):
    """The orders a list may have."""

    OLDEST = "created_at"
    NEWEST = "-created_at"
    NAME = "name"
    NEXT_RUN = "next_run_at"


@dataclass(frozen=True, slots=True)
class AutomationFilter:
    """The filter of a list of automations."""

    states: Collection[AutomationState] = ()
    kind: AutomationKind | None = None
    template_id: str | None = None
    platform: str | None = None
    integration_id: IntegrationId | None = None
    trigger: TriggerKind | None = None
    source: str | None = None
    q: str | None = None
    updated_since: datetime | None = None


# The part of a row that a cursor stores: the sort value and the id.
SortKey = tuple[int | str | None, str]


@dataclass(frozen=True, slots=True)
class AutomationPage:
    """A page of a list, and the key that the next page comes after; None at the end of the list."""

    automations: list[Automation]
    next_key: SortKey | None


_ORDERS = {
    Sort.OLDEST: "a.created_at, a.id",
    Sort.NEWEST: "a.created_at DESC, a.id DESC",
    Sort.NAME: "a.name_folded, a.id",
    Sort.NEXT_RUN: "s.next_run_at IS NULL, s.next_run_at, a.id",
}
_AFTER = {
    Sort.OLDEST: "(a.created_at, a.id) > (:after, :after_id)",
    Sort.NEWEST: "(a.created_at, a.id) < (:after, :after_id)",
    Sort.NAME: "(a.name_folded, a.id) > (:after, :after_id)",
    Sort.NEXT_RUN: "(s.next_run_at IS NULL OR (s.next_run_at, a.id) > (:after, :after_id))",
}
# Reads automations by their ids, with all other filters.
_OF_IDS = PerEngine(
    "FROM json_each(:ids) AS r CROSS JOIN automations AS a CROSS JOIN schedules AS s"
    " WHERE a.id = r.value AND s.org_id = a.org_id AND s.automation_id = a.id AND",
    "FROM unnest(CAST(:ids AS text[])) AS r(id)"
    " CROSS JOIN LATERAL (SELECT * FROM automations WHERE org_id = :org AND id = r.id OFFSET 0) AS a"
    " CROSS JOIN LATERAL (SELECT * FROM schedules WHERE org_id = :org AND automation_id = r.id OFFSET 0) AS s"
    " WHERE",
)
# Automations without a next run come last in the list by next run.
_AFTER_NULL = "(s.next_run_at IS NULL AND a.id > :after_id)"


async def find(
    tx: Tx, org: OrgId, query: AutomationFilter, *, sort: Sort, limit: int, after: SortKey | None = None
) -> AutomationPage:
    """Returns the page of at most `limit` automations after the key `after`.

    When few of the rows read match, a page can hold fewer automations, or none, without being the last.
    """
    chosen_facets = facets(query.states, query.kind, query.source, query.trigger)
    if not chosen_facets:
        return AutomationPage([], None)
    conditions, args = _conditions(query)
    ids = await _rarest_matches(tx, org, query)
    if ids is not None:
        matches = await _matches(
            tx,
            args | {"org": org, "ids": ids, "facets": chosen_facets, "limit": limit + 1} | _after_args(after),
            [*conditions, "a.facet IN (:facets)", *_after_condition(sort, after)],
            sort,
        )
        return _page(matches, sort, limit)
    if sort is Sort.NEXT_RUN:  # the index by next run does not contain facets
        conditions.append("a.facet IN (:facets)")
        args["facets"] = chosen_facets
    matches = []
    scanned, size = 0, (_SCANNED_FIRST if conditions else 1) * limit + 1
    while len(matches) <= limit and scanned < MAX_SCANNED:
        keys = await _keys(tx, org, chosen_facets, sort=sort, limit=size, after=after)
        if keys:
            page_args = {"org": org, "ids": [key[1] for key in keys], "limit": limit + 1 - len(matches)}
            matches += await _matches(tx, args | page_args, conditions, sort)
        if len(keys) < size:
            return _page(matches, sort, limit)
        after = keys[-1]
        scanned += size
        size = min(2 * size, MAX_SCANNED - scanned)
    return _page(matches, sort, limit, after)


async def _keys(
    tx: Tx, org: OrgId, chosen_facets: Collection[int], *, sort: Sort, limit: int, after: SortKey | None
) -> list[SortKey]:
    """Returns the next keys of a list in its order, after `after`; by next run, with those of every facet."""
    args = _after_args(after) | {"org": org, "limit": limit, "facets": list(chosen_facets)}
    if sort is not Sort.NEXT_RUN:
        return [
            (row["value"], row["id"])
            for row in await tx.all(list_statement(chosen_facets, sort, after), args)
        ]
    rows = []
    if after is None or after[0] is not None:
        condition = "(s.next_run_at, s.automation_id) > (:after, :after_id)"
        rows += await tx.all(_next_runs("IS NOT NULL", condition, after), args)
        after = None
    if len(rows) < limit:
        condition = "s.automation_id > :after_id"
        rows += await tx.all(_next_runs("IS NULL", condition, after), args | {"limit": limit - len(rows)})
    return [(row["value"], row["id"]) for row in rows]


def sort_key(automation: Automation, sort: Sort) -> SortKey:
    """Returns the key of `automation` in a list sorted by `sort`."""
    match sort:
        case Sort.NAME:
            return automation.name.casefold(), automation.id
        case Sort.NEXT_RUN:
            due = automation.next_run_at
            return (None if due is None else ms(due)), automation.id
        case Sort.OLDEST | Sort.NEWEST:
            return ms(automation.created_at), automation.id


def _page(
    matches: list[Automation], sort: Sort, limit: int, next_key: SortKey | None = None
) -> AutomationPage:
    """Returns the page of the first `limit` matches; if there are more, the next page follows its last."""
    page = matches[:limit]
    return AutomationPage(page, sort_key(page[-1], sort) if len(matches) > limit else next_key)


async def _matches(
    tx: Tx, args: dict[str, object], conditions: Collection[str], sort: Sort
) -> list[Automation]:
    end = f"{' AND '.join(['a.org_id = :org', *conditions])} ORDER BY {_ORDERS[sort]} LIMIT :limit"
    rows = await tx.all(PerEngine(*(f"SELECT {COLUMNS} {text} {end}" for text in _OF_IDS)), args)
    return [record(row) for row in rows]


async def _rarest_matches(tx: Tx, org: OrgId, query: AutomationFilter) -> list[AutomationId] | None:
    """Returns all automations that match the rarest filter; None when every filter may match many."""
    for value, conditions in (
        (query.updated_since, ["a.updated_at >= :value"]),
        (query.integration_id, ["a.integration_id = :value", "a.connections <> '[]'"]),
        (query.template_id, ["a.template_id = :value"]),
        (query.platform, ["a.platform = :value"]),
    ):
        if value is None:
            continue
        ids: dict[AutomationId, None] = {}
        for condition in conditions:
            rows = await tx.all(
                f"SELECT a.id FROM automations AS a WHERE a.org_id = :org AND {condition} LIMIT :limit",
                {"org": org, "value": value, "limit": _MAX_CHOSEN + 1},
            )
            ids.update((AutomationId(row["id"]), None) for row in rows)
        if len(ids) <= _MAX_CHOSEN:
            return list(ids)
    return None


def list_statement(chosen_facets: Collection[int], sort: Sort, after: SortKey | None = None) -> PerEngine:
    """Returns the statement that reads `value` and `id` in the order of a list, except by next run."""
    # As in lists of runs: SQLite merges the facets, PostgreSQL, where planning costs, has one plan for all.
    column = "name_folded" if sort is Sort.NAME else "created_at"
    direction = " DESC" if sort is Sort.NEWEST else ""
    order = f"ORDER BY value{direction}, id{direction} LIMIT :limit"
    later = "".join(f" AND {condition}" for condition in _after_condition(sort, after))
    facet_sql = (
        f"SELECT a.{column} AS value, a.id FROM automations AS a WHERE a.org_id = :org{later} AND a.facet ="
    )
    return PerEngine(
        " UNION ALL ".join(f"{facet_sql} {facet}" for facet in chosen_facets) + f" {order}",
        "SELECT part.value, part.id FROM unnest(CAST(:facets AS smallint[])) AS f(facet)"
        f" CROSS JOIN LATERAL ({facet_sql} f.facet ORDER BY {_ORDERS[sort]} LIMIT :limit) AS part {order}",
    )


def _next_runs(presence: str, later: str, after: SortKey | None) -> str:
    return (
        "SELECT s.next_run_at AS value, s.automation_id AS id FROM schedules AS s"
        f" WHERE s.org_id = :org AND s.next_run_at {presence}{'' if after is None else f' AND {later}'}"
        " ORDER BY s.next_run_at, s.automation_id LIMIT :limit"
    )


def _after_condition(sort: Sort, after: SortKey | None) -> list[str]:
    if after is None:
        return []
    return [_AFTER[sort] if after[0] is not None else _AFTER_NULL]


def _after_args(after: SortKey | None) -> dict[str, object]:
    return {} if after is None else {"after": after[0], "after_id": after[1]}


def _conditions(query: AutomationFilter) -> tuple[list[str], dict[str, object]]:
    """Returns the conditions that no index answers in the order of the list, with their arguments."""
    conditions: list[str] = []
    args: dict[str, object] = {}
    for condition, name, value in (
        ("a.template_id = :template", "template", query.template_id),
        ("a.platform = :platform", "platform", query.platform),
        ("a.updated_at >= :since", "since", query.updated_since),
        ("a.name_folded LIKE :q ESCAPE '!'", "q", None if query.q is None else _containing(query.q)),
    ):
        if value is not None:
            conditions.append(condition)
            args[name] = value
    if query.integration_id is not None:  # runs on the connection, or reads it
        conditions.append("(a.integration_id = :integration OR a.connections LIKE :reads)")
        args["integration"] = query.integration_id
        args["reads"] = f'%"integration_id":{query.integration_id},%'
    return conditions, args


def _containing(text: str) -> str:
    """Returns the LIKE pattern, with `!` as its escape, for names that contain `text`."""
    plain = text.casefold()
    for special in "!%_":
        plain = plain.replace(special, f"!{special}")
    return f"%{plain}%"
