"""The search over automations, runs, approvals, what runs changed, and connections."""

from collections.abc import Collection, Sequence

import msgspec

from steward.api.app import run_search
from steward.api.http.operation import Access, ApiCall, Operation, Response
from steward.api.schema.fields import QueryParameters, SearchText
from steward.api.schema.responses import (
    ApprovalStatusStr,
    AutomationStateStr,
    ConnectionStateStr,
    Count,
    Instant,
    ModeStr,
    Name,
    Platform,
    PositiveInt,
    RunStatusStr,
    UlidStr,
)
from steward.database.accounts import connections
from steward.database.engine.base import Row, Tx
from steward.database.runs import approvals, search_hits, search_terms
from steward.database.runs.search_terms import WordPlace
from steward.model.account import Role
from steward.model.approval import Approval
from steward.model.ids import OrgId, RunId
from steward.model.instants import wire_time, wire_time_of
from steward.search.words import begins_words_of, id_beginning, query_words

_MAX_HITS = 20
# The number of runs whose approvals are looked up.
_MAX_APPROVAL_RUNS = 200
# The number of names read that contain the text anywhere; only those where it begins a word are hits.
_MAX_NAMED = 200


class SearchQuery(QueryParameters):
    """Query parameters: prefixes of words, or of a run's id."""

    q: SearchText


class AutomationHit(msgspec.Struct):
    """An automation whose name has the words."""

    id: UlidStr
    name: Name
    state: AutomationStateStr
    store_label: str


class RunHit(msgspec.Struct):
    """A run: by its id, or by an object that it proposed to change, which `object_label` then names."""

    id: UlidStr
    automation_name: Name
    status: RunStatusStr
    mode: ModeStr
    message: str | None
    queued_at: Instant
    object_type: str | None
    object_label: str | None


class ApprovalHit(msgspec.Struct):
    """A pending approval of an automation or an object with the words."""

    id: UlidStr
    automation_name: Name
    store_label: str
    status: ApprovalStatusStr
    total: Count
    expires_at: Instant


class ConnectionHit(msgspec.Struct):
    """A connection whose name or address has the words."""

    integration_id: PositiveInt
    kind: Platform
    name: str
    state: ConnectionStateStr


class SearchResponse(msgspec.Struct):
    """At most 20 hits of each kind; `changes` are runs by what they proposed to change, newest first."""

    automations: list[AutomationHit]
    runs: list[RunHit]
    changes: list[RunHit]
    more_changes: bool
    approvals: list[ApprovalHit]
    connections: list[ConnectionHit]


async def find(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/search`."""
    query: SearchQuery = call.query
    org, words = call.actor.org, query_words(query.q)
    if not words:
        return SearchResponse([], [], [], False, [], [])
    named = [
        automation
        for automation in await search_hits.automations_named(tx, org, words, limit=_MAX_NAMED)
        if begins_words_of(automation.name, words)
    ][:_MAX_HITS]
    matches = await search_terms.matches(tx, org, words, before=None)
    newest = list(matches.places_by_run)
    by_id = await _runs_by_id(tx, org, query.q)
    waiting = await search_hits.waiting_runs(tx, org, [automation.id for automation in named])
    asking = [*waiting, *(RunId(row["id"]) for row in by_id), *newest[:_MAX_APPROVAL_RUNS]]
    return SearchResponse(
        automations=[
            AutomationHit(automation.id, automation.name, automation.state, automation.store_label)
            for automation in named
        ],
        runs=[_run_hit(row, None) for row in by_id],
        changes=await _changes(
            tx, org, {run: matches.places_by_run[run] for run in newest[:_MAX_HITS]}, words
        ),
        more_changes=len(newest) > _MAX_HITS or matches.read_to is not None,
        approvals=[
            _approval_hit(row) for row in await approvals.pending_of(tx, org, asking, limit=_MAX_HITS)
        ],
        connections=await _connections(tx, org, words),
    )


async def _runs_by_id(tx: Tx, org: OrgId, text: str) -> list[Row]:
    beginning = id_beginning(text)
    if beginning is None:
        return []
    runs = await search_hits.by_id(tx, org, beginning, before=None, limit=_MAX_HITS)
    rows = await search_hits.runs_of(tx, org, runs)
    return [rows[run] for run in runs]


async def _changes(
    tx: Tx, org: OrgId, places_by_run: dict[RunId, Sequence[WordPlace]], words: Sequence[str]
) -> list[RunHit]:
    """Returns a hit for each run, with the object that matches the most words."""
    objects = await search_terms.objects(
        tx, org, {word_place for places in places_by_run.values() for word_place in places}
    )
    rows = await search_hits.runs_of(tx, org, list(places_by_run))
    return [
        _run_hit(
            rows[run], _best([objects[word_place] for word_place in places if word_place in objects], words)
        )
        for run, places in places_by_run.items()
        if run in rows
    ]


def _best(objects: Collection[tuple[str, str]], words: Sequence[str]) -> tuple[str, str] | None:
    return max(
        objects,
        key=lambda label_and_text: sum(begins_words_of(label_and_text[1], [word]) for word in words),
        default=None,
    )


def _run_hit(row: Row, label_and_text: tuple[str, str] | None) -> RunHit:
    object_type, label = label_and_text or (None, None)
    return RunHit(
        row["id"],
        row["automation_name"],
        row["status"],
        row["mode"],
        row["message"],
        wire_time_of(row["queued_at"]),
        object_type,
        label,
    )


def _approval_hit(approval: Approval) -> ApprovalHit:
    total = approval.counts["total"]
    assert isinstance(total, int)
    return ApprovalHit(
        approval.id,
        approval.automation_name,
        approval.store_label,
        approval.status,
        total,
        wire_time(approval.expires_at),
    )


async def _connections(tx: Tx, org: OrgId, words: Sequence[str]) -> list[ConnectionHit]:
    return [
        ConnectionHit(connection.integration_id, connection.kind, connection.name, connection.state)
        for connection in await connections.find(tx, org)
        if begins_words_of(f"{connection.name} {connection.domain or ''} {connection.kind}", words)
    ][:_MAX_HITS]


OPERATIONS = (
    Operation(
        name="search.find",
        method="GET",
        path="/app/search",
        access=Access.APP,
        role=Role.MEMBER,
        query=SearchQuery,
        function=find,
        response=SearchResponse,
        summary="Search automations, runs, changes, approvals and connections",
    ),
    *run_search.OPERATIONS,
)
