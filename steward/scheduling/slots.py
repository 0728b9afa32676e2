"""Computes the slots of each cadence, including spread, as a bounded stream; ignores stored rows."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from steward.model.schedule import Cadence, Schedule, SlotNote
from steward.scheduling.nominal import clock_time, dates_of, is_shortened, times_of
from steward.scheduling.zones import FIRST, LAST, at_seconds, instant_of, offset_seconds, seconds_of

_DAY = timedelta(days=1)
_INSTANT = timedelta(microseconds=1)

# How far back the previous slot can be: the cadence's longest interval, and two days for clock changes of up
# to a day.
_LOOK_BACK = {
    Cadence.HOURLY: timedelta(hours=3),
    Cadence.EVERY_6_HOURS: timedelta(days=3),
    Cadence.DAILY: timedelta(days=3),
    Cadence.WEEKDAYS: timedelta(days=9),
    Cadence.WEEKLY: timedelta(days=9),
    Cadence.MONTHLY: timedelta(days=37),
}


@dataclass(frozen=True, slots=True)
class Slot:
    """A time that the schedule produces; `local_key` identifies it within one schedule."""

    slot_at: datetime
    nominal_at: datetime
    local_key: str
    note: SlotNote | None

    @property
    def nominal_on(self) -> date:
        """The date of the local key; for `hourly` it is the UTC date."""
        return date.fromisoformat(self.local_key[:10])


def slots(
    schedule: Schedule,
    zone: ZoneInfo,
    *,
    spread_minutes: int,
    after: datetime,
    until: datetime,
    slots_after: datetime | None = None,
) -> Iterator[Slot]:
    """Returns the slots with `slot_at` after `after` and before `until`, ascending (R1 to R12).

    Slots exist only if their nominal instant is after `slots_after` (R15). `spread_minutes` is added last, as
    elapsed time (R7).
    """
    spread = timedelta(minutes=spread_minutes)
    floor = max(after, FIRST) - spread
    if slots_after is not None and slots_after > floor:
        floor = slots_after
    end = min(until, LAST) - spread
    if schedule.cadence is Cadence.MANUAL or floor >= end:  # R12
        return iter(())
    stream = _hourly if schedule.cadence is Cadence.HOURLY else _at_fixed_times
    return stream(schedule, zone, spread, floor, end)


def next_slots(
    schedule: Schedule,
    zone: ZoneInfo,
    *,
    spread_minutes: int,
    after: datetime,
    count: int,
    slots_after: datetime | None = None,
) -> list[Slot]:
    """Returns the first `count` slots with `slot_at` strictly after `after` (R9), or as many as exist."""
    stream = slots(
        schedule, zone, spread_minutes=spread_minutes, after=after, until=LAST, slots_after=slots_after
    )
    return list(islice(stream, count))


def next_slot(
    schedule: Schedule,
    zone: ZoneInfo,
    *,
    spread_minutes: int,
    after: datetime,
    slots_after: datetime | None = None,
) -> Slot | None:
    """Returns the first slot with `slot_at` strictly after `after` (R9), or None."""
    stream = slots(
        schedule, zone, spread_minutes=spread_minutes, after=after, until=LAST, slots_after=slots_after
    )
    return next(stream, None)


def find_slot(
    schedule: Schedule,
    zone: ZoneInfo,
    slot_at: datetime,
    *,
    spread_minutes: int,
    slots_after: datetime | None = None,
) -> Slot | None:
    """Returns the slot at exactly `slot_at`, or None."""
    until = slot_at + _INSTANT
    after = slot_at - _INSTANT
    stream = slots(
        schedule, zone, spread_minutes=spread_minutes, after=after, until=until, slots_after=slots_after
    )
    return next(stream, None)


def slot_before(
    schedule: Schedule, zone: ZoneInfo, nominal_at: datetime, *, slots_after: datetime | None = None
) -> Slot | None:
    """Returns the last slot whose nominal instant lies before `nominal_at`, without spread, or None."""
    look_back = _LOOK_BACK.get(schedule.cadence)
    after = FIRST if look_back is None else max(nominal_at - look_back, FIRST)
    last: Slot | None = None
    for slot in slots(
        schedule, zone, spread_minutes=0, after=after, until=nominal_at, slots_after=slots_after
    ):
        last = slot
    return last


def slot_after(
    schedule: Schedule, zone: ZoneInfo, nominal_at: datetime, *, slots_after: datetime | None = None
) -> Slot | None:
    """Returns the first slot whose nominal instant lies after `nominal_at`, without spread, or None."""
    return next_slot(schedule, zone, spread_minutes=0, after=nominal_at, slots_after=slots_after)


def key_instant(cadence: Cadence, zone: ZoneInfo, local_key: str) -> datetime:
    """Returns the nominal instant of a local key, even of one from an earlier schedule."""
    day, local_time = date.fromisoformat(local_key[:10]), clock_time(local_key[11:])
    if cadence is Cadence.HOURLY:
        return at_seconds(
            (day - date(1970, 1, 1)).days * 86_400 + local_time.hour * 3600 + local_time.minute * 60
        )
    return instant_of(day, local_time, zone)[0]


def slot_of_key(
    schedule: Schedule,
    zone: ZoneInfo,
    local_key: str,
    *,
    spread_minutes: int,
    slots_after: datetime | None = None,
) -> Slot | None:
    """Returns the slot with this local key, or None."""
    slot_at = key_instant(schedule.cadence, zone, local_key) + timedelta(minutes=spread_minutes)
    slot = find_slot(schedule, zone, slot_at, spread_minutes=spread_minutes, slots_after=slots_after)
    return slot if slot is not None and slot.local_key == local_key else None


def slot_on(
    schedule: Schedule,
    zone: ZoneInfo,
    day: date,
    *,
    spread_minutes: int,
    slots_after: datetime | None = None,
) -> Slot | None:
    """Returns the first slot of this nominal date, or None."""
    if schedule.cadence in (Cadence.MANUAL, Cadence.HOURLY):
        return None
    around = instant_of(day, clock_time("00:00"), zone)[0]
    for slot in slots(
        schedule,
        zone,
        spread_minutes=spread_minutes,
        after=around - 2 * _DAY,
        until=around + 3 * _DAY,
        slots_after=slots_after,
    ):
        if slot.nominal_on == day:
            return slot
    return None


def _at_fixed_times(
    schedule: Schedule, zone: ZoneInfo, spread: timedelta, floor: datetime, end: datetime
) -> Iterator[Slot]:
    """Yields the slots of a cadence with local times of day."""
    # A time in a gap may fall on or after the next one (a skipped day, Apia 2011), so it is held until a time
    # outside gaps is reached; if both are the same instant, the later date is the slot (R8). A nominal date
    # lies at most one day before the date that the clock then shows.
    since = floor.astimezone(zone).date() - _DAY
    at_times = [
        (local_time, f"T{local_time.hour:02}:{local_time.minute:02}") for local_time in times_of(schedule)
    ]
    held: deque[Slot] = deque()
    for day in dates_of(schedule, since):
        day_note = SlotNote.SHORT_MONTH if is_shortened(schedule, day) else None
        for local_time, key_time in at_times:
            nominal_at, clock_note = instant_of(day, local_time, zone)
            if nominal_at <= floor:
                continue
            slot = Slot(nominal_at + spread, nominal_at, day.isoformat() + key_time, clock_note or day_note)
            if clock_note is SlotNote.GAP:
                held.append(slot)
                continue
            if held:
                yield from _release(held, nominal_at, end)
            if nominal_at >= end:
                return
            yield slot
    yield from _release(held, end, end)


def _release(held: deque[Slot], nominal_at: datetime, end: datetime) -> Iterator[Slot]:
    """Yields the held slots before `nominal_at`, and drops one at that very instant."""
    while held and held[0].nominal_at < min(nominal_at, end):
        yield held.popleft()
    if held and held[0].nominal_at == nominal_at:
        held.popleft()


def _hourly(
    _schedule: Schedule, zone: ZoneInfo, spread: timedelta, floor: datetime, end: datetime
) -> Iterator[Slot]:
    """Yields the slots at each full hour of the local clock."""
    # Steps in UTC from one full hour of the local clock to the next, with one conversion per hour. After a
    # change of offset, the full hours of both offsets are tried, and kept if the clock shows them. Adding 60
    # minutes alone would miss 00:00 when 23:30 becomes 00:00 (Pyongyang 2018).
    seconds, last = seconds_of(floor), seconds_of(end)
    offset = offset_seconds(floor, zone)
    while seconds <= last:
        coming = seconds + 3600 - (seconds + offset) % 3600
        nominal_at = at_seconds(coming)
        offset_then = offset_seconds(nominal_at, zone)
        if offset_then != offset:
            sooner = seconds + 3600 - (seconds + offset_then) % 3600
            if sooner < coming:
                yield from _full_hour(sooner, zone, spread, end)
        if (coming + offset_then) % 3600 == 0:
            if nominal_at >= end:
                return
            yield Slot(nominal_at + spread, nominal_at, nominal_at.isoformat()[:16], None)
        seconds, offset = coming, offset_then


def _full_hour(seconds: int, zone: ZoneInfo, spread: timedelta, end: datetime) -> Iterator[Slot]:
    instant = at_seconds(seconds)
    if instant < end and (seconds + offset_seconds(instant, zone)) % 3600 == 0:
        yield Slot(instant + spread, instant, instant.isoformat()[:16], None)
