"""Public holidays as closed periods, which a person accepts and which never change by themselves.

See docs/design/closed-periods.md#holidays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from zoneinfo import ZoneInfo

from steward.closed_periods import change, holiday_library
from steward.closed_periods.change import ChangePeriod, CreatePeriod, SentWhen
from steward.database.accounts import organizations
from steward.database.closed_periods import records
from steward.database.closed_periods.records import StoredPeriod
from steward.database.engine.base import Tx
from steward.model.account import Actor
from steward.model.closed_period import ClosedKind, ClosedScope, Stops
from steward.model.json import JsonObject
from steward.model.refusals import ValidationFailed, WrongState
from steward.scheduling.closings import local_of
from steward.scheduling.zones import zone

_YEARS_AHEAD = 5
# From this month on, people are reminded of the next year.
_REMINDER_MONTH = 10
_LONGEST_NAME = 80
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class HolidayRegion:
    """A country's ISO 3166 code, and one of its subdivisions or None."""

    country: str
    subdivision: str | None = None


@dataclass(frozen=True, slots=True)
class AcceptHolidays:
    """The days of a region's holidays to close."""

    region: HolidayRegion
    days: Sequence[str]
    scope: ClosedScope
    stops: Stops
    timezone: str | None = None


@dataclass(frozen=True, slots=True)
class ProposedHoliday:
    """A public holiday, and whether it has a period that has not ended."""

    date: date
    name: str
    is_accepted: bool


@dataclass(frozen=True, slots=True)
class DifferingHoliday:
    """An accepted holiday whose date in another library version differs, or is missing (None)."""

    stored: StoredPeriod
    date: date | None


@dataclass(frozen=True, slots=True)
class AcceptedHolidays:
    """The differences of accepted holidays, and the regions without holidays for the coming year."""

    differences: tuple[DifferingHoliday, ...]
    next_year: int
    regions_without_next_year: tuple[HolidayRegion, ...]


async def today(tx: Tx, actor: Actor) -> date:
    """Returns the date in the organization's zone."""
    organization = await organizations.get(tx, actor.org)
    local_zone = None if organization is None else zone(organization.zone)
    return tx.now.astimezone(local_zone or ZoneInfo("UTC")).date()


async def proposed(
    tx: Tx, actor: Actor, region: HolidayRegion, year: int
) -> tuple[list[ProposedHoliday], holiday_library.HolidayCalendar]:
    """Returns a region's holidays of a year, and the calendar they come from.

    Raises ValidationFailed (`country`, `subdivision`, `year`), WrongState.
    """
    first = (await today(tx, actor)).year
    if not first <= year <= first + _YEARS_AHEAD:
        raise ValidationFailed(errors={"year": [f"Give a year from {first} to {first + _YEARS_AHEAD}."]})
    calendar = _calendar(region, year)
    stored = await records.accepted_holidays(tx, actor.org)
    accepted = {_date(period) for period in stored if period.is_active and _region(period) == region}
    return [ProposedHoliday(day, name, day in accepted) for day, name in calendar.days.items()], calendar


async def accept(tx: Tx, actor: Actor, command: AcceptHolidays) -> list[StoredPeriod]:
    """Creates a closed period for each day, or for none if one is refused.

    Raises Forbidden, ValidationFailed (`days.N` for a day that is no holiday), WrongState.
    """
    errors: dict[str, list[str]] = {}
    accepted = []
    for number, text in enumerate(command.days):
        name = _holiday_on(command.region, text)
        if name is None:
            errors[f"days.{number}"] = ["This day is not a public holiday there. Use a date from the list."]
            continue
        try:
            accepted.append(await change.create(tx, actor, _of_day(command, date.fromisoformat(text), name)))
        except ValidationFailed as refused:
            if not any(field.startswith("when.") for field in refused.errors or {}):
                raise
            errors[f"days.{number}"] = ["This day has passed. Leave it out."]
    if errors:
        raise ValidationFailed(errors=errors)
    return accepted


async def resolve_difference(
    tx: Tx, actor: Actor, period_id: str, *, version: int, takes_over: bool
) -> StoredPeriod:
    """Resolves a difference: moves the period to the library's date, or keeps its date.

    Either way stores a new version. Raises NotFound, Forbidden, WrongState (nothing differs, or the library
    no longer has the holiday), StaleVersion.
    """
    stored = await change.current(tx, actor, period_id, version)
    difference = _difference(stored)
    if stored.origin is None or difference is None:
        raise WrongState("This period does not differ from the public holidays. Load the page again.")
    origin = {**stored.origin, "version": holiday_library.version()}
    when = None
    if takes_over:
        if difference.date is None:
            raise WrongState("This day is no longer a public holiday. End the period, or keep it.")
        when = _whole_day(difference.date)
        origin["date"] = difference.date.isoformat()
    command = ChangePeriod(period_id, version, when=when, origin=origin)
    return await change.change(tx, actor, command)


async def accepted(tx: Tx, actor: Actor) -> AcceptedHolidays:
    """Compares the accepted holidays with the installed library."""
    stored = await records.accepted_holidays(tx, actor.org)
    local_today = await today(tx, actor)
    coming = sorted(
        (period for period in stored if period.is_active and _date(period) >= local_today), key=_date
    )
    differences = [difference for period in coming if (difference := _difference(period)) is not None]
    next_year = local_today.year + 1
    regions = {_region(period) for period in stored}
    with_next = {_region(period) for period in stored if _date(period).year == next_year}
    without: list[HolidayRegion] = []
    if local_today.month >= _REMINDER_MONTH and holiday_library.version() is not None:
        without = sorted(regions - with_next, key=lambda region: (region.country, region.subdivision or ""))
    return AcceptedHolidays(tuple(differences), next_year, tuple(without))


def _calendar(region: HolidayRegion, year: int) -> holiday_library.HolidayCalendar:
    calendar = holiday_library.calendar(region.country, region.subdivision, year)
    if calendar is None:
        if region.country in holiday_library.countries():
            message = "There is no such region. Use a code from the country's list."
            raise ValidationFailed(errors={"subdivision": [message]})
        raise ValidationFailed(errors={"country": ["There is no such country. Use a code from the list."]})
    return calendar


def _holiday_on(region: HolidayRegion, text: str) -> str | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return _calendar(region, day.year).days.get(day)


def _of_day(command: AcceptHolidays, day: date, name: str) -> CreatePeriod:
    region = command.region
    origin: JsonObject = {
        "library": holiday_library.NAME,
        "version": holiday_library.version(),
        "country": region.country,
        "subdivision": region.subdivision,
        "date": day.isoformat(),
        "holiday": name,
    }
    short_name = name[:_LONGEST_NAME].rstrip()
    return CreatePeriod(short_name, command.scope, command.stops, _whole_day(day), command.timezone, origin)


def _whole_day(day: date) -> SentWhen:
    return SentWhen(ClosedKind.ONCE, {"start": f"{day}T00:00", "end": f"{day + _DAY}T00:00"})


def _region(stored: StoredPeriod) -> HolidayRegion:
    origin = stored.origin or {}
    subdivision = origin.get("subdivision")
    return HolidayRegion(str(origin["country"]), None if subdivision is None else str(subdivision))


def _date(stored: StoredPeriod) -> date:
    """Returns the closed day, which a person may have moved since it was accepted."""
    start = stored.period.when.start
    return (
        local_of(start).date()
        if start is not None
        else date.fromisoformat(str((stored.origin or {})["date"]))
    )


def _difference(stored: StoredPeriod) -> DifferingHoliday | None:
    """Returns how another library version differs on an accepted day, or None."""
    origin = stored.origin
    if origin is None or holiday_library.version() in (None, origin["version"]):
        return None
    region = _region(stored)
    accepted_on = date.fromisoformat(str(origin["date"]))
    calendar = holiday_library.calendar(region.country, region.subdivision, accepted_on.year)
    days = {} if calendar is None else calendar.days
    if accepted_on in days:
        return None
    moved = [day for day, name in days.items() if name == origin["holiday"]]
    closest = min(moved, key=lambda day: abs(day - accepted_on), default=None)
    return None if closest == _date(stored) else DifferingHoliday(stored, closest)
