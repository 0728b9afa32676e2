"""Tests the app's pure functions against Python's time zones and the schemas of all templates.

See docs/design/web.md#tests.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest

from tests.case_data import case_data
from tests.source import ROOT
from tests.web.schedule_cases import moved_on, worded

FILES = (
    "src/lib/time.test.ts",
    "src/lib/schema.test.ts",
    "src/lib/schedule.test.ts",
    "src/screens/calendar/calendar.test.ts",
)
FIRST, LAST = datetime(2020, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
Case = tuple[str, str, int, str]
# Morocco announces its changes year by year: a browser's zone database may be older than the service's.
DECIDED_EACH_YEAR = {"Africa/Casablanca", "Africa/El_Aaiun"}


def _changes(zone: ZoneInfo) -> Iterator[tuple[datetime, timedelta]]:
    """Returns each change of the zone's offset, to the minute, with its size."""
    moment = FIRST
    before = moment.astimezone(zone).utcoffset()
    while moment < LAST:
        after = (moment + DAY).astimezone(zone).utcoffset()
        if before is not None and after is not None and after != before:
            low, high = moment, moment + DAY
            while high - low > timedelta(minutes=1):
                middle = low + (high - low) / 2
                middle -= timedelta(seconds=middle.second, microseconds=middle.microsecond)
                middle = max(middle, low + timedelta(minutes=1))
                if middle.astimezone(zone).utcoffset() == before:
                    low = middle
                else:
                    high = middle
            yield high, after - before
        before, moment = after, moment + DAY


def _cases(name: str) -> Iterator[Case]:
    zone = ZoneInfo(name)
    for moment, by in _changes(zone):
        wall = (moment - abs(by) / 2).astimezone(zone).replace(tzinfo=None)
        for moved in (-abs(by), timedelta(0), abs(by)):
            yield _case(name, zone, wall + moved)


def _case(name: str, zone: ZoneInfo, wall: datetime) -> Case:
    """Returns the instant of a wall time with fold=0, so that a missing time is later by the gap."""
    instant = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    later = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    fit = "exact" if instant == later else "fold" if instant < later else "gap"
    return name, wall.strftime("%Y-%m-%dT%H:%M"), int(instant.timestamp() * 1000), fit


def _zones() -> list[str]:
    """Returns one zone of each set with equal clocks since 2020."""
    kinds: dict[tuple[object, ...], str] = {}
    step = timedelta(days=7)
    for name in sorted(available_timezones() - DECIDED_EACH_YEAR):
        if "/" in name and not name.startswith(("Etc/", "SystemV/")):
            zone = ZoneInfo(name)
            moments = (FIRST + step * week for week in range(0, 16 * 52, 4))
            kinds.setdefault(tuple(moment.astimezone(zone).utcoffset() for moment in moments), name)
    return list(kinds.values())


def _wall_clocks() -> list[Case]:
    return [case for name in _zones() for case in _cases(name)]


def test_the_page_computes_as_python_and_the_service_do(built: None, tmp_path: Path) -> None:
    """The page computes wall clocks, forms and schedule texts as Python and the service do.

    It covers all zones on every change day of 2020 to 2035, a form for each template's schema, and schedules
    in words, also after "this and later". One process serves all, because starting it costs more than its
    tests. See docs/design/web.md#time and docs/design/web.md#tests.
    """
    clocks = {"WALL_CLOCK": _wall_clocks()}
    try:
        cases = clocks | _of_the_case_files()
    except pytest.skip.Exception:
        # Without the case files beside the repository only the clocks are compared.
        _assert_vitest_passes(tmp_path, FILES[:1], clocks)
        raise
    _assert_vitest_passes(tmp_path, FILES, cases)


def _of_the_case_files() -> dict[str, Any]:
    return {"TEMPLATES": case_data("templates.json"), "SCHEDULES": worded(), "MOVES": moved_on()}


def _assert_vitest_passes(folder: Path, files: Sequence[str], variables: Mapping[str, Any]) -> None:
    env = dict(os.environ)
    for name, cases in variables.items():
        file = cases if isinstance(cases, Path) else folder / f"{name}.json"
        if file is not cases:
            file.write_text(json.dumps(cases))
        env[name] = str(file)
    command = ["node_modules/.bin/vitest", "run", *files]
    completed = subprocess.run(
        command, cwd=ROOT / "web", env=env, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
