"""The data of the web app's first screen: recent days, open failures, next runs, strips of runs."""

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from pydantic import Field

from steward.api.http.operation import Access, ApiCall, Operation, Response
from steward.api.schema.fields import CommaList, IdText, QueryParameters, ZoneText
from steward.api.schema.responses import Count, Instant, PositiveInt, RunStatusStr, UlidStr
from steward.api.v1.calendar import OccurrenceRecord, occurrence_record
from steward.api.v1.run_records import RunRecord
from steward.api.v1.run_records import record as run_record
from steward.database.automations import records as automations
from steward.database.engine.base import Tx
from steward.database.runs import latest, totals
from steward.database.runs.latest import StripRun
from steward.database.runs.totals import quarter_of
from steward.model.account import Role
from steward.model.ids import AutomationId, OrgId
from steward.model.instants import wire_time
from steward.model.occurrence import Occurrence, OccurrenceState
from steward.model.refusals import Unavailable, ValidationFailed
from steward.occurrences import calendar
from steward.occurrences.calendar import CalendarPageQuery
from steward.run_queue import totals as run_totals
from steward.scheduling.zones import NO_SUCH_ZONE, instant_of, zone

_DAYS = 7
_MAX_FAILURES = 50
_MAX_NEXT = 10
_MAX_STRIPS = 50
_CHANGES_DAYS = 30
_FAILED_WITHIN = timedelta(days=30)
_NEXT_RUNS_WITHIN = timedelta(hours=24)
_MAX_COMING = 300


class OverviewQuery(QueryParameters):
    """The zone whose days are counted: the viewer's."""

    timezone: Annotated[ZoneText, Field(max_length=64)] = "UTC"


class StripsQuery(QueryParameters):
    """Query parameters: the automations whose strips to return."""

    automation_ids: Annotated[list[IdText], CommaList, Field(min_length=1, max_length=_MAX_STRIPS)]


class DayRecord(msgspec.Struct):
    """The live runs queued on one day, by how they ended, and the changes they made or left alone."""

    day: str
    since: Instant = msgspec.field(name="from")
    until: Instant = msgspec.field(name="to")
    succeeded: Count
    waiting: Count
    failed: Count
    stopped: Count
    changes_made: Count
    left_alone: Count


class FailureRecord(msgspec.Struct):
    """The newest run of an automation, which failed; `connection_checking`: its store is being checked."""

    run: RunRecord
    failures_in_row: Count
    store_label: str
    integration_id: PositiveInt | None
    connection_name: str | None
    connection_checking: bool


class NextRunRecord(msgspec.Struct):
    """The next run of an automation, and how many more follow on the same day; None: too many to count."""

    occurrence: OccurrenceRecord
    store_label: str
    cadence: str
    more_today: Count | None


class OverviewResponse(msgspec.Struct):
    """The overview; `complete` is false while runs of the past are still being added up."""

    complete: bool
    days: list[DayRecord]
    failures: list[FailureRecord]
    more_failures: bool
    next: list[NextRunRecord]
    more_next: bool


class StripRunRecord(msgspec.Struct):
    """One of the last runs of an automation."""

    id: UlidStr
    status: RunStatusStr
    at: Instant


class StripRecord(msgspec.Struct):
    """The last live runs of an automation, oldest first, and the changes it made in 30 days."""

    automation_id: UlidStr
    runs: list[StripRunRecord]
    changes_made: Count


class StripsResponse(msgspec.Struct):
    """Strips of the automations that there are; `changes_from` is the first instant that is counted."""

    strips: list[StripRecord]
    changes_from: Instant
    complete: bool


async def keep_totals(call: ApiCall) -> bool:
    """Adds up the finished runs since the last call; returns False if that is unfinished or impossible."""
    try:
        return await run_totals.add_up_ended(call.context.engine, call.context.clock, call.actor.org)
    except Unavailable:
        return False


async def get(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/overview`."""
    query: OverviewQuery = call.query
    tz = zone(query.timezone)
    if tz is None:
        raise ValidationFailed(errors={"timezone": [NO_SUCH_ZONE]})
    org = call.actor.org
    failures = await latest.unmended(tx, org, since=tx.now - _FAILED_WITHIN, limit=_MAX_FAILURES + 1)
    coming, more_next = await _next(tx, org, tz)
    return OverviewResponse(
        complete=bool(call.prepared),
        days=await _days(tx, org, tz) if call.prepared else [],
        failures=[
            FailureRecord(
                run_record(failure.run),
                failure.failures,
                failure.store_label,
                failure.integration,
                failure.connection,
                failure.is_checking,
            )
            for failure in failures[:_MAX_FAILURES]
        ],
        more_failures=len(failures) > _MAX_FAILURES,
        next=coming,
        more_next=more_next,
    )


async def _days(tx: Tx, org: OrgId, tz: ZoneInfo) -> list[DayRecord]:
    """Returns the counts of runs and changes on each of the last seven days of a zone, today last."""
    today = tx.now.astimezone(tz).date()
    days = [today - timedelta(days=ago) for ago in range(_DAYS - 1, -2, -1)]
    bounds = [quarter_of(instant_of(day, time(0), tz)[0]) for day in days]
    return [
        DayRecord(
            day=day.isoformat(),
            since=wire_time(since),
            until=wire_time(until),
            succeeded=counted.succeeded,
            waiting=counted.waiting,
            failed=counted.failed,
            stopped=counted.stopped,
            changes_made=counted.applied,
            left_alone=counted.conflicts,
        )
        for day, since, until, counted in zip(
            days, bounds, bounds[1:], await totals.by_days(tx, org, bounds), strict=False
        )
    ]


async def _next(tx: Tx, org: OrgId, tz: ZoneInfo) -> tuple[list[NextRunRecord], bool]:
    """Returns each automation's next run within 24 hours, soonest first, and whether there are more."""
    query = CalendarPageQuery(
        limit=_MAX_COMING, since=tx.now, until=tx.now + _NEXT_RUNS_WITHIN, states=[OccurrenceState.PENDING]
    )
    page = await calendar.page(tx, org, query)
    by_automation: dict[AutomationId, list[Occurrence]] = {}
    for row in page.rows:
        by_automation.setdefault(row.automation_id, []).append(row)
    soonest = list(by_automation.items())[:_MAX_NEXT]
    automations_by_id = await automations.among(tx, org, [automation for automation, _ in soonest])
    records = [
        NextRunRecord(
            occurrence_record(rows[0]),
            automations_by_id[automation].store_label,
            automations_by_id[automation].schedule.cadence.value,
            None if page.has_more else _later_that_day(rows, tz, tx.now),
        )
        for automation, rows in soonest
    ]
    return records, len(by_automation) > _MAX_NEXT


def _later_that_day(rows: Sequence[Occurrence], tz: ZoneInfo, now: datetime) -> int:
    today = now.astimezone(tz).date()
    return sum(row.run_at.astimezone(tz).date() == today for row in rows[1:])


async def strips(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/automations/strips`; ids of other organizations are left out."""
    query: StripsQuery = call.query
    org = call.actor.org
    automations_by_id = await automations.among(tx, org, [AutomationId(id_) for id_ in query.automation_ids])
    runs = await latest.strips(tx, org, list(automations_by_id))
    since = tx.now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=_CHANGES_DAYS)
    changes_by_automation = await totals.changes_made(tx, org, list(automations_by_id), since=since)
    records = [
        StripRecord(
            automation, [_strip_run(run) for run in runs[automation]], changes_by_automation[automation]
        )
        for automation in automations_by_id
    ]
    return StripsResponse(records, wire_time(since), bool(call.prepared))


def _strip_run(run: StripRun) -> StripRunRecord:
    return StripRunRecord(run.id, run.status.value, wire_time(run.queued_at))


OPERATIONS = (
    Operation(
        method="GET",
        name="overview.get",
        path="/app/overview",
        access=Access.APP,
        role=Role.MEMBER,
        function=get,
        prepare=keep_totals,
        query=OverviewQuery,
        response=OverviewResponse,
        summary="Sum up the last days and what comes next",
    ),
    Operation(
        method="GET",
        name="automations.list_strips",
        path="/app/automations/strips",
        access=Access.APP,
        role=Role.MEMBER,
        function=strips,
        prepare=keep_totals,
        query=StripsQuery,
        response=StripsResponse,
        summary="List the last runs of automations",
    ),
)
