"""Tests every worked case of the shared case file, and the program that runs a file of them."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.case_data import case_data
from tests.scheduling.run_cases import main, outcomes

_FEWEST = {"cases": 60, "since": 2, "this_and_later": 12, "spread": 10, "validation": 23}


@pytest.mark.parametrize("name", sorted(_FEWEST))
def test_every_worked_case_comes_out_as_written(name: str) -> None:
    """Computes slots, `slots_after`, moves, spread and validation as the file says.

    See docs/design/schedule.md#slot-rules.
    """
    document = json.loads(case_data("schedule_cases.json").read_text(encoding="utf-8"))
    all_outcomes = list(outcomes({name: document[name]}))
    assert len(all_outcomes) >= _FEWEST[name]
    assert [outcome for outcome in all_outcomes if not outcome.is_equal] == []


def test_the_program_counts_what_is_equal_and_fails_on_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names the wrong case of each list, and exits with 1 unless all are equal."""
    document = json.loads(case_data("schedule_cases.json").read_text(encoding="utf-8"))
    right = {name: document[name][:1] for name in _FEWEST}
    assert main([_write(tmp_path, right)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "5 of 5 equal"
    wrong = json.loads(json.dumps(right))
    wrong["cases"][0]["next"][2] = "2026-01-13T08:01:00Z"
    wrong["since"][0]["next"] = wrong["since"][0]["next"][:2]
    wrong["this_and_later"][0]["schedule_after"]["run_at"] = "09:31"
    wrong["spread"][0]["spread_minutes"] = 4
    wrong["validation"][0]["errors"] = ["schedule.run_at", "schedule.date"]
    assert main([_write(tmp_path, wrong)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:-1]] == _named(right)
    assert lines[-1] == "0 of 5 equal"


def test_the_program_runs_by_its_path_from_anywhere(tmp_path: Path) -> None:
    """Runs as `python tests/scheduling/run_cases.py FILE` from any folder; a file without cases fails."""
    program = Path(__file__).with_name("run_cases.py")
    spread = [{"automation_id": "4BBT9DMZEG7QB4J03NDRSNSRTQ", "spread_max": 0, "spread_minutes": 0}]
    for document, ending, code in (({"spread": spread}, "1 of 1 equal", 0), ({}, "0 of 0 equal", 1)):
        run = subprocess.run(
            [sys.executable, str(program), _write(tmp_path, document)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (run.stdout.splitlines()[-1], run.returncode, run.stderr) == (ending, code, "")


def _write(folder: Path, document: object) -> str:
    file = folder / "cases.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    return str(file)


def _named(document: dict[str, Sequence[dict[str, str]]]) -> list[str]:
    return [f"{name}/{cases[0].get('id', 0)}" for name, cases in document.items()]
