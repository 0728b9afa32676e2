"""The node dateTime: formats, shifts, extracts and compares dates."""

import math
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, tzinfo
from types import MappingProxyType

from steward.model.json import AnyJson, JsonValue
from steward.steps.n8n.calendar_math import UNITS, difference, floor, iso_duration, shifted
from steward.steps.n8n.date_formats import luxon_pattern, with_dates_read
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import date_patterns as date_text
from steward.steps.workflow.javascript import dates as js_dates
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
    for_each_item,
    paired_with,
)

_OPERATIONS = frozenset(
    ("getCurrentDate", "addToDate", "subtractFromDate", "formatDate", "roundDate", "getTimeBetweenDates")
) | frozenset(("extractDate",))


class DateTimeNode(StepType):
    """Handles dates in UTC in version 1, like n8n's process, and in the workflow's zone in version 2."""

    types = ("dateTime",)
    field_use = FieldUse.EXTENDS_ITEMS
    versions = (1, 2)
    options = frozenset(
        ("includeInputFields", "timezone", "isoString", "fromFormat", "fromTimezone", "toTimezone")
    )
    choices = MappingProxyType(
        {
            "mode": frozenset(("roundDown", "roundUp")),
            "part": frozenset(("year", "month", "week", "day", "hour", "minute", "second")),
        }
    )
    parameters = (
        frozenset(("action", "value", "custom", "toFormat", "options", "dataPropertyName", "operation"))
        | frozenset(
            ("duration", "timeUnit", "magnitude", "outputFieldName", "date", "format", "customFormat")
        )
        | frozenset(("mode", "toNearest", "to", "part", "startDate", "endDate", "units", "includeTime"))
    )

    def operation(self, node: NodeDefinition) -> str:
        """Returns `dateTime.formatDate`, for example."""
        return f"dateTime.{node.literal('operation', 'getCurrentDate' if node.version >= 2 else 'format')}"

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unknown operations."""
        if node.version >= 2 and node.get("operation", "getCurrentDate") not in _OPERATIONS:
            yield StepProblem("error", "parameter", "Its operation is not known. Choose another one.")
        if node.version < 2 and node.get("action", "format") not in ("format", "calculate"):
            yield StepProblem("error", "parameter", "Its action is not known. Choose another one.")
        from_format = node.literal("options.fromFormat", "")
        if node.version < 2 and from_format and luxon_pattern(str(from_format)) is None:
            message = "Its “From Format” has a token that is not supported. Give dates as ISO text."
            yield StepProblem("error", "parameter", message)
        unknown = (
            date_text.unsupported_token(str(node.literal("customFormat", ""))) if node.version >= 2 else None
        )
        if unknown is not None and node.get("format") == "custom":
            message = f"Its pattern has “{unknown}”, the whole name of a zone, which is not supported."
            message += " Leave it out."
            yield StepProblem("error", "parameter", message)

    async def run(self, call: StepCall) -> NodeResult:
        """Adds the date to each item."""
        if call.version < 2:
            older = await with_dates_read(call, "value", _older_format)
            return for_each_item(call, lambda index, item: [_older(older(index), index, item)])
        newer = await with_dates_read(
            call, "date", lambda params: (params.text("options.fromFormat"), call.environment.zone)
        )
        return for_each_item(call, lambda index, item: [_newer(call, newer(index), index, item)])


def _newer(call: StepCall, params: Params, index: int, item: Item) -> Item:
    zone = js_dates.zone_of(call.environment.zone) or UTC
    operation = params.text("operation", "getCurrentDate")
    name, value = _RUN[operation](params, zone, call.environment.now)
    into: dict[str, JsonValue] = js.deep_copy(item.json) if params.flag("options.includeInputFields") else {}
    js.set_path(into, params.text("outputFieldName", name), value)
    return Item(into, paired_with(index))


def _read_date(value: JsonValue, zone: tzinfo, *, keep_offset: bool = False) -> datetime:
    """Parses a date from text, milliseconds or seconds. Raises ItemFailed.

    The result is in `zone`; with `keep_offset`, it keeps the offset of the text, if any.
    """
    date = None
    if js.is_number(value):
        date = js_dates.from_millis(value if abs(value) > 1e11 else value * 1000, zone)
    elif isinstance(value, str) and re.fullmatch(r"\d{9,10}|\d{12,13}", value):
        date = js_dates.from_millis(float(value) * (1000 if len(value) < 11 else 1), zone)
    elif isinstance(value, str):
        date = js_dates.parse(value, zone)
    if date is None:
        raise ItemFailed(f"{js.json_text(value)[:80]} is not a date.")
    date = js_dates.normalized(date)
    return date if keep_offset else date.astimezone(zone)


_Result = tuple[str, AnyJson]


def _now(params: Params, zone: tzinfo, now: datetime) -> _Result:
    local_now = now.astimezone(js_dates.zone_of(params.text("options.timezone")) or zone)
    if not params.flag("includeTime", default=True):
        local_now = local_now.replace(hour=0, minute=0, second=0, microsecond=0)
    return "currentDate", js_dates.iso(local_now)


def _moved(sign: int) -> Callable[[Params, tzinfo, datetime], _Result]:
    def run(params: Params, zone: tzinfo, now: datetime) -> _Result:
        start = _read_date(params.get("magnitude", ""), zone)
        amount = js.number(params.get("duration", 0))
        if amount != amount:
            raise ItemFailed("The duration is not a number.")
        unit = params.text("timeUnit", "days").rstrip("s")
        return "newDate", js_dates.iso(shifted(start, unit, sign * amount))

    return run


def _formatted(params: Params, zone: tzinfo, now: datetime) -> _Result:
    date = _read_date(params.get("date", ""), zone, keep_offset=not params.flag("options.timezone"))
    pattern = params.text("format", "MM/dd/yyyy")
    if pattern == "custom":
        pattern = params.text("customFormat")
    return "formattedDate", _written(date_text.format_luxon, date, pattern)


def _written(write: Callable[[datetime, str], str], date: datetime, pattern: str) -> str:
    try:
        return write(date, pattern)
    except date_text.UnknownPattern as unknown:
        raise ItemFailed(f"The date pattern “{unknown.token}” is not known here.") from None


def _rounded(params: Params, zone: tzinfo, now: datetime) -> _Result:
    date = _read_date(params.get("date", ""), zone)
    if params.text("mode", "roundDown") == "roundUp":
        unit = params.text("to", "month")
        return "roundedDate", js_dates.iso(shifted(floor(date, unit), unit, 1))
    return "roundedDate", js_dates.iso(floor(date, params.text("toNearest", "month")))


def _extracted(params: Params, zone: tzinfo, now: datetime) -> _Result:
    date = _read_date(params.get("date", ""), zone)
    part = params.text("part", "month")
    if part == "week":
        return "datePart", date.isocalendar().week
    if part not in ("year", "month", "day", "hour", "minute", "second"):
        raise ItemFailed(f"The part “{part}” is not known.")
    return "datePart", getattr(date, part)


def _between(params: Params, zone: tzinfo, now: datetime) -> _Result:
    # Unlike elsewhere, a time without an offset is in the zone of n8n's process, which is UTC.
    start = _read_date(params.get("startDate", ""), UTC).astimezone(zone)
    end = _read_date(params.get("endDate", ""), UTC).astimezone(zone)
    units = params.get("units", ["day"])
    sorted_units = [unit for unit in UNITS if unit in units] if js.is_list(units) else []
    if not sorted_units or len(sorted_units) != len(set(units)):
        raise ItemFailed("Name the units of the time between the dates.")
    amounts = difference(start, end, sorted_units)
    if params.flag("options.isoString"):
        return "timeDifference", iso_duration(amounts)
    return "timeDifference", {f"{unit}s": value for unit, value in amounts.items()}


_RUN: dict[str, Callable[[Params, tzinfo, datetime], _Result]] = {
    "getCurrentDate": _now,
    "addToDate": _moved(1),
    "subtractFromDate": _moved(-1),
    "formatDate": _formatted,
    "roundDate": _rounded,
    "extractDate": _extracted,
    "getTimeBetweenDates": _between,
}

_ROUNDED = {"year": (12, "month"), "quarter": (3, "month"), "month": (1, "month")}
_ROUNDED |= {"week": (7, "day"), "day": (1, "day")}


def _older(params: Params, index: int, item: Item) -> Item:
    value = params.get("value", "")
    fields: dict[str, JsonValue] = js.deep_copy(item.json)
    name = params.text("dataPropertyName", "data")
    if params.text("action", "format") == "calculate":
        js.set_path(fields, name, js_dates.utc_iso(_older_shifted(params, value)))
    elif not js.is_missing(value) and value != "":
        js.set_path(fields, name, _older_formatted(params, value))
    return Item(fields, paired_with(index))


def _older_shifted(params: Params, value: JsonValue) -> datetime:
    date = _read_date(value, UTC)
    amount = js.number(params.get("duration", 0))
    if amount != amount:
        raise ItemFailed("The duration is not a number.")
    unit = params.text("timeUnit", "days").rstrip("s")
    if unit in _ROUNDED:  # this version rounds fractions of days and months; half a year is 6 months
        factor, unit = _ROUNDED[unit]
        rounded = math.floor(abs(amount * factor) + 0.5)
        amount = rounded if amount >= 0 else -rounded
    sign = -1 if params.text("operation", "add") == "subtract" else 1
    return shifted(date, unit, sign * amount)


def _older_formatted(params: Params, value: JsonValue) -> JsonValue:
    zone = js_dates.zone_of(params.text("options.fromTimezone", "UTC")) or UTC
    date = _read_date(value, zone)
    target_zone = params.text("options.toTimezone")
    if target_zone:
        target = js_dates.zone_of(target_zone)
        if target is None:
            raise ItemFailed(f"The timezone “{target_zone}” is not known.")
        date = date.astimezone(target)
    return _written(date_text.format_moment, date, params.text("toFormat", "MM/DD/YYYY"))


def _older_format(params: Params) -> tuple[str, str]:
    """Returns luxon's pattern for the dates of version 1, and their zone. Raises ItemFailed."""
    pattern = luxon_pattern(params.text("options.fromFormat"))
    if pattern is None:
        raise ItemFailed("“From Format” has a token that is not supported. Give dates as ISO text.")
    is_moved = params.text("action", "format") == "calculate"
    return pattern, "UTC" if is_moved else params.text("options.fromTimezone", "UTC")
