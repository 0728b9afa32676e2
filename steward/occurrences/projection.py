"""Which slots are near enough to be answered as `projected: false`; whether rows are stored is no matter."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from steward.model.schedule import SEVERAL_A_DAY, Schedule
from steward.scheduling.slots import next_slot, next_slots

NEAR = timedelta(days=14)
MOST_NEAR = 50


def near_until(
    schedule: Schedule, zone: ZoneInfo, *, spread_minutes: int, slots_after: datetime, now: datetime
) -> datetime:
    """The last instant up to which slots nobody edited are not projected (schedule.md 6, `projected`).

    The very next slot always; else slots within 14 days of now, up to 50 of them.
    """
    near = now + NEAR
    if schedule.cadence not in SEVERAL_A_DAY:  # at most one a day: 50 are never reached
        first = next_slot(schedule, zone, spread_minutes=spread_minutes, after=now, slots_after=slots_after)
        return near if first is None else max(near, first.slot_at)
    coming = next_slots(
        schedule,
        zone,
        spread_minutes=spread_minutes,
        after=now,
        count=MOST_NEAR,
        slots_after=slots_after,
    )
    return min(near, coming[-1].slot_at) if coming else near


def is_projected(
    slot_at: datetime,
    schedule: Schedule,
    zone: ZoneInfo,
    *,
    spread_minutes: int,
    slots_after: datetime,
    now: datetime,
) -> bool:
    """Whether a slot without a stored row is answered as projected."""
    if schedule.cadence not in SEVERAL_A_DAY and slot_at <= now + NEAR:
        return False  # the common case, without looking at the zone
    return slot_at > near_until(
        schedule, zone, spread_minutes=spread_minutes, slots_after=slots_after, now=now
    )
