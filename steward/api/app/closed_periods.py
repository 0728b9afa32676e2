"""Closed periods over HTTP: list, preview, create, change and end them, and stop all changes at once."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Annotated, Any

import msgspec
from pydantic import Field

from steward.api.http.operation import Access, ApiCall, Operation, Response, replayed
from steward.api.schema.fields import (
    FromJson,
    IdText,
    NameText,
    PageQuery,
    Positive,
    QueryParameters,
    ReasonText,
    RequestBody,
    Text,
    Timestamp,
    ZoneText,
)
from steward.api.schema.responses import Count, Cursor, Instant, PositiveInt, UlidStr
from steward.closed_periods import change, effect
from steward.closed_periods.change import ChangePeriod, CreatePeriod, SentWhen
from steward.database.accounts import members
from steward.database.closed_periods import records
from steward.database.closed_periods.records import StoredPeriod
from steward.database.engine.base import Tx
from steward.model.account import Role
from steward.model.closed_period import ClosedKind, ClosedScope, ClosedScopeKind, Closing, Stops
from steward.model.ids import AutomationId, IntegrationId, OrgId, PersonId
from steward.model.instants import wire_time, wire_time_or_none
from steward.model.refusals import StaleVersion, ValidationFailed, WrongState
from steward.scheduling.closings import all_closings, zone_of
from steward.scheduling.zones import local_time, zone

_MAX_CLOSINGS = 2_000
_LONGEST_RANGE = timedelta(days=92)
_MAX_AHEAD = timedelta(days=366)

_PeriodName = Annotated[NameText, Field(max_length=80)]


class ClosedScopeBody(RequestBody):
    """The organization, a store (`integration_id`) or an automation (`automation_id`)."""

    kind: Annotated[ClosedScopeKind, FromJson]
    integration_id: Positive | None = None
    automation_id: IdText | None = None


class ClosedWhenBody(RequestBody):
    """The times: `once` has start and end, `weekly` has days and from, to, `yearly` has first and last."""

    kind: Annotated[ClosedKind, FromJson]
    start: Text | None = None
    end: Text | None = None
    days: list[int] | None = None
    from_time: Text | None = Field(default=None, alias="from")
    to_time: Text | None = Field(default=None, alias="to")
    first: Text | None = None
    last: Text | None = None


class ClosedPeriodBody(RequestBody):
    """A closed period to make."""

    name: _PeriodName
    scope: ClosedScopeBody
    stops: Annotated[Stops, FromJson]
    when: ClosedWhenBody
    timezone: ZoneText | None = None


class ChangeClosedPeriodBody(RequestBody):
    """The fields of a closed period to change, and the version last read."""

    version: Positive
    name: _PeriodName | None = None
    stops: Annotated[Stops, FromJson] | None = None
    when: ClosedWhenBody | None = None
    timezone: ZoneText | None = None


class EndClosedPeriodBody(RequestBody):
    """The version last read."""

    version: Positive


class FreezeBody(RequestBody):
    """The scope in which all changes stop: the organization or a store."""

    scope: ClosedScopeBody
    reason: ReasonText | None = None


class ClosedPeriodsQuery(PageQuery):
    """Query parameters: which closed periods to list."""

    scope: ClosedScopeKind | None = None
    state: Annotated[str, Field(pattern="^(active|ended)$")] | None = None


class ClosingsQuery(QueryParameters):
    """A stretch of time of at most 92 days."""

    since: Timestamp = Field(alias="from")
    until: Timestamp = Field(alias="to")


class ClosedScopeRecord(msgspec.Struct, omit_defaults=True):
    """The scope of a closed period."""

    kind: str
    integration_id: PositiveInt | None = None
    automation_id: UlidStr | None = None


class PersonNameRecord(msgspec.Struct):
    """The id and name of a person."""

    id: PositiveInt
    name: str


class ClosedPeriodRecord(msgspec.Struct):
    """A closed period; `zone_known` is false when its zone is read as UTC."""

    id: UlidStr
    version: PositiveInt
    name: str
    scope: ClosedScopeRecord
    stops: str
    when: Mapping[str, Any]
    timezone: str
    zone_known: bool
    origin: Mapping[str, Any] | None
    state: str
    created_by: PersonNameRecord | None
    created_at: Instant
    updated_at: Instant
    ended_by: PersonNameRecord | None
    ended_at: Instant | None


class EffectRecord(msgspec.Struct):
    """The effect of a period; `slots_closed_30_days` is counted up to 10,000."""

    slots_closed_30_days: Count
    automations: Count
    runs_waiting: Count
    never_open: list[str]


class NextClosingRecord(msgspec.Struct):
    """A closing with its local times."""

    start: Instant
    end: Instant | None
    local_start: str
    local_end: str | None


class ClosingRecord(msgspec.Struct):
    """A stretch of time in which something is closed; without end until a person ends it."""

    period_id: UlidStr
    name: str
    scope: ClosedScopeRecord
    stops: str
    start: Instant
    end: Instant | None


class ClosedPeriodsResponse(msgspec.Struct):
    """A page of closed periods."""

    closed_periods: list[ClosedPeriodRecord]
    next_cursor: Cursor | None


class ClosedPeriodResponse(msgspec.Struct):
    """A closed period."""

    closed_period: ClosedPeriodRecord


class CreatedPeriodResponse(msgspec.Struct):
    """The closed period and what it does."""

    closed_period: ClosedPeriodRecord
    effect: EffectRecord


class PreviewPeriodResponse(msgspec.Struct):
    """The effect of a proposed period, and its next closings."""

    effect: EffectRecord
    next: list[NextClosingRecord]


class ClosingsResponse(msgspec.Struct):
    """Closings by start."""

    closings: list[ClosingRecord]


class FreezeResponse(msgspec.Struct):
    """The freeze, and how many requests were under way when it began."""

    closed_period: ClosedPeriodRecord
    in_flight: Count


def _scope_record(scope: ClosedScope) -> ClosedScopeRecord:
    return ClosedScopeRecord(scope.kind.value, scope.integration, scope.automation)


async def records_of(tx: Tx, org: OrgId, stored_periods: Iterable[StoredPeriod]) -> list[ClosedPeriodRecord]:
    """Returns the API records of the periods, with the names of the people."""
    people: dict[PersonId, PersonNameRecord] = {}
    records = []
    for stored in stored_periods:
        for person in (stored.made_by, stored.changed_by):
            if person is not None and person not in people:
                member = await members.get(tx, org, person)
                name = "" if member is None else f"{member.first_name} {member.last_name}".strip()
                people[person] = PersonNameRecord(person, name)
        records.append(_record(stored, people))
    return records


def _record(stored: StoredPeriod, people: Mapping[PersonId, PersonNameRecord]) -> ClosedPeriodRecord:
    period = stored.period
    ended_by = None if stored.is_active or stored.changed_by is None else people.get(stored.changed_by)
    return ClosedPeriodRecord(
        id=period.id,
        version=period.version,
        name=period.name,
        scope=_scope_record(period.scope),
        stops=period.stops.value,
        when=period.when.to_wire(),
        timezone=period.timezone,
        zone_known=zone(period.timezone) is not None,
        origin=stored.origin,
        state="active" if stored.is_active else "ended",
        created_by=None if stored.made_by is None else people.get(stored.made_by),
        created_at=wire_time(stored.made_at),
        updated_at=wire_time(period.valid_until or period.valid_from),
        ended_by=ended_by,
        ended_at=wire_time_or_none(period.valid_until),
    )


async def _period_record(tx: Tx, call: ApiCall, stored: StoredPeriod) -> ClosedPeriodRecord:
    [record] = await records_of(tx, call.actor.org, [stored])
    return record


def current(call: ApiCall, data: Mapping[str, object]) -> Mapping[str, object]:
    """Returns the current record of a refusal in its public form."""
    stored = data["closed_period"]
    return {"closed_period": _record(stored, {}) if isinstance(stored, StoredPeriod) else None}


def scope_of(body: ClosedScopeBody) -> ClosedScope:
    """Returns the scope with exactly the id that its kind needs. Raises ValidationFailed."""
    errors: dict[str, list[str]] = {}
    needed = {ClosedScopeKind.STORE: "integration_id", ClosedScopeKind.AUTOMATION: "automation_id"}
    for name in ("integration_id", "automation_id"):
        is_sent = getattr(body, name) is not None
        if needed.get(body.kind) == name and not is_sent:
            errors[f"scope.{name}"] = ["Give the id of what is closed."]
        elif needed.get(body.kind) != name and is_sent:
            errors[f"scope.{name}"] = [f"A period of kind {body.kind.value} has no such field."]
    if errors:
        raise ValidationFailed(errors=errors)
    return ClosedScope(
        body.kind,
        None if body.integration_id is None else IntegrationId(body.integration_id),
        None if body.automation_id is None else AutomationId(body.automation_id),
    )


def _when(body: ClosedWhenBody) -> SentWhen:
    if body.kind is ClosedKind.FREEZE:
        message = "Choose once, weekly or yearly. To stop all changes now, use the button for it."
        raise ValidationFailed(errors={"when.kind": [message]})
    return SentWhen(body.kind, body.model_dump(by_alias=True, exclude={"kind"}))


def _make(call: ApiCall) -> CreatePeriod:
    body: ClosedPeriodBody = call.body
    return CreatePeriod(body.name, scope_of(body.scope), body.stops, _when(body.when), body.timezone)


async def _effect(tx: Tx, stored: StoredPeriod) -> EffectRecord:
    affected = await effect.effect_of(tx, stored.period)
    return EffectRecord(
        affected.slots_closed, affected.automations, affected.runs_waiting, list(affected.never_open)
    )


async def find(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /app/closed-periods` with the periods, newest first."""
    query: ClosedPeriodsQuery = call.query
    key = call.page_start()
    stored_periods = await records.find(
        tx,
        call.actor.org,
        scope=query.scope,
        is_active=None if query.state is None else query.state == "active",
        after=None if key is None else str(key[0]),
        limit=query.limit + 1,
    )
    page = stored_periods[: query.limit]
    more = call.next_cursor([page[-1].period.id]) if len(stored_periods) > len(page) else None
    return ClosedPeriodsResponse(await records_of(tx, call.actor.org, page), more)


async def make(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/closed-periods`."""
    stored = await change.create(tx, call.actor, _make(call))
    _log(call, stored, "made")
    return CreatedPeriodResponse(await _period_record(tx, call, stored), await _effect(tx, stored))


async def preview(tx: Tx, call: ApiCall) -> Response:
    """Responds to `POST /app/closed-periods/preview` with what the period would do. Stores nothing."""
    stored = await change.draft(tx, call.actor, _make(call))
    next_closings = effect.next_closings(stored.period, tx.now)
    return PreviewPeriodResponse(await _effect(tx, stored), [_next(closing) for closing in next_closings])


def _next(closing: Closing) -> NextClosingRecord:
    tz = zone_of(closing.period)
    return NextClosingRecord(
        wire_time(closing.start),
        wire_time_or_none(closing.end),
        local_time(closing.start, tz),
        None if closing.end is None else local_time(closing.end, tz),
    )


async def update(tx: Tx, call: ApiCall) -> Response:
    """Handles `PATCH /app/closed-periods/{periodId}`."""
    body: ChangeClosedPeriodBody = call.body
    when = None if body.when is None else _when(body.when)
    command = ChangePeriod(call.ids["period_id"], body.version, body.name, body.stops, when, body.timezone)
    stored = await change.change(tx, call.actor, command)
    _log(call, stored, "changed")
    return ClosedPeriodResponse(await _period_record(tx, call, stored))


async def end(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/closed-periods/{periodId}/end`."""
    body: EndClosedPeriodBody = call.body
    stored = await change.end(tx, call.actor, call.ids["period_id"], version=body.version)
    _log(call, stored, "ended")
    return ClosedPeriodResponse(await _period_record(tx, call, stored))


def _log(call: ApiCall, stored: StoredPeriod, action: str) -> None:
    org, period = call.actor.org, stored.period.id
    call.context.log.info("closed_period_changed", org=org, period=period, action=action)


async def closings(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /app/closings` with what is closed in a span of time, for the calendar."""
    query: ClosingsQuery = call.query
    _check_range(query.since, query.until, tx.now)
    periods = await records.valid(tx, call.actor.org, since=query.since)
    stream = all_closings(periods, since=query.since, until=query.until)
    return ClosingsResponse(
        [
            ClosingRecord(
                closing.period.id,
                closing.period.name,
                _scope_record(closing.period.scope),
                closing.period.stops.value,
                wire_time(closing.start),
                wire_time_or_none(closing.end),
            )
            for closing in islice(stream, _MAX_CLOSINGS)
        ]
    )


def _check_range(since: datetime, until: datetime, now: datetime) -> None:
    errors: dict[str, list[str]] = {}
    if until <= since:
        errors["to"] = ["Give a time after from."]
    elif until - since > _LONGEST_RANGE:
        errors["to"] = [f"Give a time at most {_LONGEST_RANGE.days} days after from."]
    elif until > now + _MAX_AHEAD:
        errors["to"] = [f"Give a time at most {_MAX_AHEAD.days} days from now."]
    if errors:
        raise ValidationFailed(errors=errors)


async def freeze(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/freeze`.

    Stops all changes from now on; a freeze that is already in force is returned with status 200.
    """
    body: FreezeBody = call.body
    if body.scope.kind is ClosedScopeKind.AUTOMATION:
        raise ValidationFailed(errors={"scope.kind": ["Choose the organization or a store."]})
    frozen = await change.freeze(tx, call.actor, scope_of(body.scope), reason=body.reason)
    _log(call, frozen.stored, "frozen")
    response = FreezeResponse(await _period_record(tx, call, frozen.stored), frozen.in_flight)
    return response if frozen.is_new else replayed(response)


# The row fields that all changes of one period share.
period_change = partial(
    Operation,
    access=Access.APP,
    role=Role.MEMBER,
    response=ClosedPeriodResponse,
    refusals=(StaleVersion, WrongState),
    writes=True,
    wakes=("closings", "notice"),
    current=current,
)

OPERATIONS = (
    Operation(
        name="closed_periods.list",
        method="GET",
        path="/app/closed-periods",
        access=Access.APP,
        role=Role.MEMBER,
        function=find,
        query=ClosedPeriodsQuery,
        response=ClosedPeriodsResponse,
        summary="List closed periods",
    ),
    Operation(
        name="closed_periods.create",
        method="POST",
        path="/app/closed-periods",
        access=Access.APP,
        role=Role.MEMBER,
        function=make,
        body=ClosedPeriodBody,
        response=CreatedPeriodResponse,
        summary="Make a closed period",
        status=201,
        writes=True,
        wakes=("closings",),
    ),
    Operation(
        name="closed_periods.preview",
        method="POST",
        path="/app/closed-periods/preview",
        access=Access.APP,
        role=Role.MEMBER,
        function=preview,
        body=ClosedPeriodBody,
        response=PreviewPeriodResponse,
        summary="Preview a closed period",
    ),
    period_change(
        name="closed_periods.update",
        method="PATCH",
        path="/app/closed-periods/{period_id}",
        function=update,
        body=ChangeClosedPeriodBody,
        summary="Change a closed period",
    ),
    period_change(
        name="closed_periods.end",
        method="POST",
        path="/app/closed-periods/{period_id}/end",
        function=end,
        body=EndClosedPeriodBody,
        summary="End a closed period",
    ),
    Operation(
        name="closings.list",
        method="GET",
        path="/app/closings",
        access=Access.APP,
        role=Role.MEMBER,
        function=closings,
        query=ClosingsQuery,
        response=ClosingsResponse,
        summary="List closings",
    ),
    Operation(
        name="closed_periods.freeze",
        method="POST",
        path="/app/freeze",
        access=Access.APP,
        role=Role.MEMBER,
        function=freeze,
        body=FreezeBody,
        response=FreezeResponse,
        summary="Stop all changes",
        status=201,
        writes=True,
        wakes=("closings", "notice"),
    ),
)
