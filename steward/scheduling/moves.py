"""Computes the limits for moving one run, and the schedule after moving it and all later runs."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from steward.model.refusals import ValidationFailed
from steward.model.schedule import MONDAY_TO_FRIDAY, SEVERAL_A_DAY, Cadence, Schedule
from steward.scheduling.slots import key_instant, slot_after, slot_before
from steward.scheduling.words import local_words

DAYS_AHEAD = 366  # docs/design/schedule.md#moving-one-run

_FAR = timedelta(days=DAYS_AHEAD)
_WEEK = 7


@dataclass(frozen=True, slots=True)
class MovedSchedule:
    """The schedule after a `this_and_later` move, for slots after `slots_after` (R15).

    The moved row gets `local_key`.
    """

    schedule: Schedule
    slots_after: datetime
    local_key: str


def whole_seconds(instant: datetime) -> datetime:
    """Cuts an instant to whole seconds, the precision of a moved run."""
    return instant.replace(microsecond=0)


def check_this(
    new_run_at: datetime, *, now: datetime, present_run_at: datetime, occupied: Container[datetime]
) -> datetime:
    """Returns the new time of a run moved by `this`, which may equal `present_run_at`.

    `occupied` holds the `run_at` of the automation's other pending runs. Raises ValidationFailed on `run_at`.
    """
    run_at = whole_seconds(new_run_at)
    _check_range(run_at, now)
    if run_at != present_run_at and run_at in occupied:
        raise _refused("run_at", "Another run of this automation is planned for that time. Choose another.")
    return run_at


def move_this_and_later(
    schedule: Schedule,
    zone: ZoneInfo,
    local_key: str,
    *,
    new_run_at: datetime,
    now: datetime,
    slots_after: datetime | None,
    stored: Mapping[datetime, datetime],
) -> MovedSchedule:
    """Returns the schedule with the slot `local_key` and every later one moved.

    `stored` maps the `slot_at` of the automation's stored rows to their nominal instants: besides generated
    slots, these count as neighbours. Raises ValidationFailed on `slot_at` (no slots), `scope` or `run_at`, in
    this order.
    """
    if schedule.cadence is Cadence.MANUAL:
        raise _refused("slot_at", "This automation has no planned runs. Reload the calendar.")
    if schedule.cadence in SEVERAL_A_DAY:
        raise _refused(
            "scope", "Runs of an hourly or six-hourly schedule are moved one by one: send scope this."
        )
    if new_run_at.second or new_run_at.microsecond:
        raise _refused("run_at", "Give a time on a whole minute: the schedule itself changes with it.")
    _check_range(new_run_at, now)
    nominal_at = key_instant(schedule.cadence, zone, local_key)
    if schedule.cadence is not Cadence.ONCE:
        before, after = _neighbours(schedule, zone, nominal_at, slots_after, stored)
        _check_between(new_run_at, before, after, zone)
    local = new_run_at.astimezone(zone)
    changed = replace(
        _on_date(schedule, date.fromisoformat(local_key[:10]), local.date()),
        time_of_day=f"{local.hour:02}:{local.minute:02}",
    )
    return MovedSchedule(changed, new_run_at, f"{local.date().isoformat()}T{changed.time_of_day}")


def _neighbours(
    schedule: Schedule,
    zone: ZoneInfo,
    nominal_at: datetime,
    slots_after: datetime | None,
    stored: Mapping[datetime, datetime],
) -> tuple[datetime | None, datetime | None]:
    """Returns the nominal instants of the previous and the next slot, stored or generated."""
    before = slot_before(schedule, zone, nominal_at, slots_after=slots_after)
    after = slot_after(schedule, zone, nominal_at, slots_after=slots_after)
    earlier = [nominal for nominal in stored.values() if nominal < nominal_at]
    later = [nominal for nominal in stored.values() if nominal > nominal_at]
    earlier += [before.nominal_at] if before is not None else []
    later += [after.nominal_at] if after is not None else []
    return max(earlier, default=None), min(later, default=None)


def _on_date(schedule: Schedule, old: date, new: date) -> Schedule:
    """Returns the schedule with its date, weekday or day of the month changed from `old` to `new`.

    See docs/design/schedule.md#moving-this-and-later.
    """
    if new == old and schedule.cadence is not Cadence.ONCE:
        return schedule
    weekday = new.isoweekday()
    match schedule.cadence:
        case Cadence.ONCE:
            return replace(schedule, date=new.isoformat())
        case Cadence.WEEKDAYS:
            days = (set(schedule.days or MONDAY_TO_FRIDAY) - {old.isoweekday()}) | {weekday}
            return replace(schedule, days=tuple(sorted(days)))
        case Cadence.WEEKLY:
            return replace(schedule, day_of_week=weekday)
        case Cadence.MONTHLY if schedule.week_of_month is None:
            return replace(schedule, day_of_month=new.day)
        case Cadence.MONTHLY:
            week = _week_of_month(new, is_counted_from_end=schedule.week_of_month == -1)
            return replace(schedule, day_of_week=weekday, week_of_month=week)
    return schedule


def _week_of_month(day: date, *, is_counted_from_end: bool) -> int:
    """Returns the day's week of the month: 1 to 4, or -1 for the last week."""
    week = -(-day.day // _WEEK)
    is_in_last_week = (day + timedelta(days=_WEEK)).month != day.month
    return -1 if week == 5 or (is_counted_from_end and is_in_last_week) else week


def _check_range(run_at: datetime, now: datetime) -> None:
    if run_at <= now:
        raise _refused("run_at", "This time has already passed. Choose a later one.")
    if run_at - now > _FAR:
        raise _refused("run_at", f"This is too far ahead. Choose a time within the next {DAYS_AHEAD} days.")


def _check_between(run_at: datetime, before: datetime | None, after: datetime | None, zone: ZoneInfo) -> None:
    if before is not None and run_at <= before:
        raise _refused(
            "run_at", f"Choose a time after the run before this one ({local_words(before, zone)})."
        )
    if after is not None and run_at >= after:
        raise _refused("run_at", f"Choose a time before the run after this one ({local_words(after, zone)}).")


def _refused(field: str, words: str) -> ValidationFailed:
    return ValidationFailed(words, errors={field: [words]})
