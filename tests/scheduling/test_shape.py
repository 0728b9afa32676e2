"""Tests reading a schedule of a request: every limit at it and one past it, and all errors at once."""

from datetime import UTC, date, datetime, timedelta

import pytest

from steward.model.schedule import FIELDS, Cadence, Schedule
from steward.scheduling.shape import FieldErrors, has_passed, read_schedule
from tests.scheduling.shorthand import at, daily, once, place

_NOW = at("2026-05-10 12:00")
_RIGHT: dict[str, dict[str, object]] = {
    "manual": {},
    "once": {"run_at": "08:00", "date": "2026-06-01"},
    "hourly": {},
    "every_6_hours": {},
    "daily": {"run_at": "08:00"},
    "weekdays": {"run_at": "08:00"},
    "weekly": {"run_at": "08:00", "day_of_week": 1},
    "monthly": {"run_at": "08:00", "day_of_month": 1},
}
_BY_WEEK: dict[str, object] = {"cadence": "monthly", "run_at": "08:00", "day_of_week": 5, "week_of_month": -1}


def _read(raw: object, now: datetime = _NOW, zone: str = "Europe/Berlin") -> Schedule | FieldErrors:
    return read_schedule(raw, zone=place(zone), now=now)


def _wrong(raw: object) -> list[str]:
    outcome = _read(raw)
    assert isinstance(outcome, dict), f"{raw} was taken"
    assert all(words and all(word.endswith(".") for word in words) for words in outcome.values())
    return sorted(outcome)


def _daily_with(**fields: object) -> dict[str, object]:
    return {"cadence": "daily", "run_at": "08:00", **fields}


@pytest.mark.parametrize("cadence", _RIGHT)
def test_each_cadence_is_accepted_with_what_it_needs_and_returned_whole(cadence: str) -> None:
    """Answers all seven fields of each cadence, with null for those that it does not use.

    See docs/design/api/automations.md#schedule.
    """
    outcome = _read({"cadence": cadence, **_RIGHT[cadence]})
    assert isinstance(outcome, Schedule)
    assert outcome.to_wire() == dict.fromkeys(FIELDS) | {"cadence": cadence} | _RIGHT[cadence]
    assert Schedule.from_wire(outcome.to_wire()) == outcome
    nulls = dict.fromkeys(FIELDS) | {"cadence": cadence} | _RIGHT[cadence]
    assert _read(nulls) == outcome


@pytest.mark.parametrize("cadence", _RIGHT)
@pytest.mark.parametrize("null", [True, False], ids=["null", "absent"])
def test_each_cadence_is_refused_without_one_of_its_fields(cadence: str, null: bool) -> None:
    """Reports a required field that is absent or null on its path. See docs/design/schedule.md#shape."""
    right: dict[str, object] = {"cadence": cadence, **_RIGHT[cadence]}
    for name in right:
        raw = {**right, name: None} if null else {key: right[key] for key in right if key != name}
        assert _wrong(raw) == [f"schedule.{name}"]


def test_every_wrong_field_is_reported_at_once() -> None:
    """Reports every wrong or unknown field in one answer. See docs/design/schedule.md#shape."""
    raw = {name: "no" for name in FIELDS} | {"cron": "* * * * *"}
    assert _wrong(raw) == sorted(f"schedule.{name}" for name in (*FIELDS, "cron"))
    assert _wrong({"cadence": "weekly"}) == ["schedule.day_of_week", "schedule.run_at"]
    assert _wrong({}) == ["schedule.cadence"]


@pytest.mark.parametrize("raw", [None, "daily", 3, ["daily"], True])
def test_a_value_that_is_no_object_is_refused_as_a_whole(raw: object) -> None:
    assert _wrong(raw) == ["schedule"]


@pytest.mark.parametrize("cadence", ["Daily", "DAILY", "every_5_minutes", "", 1, True, ["daily"], {}])
def test_a_cadence_not_of_the_eight_is_refused(cadence: object) -> None:
    assert _wrong({"cadence": cadence, "run_at": "08:00"}) == ["schedule.cadence"]


@pytest.mark.parametrize(
    ("run_at", "is_taken"),
    [
        ("00:00", True),
        ("23:59", True),
        ("24:00", False),
        ("23:60", False),
        ("8:00", False),
        ("08:00:00", False),
        ("08:00\n", False),
        (" 08:00", False),
        ("08.00", False),
        ("٠٨:٠٠", False),
        ("", False),
        (800, False),
        (["08:00"], False),
    ],
)
def test_the_time_of_day_is_two_digits_a_colon_and_two_digits(run_at: object, is_taken: bool) -> None:
    """Accepts `HH:MM` alone, also where the cadence does not use `run_at`.

    See docs/design/schedule.md#shape.
    """
    for cadence in ("daily", "hourly"):
        outcome = _read({"cadence": cadence, "run_at": run_at})
        assert isinstance(outcome, Schedule) == is_taken, cadence
        assert is_taken or list(outcome) == ["schedule.run_at"]  # type: ignore[call-overload]


@pytest.mark.parametrize(("name", "maximum"), [("day_of_week", 7), ("day_of_month", 31)])
def test_whole_numbers_are_taken_from_one_to_their_maximum(name: str, maximum: int) -> None:
    """Accepts integers from 1 to the maximum and reads `6.0` as 6; refuses booleans and strings.

    See docs/design/schedule.md#shape and docs/design/api/conventions.md#requests.
    """
    for value in (1, maximum, 6.0):
        assert isinstance(_read(_daily_with(**{name: value})), Schedule)
    for wrong in (
        0,
        maximum + 1,
        -1,
        1.5,
        True,
        False,
        "1",
        [1],
        {},
        float("nan"),
        float("inf"),
        1e300,
        10**400,
    ):
        assert _wrong(_daily_with(**{name: wrong})) == [f"schedule.{name}"]
    outcome = _read({"cadence": "weekly", "run_at": "08:00", "day_of_week": 6.0})
    assert isinstance(outcome, Schedule)
    assert outcome.day_of_week == 6
    assert isinstance(outcome.day_of_week, int)


def test_the_week_of_the_month_is_one_to_four_or_the_last() -> None:
    """Accepts 1 to 4 and -1 for the last week, and refuses any other value.

    See docs/design/schedule.md#shape.
    """
    for week in (1, 2, 3, 4, -1, 4.0, -1.0):
        outcome = _read({**_BY_WEEK, "week_of_month": week})
        assert isinstance(outcome, Schedule)
        assert outcome.week_of_month == week
    for wrong in (0, 5, -2, 1.5, True, "1", [1]):
        assert _wrong({**_BY_WEEK, "week_of_month": wrong}) == ["schedule.week_of_month"]


def test_days_are_one_to_seven_different_weekdays_in_the_order_given() -> None:
    """Accepts one to seven different weekdays and answers them in the order sent.

    See docs/design/schedule.md#shape.
    """
    for days in ([1], [5, 3, 1], [7, 6, 5, 4, 3, 2, 1], [2.0, 1]):
        outcome = _read({"cadence": "weekdays", "run_at": "08:00", "days": days})
        assert isinstance(outcome, Schedule)
        assert outcome.to_wire()["days"] == days
    for wrong in (
        [],
        [0],
        [8],
        [1, 1],
        [1, 1.0],
        [1, 2, 3, 4, 5, 6, 7, 7],
        [True],
        ["1"],
        [1.5],
        [None],
        [[1]],
        "1",
        1,
        {"1": 1},
    ):
        assert _wrong({"cadence": "weekdays", "run_at": "08:00", "days": wrong}) == ["schedule.days"]
        assert _wrong(_daily_with(days=wrong)) == ["schedule.days"]


def test_monthly_takes_a_day_or_a_week_and_not_both() -> None:
    """Requires either a day of the month, or a week of the month with a weekday.

    See docs/design/schedule.md#shape.
    """
    assert isinstance(_read(_BY_WEEK), Schedule)
    assert _wrong({**_BY_WEEK, "day_of_month": 3}) == ["schedule.day_of_month"]
    assert _wrong({**_BY_WEEK, "day_of_week": None}) == ["schedule.day_of_week"]
    assert _wrong({**_BY_WEEK, "week_of_month": None}) == ["schedule.day_of_month"]
    assert _wrong({"cadence": "monthly", "run_at": "08:00"}) == ["schedule.day_of_month"]
    by_day = _read({"cadence": "monthly", "run_at": "08:00", "day_of_month": 31, "day_of_week": 3})
    assert by_day == Schedule(Cadence.MONTHLY, "08:00", day_of_month=31)


def test_a_field_the_cadence_does_not_use_is_dropped_when_its_own_shape_is_right() -> None:
    """Answers null for a valid field that the cadence does not use. See docs/design/schedule.md#shape."""
    everything = {"run_at": "08:00", "day_of_week": 2, "day_of_month": 3, "date": "1999-01-01", "days": [1]}
    for cadence, used in (
        ("manual", set()),
        ("hourly", set()),
        ("every_6_hours", set()),
        ("daily", {"run_at"}),
        ("weekdays", {"run_at", "days"}),
        ("weekly", {"run_at", "day_of_week"}),
        ("monthly", {"run_at", "day_of_month"}),
    ):
        outcome = _read({"cadence": cadence, **everything})
        assert isinstance(outcome, Schedule), cadence
        stored = {name for name, value in outcome.to_wire().items() if value is not None} - {"cadence"}
        assert stored == used
    assert _read(_daily_with(week_of_month=2, day_of_month=3)) == daily("08:00")


@pytest.mark.parametrize(
    "wrong",
    [
        "2026-6-1",
        "2026-02-30",
        "2026-00-10",
        "20260601",
        "2026-06-01T00:00",
        "0000-01-01",
        "2026-06-01\n",
        "",
        20260601,
        "２０２６-06-01",
    ],
)
def test_a_date_is_a_real_day_of_the_calendar(wrong: object) -> None:
    """Refuses a date that does not exist or is not written as YYYY-MM-DD, also where it is not used.

    See docs/design/schedule.md#shape.
    """
    assert _wrong({"cadence": "once", "run_at": "08:00", "date": wrong}) == ["schedule.date"]
    assert _wrong(_daily_with(date=wrong)) == ["schedule.date"]


def test_a_date_lies_at_most_1826_days_after_today_in_the_zone() -> None:
    """Accepts a date up to 1826 days after today in the zone, and refuses one day more.

    See docs/design/schedule.md#shape.
    """
    for zone, now, today in (
        ("Europe/Berlin", _NOW, date(2026, 5, 10)),
        ("Pacific/Kiritimati", _NOW, date(2026, 5, 11)),
        ("Pacific/Pago_Pago", at("2026-05-10 10:59"), date(2026, 5, 9)),
    ):
        for days, is_taken in ((1_826, True), (1_827, False)):
            day = str(today + timedelta(days=days))
            outcome = _read({"cadence": "once", "run_at": "08:00", "date": day}, now, zone)
            assert isinstance(outcome, Schedule) == is_taken, (zone, days)


def test_once_is_refused_when_its_time_has_come() -> None:
    """Refuses a date and time that are not after now (R11)."""
    raw = {"cadence": "once", "run_at": "14:00", "date": "2026-05-10"}
    moment = at("2026-05-10 12:00")
    for now, is_taken in ((moment, False), (moment - timedelta(milliseconds=1), True)):
        outcome = _read(raw, now)
        assert isinstance(outcome, Schedule) == is_taken
        assert is_taken or list(outcome) == ["schedule.date"]  # type: ignore[call-overload]
        assert has_passed(once("2026-05-10", "14:00"), place("Europe/Berlin"), now) != is_taken
    assert not has_passed(daily("14:00"), place("Europe/Berlin"), moment)


def test_whether_once_has_passed_is_asked_only_when_date_and_time_are_right() -> None:
    """Reports wrong fields alone, without asking whether the time has passed.

    See docs/design/schedule.md#shape.
    """
    assert _wrong({"cadence": "once", "run_at": "25:00", "date": "2020-01-01"}) == ["schedule.run_at"]
    assert _wrong({"cadence": "once", "date": "2020-01-01"}) == ["schedule.run_at"]
    both = {"cadence": "once", "run_at": "08:00", "date": "2020-01-01", "day_of_week": 9}
    assert _wrong(both) == ["schedule.date", "schedule.day_of_week"]


def test_dates_and_times_at_the_calendars_edges_are_read_without_raising() -> None:
    """Reads the first and last dates of the calendar in zones east and west of UTC without raising.

    See docs/design/api/conventions.md#requests.
    """
    for zone in ("Pacific/Kiritimati", "Pacific/Niue"):
        first = {"cadence": "once", "run_at": "00:00", "date": "0001-01-01"}
        assert isinstance(_read(first, _NOW, zone), dict)
        last = {"cadence": "once", "run_at": "23:59", "date": "9999-12-31"}
        assert isinstance(_read(last, datetime.max.replace(tzinfo=UTC), zone), dict)


def test_an_automation_started_by_events_takes_only_manual() -> None:
    """Refuses any cadence but `manual` for an automation that events start (R12)."""
    zone = place("UTC")
    schedule = read_schedule({"cadence": "manual"}, zone=zone, now=_NOW, is_event_started=True)
    assert schedule == Schedule(Cadence.MANUAL)
    refused = read_schedule({"cadence": "hourly"}, zone=zone, now=_NOW, is_event_started=True)
    assert list(refused) == ["schedule.cadence"]  # type: ignore[call-overload]


def test_a_schedule_beside_an_unknown_zone_is_still_read() -> None:
    """Reports the errors of a schedule beside an unknown zone, and skips the checks that need the zone.

    See docs/design/api/conventions.md#requests.
    """
    past = {"cadence": "once", "run_at": "08:00", "date": "2020-01-01"}
    assert isinstance(read_schedule(past, zone=None, now=_NOW), Schedule)
    schedule = read_schedule({**past, "run_at": "8"}, zone=None, now=_NOW, path="settings.schedule")
    assert list(schedule) == ["settings.schedule.run_at"]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "stored",
    [
        {"cadence": "daily", "run_at": 8},
        {"cadence": "weekly", "day_of_week": True},
        {"cadence": "weekdays", "days": 3},
        {"cadence": "often"},
    ],
)
def test_a_kept_schedule_of_another_shape_is_not_believed(stored: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Schedule.from_wire(stored)
