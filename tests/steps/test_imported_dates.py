"""Tests date patterns, shifts and differences of imported workflows against luxon 3 and moment 2.

See docs/design/imports-n8n.md#node-types.
"""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from steward.steps.n8n import calendar_math
from steward.steps.workflow.javascript import date_patterns as date_text
from steward.steps.workflow.javascript import dates as js_dates

NEW_YEAR = "2025-12-31T23:59:59.999Z"
LEAP = "2024-02-29T09:09:09.090Z"


def instant_of(text: str, zone: str) -> datetime:
    """Parses a local time in a zone."""
    zone_of = js_dates.zone_of(zone)
    assert zone_of is not None
    return datetime.fromisoformat(text).astimezone(zone_of)


@pytest.mark.parametrize(
    ("pattern", "zone", "written"),
    [
        ("u uu uuu S SSS", "Europe/Berlin", "999 99 9 999 999"),
        ("Z ZZ ZZZ ZZZZ z", "Europe/Berlin", "+1 +01:00 +0100 GMT+1 Europe/Berlin"),
        ("Z ZZZZ", "America/New_York", "-5 EST"),
        ("Z ZZZZ", "Asia/Kolkata", "+5:30 GMT+5:30"),
        ("z ZZZZ", "UTC", "UTC UTC"),
        ("z", "+02:00", "UTC+2"),
        ("c ccc cccc ccccc EEE", "Europe/Berlin", "4 Thu Thursday T Thu"),
        ("L LL LLL LLLL LLLLL MMMMM", "Europe/Berlin", "1 01 Jan January J J"),
        ("kkkk-'W'WW iiii n", "Europe/Berlin", "2026-W01 2026 1"),
        ("G GG GGGGG o ooo q X", "Europe/Berlin", "AD Anno Domini A 1 001 1 1767225599"),
        ("t", "Europe/Berlin", "12:59 AM"),
        ("t", "UTC", "11:59\u202fPM"),
        ("fff", "Europe/Berlin", "January 1, 2026 at 12:59 AM GMT+1"),
        ("''yy 'o''clock'", "Europe/Berlin", "'26 oclock"),
        ("YYYY-MM-DD", "Europe/Berlin", "YYYY-01-Jan 1, 2026"),
        ("yyyyMMdd", "Europe/Berlin", "20260101"),
    ],
)
def test_dates_are_formatted_by_luxon_patterns(pattern: str, zone: str, written: str) -> None:
    """Formats runs of one letter as tokens; text in quotes is literal."""
    assert date_text.format_luxon(instant_of(NEW_YEAR, zone), pattern) == written


def test_the_token_of_a_full_zone_name_is_unsupported() -> None:
    """Reports the token of a zone's full name as unsupported; in quotes it is literal text."""
    assert date_text.unsupported_token("yyyy ZZZZZ") == "ZZZZZ"
    assert date_text.unsupported_token("yyyy 'ZZZZZ' ZZZZ") is None


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        ("dddd, MMMM Do YYYY, h:mm:ss a", "Wednesday, December 31st 2025, 8:59:59 pm"),
        ("[Q]Q Qo Mo DDDo wo Wo do d e E dd", "Q4 4th 12th 365th 1st 1st 3rd 3 3 3 We"),
        ("gggg GGGG ww WW YY YYYYYY", "2026 2026 01 01 25 +002025"),
        ("S SS SSS SSSS k hmm Hmm", "9 99 999 9990 20 859 2059"),
        ("L LL l ll LT LTS", "12/31/2025 December 31, 2025 12/31/2025 Dec 31, 2025 8:59 PM 8:59:59 PM"),
        ("Z ZZ z \\Y", "-03:00 -0300 -03 Y"),
    ],
)
def test_older_steps_format_dates_by_moment_patterns(pattern: str, written: str) -> None:
    """Formats dates by the patterns of version 1, which are moment's."""
    assert date_text.format_moment(instant_of(NEW_YEAR, "America/Sao_Paulo"), pattern) == written


@pytest.mark.parametrize(
    ("unit", "amount", "moved"),
    [
        ("year", -25, "1999-02-28T10:09:09.090+01:00"),
        ("year", 1.5, "2025-08-29T23:09:09.090+02:00"),
        ("quarter", 2.75, "2024-11-05T15:09:09.090+01:00"),
        ("month", 1.5, "2024-04-13T11:09:09.090+02:00"),
        ("week", 2.75, "2024-03-19T16:09:09.090+01:00"),
        ("day", -25, "2024-02-04T10:09:09.090+01:00"),
        ("hour", 1.5, "2024-02-29T11:39:09.090+01:00"),
    ],
)
def test_dates_are_shifted_by_whole_units_and_fractions(unit: str, amount: float, moved: str) -> None:
    """Shifts by whole units along the calendar, and by fractions along their length."""
    assert js_dates.iso(calendar_math.shifted(instant_of(LEAP, "Europe/Berlin"), unit, amount)) == moved


def test_an_ambiguous_local_time_keeps_its_offset() -> None:
    """Keeps the offset of 02:00 on the day that has it twice when clocks go back in Sydney."""
    second = instant_of("2024-04-06T16:00:48.250Z", "Australia/Sydney")
    assert js_dates.iso(calendar_math.shifted(second, "day", 0)) == "2024-04-07T02:00:48.250+10:00"
    assert js_dates.iso(calendar_math.floor(second, "hour")) == "2024-04-07T02:00:00.000+10:00"


@pytest.mark.parametrize(
    ("start", "end", "units", "amounts", "text"),
    [
        (NEW_YEAR, "2024-02-29T00:00:00Z", "year month day", [-1, -10, -2.999999988425926], None),
        (LEAP, "2026-03-29T12:00:00Z", "month", [25.005171337365592], "P25.005171337365592M"),
        (LEAP, "2020-01-31T10:11:12.013Z", "day hour", [-1489, -22.965854722222222], None),
        (LEAP, "2024-02-29T00:00:00Z", "week", [-0.054479315476190476], "P-0.054479315476190476W"),
        (LEAP, "2024-02-29T00:00:00Z", "hour second", [-9, -549.0899999999965], "PT-9H-549.09S"),
        (LEAP, "2026-03-29T12:00:00Z", "quarter day", [8, 29.160311458333332], "P24M29.160311458333332D"),
        (NEW_YEAR, "2026-03-29T12:00:00Z", "millisecond", [7560000001], "PT7560000.001S"),
        (LEAP, LEAP, "day", [0], "PT0S"),
    ],
)
def test_the_time_between_dates_is_counted_in_units(
    start: str, end: str, units: str, amounts: list[float], text: str | None
) -> None:
    """Counts from the largest unit, with a fraction in the last; backwards the numbers are negative."""
    item, two = instant_of(start, "Europe/Berlin"), instant_of(end, "Europe/Berlin")
    apart = calendar_math.difference(item, two, units.split(" "))
    assert list(apart.values()) == amounts
    assert text is None or calendar_math.iso_duration(apart) == text


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2024-02-01", "2024-01-31T23:00:00.000Z"),
        ("2024-02-01 10:00:00+02:00", "2024-02-01T08:00:00.000Z"),
        ("Thu, 01 Feb 2024 10:00:00 +0200", "2024-02-01T08:00:00.000Z"),
        ("Sun Nov  6 08:49:37 1994", "1994-11-06T08:49:37.000Z"),
        ("2024/2/1 10:11", "2024-02-01T10:11:00.000Z"),
        ("2024.02.01", "2024-02-01T00:00:00.000Z"),
        ("02/01/2024, 10:30:05 PM", "2024-02-01T22:30:05.000Z"),
        ("2/1/24", "2024-02-01T00:00:00.000Z"),
        ("2/1/94", "1994-02-01T00:00:00.000Z"),
        ("01-Feb-2024", "2024-02-01T00:00:00.000Z"),
        ("February 2024", "2024-02-01T00:00:00.000Z"),
        ("Thu Feb 01 2024 10:00:00 GMT+0100 (CET)", "2024-02-01T09:00:00.000Z"),
        ("2024-02-30", "2024-03-01T00:00:00.000Z"),
        ("13/01/2024", None),
        ("2024-02-32", None),
        ("Feb 1st, 2024", None),
        ("next week", None),
    ],
)
def test_dates_are_parsed_in_the_order_of_n8n(text: str, instant: str | None) -> None:
    """Parses ISO, mail and SQL dates in the workflow's zone, and JavaScript's other forms in UTC."""
    zone = js_dates.zone_of("Europe/Berlin")
    assert zone is not None
    parse = js_dates.parse(text, zone)
    assert (parse and js_dates.utc_iso(parse)) == instant


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("15 Jun 2024 12:30:45-0700", "2024-06-15T19:30:45.000Z"),
        ("Jun 15, 2024 12:30:45.5 PM EDT", "2024-06-15T16:30:45.500Z"),
        ("6/15/24 24:00", "2024-06-16T00:00:00.000Z"),
        ("2024-06-15 12:30", "2024-06-15T10:30:00.000Z"),
        ("2024-06 12:30", "2024-06-01T12:30:00.000Z"),
        ("2024-06-31T12:30", "2024-07-01T12:30:00.000Z"),
        ("Sat, 15 Jun 2024 12:30 CET", None),
        ("15/06/2024", None),
        ("20240615 12:30", None),
        ("12", None),
    ],
)
def test_dates_are_parsed_as_by_luxon_or_v8(text: str, instant: str | None) -> None:
    """Parses ISO and SQL dates in the workflow's zone and others in UTC; other texts are no dates."""
    date = js_dates.parse(text, ZoneInfo("Europe/Berlin"))
    assert (date if date is None else js_dates.utc_iso(js_dates.normalized(date))) == instant
