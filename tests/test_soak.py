"""The runner of the long forms: rounds within their time, a report that tells what was wrong."""

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests import soak
from tests.soak import Part

GOOD = "def test_good():\n    assert True\n"
SKIPPED = "import pytest\n\n@pytest.mark.skip\ndef test_skipped():\n    pass\n"
STOPPED = "def test_stopped():\n    raise KeyboardInterrupt\n"
BAD = "def test_bad():\n    assert False\n"
SLOW = "import threading\n\ndef test_slow():\n    threading.Event().wait()\n"


def part(folder: Path, text: str) -> Part:
    """A part that consists of one file of tests."""
    file = folder / "test_made.py"
    file.write_text(text)

    def environ(number: int, tries: int) -> Mapping[str, str]:
        return {"ROUND": str(number), "PYTHONPATH": os.getcwd(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    return Part("made", "made by a test", (str(file), f"--rootdir={folder}"), 7, 1, environ)


def test_every_part_names_tests_that_are_there() -> None:
    """A path that is gone would make a part that tries nothing"""
    for part in soak.PARTS:
        assert all(Path(path).exists() for path in part.paths), part.name
        assert all(isinstance(value, str) for value in part.environ(0, part.tries).values())
    assert len({each_part.name for each_part in soak.PARTS}) == len(soak.PARTS)


def test_violations_are_counted_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """issue: bounded in time by an argument, with a report"""
    for text, code in ((GOOD, 0), (BAD, 1)):
        monkeypatch.setattr(soak, "PARTS", (part(tmp_path, text),))
        assert soak.main(["--minutes", "0", "--report", str(tmp_path / "told")]) == code
        actual = json.loads((tmp_path / "told" / "report.json").read_text())
        [soak_part] = actual["parts"]
        assert (soak_part["rounds"], soak_part["tries"], soak_part["tests"], soak_part["violations"]) == (
            1,
            7,
            1,
            code,
        )
        assert len(soak_part["failed"]) == code
        assert f"{code} violations" in (tmp_path / "told" / "report.txt").read_text()
    assert "test_bad" in capsys.readouterr().out
    assert soak.main(["--only", "nothing", "--report", str(tmp_path)]) == 2


def test_a_resumed_soak_continues_with_the_next_round_and_adds_its_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seeds go by the number of the round, which no second soak may begin again"""
    seeded = "import os\n\ndef test_seeded():\n    print('seed', os.environ['ROUND'])\n"
    monkeypatch.setattr(soak, "PARTS", (part(tmp_path, seeded),))
    report = tmp_path / "told"
    for _ in range(2):
        assert soak.main(["--minutes", "0", "--report", str(report), "--resume"]) == 0
    [soak_part] = json.loads((report / "report.json").read_text())["parts"]
    assert (soak_part["rounds"], soak_part["tries"], soak_part["tests"]) == (2, 14, 2)
    log = (report / "log.txt").read_text()
    assert [log.count(f"seed {number}") for number in range(3)] == [1, 1, 0]
    assert "made: 1 rounds, 7 tries, 0 wrong" in capsys.readouterr().out


def test_a_round_over_its_limit_is_cut_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """issue: bounded in time by an argument"""
    monkeypatch.setattr(soak, "PARTS", (part(tmp_path, SLOW),))
    monkeypatch.setattr(soak, "GRACE_S", 4.0)  # enough for the part to start
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a shell
    try:
        assert soak.main(["--minutes", "0", "--report", str(tmp_path / "told")]) == 1
    finally:
        signal.signal(signal.SIGINT, handler)
    [soak_part] = json.loads((tmp_path / "told" / "report.json").read_text())["parts"]
    assert (soak_part["rounds"], soak_part["unfinished"]) == (0, 1)
    # It was interrupted, so that it could end what it had started, and not killed.
    assert "KeyboardInterrupt" in (tmp_path / "told" / "log.txt").read_text()


def test_a_failed_part_is_reported_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """issue: with a report; a round that ran nothing, or not to its end, is no good one"""
    reports = {
        "stopped": BAD + STOPPED,
        "skipped": SKIPPED,
        "broken": "import nothing_of_the_kind\n",
        "good": GOOD,
    }
    parts = []
    for name, text in reports.items():
        (tmp_path / name).mkdir()
        parts.append(replace(part(tmp_path / name, text), name=name))
    monkeypatch.setattr(soak, "PARTS", tuple(parts))
    assert soak.main(["--minutes", "0", "--report", str(tmp_path / "told")]) == 1
    actual = json.loads((tmp_path / "told" / "report.json").read_text())["parts"]
    assert [(item["name"], item["rounds"], item["violations"]) for item in actual] == [
        ("stopped", 1, 1),
        ("skipped", 1, 1),
        ("broken", 1, 1),
        ("good", 1, 0),
    ]
    assert actual[0]["failed"][0].endswith("test_bad")
    assert (actual[1]["tests"], actual[1]["skipped"]) == (1, 1)
    assert "3 violations, 0 rounds cut short" in (tmp_path / "told" / "report.txt").read_text()
