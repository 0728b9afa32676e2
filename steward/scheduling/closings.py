"""Computes the closings of closed periods as instants, and which slots stay open.

The rules are numbered in docs/design/closed-periods.md#rules-of-time.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache, partial
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import NamedTuple
from zoneinfo import ZoneInfo

from steward.model.closed_period import ClosedKind, ClosedPeriod, ClosedScopeKind, ClosedWhen, Closing, Stops
from steward.model.schedule import SlotNote
from steward.scheduling.nominal import LAST_DAY, clock_time, day_of_year
from steward.scheduling.zones import FIRST, LAST, instant_of, zone

# How many adjoining closings a search passes before it gives up and reports no open time.
MAX_JUMPS = 2_000
# How many closings a search reads before it also gives up; with over 50 periods, it passes fewer.
_MAX_CLOSINGS = 100_000
# How many stretches are computed in sequence, and how many distant ones are cached (about 2 MB).
_MAX_STRETCHES = 10_000
_MAX_REMEMBERED = 4_096
# Reading this many more slots costs less than starting a new stream.
_FEW_SLOTS = 5

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_INSTANT = timedelta(microseconds=1)
_NARROWEST_FIRST = {
    ClosedScopeKind.AUTOMATION: 0,
    ClosedScopeKind.STORE: 1,
    ClosedScopeKind.ORGANIZATION: 2,
}
# A day's closing may extend into the next day, and clock changes may shift it by one day more.
_LOOK_BACK_DAYS = 3


def zone_of(period: ClosedPeriod) -> ZoneInfo:
    """Returns the period's zone, or UTC if the zone package no longer has it (R22)."""
    named = zone(period.timezone)
    return ZoneInfo("UTC") if named is None else named


def closings(period: ClosedPeriod, *, since: datetime, until: datetime) -> Iterator[Closing]:
    """Yields the closings of one version that overlap [`since`, `until`), by start.

    This includes a closing that began before `since`. A version closes only while it is valid (R16).
    """
    begin = max(since, period.valid_from)
    end = until if period.valid_until is None else min(until, period.valid_until)
    if begin >= end:
        return
    for start, stop in _stretches(period, begin, end):
        clipped = max(start, period.valid_from)
        if period.valid_until is not None:
            stop = period.valid_until if stop is None else min(stop, period.valid_until)
        if clipped < end and (stop is None or (stop > begin and clipped < stop)):
            yield Closing(clipped, stop, period)


def all_closings(periods: Collection[ClosedPeriod], *, since: datetime, until: datetime) -> Iterator[Closing]:
    """Yields the closings of all `periods` that overlap [`since`, `until`), by start."""
    streams = [closings(period, since=since, until=until) for period in periods]
    return merge(*streams, key=attrgetter("start"))


def closing_at(periods: Collection[ClosedPeriod], instant: datetime) -> Closing | None:
    """Returns the closing at the instant, the preferred one of several (R19); None if it is open."""
    holding = [
        closing
        for period in periods
        for closing in closings(period, since=instant, until=instant + _INSTANT)
        if closing.holds(instant)
    ]
    return min(holding, key=_precedence, default=None)


class ClosedStretch(NamedTuple):
    """Overlapping or adjoining closings as one: [`start`, `end`), without `end` if it never opens again.

    `jumps` is the number of jumps from a closing's end into the next with which a search passes it,
    `closings` the number of its closings.
    """

    start: datetime
    end: datetime | None
    jumps: int
    closings: int


class ClosedTimes:
    """The times from an instant on at which at least one of several periods closes.

    It computes stretches on demand and caches them. All automations with the same periods share one object.
    """

    def __init__(self, periods: Collection[ClosedPeriod], since: datetime) -> None:
        self.max_jumps = min(MAX_JUMPS, _MAX_CLOSINGS // max(len(periods), 1))
        self._periods = periods
        self._since = since
        self._closings = all_closings(periods, since=since, until=LAST)
        self._ahead = next(self._closings, None)  # the first closing not yet in a stretch
        self._stretches: list[ClosedStretch] = []
        self._starts: list[datetime] = []
        self._distant = lru_cache(maxsize=_MAX_REMEMBERED)(partial(_stretch_of, periods, self.max_jumps))
        self._first_open: dict[tuple[Hashable, datetime], datetime | None] = {}

    def stretch_at(self, instant: datetime) -> ClosedStretch | None:
        """Returns the closed stretch at an instant not before `since`; None if it is open."""
        read = 0
        while self._ahead is not None and self._ahead.start <= instant:
            # for a distant instant, a new search costs less than reading all closings before it
            if read >= 2 * len(self._periods) or len(self._stretches) == _MAX_STRETCHES:
                return self._distant(instant)
            read += self._add_stretch(self._ahead)
        index = bisect_right(self._starts, instant) - 1
        if index < 0:
            return None
        stretch = self._stretches[index]
        return stretch if stretch.end is None or instant < stretch.end else None

    def closing_at(self, instant: datetime) -> Closing | None:
        """Returns the closing at the instant, the preferred one of several (R19); None if it is open."""
        return None if self.stretch_at(instant) is None else closing_at(self._periods, instant)

    def first_open_of(
        self, stream: Hashable, slots_from: Callable[[datetime], Iterator[datetime]], since: datetime
    ) -> datetime | None:
        """Like `first_open`, but searches only once for all automations with the same `stream` key."""
        key = stream, since
        if key not in self._first_open:
            self._first_open[key] = first_open(slots_from, self, since)
        return self._first_open[key]

    def _add_stretch(self, first: Closing) -> int:
        """Computes the next stretch and returns the number of its closings."""
        stretch, self._ahead = _join(first, self._closings, self._since, self.max_jumps)
        self._starts.append(stretch.start)
        self._stretches.append(stretch)
        return stretch.closings


def _stretch_of(periods: Collection[ClosedPeriod], max_jumps: int, instant: datetime) -> ClosedStretch | None:
    """Returns the stretch at an instant, starting with the closings there; None if it is open."""
    stream = all_closings(periods, since=instant, until=LAST)
    first = next(stream, None)
    if first is None or first.start > instant:
        return None
    return _join(first, stream, instant, max_jumps)[0]


def _join(
    first: Closing, others: Iterator[Closing], since: datetime, max_jumps: int
) -> tuple[ClosedStretch, Closing | None]:
    """Joins a closing with overlapping or adjoining ones; returns the stretch and the closing after it.

    A search jumps to the latest end of the closings at its instant, so the other ones cost no jump.
    """
    jumped_to = end = max(first.start, since)
    jumps, count = 0, 0
    ahead: Closing | None = first
    while ahead is not None and ahead.start <= end:
        count += 1
        if ahead.start > jumped_to:
            jumped_to = end
        if end == jumped_to and (ahead.end is None or ahead.end > end):
            jumps += 1
        if ahead.end is None or jumps >= max_jumps or count >= _MAX_CLOSINGS:
            return ClosedStretch(first.start, None, jumps, count), None
        end = max(end, ahead.end)
        ahead = next(others, None)
    return ClosedStretch(first.start, end, jumps, count), ahead


def first_open(
    slots_from: Callable[[datetime], Iterator[datetime]], closed: ClosedTimes, since: datetime
) -> datetime | None:
    """Returns the first slot at or after `since` outside all closings (R21).

    `slots_from(instant)` returns the slots from an instant on. The search skips closings with more than a few
    slots in one jump.
    """
    stream = slots_from(since)
    slot = next(stream, None)
    jumps = 0
    while slot is not None and jumps < closed.max_jumps:
        stretch = closed.stretch_at(slot)
        if stretch is None:
            return slot
        if stretch.end is None:
            return None
        jumps += stretch.jumps
        stream, slot = _advance(stream, slots_from, stretch.end)
    return None


def count_closed(
    slots_from: Callable[[datetime], Iterator[datetime]], stretches: Sequence[tuple[datetime, datetime]]
) -> int:
    """Counts the slots within stretches, which are sorted and disjoint, by merging both.

    `slots_from(instant)` returns the slots from an instant on; it may end with the last stretch.
    """
    count = 0
    stream: Iterator[datetime] = iter(())
    slot: datetime | None = FIRST
    for start, end in stretches:
        if slot is not None and slot < start:
            stream, slot = _advance(stream, slots_from, start)
        while slot is not None and slot < end:
            count += 1
            slot = next(stream, None)
    return count


def _advance(
    stream: Iterator[datetime], slots_from: Callable[[datetime], Iterator[datetime]], instant: datetime
) -> tuple[Iterator[datetime], datetime | None]:
    """Returns the stream after the first slot at or after `instant`, and that slot."""
    slot = next((later for later in islice(stream, _FEW_SLOTS) if later >= instant), None)
    if slot is None:
        stream = slots_from(instant)
        slot = next(stream, None)
    return stream, slot


def _first_instant(day: date, tz: ZoneInfo) -> datetime:
    """Returns the first instant at which the local clock shows `day` or a later date (R17)."""
    midnight, note = instant_of(day, time(0), tz)
    return _end_of_gap(day, tz) if note is SlotNote.GAP else midnight


@lru_cache(maxsize=4096)
def _end_of_gap(day: date, tz: ZoneInfo) -> datetime:
    """Returns the instant of the clock change that skips the day's midnight."""
    wall = datetime.combine(day, time(0), tz)
    after = wall.astimezone(UTC)
    before = wall.replace(fold=1).astimezone(UTC)  # in a gap, the later offset yields the earlier instant
    while after - before > _SECOND:
        middle = before + (after - before) // 2
        if middle.astimezone(tz).date() >= day:
            after = middle
        else:
            before = middle
    return after.replace(microsecond=0)


def _end_instant(day: date, local_time: time, tz: ZoneInfo) -> datetime:
    """Returns the instant at which a closing ends; the second one if the local time repeats (R17)."""
    instant, note = instant_of(day, local_time, tz)
    if note is SlotNote.FOLD:
        return datetime.combine(day, local_time, tz).replace(fold=1).astimezone(UTC)
    return instant


def _stretches(
    period: ClosedPeriod, since: datetime, until: datetime
) -> Iterator[tuple[datetime, datetime | None]]:
    """Yields the rule's stretches that may overlap the range, ignoring the version's validity."""
    when, tz = period.when, zone_of(period)
    if when.kind is ClosedKind.FREEZE:
        yield period.valid_from, None
        return
    if when.kind is ClosedKind.ONCE:
        yield _once(when, tz)
        return
    stream = _weekly if when.kind is ClosedKind.WEEKLY else _yearly
    first_day = max(since, FIRST + _LOOK_BACK_DAYS * _DAY).astimezone(tz).date()
    for start, end in stream(when, tz, first_day):
        if start >= min(until, LAST):
            return
        if start < end and end > since:
            yield start, end


def _once(when: ClosedWhen, tz: ZoneInfo) -> tuple[datetime, datetime]:
    start, end = local_of(when.start), local_of(when.end)
    return instant_of(start.date(), start.time(), tz)[0], _end_instant(end.date(), end.time(), tz)


def local_of(text: str | None) -> datetime:
    """Parses a local time `YYYY-MM-DDTHH:MM`; the result has no zone."""
    if text is None:
        raise ValueError("the closed period lacks a time that its kind needs")
    return datetime.fromisoformat(text)


def _weekly(when: ClosedWhen, tz: ZoneInfo, since: date) -> Iterator[tuple[datetime, datetime]]:
    day = since - _LOOK_BACK_DAYS * _DAY
    while day < LAST_DAY:
        if day.isoweekday() in when.days:
            yield _of_day(when, tz, day)
        day += _DAY


def _of_day(when: ClosedWhen, tz: ZoneInfo, day: date) -> tuple[datetime, datetime]:
    """Returns the closing that a weekly period has on a date (R18)."""
    if when.from_time is None or when.to_time is None:
        return _first_instant(day, tz), _first_instant(day + _DAY, tz)
    start, end = clock_time(when.from_time), clock_time(when.to_time)
    end_day = day if end > start else day + _DAY
    return instant_of(day, start, tz)[0], _end_instant(end_day, end, tz)


def _yearly(when: ClosedWhen, tz: ZoneInfo, since: date) -> Iterator[tuple[datetime, datetime]]:
    for year in range(max(since.year - 2, 1), LAST_DAY.year):
        first = day_of_year(when.first, year)
        last = day_of_year(when.last, year)
        if last < first:  # spans New Year
            last = day_of_year(when.last, year + 1)
        yield _first_instant(first, tz), _first_instant(last + _DAY, tz)


def _precedence(closing: Closing) -> tuple[int, float, str]:
    latest_first = float("-inf") if closing.end is None else -closing.end.timestamp()
    return _NARROWEST_FIRST[closing.period.scope.kind], latest_first, closing.period.id


def stopping_runs(periods: Collection[ClosedPeriod]) -> tuple[ClosedPeriod, ...]:
    """Returns those of the periods that keep runs from beginning."""
    return tuple(period for period in periods if period.stops is Stops.RUNS)
