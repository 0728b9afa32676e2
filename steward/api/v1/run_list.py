"""Lists of runs, by state, automation, time and text."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from steward.api.http.operation import ApiCall, Response
from steward.api.schema.fields import (
    CommaList,
    IdText,
    PageQuery,
    Timestamp,
)
from steward.api.v1.run_records import RunsResponse, record_of_row
from steward.database.engine.base import Tx
from steward.database.runs import run_lists
from steward.database.runs.run_lists import RunFilter
from steward.model.ids import AutomationId, IntegrationId, RunId
from steward.model.instants import read_time, wire_time_of
from steward.model.run import Mode, RunStatus, StartedBy


class RunsQuery(PageQuery):
    """Query parameters: which runs to list."""

    automation_id: IdText | None = None
    status: Annotated[list[RunStatus], CommaList] | None = None
    mode: Mode | None = None
    started_by: StartedBy | None = None
    since: Timestamp | None = Field(default=None, alias="from")
    until: Timestamp | None = Field(default=None, alias="to")
    undo_of: IdText | None = None


async def find(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /v1/automations/runs` with the runs, newest first.

    Another organization's automation matches nothing.
    """
    return await page_of(tx, call, filter_of(call.query))


def filter_of(query: RunsQuery, *, store: IntegrationId | None = None) -> RunFilter:
    """Returns the filters of a list of runs."""
    return RunFilter(
        store=store,
        automation=AutomationId(query.automation_id) if query.automation_id else None,
        statuses=query.status or (),
        mode=query.mode,
        started_by=query.started_by,
        since=query.since,
        until=query.until,
        undo_of=RunId(query.undo_of) if query.undo_of else None,
    )


async def page_of(tx: Tx, call: ApiCall, filters: RunFilter) -> RunsResponse:
    """Returns a page of the runs that match the filters, newest first."""
    query: RunsQuery = call.query
    key = call.page_start()
    after = (_instant(key[0]), RunId(str(key[1]))) if key else None
    rows = await run_lists.find(tx, call.actor.org, filters, limit=query.limit + 1, after=after)
    page = rows[: query.limit]
    more = len(rows) > query.limit
    cursor = call.next_cursor([wire_time_of(page[-1]["queued_at"]), page[-1]["id"]]) if more else None
    return RunsResponse([record_of_row(row) for row in page], cursor)


def _instant(text: object) -> datetime:
    """Parses an instant of a signed cursor."""
    instant = read_time(str(text))
    assert instant is not None
    return instant
