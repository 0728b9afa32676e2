"""Converts the schedules of n8n's triggers to Steward's cadences."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Fields = Mapping[str, Any]
_NUMBER = re.compile(r"(?:=\s{0,5}(?:\{\{)?)?\s{0,5}([0-9]{1,6})\s{0,5}(?:\}\})?")
_LONGEST_NUMBER = 24  # characters, with the braces of an expression


@dataclass(frozen=True, slots=True)
class ScheduleReading:
    """The cadence that corresponds to a trigger's schedule.

    `schedule` is the proposed cadence, or None if none is close enough; `difference` says how it differs from
    the file's schedule; `nearest` names a cadence in words. An empty schedule never starts in n8n.
    """

    schedule: Fields | None = None
    nearest: str = ""
    difference: str = ""
    is_empty: bool = False

    def words(self) -> str:
        """Returns a sentence about the difference and the choice to make."""
        if self.is_empty:
            return "Its schedule is empty, so it never starts in n8n. Choose a schedule when you set it up."
        if self.difference:
            return self.difference
        return (
            "Steward has no cadence like its schedule. "
            f"The nearest is {self.nearest}; choose one when you set it up."
        )


_EVERY_12_HOURS = ScheduleReading(
    {"cadence": "every_6_hours"},
    difference="In n8n it starts every 12 hours; every 6 hours is proposed here. "
    "Choose daily when you set it up if that is too often.",
)


def _every_7_days(run_at: str, day_of_week: int = 1) -> ScheduleReading:
    """Returns a weekly schedule for a start every seven days counted from activation."""
    return ScheduleReading(
        {"cadence": "weekly", "run_at": run_at, "day_of_week": day_of_week},
        difference="It starts every seventh day; weekly on Monday is proposed here. "
        "Choose the day when you set it up.",
    )


def _daily_at_some_time() -> ScheduleReading:
    return ScheduleReading(
        {"cadence": "daily", "run_at": "00:00"},
        difference="It starts every 24 hours after it is switched on; daily at midnight is proposed here. "
        "Choose the time when you set it up.",
    )


def wire(**fields: Any) -> dict[str, Any]:
    """Returns a schedule with all its fields."""
    names = ("cadence", "run_at", "day_of_week", "day_of_month", "date", "days", "week_of_month")
    return {name: fields.get(name) for name in names}


def read_schedule(trigger_type: str, parameters: Fields) -> ScheduleReading:
    """Reads the schedule of a scheduleTrigger, cron or interval node."""
    if trigger_type == "interval":
        every = _with_numbers(parameters.get("interval", 1))
        return _since_activation(parameters.get("unit", "seconds"), every)
    if trigger_type == "cron":
        rules = _rows(parameters.get("triggerTimes"), "item")
        return _single_rule(rules, _older_rule) if rules else ScheduleReading(is_empty=True)
    rule = parameters.get("rule")
    if isinstance(rule, Mapping) and rule.get("interval") == []:
        return ScheduleReading(is_empty=True)
    return _single_rule(_rows(rule, "interval") or [{}], _rule)


def _rows(value: Any, name: str) -> list[Fields]:
    rows = value.get(name) if isinstance(value, Mapping) else None
    return [_with_numbers(row) for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _with_numbers(value: Any) -> Any:
    """Returns a setting with its numbers as numbers, including those written as text or expressions."""
    if isinstance(value, Mapping):
        return {name: _with_numbers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_with_numbers(member) for member in value]
    if not isinstance(value, str):
        return value
    text = value.strip()
    match = _NUMBER.fullmatch(text) if len(text) <= _LONGEST_NUMBER else None
    return int(match[1]) if match else value


def _single_rule(rules: list[Fields], read: Callable[[Fields], ScheduleReading]) -> ScheduleReading:
    readings = [reading for reading in map(read, rules) if not reading.is_empty]
    if not readings:
        return ScheduleReading(is_empty=True)
    if len(readings) == 1:
        return readings[0]
    nearest = readings[0].nearest or str((readings[0].schedule or {}).get("cadence", "")).replace("_", " ")
    return ScheduleReading(nearest=nearest)


_HOURS = {("hours", 1): 1, ("hours", 6): 6, ("minutes", 60): 1, ("minutes", 360): 6}
_HALF_DAYS = (("hours", 12), ("minutes", 720))
_DAYS = (("hours", 24), ("minutes", 1440), ("days", 1))


def _since_activation(unit: Any, count: Any) -> ScheduleReading:
    """Returns the cadence for a schedule that counts from the workflow's activation."""
    every = (str(unit), count if isinstance(count, int) else 0)
    if every in _HOURS:
        return _on_the_hour(_HOURS[every])
    if every in _HALF_DAYS:
        return _EVERY_12_HOURS
    if every in _DAYS:
        return _daily_at_some_time()
    if every in (("days", 7), ("weeks", 1), ("hours", 168)):
        return _every_7_days("00:00")
    return ScheduleReading(nearest="daily" if unit in ("days", "weeks") else "hourly")


def _on_the_hour(hours: int) -> ScheduleReading:
    return ScheduleReading({"cadence": "hourly" if hours == 1 else "every_6_hours"})


def _time_of_day(row: Fields, hour: str, minute: str) -> str | None:
    """Returns the time as HH:MM, or None for an expression or an invalid time."""
    hours, minutes = row.get(hour, 0), row.get(minute, 0)
    if not _is_count(hours, 0, 23) or not _is_count(minutes, 0, 59):
        return None
    return f"{hours:02d}:{minutes:02d}"


def _is_count(value: object, minimum: int, maximum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum


def _rule(row: Fields) -> ScheduleReading:
    kind = row.get("field", "days")
    if kind == "cronExpression":
        return _cron(str(row.get("expression") or ""))
    if kind == "minutes":
        is_hourly = row.get("minutesInterval", 5) == 60
        return _on_the_hour(1) if is_hourly else ScheduleReading(nearest="hourly")
    if kind == "hours":
        return _every_hours(row)
    run_at = _time_of_day(row, "triggerAtHour", "triggerAtMinute")
    if kind == "weeks":
        return _weekly(row, run_at)
    if kind == "months":
        return _monthly(row, run_at)
    if kind != "days":
        return ScheduleReading(nearest="hourly")
    every = row.get("daysInterval", 1)
    if run_at is not None and every == 1:
        return ScheduleReading({"cadence": "daily", "run_at": run_at})
    return _every_7_days(run_at) if run_at is not None and every == 7 else ScheduleReading(nearest="daily")


def _every_hours(row: Fields) -> ScheduleReading:
    every, minute = row.get("hoursInterval", 1), row.get("triggerAtMinute", 0)
    if every == 24 and _is_count(minute, 0, 59):
        return ScheduleReading({"cadence": "daily", "run_at": f"00:{minute:02d}"})
    if minute == 0 and every in (1, 6):
        return _on_the_hour(every)
    if every == 12:
        return _EVERY_12_HOURS
    return ScheduleReading(nearest="every 6 hours" if _is_count(every, 4, 8) else "hourly")


def _monthly(row: Fields, run_at: str | None) -> ScheduleReading:
    day = row.get("triggerAtDayOfMonth", 1)
    if run_at is not None and row.get("monthsInterval", 1) == 1 and _is_count(day, 1, 28):
        return ScheduleReading({"cadence": "monthly", "run_at": run_at, "day_of_month": day})
    return ScheduleReading(nearest="monthly, which takes the last day in a shorter month")


def _weekly(row: Fields, run_at: str | None) -> ScheduleReading:
    days = row.get("triggerAtDay", [0])
    if run_at is None or row.get("weeksInterval", 1) != 1 or not isinstance(days, list):
        return ScheduleReading(nearest="weekly")
    if not days or not all(_is_count(day, 0, 7) for day in days):
        return ScheduleReading(nearest="weekly")
    return _on_days(sorted({day or 7 for day in days}), run_at)


def _on_days(days: list[int], run_at: str) -> ScheduleReading:
    if len(days) == 1:
        return ScheduleReading({"cadence": "weekly", "run_at": run_at, "day_of_week": days[0]})
    return ScheduleReading({"cadence": "weekdays", "run_at": run_at, "days": days})


def _older_rule(row: Fields) -> ScheduleReading:
    mode = row.get("mode", "everyDay")
    if mode == "custom":
        return _cron(str(row.get("cronExpression") or ""))
    if mode == "everyHour":
        return _on_the_hour(1) if row.get("minute", 0) == 0 else ScheduleReading(nearest="hourly")
    if mode == "everyX":
        return _since_activation(row.get("unit", "hours"), row.get("value", 2))
    run_at = _time_of_day({"hour": row.get("hour", 14), "minute": row.get("minute", 0)}, "hour", "minute")
    if run_at is None:
        return ScheduleReading(nearest="monthly" if mode == "everyMonth" else "hourly")
    return _older_day_rule(row, mode, run_at)


def _older_day_rule(row: Fields, mode: Any, run_at: str) -> ScheduleReading:
    if mode == "everyDay":
        return ScheduleReading({"cadence": "daily", "run_at": run_at})
    if mode == "everyWeek":
        weekday = row.get("weekday", 1)
        return (
            _on_days([weekday or 7], run_at)
            if _is_count(weekday, 0, 7)
            else ScheduleReading(nearest="weekly")
        )
    if mode != "everyMonth":
        return ScheduleReading(nearest="hourly")
    day = row.get("dayOfMonth", 1)
    if _is_count(day, 1, 28):
        return ScheduleReading({"cadence": "monthly", "run_at": run_at, "day_of_month": day})
    return ScheduleReading(nearest="monthly")


_CRON_FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))  # minute, hour, day, month, day of the week
_ALL_HOURS = frozenset(range(24))
_EVERY_6_HOURS = frozenset((0, 6, 12, 18))
_DAY_NAMES = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@weekdays": "0 0 * * 1-5",
    "@weekends": "0 0 * * 0,6",
}


def _cron(expression: str) -> ScheduleReading:
    """Returns the cadence that equals a cron expression, or the nearest one."""
    text = expression.lstrip("= ").strip().lower()
    fields = _cron_fields(_PRESETS.get(text, text))
    if not fields:
        return ScheduleReading(is_empty=True)
    if len(fields) != 5:
        return ScheduleReading(nearest="daily")
    return _cron_sets(
        *(_cron_values(field, *bounds) for field, bounds in zip(fields, _CRON_FIELDS, strict=True))
    )


def _cron_sets(
    minutes: frozenset[int],
    hours: frozenset[int],
    days: frozenset[int],
    months: frozenset[int],
    weekdays: frozenset[int],
) -> ScheduleReading:
    """Returns the cadence for the minutes, hours and days of a cron expression."""
    week = frozenset(number or 7 for number in weekdays)
    if not days or len(months) < 12:
        return ScheduleReading(nearest="monthly")
    if len(minutes) != 1 or not hours:
        return ScheduleReading(nearest="hourly")
    if len(hours) > 1:
        is_daily = (len(days), len(week)) == (31, 7)
        return (_cron_hours(min(minutes), hours) if is_daily else None) or ScheduleReading(nearest="hourly")
    return _cron_days(f"{min(hours):02d}:{min(minutes):02d}", days, week)


def _cron_fields(expression: str) -> list[str]:
    """Returns the fields without the optional seconds if these are 0."""
    fields = expression.split()
    return fields[1:] if len(fields) == 6 and fields[0] in ("0", "00") else fields


def _cron_values(text: str, first: int, last: int) -> frozenset[int]:
    """Returns the numbers that a field of a cron expression matches; none if it is invalid."""
    numbers: set[int] = set()
    for part in text.split(","):
        bounds, slash, step = part.partition("/")
        begin, dash, end = (f"{first}-{last}" if bounds in ("*", "?") else bounds).partition("-")
        low = _cron_number(begin)
        high = _cron_number(end) if dash else (last if slash else low)
        size = _cron_number(step) if slash else 1
        if low is None or high is None or not size or not first <= low <= high <= last:
            return frozenset()
        numbers.update(range(low, high + 1, size))
    return frozenset(numbers)


def _cron_number(text: str) -> int | None:
    return _DAY_NAMES.get(text, int(text) if re.fullmatch(r"[0-9]{1,4}", text) else None)


def _cron_hours(minute: int, hours: frozenset[int]) -> ScheduleReading | None:
    """Returns the cadence of an expression for the same minute of several hours, or None."""
    if minute == 0 and hours in (_ALL_HOURS, _EVERY_6_HOURS):
        return _on_the_hour(1 if hours == _ALL_HOURS else 6)
    return _EVERY_12_HOURS if hours == {0, 12} else None


def _cron_days(run_at: str, days: frozenset[int], week: frozenset[int]) -> ScheduleReading:
    """Returns the cadence of an expression that runs once on each of some days."""
    if len(days) == 31:
        if len(week) == 7:
            return ScheduleReading({"cadence": "daily", "run_at": run_at})
        return _on_days(sorted(week), run_at) if week else ScheduleReading(nearest="weekly")
    if len(week) == 7 and len(days) == 1 and max(days) <= 28:
        return ScheduleReading({"cadence": "monthly", "run_at": run_at, "day_of_month": max(days)})
    return ScheduleReading(nearest="monthly")
