"""Tests what closed periods promise beside the walk along the clock: edges, names, validity, searches."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from steward.model.closed_period import (
    FREEZE,
    ClosedKind,
    ClosedPeriod,
    ClosedScope,
    ClosedScopeKind,
    ClosedWhen,
    Stops,
)
from steward.model.ids import AutomationId, IntegrationId
from steward.scheduling.closings import (
    MAX_JUMPS,
    ClosedTimes,
    all_closings,
    closing_at,
    closings,
    first_open,
    stopping_runs,
)
from steward.scheduling.slots import slots
from steward.scheduling.zones import LAST, instant_of
from tests.scheduling.shorthand import at, closed_period, daily, monthly, open_from, place

_HAIR = timedelta(microseconds=1)
_CHRISTMAS = ClosedWhen(ClosedKind.YEARLY, first="12-24", last="12-26")
_SUNDAYS = ClosedWhen(ClosedKind.WEEKLY, days=(7,))


def _every_day(from_time: str | None = None, to_time: str | None = None) -> ClosedWhen:
    return ClosedWhen(ClosedKind.WEEKLY, days=(1, 2, 3, 4, 5, 6, 7), from_time=from_time, to_time=to_time)


def _once(start: str, end: str) -> ClosedWhen:
    return ClosedWhen(ClosedKind.ONCE, start=start, end=end)


def test_a_start_is_closed_and_an_end_is_open() -> None:
    """Closes 24 to 26 December in Berlin from the first midnight until the midnight of the 27th."""
    christmas = [closed_period(_CHRISTMAS)]
    start, end = at("2026-12-23 23:00"), at("2026-12-26 23:00")
    assert closing_at(christmas, start - _HAIR) is None
    assert closing_at(christmas, start) is not None
    assert closing_at(christmas, end - _HAIR) is not None
    assert closing_at(christmas, end) is None
    assert open_from(christmas, start) == end
    assert open_from(christmas, end) == end


def test_a_yearly_period_may_pass_new_year() -> None:
    """Closes from 28 December to 2 January as one stretch."""
    [closing] = closings(
        closed_period(ClosedWhen(ClosedKind.YEARLY, first="12-28", last="01-02"), timezone="UTC"),
        since=at("2026-12-31 12:00"),
        until=at("2027-01-01 12:00"),
    )
    assert (closing.start, closing.end) == (at("2026-12-28 00:00"), at("2027-01-03 00:00"))


@pytest.mark.parametrize(("year", "end"), [(2027, "2027-03-01 00:00"), (2028, "2028-03-01 00:00")])
def test_the_29th_of_february_is_the_months_last_day(year: int, end: str) -> None:
    """Closes 29 February, or the 28th in a year without it."""
    [closing] = closings(
        closed_period(ClosedWhen(ClosedKind.YEARLY, first="02-29", last="02-29"), timezone="UTC"),
        since=at(f"{year}-01-01 00:00"),
        until=at(f"{year}-12-31 00:00"),
    )
    assert closing.end == at(end)


def test_an_end_that_is_shown_twice_is_the_second_pass() -> None:
    """On the night when Berlin's clock goes back, a start is the first 02:30 and an end the second."""
    twice = closed_period(_once("2026-10-25T02:30", "2026-10-25T02:31"))
    [closing] = closings(twice, since=at("2026-10-24 00:00"), until=at("2026-10-26 00:00"))
    assert (closing.start, closing.end) == (at("2026-10-25 00:30"), at("2026-10-25 01:31"))


def test_a_closing_whose_end_meets_its_start_is_empty() -> None:
    """A closing from within a skipped hour to the end of that hour closes nothing."""
    inside = closed_period(_once("2026-03-29T02:30", "2026-03-29T03:00"))
    assert list(closings(inside, since=at("2026-03-28 00:00"), until=at("2026-03-30 00:00"))) == []


def test_a_version_closes_only_while_it_is_valid() -> None:
    """Closes from the moment a version is made, or until it is ended, within the closing."""
    closed_at, ended = at("2026-12-24 10:00"), at("2026-12-25 10:00")
    christmas = closed_period(_CHRISTMAS, valid=(closed_at, ended))
    [closing] = closings(christmas, since=at("2026-12-01 00:00"), until=at("2027-12-31 00:00"))
    assert (closing.start, closing.end) == (closed_at, ended)
    assert closing_at([christmas], closed_at - _HAIR) is None
    assert closing_at([christmas], ended) is None


def test_a_freeze_has_no_end_until_a_person_ends_it() -> None:
    """A freeze closes everything from its start on; once ended it is a closing with an end."""
    closed_at, ended = at("2026-05-01 12:03"), at("2026-05-01 14:00")
    frozen = closed_period(FREEZE, stops=Stops.CHANGES, valid=(closed_at, None))
    assert open_from([frozen], closed_at - _HAIR) == closed_at - _HAIR
    assert open_from([frozen], closed_at) is None
    over = closed_period(FREEZE, stops=Stops.CHANGES, valid=(closed_at, ended))
    assert open_from([over], closed_at) == ended


def test_overlapping_closings_add_up_and_the_narrowest_is_named() -> None:
    """Names the automation's closing before the store's, and that before the organization's.

    Among equals the latest end comes first, then the id. The first open instant is after all of them.
    """
    automation = ClosedScope(ClosedScopeKind.AUTOMATION, automation=AutomationId("A"))
    store = ClosedScope(ClosedScopeKind.STORE, integration=IntegrationId(3))
    day = ("2026-05-01T00:00", "2026-05-02T00:00")
    longer = ("2026-05-01T00:00", "2026-05-03T00:00")
    noon = at("2026-05-01 12:00")
    periods = [
        closed_period(_once(*longer), name="everything"),
        closed_period(_once(*day), name="store b", scope=store),
        closed_period(_once(*day), name="store a", scope=store),
        closed_period(_once(*longer), name="store longer", scope=store),
        closed_period(_once(*day), name="automation", scope=automation),
    ]

    def named(some: list[ClosedPeriod]) -> str:
        closing = closing_at(some, noon)
        assert closing is not None
        return closing.period.name

    assert named(periods) == "automation"
    assert named(periods[:4]) == "store longer"
    assert named(periods[:3]) == "store a"
    assert named(periods[:1]) == "everything"
    assert open_from(periods, noon) == at("2026-05-02 22:00")
    starts = [closing.start for closing in all_closings(periods, since=noon, until=noon + _HAIR)]
    assert starts == sorted(starts)
    assert len(starts) == 5


def test_a_zone_that_the_package_lost_is_read_as_utc() -> None:
    """Reads an unknown zone as UTC, so that the period still closes."""
    lost = closed_period(_once("2026-05-01T00:00", "2026-05-02T00:00"), timezone="Europe/Nowhere")
    assert closing_at([lost], at("2026-05-01 00:00")) is not None
    assert closing_at([lost], at("2026-05-02 00:00")) is None


def test_the_first_open_slot_is_found_by_jumping_over_closings() -> None:
    """Finds the next open hour after a closed year with a single jump."""
    year = closed_period(_once("2026-01-01T00:00", "2026-12-31T00:00"), timezone="UTC")
    requests: list[datetime] = []

    def hourly(since: datetime) -> Iterator[datetime]:
        requests.append(since)
        yield since.replace(minute=0, second=0) + timedelta(hours=1)

    since = at("2026-02-01 00:30")
    assert first_open(hourly, ClosedTimes([year], since), since) == at("2026-12-31 01:00")
    assert len(requests) == 2


@pytest.mark.parametrize("slots_inside", [1, 4, 5, 6, 7, 12])
def test_the_first_open_slot_is_that_of_all_slots_filtered(slots_inside: int) -> None:
    """Finds the slot a plain filter finds, within a stream for five slots of a closing and by a new one."""
    morning, noon = at("2026-05-01 06:00"), at("2026-05-01 12:00")
    closed = closed_period(_once("2026-05-01T06:00", "2026-05-01T12:00"), timezone="UTC")
    all_slots = [morning + number * (noon - morning) / slots_inside for number in range(2 * slots_inside)]
    requests: list[datetime] = []

    def slots_from(since: datetime) -> Iterator[datetime]:
        requests.append(since)
        return (slot for slot in all_slots if slot >= since)

    [expected, *_] = [slot for slot in all_slots if closing_at([closed], slot) is None]
    assert first_open(slots_from, ClosedTimes([closed], morning), morning) == expected == noon
    assert requests == ([morning] if slots_inside <= 5 else [morning, noon])


def test_there_is_no_open_slot_when_every_day_is_closed_at_its_hour() -> None:
    """Finds no slot when every day is closed at its hour."""
    mornings = closed_period(_every_day("05:00", "07:00"))
    berlin = place("Europe/Berlin")

    def morning_slots(since: datetime) -> Iterator[datetime]:
        stream = slots(daily("06:00"), berlin, spread_minutes=0, after=since - _HAIR, until=LAST)
        return (slot.slot_at for slot in stream)

    since = at("2026-05-01 00:00")
    assert first_open(morning_slots, ClosedTimes([mornings], since), since) is None


def test_a_search_for_an_open_instant_ends_after_its_jumps() -> None:
    """Passes one closed day less than MAX_JUMPS, and finds nothing behind MAX_JUMPS closed days."""
    start = at("2026-01-01 00:00")

    def closed_for(days: int) -> ClosedPeriod:
        valid = (start, start + timedelta(days=days))
        return closed_period(_every_day(), timezone="UTC", valid=valid)

    assert open_from([closed_for(MAX_JUMPS - 1)], start) == start + timedelta(days=MAX_JUMPS - 1)
    assert open_from([closed_for(MAX_JUMPS)], start) is None


@pytest.mark.parametrize("hours", [("10:00", "12:00"), ("23:00", "01:00"), (None, None)])
def test_closings_that_only_overlap_cost_no_jumps(hours: tuple[str | None, str | None]) -> None:
    """Passes one day less than MAX_JUMPS, and not MAX_JUMPS, also with 49 periods that overlap."""
    start = at("2026-01-01 00:00")

    def closed_for(days: int) -> list[ClosedPeriod]:
        end = start + timedelta(days=days)
        others = [closed_period(_every_day(*hours), timezone="UTC", valid=(start, end)) for _ in range(49)]
        return [closed_period(_every_day(), timezone="UTC", valid=(start, end)), *others]

    assert open_from(closed_for(MAX_JUMPS - 1), start) == start + timedelta(days=MAX_JUMPS - 1)
    assert open_from(closed_for(MAX_JUMPS), start) is None


def test_more_periods_than_fifty_shorten_the_search() -> None:
    """Passes half as many jumps with 100 periods, so that the work stays bounded."""
    start = at("2026-01-01 00:00")

    def closed_for(days: int) -> list[ClosedPeriod]:
        valid = (start, start + timedelta(days=days))
        return [closed_period(_every_day(), timezone="UTC", valid=valid)] * 100

    assert open_from(closed_for(MAX_JUMPS // 2 - 1), start) == start + timedelta(days=MAX_JUMPS // 2 - 1)
    assert open_from(closed_for(MAX_JUMPS // 2), start) is None


@pytest.mark.parametrize("other", [_SUNDAYS, _every_day("10:00", "12:00"), _every_day("00:00", "23:00")])
def test_a_search_ends_whichever_closing_comes_last(other: ClosedWhen) -> None:
    """Ends also where the last closing does not extend the stretch, and does not read on to the year 9999."""
    start = at("2026-01-05 00:00")  # a Monday
    periods = [closed_period(_every_day(), timezone="UTC"), closed_period(other, timezone="UTC")]
    before = _work()
    assert open_from(periods, start) is None
    assert _work() - before < 20 * MAX_JUMPS


def test_a_search_of_distant_slots_does_not_compute_all_closings_before_them() -> None:
    """Computes a few closings a month for monthly slots that lie in a nightly closing, not thirty."""
    nightly = closed_period(_every_day("22:00", "06:00"))
    berlin, since = place("Europe/Berlin"), at("2026-05-01 00:00")
    times = ClosedTimes([nightly], since)

    def monthly_slots(instant: datetime) -> Iterator[datetime]:
        stream = slots(monthly(1, "03:00"), berlin, spread_minutes=0, after=instant - _HAIR, until=LAST)
        return (slot.slot_at for slot in stream)

    before = _work()
    assert first_open(monthly_slots, times, since) is None
    assert _work() - before < 25 * MAX_JUMPS  # 60 for all of them
    distant = at("2300-01-01 02:00")
    assert open_from(times, distant) == at("2300-01-01 05:00")
    assert open_from(times, at("2300-01-01 12:00")) == at("2300-01-01 12:00")


def test_nights_are_closed_however_many_came_before() -> None:
    """Knows the end of each night, also past the 10,000 stretches that are kept."""
    nightly = closed_period(_every_day("22:00", "06:00"), timezone="UTC")
    since = at("2026-05-01 03:00")
    times = ClosedTimes([nightly], since)
    for night in range(10_003):
        instant = since + timedelta(days=night)
        assert open_from(times, instant) == instant + timedelta(hours=3)
    noon = instant + timedelta(hours=9)
    assert open_from(times, noon) == noon


def _work() -> int:
    """Returns how many local times have been turned into instants."""
    info = instant_of.cache_info()
    return info.hits + info.misses


def test_only_periods_that_stop_runs_close_slots() -> None:
    """Leaves out periods that stop changes, because they let runs begin."""
    runs, changes = closed_period(_SUNDAYS), closed_period(_SUNDAYS, stops=Stops.CHANGES)
    assert stopping_runs([runs, changes]) == (runs,)
