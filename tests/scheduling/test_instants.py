"""Tests how timestamps are read and written. See docs/design/api/conventions.md#requests."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from steward.database.engine.base import ms
from steward.model.instants import read_time, wire_time, wire_time_of, wire_time_or_none


def test_an_instant_is_written_in_utc_with_three_fraction_digits() -> None:
    """Cuts further digits without rounding. See docs/design/api/conventions.md#requests."""
    assert wire_time(datetime(2026, 11, 20, 7, tzinfo=UTC)) == "2026-11-20T07:00:00.000Z"
    assert wire_time(datetime(2026, 11, 20, 7, 0, 59, 999_999, tzinfo=UTC)) == "2026-11-20T07:00:59.999Z"
    berlin = timezone(timedelta(hours=1))
    assert wire_time(datetime(2026, 1, 1, 0, 30, tzinfo=berlin)) == "2025-12-31T23:30:00.000Z"
    assert wire_time_or_none(None) is None
    assert wire_time_or_none(datetime(1970, 1, 1, tzinfo=UTC)) == "1970-01-01T00:00:00.000Z"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-11-20T07:00:00Z", "2026-11-20T07:00:00.000Z"),
        ("2026-11-20T07:00:00.5Z", "2026-11-20T07:00:00.500Z"),
        ("2026-11-20T07:00:00.123999999Z", "2026-11-20T07:00:00.123Z"),
        ("2026-11-20T07:00:00+05:45", "2026-11-20T01:15:00.000Z"),
        ("2026-11-20T07:00:00-00:00", "2026-11-20T07:00:00.000Z"),
        ("2026-11-20T07:00:00.000-23:59", "2026-11-21T06:59:00.000Z"),
        ("2028-02-29T00:00:00Z", "2028-02-29T00:00:00.000Z"),
        ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
        ("1969-12-31T23:00:00-01:00", "1970-01-01T00:00:00.000Z"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_timestamp_is_read_as_the_instant_it_names(text: str, written: str) -> None:
    """Reads any offset and fraction, and writes the same instant in UTC.

    See docs/design/api/conventions.md#requests.
    """
    outcome = read_time(text)
    assert outcome is not None
    assert outcome.tzinfo is UTC
    assert wire_time(outcome) == written
    assert wire_time_of(ms(outcome)) == written


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-20",
        "2026-11-20T07:00:00",
        "2026-11-20 07:00:00Z",
        "2026-11-20t07:00:00Z",
        "2026-11-20T07:00:00z",
        "2026-11-20T07:00Z",
        "2026-11-20T07:00:00.Z",
        "2026-11-20T07:00:00.1234567890Z",
        "2026-11-20T07:00:00+0100",
        "2026-11-20T07:00:00+24:00",
        "2026-11-20T07:00:00+01:60",
        "2026-02-30T07:00:00Z",
        "2026-13-01T07:00:00Z",
        "2026-11-20T24:00:00Z",
        "2026-11-20T23:59:60Z",
        "1969-12-31T23:59:59.999Z",
        "1970-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "0000-01-01T00:00:00Z",
        "2026-11-20T07:00:00Z\n",
        " 2026-11-20T07:00:00Z",
        "٢٠٢٦-11-20T07:00:00Z",
        "20261120T070000Z",
        "2026-W47-5T07:00:00Z",
    ],
)
def test_anything_else_is_not_a_timestamp(text: str) -> None:
    """Requires a T, Z or a numeric offset, and a year from 1970 to 9999.

    See docs/design/api/conventions.md#requests.
    """
    assert read_time(text) is None
