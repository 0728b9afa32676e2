"""dateTime: dates formatted, moved, taken apart and compared (imports 6); paired with itself."""

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from steward.steps import js_dates
from steward.steps import js_values as js
from steward.steps.items import Item
from steward.steps.kinds import (
    Asked,
    Call,
    ItemFailed,
    Params,
    Problem,
    Result,
    StepType,
    Takes,
    each,
    same,
)

_OPERATIONS = frozenset(
    ("getCurrentDate", "addToDate", "subtractFromDate", "formatDate", "roundDate", "getTimeBetweenDates")
) | frozenset(("extractDate",))
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond")
_SECONDS = {"week": 604_800, "day": 86_400, "hour": 3600, "minute": 60, "second": 1, "millisecond": 0.001}


class DateTime(StepType):
    """Version 1 works in UTC as the origin's process does, version 2 in the workflow's zone."""

    types = ("dateTime",)
    takes_of = Takes.MORE
    versions = (1, 2)
    known = (
        frozenset(("action", "value", "custom", "toFormat", "options", "dataPropertyName", "operation"))
        | frozenset(
            ("duration", "timeUnit", "magnitude", "outputFieldName", "date", "format", "customFormat")
        )
        | frozenset(("mode", "toNearest", "to", "part", "startDate", "endDate", "units", "includeTime"))
    )

    def operation(self, asked: Asked) -> str:
        """dateTime.formatDate and so on."""
        return f"dateTime.{asked.literal('operation', 'getCurrentDate' if asked.version >= 2 else 'format')}"

    def check(self, asked: Asked) -> Iterable[Problem]:
        """That the operation is known."""
        if asked.version >= 2 and asked.get("operation", "getCurrentDate") not in _OPERATIONS:
            yield Problem("error", "parameter", "Its operation is not known. Choose another one.")
        if asked.version < 2 and asked.get("action", "format") not in ("format", "calculate"):
            yield Problem("error", "parameter", "Its action is not known. Choose another one.")

    async def run(self, call: Call) -> Result:
        """Each item with its date."""
        if call.version < 2:
            return each(call, lambda place, item: [_older(call.params(place), place, item)])
        return each(call, lambda place, item: [_newer(call, place, item)])


def _newer(call: Call, place: int, item: Item) -> Item:
    params = call.params(place)
    zone = js_dates.zone_of(call.scene.zone) or UTC
    operation = params.text("operation", "getCurrentDate")
    name, value = _RUN[operation](params, zone, call.scene.now)
    into: dict[str, Any] = dict(item.json) if params.flag("options.includeInputFields") else {}
    js.put(into, params.text("outputFieldName", name), value)
    return Item(into, same(place))


def read_date(value: Any, zone: tzinfo, *, keep_offset: bool = False) -> datetime:
    """A date from text, a number of milliseconds or seconds. Raises ItemFailed.

    In `zone`; with `keep_offset` in the one written in the text, where there is one.
    """
    found = None
    if js.is_number(value):
        found = js_dates.from_millis(value if abs(value) > 1e11 else value * 1000, zone)
    elif isinstance(value, str) and re.fullmatch(r"\d{9,10}|\d{12,13}", value):
        found = js_dates.from_millis(float(value) * (1000 if len(value) < 11 else 1), zone)
    elif isinstance(value, str):
        found = js_dates.parse(value, zone)
    if found is None:
        raise ItemFailed(f"{js.json_text(value)[:80]} is not a date.")
    found = js_dates.settled(found)
    return found if keep_offset else found.astimezone(zone)


_Answer = tuple[str, Any]


def _now(params: Params, zone: tzinfo, now: datetime) -> _Answer:
    here = now.astimezone(js_dates.zone_of(params.text("options.timezone")) or zone)
    if not params.flag("includeTime", default=True):
        here = here.replace(hour=0, minute=0, second=0, microsecond=0)
    return "currentDate", js_dates.iso(here)


def _moved(sign: int) -> Callable[[Params, tzinfo, datetime], _Answer]:
    def run(params: Params, zone: tzinfo, now: datetime) -> _Answer:
        start = read_date(params.get("magnitude", ""), zone)
        amount = js.number(params.get("duration", 0))
        if amount != amount:
            raise ItemFailed("The duration is not a number.")
        unit = params.text("timeUnit", "days").rstrip("s")
        return "newDate", js_dates.iso(shifted(start, unit, sign * amount))

    return run


def shifted(start: datetime, unit: str, amount: float) -> datetime:
    """The date moved by an amount: months and years by the calendar, days by the clock on the wall."""
    if unit not in UNITS:
        raise ItemFailed(f"The unit “{unit}” is not known.")
    try:
        if unit in ("year", "quarter", "month"):
            whole = int(amount) * {"year": 12, "quarter": 3, "month": 1}[unit]
            return js_dates.settled(_by_months(start, whole))
        if unit in ("week", "day"):
            days = int(amount) * (7 if unit == "week" else 1)
            return js_dates.settled(start + timedelta(days=days))
        moved = start.astimezone(UTC) + timedelta(seconds=amount * _SECONDS[unit])
        return moved.astimezone(start.tzinfo)
    except (OverflowError, ValueError):
        raise ItemFailed("The date lies too far away.") from None


def _by_months(start: datetime, months: int) -> datetime:
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    return start.replace(year=year, month=month + 1, day=min(start.day, monthrange(year, month + 1)[1]))


def _formatted(params: Params, zone: tzinfo, now: datetime) -> _Answer:
    date = read_date(params.get("date", ""), zone, keep_offset=not params.flag("options.timezone"))
    pattern = params.text("format", "MM/dd/yyyy")
    if pattern == "custom":
        pattern = params.text("customFormat")
    return "formattedDate", js_dates.formatted(date, pattern)


def floor(date: datetime, unit: str) -> datetime:
    """The beginning of the date's unit."""
    if unit not in UNITS:
        raise ItemFailed(f"The unit “{unit}” is not known.")
    if unit == "second":
        return date.replace(microsecond=0)
    if unit == "minute":
        return date.replace(second=0, microsecond=0)
    if unit == "hour":
        return date.replace(minute=0, second=0, microsecond=0)
    day = date.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    if unit == "week":
        day -= timedelta(days=day.weekday())
    elif unit == "month":
        day = day.replace(day=1)
    elif unit == "quarter":
        day = day.replace(day=1, month=(day.month - 1) // 3 * 3 + 1)
    elif unit == "year":
        day = day.replace(day=1, month=1)
    return js_dates.settled(day)


def _rounded(params: Params, zone: tzinfo, now: datetime) -> _Answer:
    date = read_date(params.get("date", ""), zone)
    if params.text("mode", "roundDown") == "roundUp":
        unit = params.text("to", "month")
        return "roundedDate", js_dates.iso(shifted(floor(date, unit), unit, 1))
    return "roundedDate", js_dates.iso(floor(date, params.text("toNearest", "month")))


def _taken(params: Params, zone: tzinfo, now: datetime) -> _Answer:
    date = read_date(params.get("date", ""), zone)
    part = params.text("part", "month")
    if part == "week":
        return "datePart", date.isocalendar().week
    if part not in ("year", "month", "day", "hour", "minute", "second"):
        raise ItemFailed(f"The part “{part}” is not known.")
    return "datePart", getattr(date, part)


def _between(params: Params, zone: tzinfo, now: datetime) -> _Answer:
    # A time without an offset is in the process's zone here, which is UTC, not in the workflow's.
    start = read_date(params.get("startDate", ""), UTC).astimezone(zone)
    end = read_date(params.get("endDate", ""), UTC).astimezone(zone)
    units = params.get("units", ["day"])
    wanted = [unit for unit in UNITS if unit in units]
    if not wanted:
        raise ItemFailed("Name the units of the time between the dates.")
    found = difference(start, end, wanted)
    if params.flag("options.isoString"):
        return "timeDifference", _iso_duration(found)
    return "timeDifference", {f"{unit}s": value for unit, value in found.items()}


def difference(start: datetime, end: datetime, units: list[str]) -> dict[str, float]:
    """The time from start to end in the units, largest first; the last one has the fraction."""
    if end < start:
        return {unit: -value for unit, value in difference(end, start, units).items()}
    found: dict[str, float] = {}
    cursor = start
    for unit in units:
        last = unit == units[-1]
        if unit in ("year", "quarter", "month", "week", "day"):
            count = _whole(cursor, end, unit)
            ahead = shifted(cursor, unit, count)
            found[unit] = count
            if last and ahead < end:
                span = _apart(shifted(cursor, unit, count + 1), ahead)
                found[unit] = js.plain_number(count + _apart(end, ahead) / span)
            cursor = ahead
        else:
            left = _apart(end, cursor) / _SECONDS[unit]
            found[unit] = js.plain_number(left) if last else int(left)
            cursor = shifted(cursor, unit, found[unit]) if not last else end
    return found


def _apart(one: datetime, two: datetime) -> float:
    return (one.astimezone(UTC) - two.astimezone(UTC)).total_seconds()


def _whole(start: datetime, end: datetime, unit: str) -> int:
    """How many whole units fit."""
    rough = {"year": 366, "quarter": 92, "month": 31, "week": 7, "day": 1}[unit]
    count = max(0, int(_apart(end, start) / 86_400 / rough) - 1)
    while shifted(start, unit, count + 1) <= end:
        count += 1
    return count


def _iso_duration(found: Mapping[str, float]) -> str:
    date = {"year": "Y", "month": "M", "week": "W", "day": "D"}
    time = {"hour": "H", "minute": "M", "second": "S"}
    months = found.get("month", 0) + 3 * found.get("quarter", 0)
    values = {**found, "month": months} if "quarter" in found else dict(found)
    if "millisecond" in values:
        values["second"] = values.get("second", 0) + values["millisecond"] / 1000
    text = "P" + "".join(
        f"{js.number_text(values[unit])}{sign}" for unit, sign in date.items() if values.get(unit)
    )
    clock = "".join(
        f"{js.number_text(values[unit])}{sign}" for unit, sign in time.items() if values.get(unit)
    )
    text += f"T{clock}" if clock else ""
    return text if text != "P" else "PT0S"


_RUN: dict[str, Callable[[Params, tzinfo, datetime], _Answer]] = {
    "getCurrentDate": _now,
    "addToDate": _moved(1),
    "subtractFromDate": _moved(-1),
    "formatDate": _formatted,
    "roundDate": _rounded,
    "extractDate": _taken,
    "getTimeBetweenDates": _between,
}

# The older version's patterns, which are moment's.
_MOMENT = re.compile(
    r"\[([^\]]*)\]|(YYYY|YY|Y|Qo|Q|MMMM|MMM|MM|Mo|M|DDDD|DDDo|DDD|DD|Do|D|dddd|ddd|dd|do|d|E|e|WW|W|ww|w|GGGG|GG|HH|H|hh|h|"
    r"kk|k|mm|m|ss|s|SSS|SS|S|A|a|ZZ|Z|X|x|LTS|LT|LLLL|LLL|LL|L)"
)
_LUXON = {
    "YYYY": "yyyy", "YY": "yy", "Y": "y", "Q": "q", "MMMM": "LLLL", "MMM": "LLL", "MM": "LL", "M": "L",
    "DDDD": "ooo", "DDD": "o", "DD": "dd", "D": "d", "dddd": "cccc", "ddd": "ccc", "E": "c", "WW": "WW",
    "W": "W",
    "GGGG": "kkkk", "GG": "kk", "HH": "HH", "H": "H", "hh": "hh", "h": "h", "mm": "mm", "m": "m", "ss": "ss",
    "s": "s", "SSS": "SSS", "A": "a", "ZZ": "ZZZ", "Z": "ZZ", "X": "X", "x": "x",
    "L": "LL/dd/yyyy", "LL": "LLLL d, yyyy", "LLL": "LLLL d, yyyy h:mm a", "LT": "h:mm a", "LTS": "h:mm:ss a",
    "LLLL": "cccc, LLLL d, yyyy h:mm a",
}  # fmt: skip


def moment(date: datetime, pattern: str) -> str:
    """The date by one of moment's patterns. Raises ItemFailed for what is not carried."""

    def write(found: re.Match[str]) -> str:
        if found[2] is None:
            return found[1]
        token = found[2]
        if token in ("Do", "Mo", "Qo"):
            number = {"Do": date.day, "Mo": date.month, "Qo": (date.month - 1) // 3 + 1}[token]
            return f"{number}{_ending(number)}"
        if token == "d":
            return str(date.isoweekday() % 7)
        if token == "dd":
            return js_dates.DAYS[date.weekday()][:2]
        if token == "a":
            return "am" if date.hour < 12 else "pm"
        if token not in _LUXON:
            raise ItemFailed(f"The date pattern “{token}” is not known here.")
        return js_dates.formatted(date, _LUXON[token])

    return _MOMENT.sub(write, pattern)


def _ending(number: int) -> str:
    if 11 <= number % 100 <= 13:
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _older(params: Params, place: int, item: Item) -> Item:
    value = params.get("value", "")
    into: dict[str, Any] = js.copied(item.json)
    name = params.text("dataPropertyName", "data")
    if params.text("action", "format") == "calculate":
        date = _older_date(value, params.text("options.fromFormat"), UTC)
        amount = js.number(params.get("duration", 0))
        if amount != amount:
            raise ItemFailed("The duration is not a number.")
        sign = -1 if params.text("operation", "add") == "subtract" else 1
        moved = shifted(date, params.text("timeUnit", "days").rstrip("s"), sign * amount)
        js.put(into, name, js_dates.utc_iso(moved))
        return Item(into, same(place))
    if js.is_missing(value) or value == "":
        return Item(into, same(place))
    zone = js_dates.zone_of(params.text("options.fromTimezone", "UTC")) or UTC
    date = _older_date(value, params.text("options.fromFormat"), zone)
    wanted = params.text("options.toTimezone")
    if wanted:
        target = js_dates.zone_of(wanted)
        if target is None:
            raise ItemFailed(f"The timezone “{wanted}” is not known.")
        date = date.astimezone(target)
    js.put(into, name, moment(date, params.text("toFormat", "MM/DD/YYYY")))
    return Item(into, same(place))


def _older_date(value: Any, from_format: str, zone: tzinfo) -> datetime:
    if from_format:
        raise ItemFailed("Reading a date by a pattern of one's own is not carried here.")
    return read_date(value, zone).astimezone(zone)
