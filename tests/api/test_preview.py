"""The schedule preview over HTTP: the next three runs, their words and notes."""

from typing import Any

from tests.api.test_automations import AutomationsApi, desk
from tests.people import ApiResponse

__all__ = ["desk"]

PATH = "/v1/automations/schedule/preview"
LAST_FRIDAY = {"cadence": "monthly", "run_at": "18:30", "day_of_week": 5, "week_of_month": -1}


async def preview(desk: AutomationsApi, schedule: dict[str, Any], **more: Any) -> Any:
    """Returns the data that the preview answers."""
    response = await desk.member.post(PATH, {"schedule": schedule, **more})
    assert response.status == 200, response.body
    return response.data


async def test_the_next_three_runs_are_described_in_words(desk: AutomationsApi) -> None:
    """Answers the next three runs in UTC and local time, the schedule in words and the note on spread.

    See docs/design/api/calendar.md#preview-a-schedule.

    Interface statements: 4.3 preview.
    """
    assert await preview(desk, LAST_FRIDAY, timezone="Europe/Berlin") == {
        "timezone": "Europe/Berlin",
        "next": [
            {"slot_at": "2026-05-29T16:30:00.000Z", "local": "2026-05-29T18:30+02:00", "note": None},
            {"slot_at": "2026-06-26T16:30:00.000Z", "local": "2026-06-26T18:30+02:00", "note": None},
            {"slot_at": "2026-07-31T16:30:00.000Z", "local": "2026-07-31T18:30+02:00", "note": None},
        ],
        "words": "Every last Friday of the month at 18:30 (Europe/Berlin)",
        "spread_note": "A run may start up to 9 minutes later.",
    }


NOTED: list[tuple[dict[str, Any], str, list[str | None]]] = [
    ({"cadence": "daily", "run_at": "02:30"}, "2027-03-27T12:00:00Z", ["gap", None, None]),
    ({"cadence": "daily", "run_at": "02:30"}, "2026-10-24T12:00:00Z", ["fold", None, None]),
    (
        {"cadence": "monthly", "run_at": "08:00", "day_of_month": 31},
        "2026-05-31T12:00:00Z",
        ["short_month", None, None],
    ),
]


async def test_clock_changes_and_short_months_are_noted(desk: AutomationsApi) -> None:
    """Notes a run that falls into a clock change or into a short month."""
    for schedule, since, notes in NOTED:
        previewed = await preview(desk, schedule, timezone="Europe/Berlin", **{"from": since})
        assert [run["note"] for run in previewed["next"]] == notes, schedule


async def test_the_zone_is_the_stores_without_one_the_organizations(desk: AutomationsApi) -> None:
    """Uses the given zone, else the store's, else the organization's, else UTC."""
    daily = {"cadence": "daily", "run_at": "08:00"}
    previewed = await preview(desk, daily, integration_id=desk.store, timezone="Asia/Calcutta")
    assert previewed["timezone"] == "Asia/Calcutta"
    assert (await preview(desk, daily, integration_id=desk.store))["timezone"] == "Europe/Berlin"
    assert (await preview(desk, daily, integration_id=desk.other_store))["timezone"] == "Europe/Berlin"
    response = await desk.stranger.post(PATH, {"schedule": daily})
    assert response.data["timezone"] == "UTC"


async def test_manual_and_once_have_fewer_runs(desk: AutomationsApi) -> None:
    """Answers no run for a manual schedule and one for a single date."""
    assert (await preview(desk, {"cadence": "manual"}))["next"] == []
    once = {"cadence": "once", "date": "2026-05-02", "run_at": "08:00"}
    assert len((await preview(desk, once))["next"]) == 1


async def test_a_once_is_judged_by_from(desk: AutomationsApi) -> None:
    """Refuses a single date that is not after `from`, and accepts one a millisecond later."""
    once = {"cadence": "once", "date": "2026-05-02", "run_at": "08:00"}
    body = {"schedule": once, "timezone": "UTC", "from": "2026-05-02T08:00:00Z"}
    response = await desk.member.post(PATH, body)
    assert (response.status, list(response.errors)) == (422, ["schedule.date"])
    previewed = await preview(desk, once, timezone="UTC", **{"from": "2026-05-02T07:59:59.999Z"})
    assert previewed["next"][0]["slot_at"] == "2026-05-02T08:00:00.000Z"


async def test_without_spread_there_is_no_note_on_it(desk: AutomationsApi) -> None:
    """Leaves the note on spread out when runs are not spread."""
    desk.service.restart(spread_max=0)
    assert (await preview(desk, {"cadence": "hourly"}))["spread_note"] is None


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["schedule"]),
    ({"schedule": {"cadence": "daily"}}, ["schedule.run_at"]),
    (
        {"schedule": {"cadence": "daily", "run_at": "8:00", "days": []}},
        ["schedule.days", "schedule.run_at"],
    ),
    ({"schedule": {"cadence": "daily"}, "timezone": "Mars/Olympus"}, ["schedule.run_at", "timezone"]),
    ({"schedule": {"cadence": "manual"}, "timezone": "europe/berlin"}, ["timezone"]),
    ({"schedule": {"cadence": "manual"}, "timezone": None}, ["timezone"]),
    ({"schedule": {"cadence": "manual"}, "integration_id": 999_999}, ["integration_id"]),
    ({"schedule": {"cadence": "manual"}, "from": "today", "to": 1}, ["from", "to"]),
    (
        {
            "schedule": {"cadence": "once", "date": "2020-01-01", "run_at": "08:00"},
            "integration_id": 999_999,
        },
        ["integration_id", "schedule.date"],
    ),
]


async def test_wrong_fields_are_refused_by_their_path(desk: AutomationsApi) -> None:
    """Refuses all invalid fields of a preview at once under their paths."""
    for body, wrong in WRONG:
        response: ApiResponse = await desk.member.post(PATH, body)
        assert (response.status, sorted(response.errors)) == (422, wrong), body


async def test_a_foreign_store_is_refused(desk: AutomationsApi) -> None:
    """Refuses another organization's store with 422."""
    body = {"schedule": {"cadence": "hourly"}, "integration_id": desk.foreign_store}
    response = await desk.member.post(PATH, body)
    assert (response.status, list(response.errors)) == (422, ["integration_id"])
