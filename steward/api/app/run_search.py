"""Searches runs by store and by words of their changes, and lists the changes a run made in part.

Only the web app has these filters.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from steward.api.http.operation import Access, ApiCall, Operation, Response
from steward.api.schema.fields import QueryInt, SearchText
from steward.api.schema.responses import Cursor, UlidStr
from steward.api.v1.run_list import RunsQuery, filter_of, page_of
from steward.api.v1.run_records import RunRecord, record_of_row
from steward.database.engine.base import Row, Tx
from steward.database.runs import records as runs
from steward.database.runs import run_lists, search_hits, search_terms, undos
from steward.database.runs.run_lists import RunFilter
from steward.database.runs.search_terms import MAX_RUNS
from steward.model.account import Role
from steward.model.ids import IntegrationId, OrgId, RunId, first_id
from steward.model.refusals import ValidationFailed
from steward.search.words import id_beginning, query_words

# The number of reads per call to fill a page; after that, the page is returned with a cursor.
_MAX_READS = 5
# A run's id and its `queued_at` may differ by this much, because they come from two clocks.
_CLOCKS = timedelta(hours=1)


class SearchedRunsQuery(RunsQuery):
    """Query parameters of a search for runs; `q`: prefixes of words in their changes, or of their id."""

    integration_id: QueryInt | None = None
    q: SearchText | None = None


class SearchedRunsResponse(msgspec.Struct):
    """A page of runs, and the name of the store of each by the run's id."""

    runs: list[RunRecord]
    store_labels: Mapping[UlidStr, str]
    next_cursor: Cursor | None


class PartlyMadeResponse(msgspec.Struct):
    """The failed changes of a run of which a part was written, in their order; at most 5,000."""

    change_ids: list[UlidStr]


async def find(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/runs`, newest first. Refuses a filter by automation and store at once."""
    query: SearchedRunsQuery = call.query
    store = query.integration_id
    if store is not None and query.automation_id is not None:
        raise ValidationFailed(errors={"integration_id": ["Choose an automation or a store, not both."]})
    filters = filter_of(query, store=None if store is None else IntegrationId(store))
    if query.q is None:
        page = await page_of(tx, call, filters)
        return await _with_stores(tx, call, page.runs, page.next_cursor)
    rows, read_to = await _searched(tx, call, query, filters)
    page_rows = rows[: query.limit]
    last = page_rows[-1]["id"] if len(rows) > query.limit else read_to
    cursor = None if last is None else call.next_cursor([last])
    return await _with_stores(tx, call, [record_of_row(row) for row in page_rows], cursor)


async def _with_stores(tx: Tx, call: ApiCall, page: list[RunRecord], cursor: str | None) -> Response:
    labels = await run_lists.store_labels(tx, call.actor.org, [RunId(run.id) for run in page])
    return SearchedRunsResponse(page, {str(run): label for run, label in labels.items()}, cursor)


async def partly_made(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /app/runs/{runId}/partly-made` with failed changes that an undo can put back."""
    org, run = call.actor.org, RunId(call.ids["run_id"])
    await runs.automation_of(tx, org, run)
    return PartlyMadeResponse([str(change) for change in await undos.partly_made(tx, org, run)])


async def _searched(
    tx: Tx, call: ApiCall, query: SearchedRunsQuery, filters: RunFilter
) -> tuple[list[Row], RunId | None]:
    """Returns up to one row more than the page, and where the next page begins if this one is not full."""
    key = call.page_start()
    before = RunId(str(key[0])) if key else _first_run(query.until, _CLOCKS)
    oldest = _first_run(query.since, -_CLOCKS)
    rows: list[Row] = []
    limit = query.limit + 1
    for _ in range(_MAX_READS):
        runs, before = await _candidates(tx, call.actor.org, query.q or "", before, limit)
        rows += await _first_of(tx, call.actor.org, filters, runs, limit=query.limit + 1 - len(rows))
        limit = MAX_RUNS
        if before is None or (oldest is not None and before < oldest):
            return rows, None
        if len(rows) > query.limit:
            break
    return rows, before


async def _first_of(
    tx: Tx, org: OrgId, filters: RunFilter, runs: Sequence[RunId], *, limit: int
) -> list[Row]:
    """Returns the newest `limit` rows of `runs` that match the filter, newest first.

    Reads only as many rows as the page needs if every run matches.
    """
    rows: list[Row] = []
    start, count = 0, limit
    while start < len(runs) and len(rows) < limit:
        batch = runs[start : start + count]
        rows += await run_lists.among(tx, org, filters, batch, limit=limit - len(rows))
        start, count = start + count, count * 2
    return rows


async def _candidates(
    tx: Tx, org: OrgId, text: str, before: RunId | None, limit: int
) -> tuple[Sequence[RunId], RunId | None]:
    """Returns runs before `before` that match the text, and the last run read (None: all were read)."""
    beginning, words = id_beginning(text), query_words(text)
    if beginning is not None:
        runs = await search_hits.by_id(tx, org, beginning, before=before, limit=limit)
        if runs:
            return runs, runs[-1] if len(runs) == limit else None
    if not words:
        return [], None
    matches = await search_terms.matches(tx, org, words, before=before, limit=limit)
    return list(matches.places_by_run), matches.read_to


def _first_run(instant: datetime | None, later: timedelta) -> RunId | None:
    return None if instant is None else RunId(first_id(instant + later))


OPERATIONS = (
    Operation(
        name="runs.search",
        method="GET",
        path="/app/runs",
        access=Access.APP,
        role=Role.MEMBER,
        query=SearchedRunsQuery,
        function=find,
        response=SearchedRunsResponse,
        summary="Search runs",
    ),
    Operation(
        name="runs.list_partly_made",
        method="GET",
        path="/app/runs/{run_id}/partly-made",
        access=Access.APP,
        role=Role.MEMBER,
        function=partly_made,
        response=PartlyMadeResponse,
        summary="List the changes of a run that were made in part",
    ),
)
