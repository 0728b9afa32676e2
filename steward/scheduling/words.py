"""Describes schedules and slots affected by clock changes in words; the web app uses the same phrases."""

from datetime import date, datetime, tzinfo

from steward.model.schedule import MONDAY_TO_FRIDAY, Cadence, Schedule

# not from strftime, whose names depend on the locale
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WEEKS = {1: "first", 2: "second", 3: "third", 4: "fourth", -1: "last"}
_SHORTEST_MONTH = 28


def schedule_words(schedule: Schedule, timezone: str) -> str:
    """Returns the schedule in one sentence, such as "Every day at 08:00 (Europe/Berlin)"."""
    if schedule.cadence is Cadence.MANUAL:
        return "Only when run by hand"
    return f"{_rule(schedule)} ({timezone})"


def spread_words(spread_max: int) -> str | None:
    """Returns a sentence saying that a run may start a few minutes late; None if it cannot."""
    if spread_max == 0:
        return None
    minutes = "1 minute" if spread_max == 1 else f"{spread_max} minutes"
    return f"A run may start up to {minutes} later."


def local_words(instant: datetime, zone: tzinfo) -> str:
    """Returns an instant in local time, such as "Thursday 15 January 2026 at 08:00"."""
    local = instant.astimezone(zone)
    return f"{day_words(local.date())} at {local.strftime('%H:%M')}"


def day_words(day: date) -> str:
    """Returns a date, such as "Thursday 15 January 2026"."""
    return f"{WEEKDAYS[day.weekday()]} {day.day} {MONTHS[day.month - 1]} {day.year}"


def ordinal(number: int) -> str:
    """Returns an ordinal number: 1st, 2nd, 3rd, 11th, 31st."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _list_words(words: list[str]) -> str:
    """Joins words with commas and “and”: "Monday, Wednesday and Friday"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _rule(schedule: Schedule) -> str:
    at_time = f"at {schedule.time_of_day}"
    match schedule.cadence:
        case Cadence.HOURLY:
            return "Every hour, on the hour"
        case Cadence.EVERY_6_HOURS:
            return "Every 6 hours, at 00:00, 06:00, 12:00 and 18:00"
        case Cadence.DAILY:
            return f"Every day {at_time}"
        case Cadence.WEEKDAYS:
            return f"Every {_days_words(schedule.days)} {at_time}"
        case Cadence.WEEKLY:
            return f"Every {_weekday(schedule)} {at_time}"
        case Cadence.MONTHLY:
            return f"{_monthly_words(schedule)} {at_time}"
        case Cadence.ONCE:
            return f"Once, on {day_words(date.fromisoformat(str(schedule.date)))} {at_time}"
        case Cadence.MANUAL:
            return "Only when run by hand"


def _days_words(days: tuple[int, ...] | None) -> str:
    rising = sorted(days or MONDAY_TO_FRIDAY)
    if len(rising) == len(WEEKDAYS):
        return "day"
    is_unbroken = rising[-1] - rising[0] == len(rising) - 1
    if is_unbroken and len(rising) > 2:
        return f"{WEEKDAYS[rising[0] - 1]} to {WEEKDAYS[rising[-1] - 1]}"
    return _list_words([WEEKDAYS[day - 1] for day in rising])


def _monthly_words(schedule: Schedule) -> str:
    if schedule.week_of_month is not None:
        return f"Every {_WEEKS[schedule.week_of_month]} {_weekday(schedule)} of the month"
    day = schedule.day_of_month or 1
    shorter = " (on its last day when it is shorter)" if day > _SHORTEST_MONTH else ""
    return f"On the {ordinal(day)} of each month{shorter}"


def _weekday(schedule: Schedule) -> str:
    return WEEKDAYS[(schedule.day_of_week or 1) - 1]
