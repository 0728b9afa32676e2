"""Schedules as the page words and moves them, against the service's own words and the case file."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from steward.model.schedule import Schedule
from steward.scheduling.shape import read_schedule
from steward.scheduling.words import schedule_words
from tests.shared_data import shared
from tests.web.test_pure_functions import _vitest

FIELDS = ("run_at", "day_of_week", "day_of_month", "date", "days", "week_of_month")


def _whole(schedule: dict[str, Any]) -> dict[str, Any]:
    return {"cadence": schedule["cadence"], **{name: schedule.get(name) for name in FIELDS}}


def test_schedules_are_worded_as_the_service_words_them(built: None, tmp_path: Path) -> None:
    """web 12, flow 11: words equal to the service's; every schedule of the case file"""
    cases = []
    for case in json.loads(shared("schedule_cases.json").read_text("utf-8"))["cases"]:
        now = datetime.fromisoformat(case["from"]) - timedelta(days=2)
        schedule = read_schedule(case["schedule"], zone=ZoneInfo(case["zone"]), now=now)
        assert isinstance(schedule, Schedule), case["id"]
        words = schedule_words(schedule, case["zone"]).removesuffix(f" ({case['zone']})")
        cases.append({"schedule": _whole(case["schedule"]), "words": words})
    file = tmp_path / "schedules.json"
    file.write_text(json.dumps(cases))
    _vitest("src/lib/schedule.test.ts", SCHEDULES=str(file))


def test_this_and_later_is_told_as_it_will_be(built: None, tmp_path: Path) -> None:
    """web 6.6, Move dialog: the new rule in words before it is sent; schedule 8.3"""
    cases = []
    for case in json.loads(shared("schedule_cases.json").read_text("utf-8"))["this_and_later"]:
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
    file = tmp_path / "moves.json"
    file.write_text(json.dumps(cases))
    _vitest("src/screens/calendar/calendar.test.ts", MOVES=str(file))
