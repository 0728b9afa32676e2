"""The times that a schedule or a form passes to the workflow it starts."""

from datetime import datetime, timedelta

from steward.model.json import JsonObject
from steward.steps.workflow.javascript import date_patterns as date_text
from steward.steps.workflow.javascript import dates as js_dates


def flow_item(started_at: datetime) -> JsonObject:
    """Returns the start time in the form of Shopify Flow's scheduled trigger."""
    return {"scheduledAt": js_dates.utc_iso(started_at)}


def local_iso(instant: datetime, zone: str) -> str:
    """Returns the instant as ISO text in a time zone, with its offset; `Z` for UTC."""
    return js_dates.iso(instant.astimezone(js_dates.zone_of(zone)))


def schedule_item(started_at: datetime, zone: str) -> JsonObject:
    """Returns the start time in the form of n8n's schedule trigger."""
    local_time = started_at.astimezone(js_dates.zone_of(zone))
    day = f"{local_time.day}{_ordinal_suffix(local_time.day)}"
    clock = date_text.format_luxon(local_time, "h:mm:ss") + (" am" if local_time.hour < 12 else " pm")
    return {
        "timestamp": date_text.format_luxon(local_time, "yyyy-MM-dd'T'HH:mm:ss.SSSZZ"),
        "Readable date": f"{date_text.format_luxon(local_time, 'LLLL')} {day} {local_time.year}, {clock}",
        "Readable time": clock,
        "Day of week": js_dates.DAYS[local_time.weekday()],
        "Year": f"{local_time.year}",
        "Month": js_dates.MONTHS[local_time.month - 1],
        "Day of month": f"{local_time.day:02d}",
        "Hour": f"{local_time.hour:02d}",
        "Minute": f"{local_time.minute:02d}",
        "Second": f"{local_time.second:02d}",
        "Timezone": f"{zone} (UTC{js_dates.offset_text(local_time.utcoffset() or timedelta())})",
    }


def _ordinal_suffix(day: int) -> str:
    if 11 <= day <= 13:
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
