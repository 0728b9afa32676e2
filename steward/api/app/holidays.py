"""Public holidays over HTTP: what the library proposes, and accepting days of it as closed periods."""

import asyncio
from typing import Annotated

import msgspec
from pydantic import Field

from steward.api.app.closed_periods import (
    ClosedPeriodRecord,
    ClosedPeriodResponse,
    ClosedScopeBody,
    period_change,
    records_of,
    scope_of,
)
from steward.api.http.operation import Access, ApiCall, Operation, Response
from steward.api.schema.fields import (
    FromJson,
    Positive,
    QueryInt,
    QueryParameters,
    RequestBody,
    Text,
    Unique,
    ZoneText,
)
from steward.closed_periods import holiday_library, holidays
from steward.closed_periods.holidays import AcceptHolidays, HolidayRegion
from steward.database.engine.base import Tx
from steward.model.account import Role
from steward.model.closed_period import Stops
from steward.model.refusals import WrongState

_MAX_DAYS = 60

_CountryText = Annotated[Text, Field(min_length=2, max_length=2)]
_SubdivisionText = Annotated[Text, Field(min_length=1, max_length=40)]
_DayText = Annotated[Text, Field(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]


class HolidaysQuery(QueryParameters):
    """Query parameters: which holidays to propose."""

    country: _CountryText
    subdivision: _SubdivisionText | None = None
    year: QueryInt


class AcceptHolidaysBody(RequestBody):
    """Days of a country's or region's public holidays to close, for whom, and what they stop."""

    country: _CountryText
    subdivision: _SubdivisionText | None = None
    days: Annotated[list[_DayText], Field(min_length=1, max_length=_MAX_DAYS), Unique]
    scope: ClosedScopeBody
    stops: Annotated[Stops, FromJson]
    timezone: ZoneText | None = None


class SettleHolidayBody(RequestBody):
    """Whether the library's date is taken over, or the period stays as it is."""

    version: Positive
    take_over: bool


class CodeNameRecord(msgspec.Struct):
    """A region by its code, and its name where the library has one."""

    code: str
    name: str


class HolidayRecord(msgspec.Struct):
    """A public holiday, and whether a period that is not ended closes it."""

    date: str
    name: str
    accepted: bool


class HolidayRegionRecord(msgspec.Struct):
    """A country, and one of its regions."""

    country: str
    subdivision: str | None


class HolidayDifferenceRecord(msgspec.Struct):
    """An accepted holiday, and its date in the library now; null when it has it no longer."""

    closed_period: ClosedPeriodRecord
    date: str | None


class HolidaysResponse(msgspec.Struct):
    """The public holidays of a year, and the country's regions."""

    library: str
    version: str | None
    days: list[HolidayRecord]
    subdivisions: list[CodeNameRecord]


class HolidayCountriesResponse(msgspec.Struct):
    """The countries of the library, none where it is not installed, and what differs from accepted days.

    From October on `without_next_year` names the regions used before that have no holidays of `next_year`.
    """

    library: str
    version: str | None
    countries: list[str]
    next_year: int
    without_next_year: list[HolidayRegionRecord]
    differences: list[HolidayDifferenceRecord]


class AcceptedHolidaysResponse(msgspec.Struct):
    """The closed periods that were made."""

    closed_periods: list[ClosedPeriodRecord]


async def load(call: ApiCall) -> None:
    """Imports the library outside the event loop, because the first import takes a tenth of a second."""
    await asyncio.to_thread(holiday_library.load)


async def find(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /app/holidays` with the holidays by date."""
    query: HolidaysQuery = call.query
    region = HolidayRegion(query.country, query.subdivision)
    days, calendar = await holidays.proposed(tx, call.actor, region, query.year)
    return HolidaysResponse(
        holiday_library.NAME,
        holiday_library.version(),
        [HolidayRecord(day.date.isoformat(), day.name, day.is_accepted) for day in days],
        [CodeNameRecord(code, name) for code, name in calendar.subdivisions.items()],
    )


async def countries(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/holidays/countries`."""
    accepted = await holidays.accepted(tx, call.actor)
    stored = await records_of(tx, call.actor.org, [difference.stored for difference in accepted.differences])
    return HolidayCountriesResponse(
        holiday_library.NAME,
        holiday_library.version(),
        holiday_library.countries(),
        accepted.next_year,
        [
            HolidayRegionRecord(difference.country, difference.subdivision)
            for difference in accepted.regions_without_next_year
        ],
        [
            HolidayDifferenceRecord(period, None if difference.date is None else difference.date.isoformat())
            for period, difference in zip(stored, accepted.differences, strict=True)
        ],
    )


async def accept(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/holidays/accept`. Creates a closed period for every day or for none."""
    body: AcceptHolidaysBody = call.body
    region = HolidayRegion(body.country, body.subdivision)
    command = AcceptHolidays(region, body.days, scope_of(body.scope), body.stops, body.timezone)
    accepted = await holidays.accept(tx, call.actor, command)
    return AcceptedHolidaysResponse(await records_of(tx, call.actor.org, accepted))


async def settle(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/closed-periods/{periodId}/holiday`.

    Takes over the library's date or keeps the period.
    """
    body: SettleHolidayBody = call.body
    stored = await holidays.resolve_difference(
        tx, call.actor, call.ids["period_id"], version=body.version, takes_over=body.take_over
    )
    [record] = await records_of(tx, call.actor.org, [stored])
    return ClosedPeriodResponse(record)


OPERATIONS = (
    Operation(
        name="holidays.list",
        method="GET",
        path="/app/holidays",
        access=Access.APP,
        role=Role.MEMBER,
        prepare=load,
        function=find,
        query=HolidaysQuery,
        response=HolidaysResponse,
        summary="List public holidays",
        refusals=(WrongState,),
    ),
    Operation(
        name="holidays.list_countries",
        method="GET",
        path="/app/holidays/countries",
        access=Access.APP,
        role=Role.MEMBER,
        prepare=load,
        function=countries,
        response=HolidayCountriesResponse,
        summary="List countries with public holidays",
    ),
    Operation(
        name="holidays.accept",
        method="POST",
        path="/app/holidays/accept",
        access=Access.APP,
        role=Role.OWNER,
        prepare=load,
        function=accept,
        body=AcceptHolidaysBody,
        response=AcceptedHolidaysResponse,
        summary="Close public holidays",
        refusals=(WrongState,),
        status=201,
        writes=True,
        wakes=("closings",),
    ),
    period_change(
        name="closed_periods.settle_holiday",
        method="POST",
        path="/app/closed-periods/{period_id}/holiday",
        prepare=load,
        function=settle,
        body=SettleHolidayBody,
        summary="Take over or keep a changed holiday",
    ),
)
