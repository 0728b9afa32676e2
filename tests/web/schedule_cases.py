"""Cases for schedules as the page words and moves them: the service's own texts, and the case file."""

import json
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from steward.model.schedule import Schedule
from steward.scheduling.shape import read_schedule
from steward.scheduling.words import schedule_words
from tests.case_data import case_data

Case = dict[str, Any]
FIELDS = ("run_at", "day_of_week", "day_of_month", "date", "days", "week_of_month")


def _whole(schedule: dict[str, Any]) -> dict[str, Any]:
    return {"cadence": schedule["cadence"], **{name: schedule.get(name) for name in FIELDS}}


def worded() -> list[Case]:
    """Returns each schedule of the case file with the service's text. See docs/design/web.md#tests."""
    cases = []
    for case in json.loads(case_data("schedule_cases.json").read_text("utf-8"))["cases"]:
        now = datetime.fromisoformat(case["from"]) - timedelta(days=2)
        schedule = read_schedule(case["schedule"], zone=ZoneInfo(case["zone"]), now=now)
        assert isinstance(schedule, Schedule), case["id"]
        words = schedule_words(schedule, case["zone"]).removesuffix(f" ({case['zone']})")
        cases.append({"schedule": _whole(case["schedule"]), "words": words})
    return cases


def moved_on() -> list[Case]:
    """Returns each move of "this and later" with the resulting rule.

    See docs/design/web.md#calendar and docs/design/schedule.md#moving-this-and-later.
    """
    cases = []
    for case in json.loads(case_data("schedule_cases.json").read_text("utf-8"))["this_and_later"]:
        if "refused" in case:
            continue
        zone = ZoneInfo(case["zone"])
        nominal, to = (
            datetime.fromisoformat(case[name]).astimezone(zone) for name in ("slot_nominal", "new_run_at")
        )
        cases.append(
            {
                "id": case["id"],
                "schedule": _whole(case["schedule"]),
                "day": nominal.date().isoformat(),
                "wall": to.strftime("%Y-%m-%dT%H:%M"),
                "after": _whole(case["schedule_after"]),
            }
        )
    return cases
