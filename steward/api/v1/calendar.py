"""The calendar over HTTP: list coming runs, move, skip and un-skip one."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import AfterValidator, Field

from steward.api.http.operation import ApiCall, Operation, Response
from steward.api.schema.fields import (
    CommaList,
    CursorText,
    FromJson,
    IdText,
    NotNegative,
    Positive,
    QueryParameters,
    QueryPositive,
    RequestBody,
    Timestamp,
)
from steward.api.schema.responses import (
    Count,
    Cursor,
    Instant,
    Name,
    OccurrenceStateStr,
    PositiveInt,
    RunStatusStr,
    SkipReasonStr,
    UlidStr,
)
from steward.api.v1.automation_records import AutomationRecord, current, record
from steward.database.engine.base import Tx, from_ms, ms
from steward.model.account import Scope
from steward.model.ids import AutomationId, IntegrationId
from steward.model.instants import wire_time, wire_time_or_none
from steward.model.json import JsonValue
from steward.model.occurrence import Occurrence, OccurrenceState
from steward.model.refusals import StaleVersion, WrongState
from steward.occurrences import calendar, edit
from steward.occurrences.calendar import CalendarPage, CalendarPageQuery
from steward.occurrences.edit import MoveCommand, MoveScope
from steward.occurrences.slot import EditedOccurrence, SlotReference

_MAX_ROWS = 500


class ClosedByRecord(msgspec.Struct):
    """The closed period that leaves a run out; without id once the run's time has passed."""

    id: UlidStr | None
    name: str


class OccurrenceRecord(msgspec.Struct):
    """A coming run; only `closed_period` is optional: it names the period that omits the run."""

    automation_id: UlidStr
    automation_name: Name
    automation_version: PositiveInt
    timezone: str
    slot_at: Instant
    run_at: Instant
    state: OccurrenceStateStr
    reason: SkipReasonStr | None
    run_id: UlidStr | None
    run_status: RunStatusStr | None
    moved_from: Instant | None
    version: Count
    projected: bool
    closed_period: ClosedByRecord | UnsetType = UNSET


class OccurrencesResponse(msgspec.Struct):
    """A page of the calendar."""

    occurrences: list[OccurrenceRecord]
    next_cursor: Cursor | None


class EditedResponse(msgspec.Struct):
    """The coming run after the change, and the automation as it now is."""

    occurrence: OccurrenceRecord | None
    automation: AutomationRecord


def _limit(value: int) -> int:
    return min(value, _MAX_ROWS)


class CalendarQuery(QueryParameters):
    """Query parameters: which coming runs to list."""

    since: Timestamp | None = Field(default=None, alias="from")
    until: Timestamp | None = Field(default=None, alias="to")
    automation_id: IdText | None = None
    integration_id: QueryPositive | None = None
    state: Annotated[list[OccurrenceState], CommaList] = Field(default=[])
    limit: Annotated[QueryPositive, AfterValidator(_limit)] = 200
    cursor: CursorText | None = None


class SlotBody(RequestBody):
    """The coming run to change, and the versions last read."""

    slot_at: Timestamp
    occurrence_version: NotNegative
    automation_version: Positive


class MoveBody(SlotBody):
    """A move."""

    run_at: Timestamp
    scope: Annotated[MoveScope, FromJson]


def occurrence_record(occurrence: Occurrence) -> OccurrenceRecord:
    """Returns the API record of the occurrence."""
    slot_at = wire_time(occurrence.slot_at)
    return OccurrenceRecord(
        occurrence.automation_id,
        occurrence.automation_name,
        occurrence.automation_version,
        occurrence.timezone,
        slot_at,
        slot_at if occurrence.run_at == occurrence.slot_at else wire_time(occurrence.run_at),
        occurrence.state.value,
        None if occurrence.reason is None else occurrence.reason.value,
        occurrence.run_id,
        None if occurrence.run_status is None else occurrence.run_status.value,
        wire_time_or_none(occurrence.moved_from),
        occurrence.version,
        occurrence.is_projected,
        UNSET
        if occurrence.closed_name is None
        else ClosedByRecord(occurrence.closed_id, occurrence.closed_name),
    )


async def find(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /v1/automations/occurrences` with the calendar."""
    query: CalendarQuery = call.query
    key = call.page_start()
    page_query = CalendarPageQuery(
        limit=query.limit,
        since=query.since if key is None else _instant(key[3]),
        until=query.until if key is None else _instant(key[4]),
        automation=None if query.automation_id is None else AutomationId(query.automation_id),
        integration=None if query.integration_id is None else IntegrationId(query.integration_id),
        states=query.state,
        after=None if key is None else (_instant(key[0]), _instant(key[1]), str(key[2])),
    )
    page = await calendar.page(tx, call.actor.org, page_query)
    return OccurrencesResponse(
        [occurrence_record(row) for row in page.rows],
        call.next_cursor(_key(page)) if page.has_more else None,
    )


def _key(page: CalendarPage) -> list[JsonValue]:
    """Returns the sort key of the last row and the range, so that following pages keep the range."""
    run_at, slot_at, automation = calendar.calendar_key(page.rows[-1])
    return [ms(run_at), ms(slot_at), automation, ms(page.since), ms(page.until)]


def _instant(milliseconds: JsonValue) -> datetime:
    return from_ms(int(str(milliseconds)))


async def move(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /v1/automations/{automationId}/occurrences/move`."""
    body: MoveBody = call.body
    command = MoveCommand(_slot(call), body.run_at, body.scope)
    return _response(await edit.move(tx, call.actor, command, rules=call.context.automation_rules))


async def skip(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /v1/automations/{automationId}/occurrences/skip`."""
    return _response(await edit.skip(tx, call.actor, _slot(call)))


async def unskip(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /v1/automations/{automationId}/occurrences/unskip`."""
    return _response(await edit.unskip(tx, call.actor, _slot(call)))


def _slot(call: ApiCall) -> SlotReference:
    body: SlotBody = call.body
    return SlotReference(
        AutomationId(call.ids["automation_id"]),
        body.slot_at,
        body.occurrence_version,
        body.automation_version,
    )


def _response(edited: EditedOccurrence) -> EditedResponse:
    return EditedResponse(occurrence_record(edited.occurrence), record(edited.automation))


OPERATIONS = (
    Operation(
        name="occurrences.list",
        method="GET",
        path="/v1/automations/occurrences",
        scope=Scope.READ,
        function=find,
        query=CalendarQuery,
        response=OccurrencesResponse,
        summary="List coming runs",
    ),
    Operation(
        name="automations.move_occurrence",
        method="POST",
        path="/v1/automations/{automation_id}/occurrences/move",
        scope=Scope.WRITE,
        function=move,
        body=MoveBody,
        response=EditedResponse,
        summary="Move a coming run",
        refusals=(StaleVersion, WrongState),
        writes=True,
        wakes=("due", "ready"),
        current=current,
    ),
    Operation(
        name="automations.skip_occurrence",
        method="POST",
        path="/v1/automations/{automation_id}/occurrences/skip",
        scope=Scope.WRITE,
        function=skip,
        body=SlotBody,
        response=EditedResponse,
        summary="Skip a coming run",
        refusals=(StaleVersion, WrongState),
        writes=True,
        current=current,
    ),
    Operation(
        name="automations.unskip_occurrence",
        method="POST",
        path="/v1/automations/{automation_id}/occurrences/unskip",
        scope=Scope.WRITE,
        function=unskip,
        body=SlotBody,
        response=EditedResponse,
        summary="Take a skip back",
        refusals=(StaleVersion, WrongState),
        writes=True,
        wakes=("due",),
        current=current,
    ),
)
