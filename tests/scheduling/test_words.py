"""Tests schedules and notes in plain words; the web app must use the same words."""

import pytest

from steward.model.schedule import MANUAL, Cadence, Schedule
from steward.scheduling.preview import preview
from steward.scheduling.words import ordinal, schedule_words, spread_words
from tests.scheduling.shorthand import at, daily, monthly, monthly_by_week, once, place, weekdays, weekly


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (daily("08:00"), "Every day at 08:00 (Europe/Berlin)"),
        (weekdays(None, "08:00"), "Every Monday to Friday at 08:00 (Europe/Berlin)"),
        (weekdays((5, 4, 3, 2, 1), "08:00"), "Every Monday to Friday at 08:00 (Europe/Berlin)"),
        (weekdays((1, 3, 5), "08:00"), "Every Monday, Wednesday and Friday at 08:00 (Europe/Berlin)"),
        (weekdays((7, 6), "09:05"), "Every Saturday and Sunday at 09:05 (Europe/Berlin)"),
        (weekdays((2,), "08:00"), "Every Tuesday at 08:00 (Europe/Berlin)"),
        (weekdays((2, 3, 4), "08:00"), "Every Tuesday to Thursday at 08:00 (Europe/Berlin)"),
        (
            weekdays((1, 2, 3, 5), "08:00"),
            "Every Monday, Tuesday, Wednesday and Friday at 08:00 (Europe/Berlin)",
        ),
        (weekdays((1, 2, 3, 4, 5, 6, 7), "08:00"), "Every day at 08:00 (Europe/Berlin)"),
        (weekly(7, "00:00"), "Every Sunday at 00:00 (Europe/Berlin)"),
        (monthly(1, "08:00"), "On the 1st of each month at 08:00 (Europe/Berlin)"),
        (monthly(22, "08:00"), "On the 22nd of each month at 08:00 (Europe/Berlin)"),
        (monthly(28, "08:00"), "On the 28th of each month at 08:00 (Europe/Berlin)"),
        (
            monthly(29, "08:00"),
            "On the 29th of each month (on its last day when it is shorter) at 08:00 (Europe/Berlin)",
        ),
        (
            monthly(31, "08:00"),
            "On the 31st of each month (on its last day when it is shorter) at 08:00 (Europe/Berlin)",
        ),
        (monthly_by_week(-1, 5, "18:30"), "Every last Friday of the month at 18:30 (Europe/Berlin)"),
        (monthly_by_week(1, 1, "08:00"), "Every first Monday of the month at 08:00 (Europe/Berlin)"),
        (monthly_by_week(4, 3, "08:00"), "Every fourth Wednesday of the month at 08:00 (Europe/Berlin)"),
        (once("2026-02-28", "12:00"), "Once, on Saturday 28 February 2026 at 12:00 (Europe/Berlin)"),
        (Schedule(Cadence.HOURLY), "Every hour, on the hour (Europe/Berlin)"),
        (Schedule(Cadence.EVERY_6_HOURS), "Every 6 hours, at 00:00, 06:00, 12:00 and 18:00 (Europe/Berlin)"),
        (MANUAL, "Only when run by hand"),
    ],
)
def test_a_schedule_is_described_in_one_sentence(schedule: Schedule, words: str) -> None:
    """Says cadence, time and zone in one sentence. See docs/design/api/calendar.md#preview-a-schedule."""
    assert schedule_words(schedule, "Europe/Berlin") == words


def test_the_spread_is_shown_unless_there_is_none() -> None:
    """Says by how many minutes a run may start later, and nothing without a spread.

    See docs/design/api/calendar.md#preview-a-schedule.
    """
    assert spread_words(0) is None
    assert spread_words(1) == "A run may start up to 1 minute later."
    assert spread_words(9) == "A run may start up to 9 minutes later."


def test_days_of_the_month_are_counted_in_english() -> None:
    actual = [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 30, 31)]
    assert " ".join(actual) == "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 23rd 30th 31st"


def test_the_preview_shows_three_runs_without_spread_and_with_their_notes() -> None:
    """Shows the next three runs with local time and note; none for manual, one for once.

    See docs/design/api/calendar.md#preview-a-schedule and docs/design/schedule.md#calendar.
    """
    preview_runs = preview(daily("02:30"), place("America/New_York"), after=at("2026-03-07 00:00"))
    assert [run.to_wire() for run in preview_runs] == [
        {"slot_at": "2026-03-07T07:30:00.000Z", "local": "2026-03-07T02:30-05:00", "note": None},
        {"slot_at": "2026-03-08T07:30:00.000Z", "local": "2026-03-08T03:30-04:00", "note": "gap"},
        {"slot_at": "2026-03-09T06:30:00.000Z", "local": "2026-03-09T02:30-04:00", "note": None},
    ]
    assert preview(MANUAL, place("UTC"), after=at("2026-03-07 00:00")) == []
    assert len(preview(once("2026-03-08", "08:00"), place("UTC"), after=at("2026-03-07 00:00"))) == 1
