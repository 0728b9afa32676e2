"""Compares closed periods of all shapes in all zones with a walk along the clock, minute by minute.

`STEWARD_CLOSING_CASES` sets the number of random walks (default 24), `STEWARD_CLOSING_SHAPES` the number
of periods compared on each (default 3), and `STEWARD_CLOSING_SEED` the seed.
"""

import os
import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache

import pytest

from steward.model.closed_period import ClosedKind, ClosedPeriod, ClosedWhen
from steward.scheduling.closings import ClosedTimes, closing_at, closings, first_open
from steward.scheduling.zones import zone_names
from tests.scheduling.closings_walk import Walk, closed_numbers, walk
from tests.scheduling.shorthand import at, closed_period, open_from, place
from tests.scheduling.walk import stretches

_CASES = int(os.environ.get("STEWARD_CLOSING_CASES", "24"))
_SEED = os.environ.get("STEWARD_CLOSING_SEED", "steward")
_SHAPES = int(os.environ.get("STEWARD_CLOSING_SHAPES", "3"))
_KINDS = (ClosedKind.ONCE, ClosedKind.WEEKLY, ClosedKind.YEARLY)
_MINUTES_A_DAY = 1440
# A walk begins and ends so many days outside, since a closing reaches into the next day at most.
_MARGIN = 3
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)
_TURNS = ("Pacific/Apia", "America/St_Johns", "Asia/Pyongyang", "America/Caracas", "Australia/Lord_Howe",
          "Antarctica/Troll", "America/Nuuk", "America/Havana", "Asia/Beirut", "Africa/Cairo")  # fmt: skip


def test_closed_minutes_are_those_of_a_walk_along_the_clock() -> None:
    """Closes the same minutes for every shape; two of three walks are at a change of a zone's clock."""
    draw = random.Random(_SEED)
    names = sorted(zone_names())
    draw.shuffle(names)
    for number in range(_CASES):
        name = names[number % len(names)]
        changes = _changes(name, draw.randrange(2000, 2041))
        middle = at("2000-01-05 00:00") + timedelta(minutes=draw.randrange(40 * 525_960))
        if changes and number % 3:
            middle = draw.choice(changes)
        _assert_as_walked(draw, name, middle, _KINDS, f"case {number} of {_SEED}")


@pytest.mark.parametrize("kind", [ClosedKind.ONCE, ClosedKind.WEEKLY, ClosedKind.YEARLY])
@pytest.mark.parametrize("name", _TURNS)
def test_closings_hold_at_the_strangest_changes_of_the_clock(name: str, kind: ClosedKind) -> None:
    """Closes the same minutes at missing days, changes at midnight, and changes of half an hour or two."""
    draw = random.Random(f"{_SEED} {name} {kind}")
    for year in (2011, 2018):
        for change in _changes(name, year)[-1:]:
            _assert_as_walked(draw, name, change, [kind], f"{name} {change}")


def _assert_as_walked(
    draw: random.Random, name: str, middle: datetime, kinds: Sequence[ClosedKind], case: str
) -> None:
    """Compares periods of random shapes in every minute of two days around an instant."""
    zone = place(name)
    since, until = middle - _DAY, middle + _DAY
    walked = walk(zone, since - _MARGIN * _DAY, until + _MARGIN * _DAY)
    inside = range(_MARGIN * _MINUTES_A_DAY, walked.count - _MARGIN * _MINUTES_A_DAY)
    periods: list[ClosedPeriod] = []
    closed: list[set[int]] = []
    for number in range(_SHAPES):
        when = _when(draw, kinds[number % len(kinds)], middle.astimezone(zone))
        period = closed_period(when, timezone=name)
        expected = closed_numbers(when, walked).intersection(inside)
        seen: set[int] = set()
        for closing in closings(period, since=since, until=until):
            assert closing.end is not None
            seen.update(
                range(
                    max(_number(walked, closing.start), inside.start),
                    min(_number(walked, closing.end), inside.stop),
                )
            )
        assert seen == expected, f"{case} {when}"
        periods.append(period)
        closed.append(expected)
    for count in range(1, len(periods) + 1):
        times = ClosedTimes(periods[:count], since - _DAY)
        expected = set().union(*closed[:count])
        for _ in range(2):
            _assert_jumps(draw, periods[:count], times, walked, inside, expected, f"{case} {periods[:count]}")


def _number(walked: Walk, instant: datetime) -> int:
    """Returns the number of the first minute of a walk that does not begin before an instant."""
    return -((walked.since - instant) // _MINUTE)


def _assert_jumps(
    draw: random.Random,
    periods: Sequence[ClosedPeriod],
    times: ClosedTimes,
    walked: Walk,
    inside: range,
    expected: set[int],
    case: str,
) -> None:
    """Compares whether one minute is closed, the first open minute after it, and the first open slot."""
    number = draw.choice(inside)
    minute = walked.since + number * _MINUTE
    assert (closing_at(periods, minute) is not None) == (number in expected), case
    first = open_from(times, minute)  # None: closed day after day
    open_number = inside.stop if first is None else min(_number(walked, first), inside.stop)
    assert open_number not in expected, case
    assert expected.issuperset(range(number, open_number)), case
    # Pauses of minutes put more slots into a closing than a search reads before it begins a new stream.
    pause = draw.choice((1, 7, 60, 300, 1440))
    numbers = range(number, inside.stop, pause)

    def slots_from(instant: datetime) -> Iterator[datetime]:
        return (slot for each in numbers if (slot := walked.since + each * _MINUTE) >= instant)

    open_slots = (walked.since + each * _MINUTE for each in numbers if each not in expected)
    assert first_open(slots_from, times, minute) == next(open_slots, None), case


def _when(draw: random.Random, kind: ClosedKind, local: datetime) -> ClosedWhen:
    """Returns a shape with an edge within an hour or two of `local`."""
    near = local.replace(tzinfo=None) + timedelta(minutes=draw.randrange(-90, 91))
    other = near + timedelta(minutes=draw.choice((30, 60, 90, 600, 1440, 2000)) * draw.choice((1, -1)))
    start, end = min(near, other), max(near, other)
    if kind is ClosedKind.ONCE:
        return ClosedWhen(kind, start=f"{start:%Y-%m-%dT%H:%M}", end=f"{end:%Y-%m-%dT%H:%M}")
    if kind is ClosedKind.YEARLY:
        return ClosedWhen(kind, first=f"{start:%m-%d}", last=f"{end:%m-%d}")
    days = tuple(sorted(draw.sample(range(1, 8), draw.randrange(1, 8))))
    if draw.random() < 0.4:
        return ClosedWhen(kind, days=days)
    return ClosedWhen(kind, days=days, from_time=f"{near:%H:%M}", to_time=f"{other:%H:%M}")


@cache
def _changes(name: str, year: int) -> list[datetime]:
    """Returns when the zone's clock changed, looking every week; a change there and back may be missed."""
    zone, week = place(name), at(f"{year}-01-01 00:00")
    instants = []
    while week.year == year:
        if week.astimezone(zone).utcoffset() != (week + 7 * _DAY).astimezone(zone).utcoffset():
            instants.append(stretches(zone, week, week + 7 * _DAY)[0].end)
        week += 7 * _DAY
    return instants
