"""Decides which slots are near enough to have `projected: false`, stored or not."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from steward.model.schedule import SEVERAL_A_DAY, Cadence, Schedule
from steward.scheduling.slots import next_slot, next_slots

_NEAR_FOR = timedelta(days=14)
_MAX_NEAR = 50

# Bounds for the time that fifty slots span in any zone: full hours are 30 to 90 minutes apart, six-hourly
# slots at least four hours.
_MIN_SPAN_OF_FIFTY = {Cadence.HOURLY: timedelta(hours=24), Cadence.EVERY_6_HOURS: timedelta(days=8)}
_MAX_SPAN_OF_FIFTY = {Cadence.HOURLY: timedelta(days=4)}


class Nearness:
    """Decides which slots are projected at one instant; computes each schedule's fiftieth slot once."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._near_until: dict[tuple[Schedule, str, int, datetime], datetime] = {}

    def is_projected(
        self,
        slot_at: datetime,
        schedule: Schedule,
        zone: ZoneInfo,
        *,
        spread_minutes: int,
        slots_after: datetime,
    ) -> bool:
        """Returns whether a slot without a stored row is shown as projected.

        The very next slot is not projected, nor are up to 50 slots within 14 days.
        """
        now, cadence = self._now, schedule.cadence
        if slot_at <= now + _MIN_SPAN_OF_FIFTY.get(cadence, _NEAR_FOR):
            return False
        slots_begin = max(slots_after, now)  # slots may begin in the future if the clock was set back
        if cadence in SEVERAL_A_DAY and slot_at > slots_begin + _MAX_SPAN_OF_FIFTY.get(cadence, _NEAR_FOR):
            return True
        key = (schedule, zone.key, spread_minutes, slots_begin)
        near_until = self._near_until.get(key)
        if near_until is None:
            near_until = self._near_until[key] = _near_until(
                schedule, zone, spread_minutes=spread_minutes, slots_after=slots_after, now=now
            )
        return slot_at > near_until


def _near_until(
    schedule: Schedule, zone: ZoneInfo, *, spread_minutes: int, slots_after: datetime, now: datetime
) -> datetime:
    """Returns the last instant up to which unedited slots are not projected."""
    near = now + _NEAR_FOR
    if schedule.cadence not in SEVERAL_A_DAY:  # at most one a day, so fifty are never reached
        first = next_slot(schedule, zone, spread_minutes=spread_minutes, after=now, slots_after=slots_after)
        return near if first is None else max(near, first.slot_at)
    coming = next_slots(
        schedule,
        zone,
        spread_minutes=spread_minutes,
        after=now,
        count=_MAX_NEAR,
        slots_after=slots_after,
    )
    return min(near, coming[-1].slot_at) if coming else near
