"""`make soak`: the long forms of the random and destructive tests, round after round with fresh seeds until
their share of the time is over, and a report of what ran, how often, and what was wrong.

`python -m tests.soak --minutes 30 [--only simulate,kill] [--report .cache/soak] [--resume]`
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import IO

from steward.clock import SystemClock

CLOCK = SystemClock()
# A round that is under way when its part's time is over may go on for as long again, and at least so long:
# one of the browser tests is longer than its share of half an hour.
GRACE_S = 900.0
# One that has to be stopped has so long to end its servers and processes.
STOP_S = 60.0


@dataclass(frozen=True)
class Part:
    """One kind of test: what pytest is given, how often each round tries, and its share of the time."""

    name: str
    what: str
    paths: tuple[str, ...]
    tries: int  # of one round, of each of its tests that count tries
    share: float
    environ: Callable[[int, int], Mapping[str, str]]  # round from 0, tries


@dataclass
class Outcome:
    """What became of a part."""

    name: str
    what: str
    rounds: int = 0
    tries: int = 0
    tests: int = 0
    violations: int = 0
    skipped: int = 0
    unfinished: int = 0
    seconds: float = 0.0
    failed: list[str] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        """Adds the counts and the failed tests of another outcome of the part."""
        for count in fields(self)[2:]:
            setattr(self, count.name, getattr(self, count.name) + getattr(other, count.name))


def _plain(_: int, __: int) -> Mapping[str, str]:
    return {}


PARTS = (
    Part("slots", "own slots against a walk of every minute", ("tests/scheduling",), 20_000, 1,
         lambda number, tries: {"STEWARD_SLOT_CASES": f"{tries}", "STEWARD_SLOT_SEED": f"soak {number}"}),
    Part("model", "the calendar against a model of plain dicts", ("tests/occurrences/test_model.py",), 120, 2,
         lambda _, tries: {"MODEL_EXAMPLES": f"{tries}"}),
    Part("races", "two sessions at once at one occurrence", ("tests/occurrences/test_races.py",), 1_000, 1,
         lambda _, tries: {"RACE_TRIES": f"{tries}"}),
    Part("interleave", "two PostgreSQL sessions, statement by statement",
         ("tests/occurrences/test_interleave.py",), 1_000, 2,
         lambda number, tries: {"INTERLEAVE_TRIES": f"{tries}", "INTERLEAVE_FROM": f"{number * tries}"}),
    Part("events", "store events with repeats, counted", ("tests/events/test_counting.py",), 10_000, 1,
         lambda _, tries: {"EVENT_DELIVERIES": f"{tries}"}),
    Part("crash_matrix", "a kill at every crash point, and pairs", ("tests/crash/test_kills.py",), 60, 3,
         lambda number, tries: {"CRASH_EVERY": "1", "CRASH_PAIRS": f"{tries}", "CRASH_SEED": f"{number}",
                                "CRASH_FAULTY_KILLS": "3"}),
    Part("answers", "kills of runs that read the answers to what they send",
         ("tests/imports/responses/test_kills.py",), 60, 2,
         lambda number, tries: {"CRASH_RESPONSES": f"{tries}", "CRASH_SEED": f"{number}"}),
    Part("stalls", "a stop and a cancel before each write, and wrong engines that must be caught",
         ("tests/crash/test_stalls.py", "tests/crash/test_wrong_engines.py",
          "tests/crash/test_operations.py", "tests/crash/test_truth.py"),
         1, 1, lambda _, __: {"STALL_EVERY": "1", "CANCEL_EVERY": "1", "LOST_EVERY": "3"}),
    Part("simulate", "three workers in virtual time, in any order", ("tests/crash/test_simulate.py",), 60, 4,
         lambda number, tries: {"SIMULATE_SEEDS": f"{tries}", "SIMULATE_FROM": f"{1 + number * tries}"}),
    Part("kill", "kill -9 of real processes under load, bad lines to the store",
         ("tests/processes/test_kill.py",), 40, 4,
         lambda number, tries: {"KILLS": f"{tries}", "KILL_SEED": f"soak {number}"}),
    Part("notices", "kills while facts are told, at failpoints and of real processes",
         ("tests/notifications/test_kills.py", "tests/processes/test_notice_kills.py"), 40, 2,
         lambda number, tries: {"NOTICE_KILLS": f"{tries}", "KILL_SEED": f"soak {number}"}),
    Part("undo", "kills of undo runs, and edits by others while they go on",
         ("tests/crash/test_undo_kills.py", "tests/runs/test_undo_edits.py", "tests/runs/test_undo_plan.py"),
         60, 2, lambda number, tries: {"UNDO_KILLS": f"{tries}", "CRASH_SEED": f"{number}",
                                       "UNDO_EDITS": f"{tries * 10}", "UNDO_EDITS_SEED": f"soak {number}",
                                       "UNDO_RUNS": f"{tries * 500}"}),
    Part("closings", "kills while changes are stopped, and closings against a walk of every minute",
         ("tests/closed_periods/test_kills.py", "tests/closed_periods/test_agreement.py",
          "tests/closed_periods/test_any_order.py", "tests/closed_periods/test_freeze_under_load.py",
          "tests/closed_periods/test_events.py",
          "tests/scheduling/test_closings_against_walk.py"), 60, 1,
         lambda number, tries: {"CLOSED_KILLS": f"{tries}", "CRASH_SEED": f"{number}",
                                "CLOSED_SEEDS": f"{tries}", "CLOSED_FROM": f"{1 + number * tries}",
                                "CLOSED_EVENTS": "500",
                                "FREEZE_RUNS": f"{min(tries, 50)}", "FREEZE_FROM": f"{1 + number}",
                                "STEWARD_CLOSED_WALKS": f"{tries}", "STEWARD_CLOSED_SEED": f"soak {number}",
                                "STEWARD_CLOSING_CASES": f"{tries}", "STEWARD_CLOSING_SHAPES": "100",
                                "STEWARD_CLOSING_SEED": f"soak {number}"}),
    Part("database", "a real PostgreSQL killed, silenced, failed over", ("tests/processes/test_database.py",),
         10, 3, lambda _, tries: {"DATABASE_KILLS": f"{tries}"}),
    Part("disk", "a full disk", ("tests/crash/test_full_disk.py",), 1, 0.5, _plain),
    Part("hardship", "a slow disk, and a process without memory", ("tests/processes/test_hardship.py",), 3, 1,
         lambda _, tries: {"HARDSHIPS": f"{tries}"}),
    Part("clocks", "a clock that is set forward and back, and beyond 2038",
         ("tests/crash/test_clock_jumps.py",), 300, 0.5,
         lambda number, tries: {"CLOCK_JUMPS": f"{tries}", "CLOCK_SEED": f"{number}"}),
    Part("bounded", "the database file under weeks of events, in virtual time",
         ("tests/events/test_bounded.py",), 60, 1, lambda _, tries: {"BOUNDED_DAYS": f"{tries}"}),
    Part("shops", "every template that changes a store, at any shop, twice",
         ("tests/templates/test_any_shop.py",), 60, 1,
         lambda _, tries: {"SHOP_EXAMPLES": f"{tries}"}),
    Part("browser", "every look in both themes, 5,000 changes in one approval", ("tests/web",), 5_000, 1,
         lambda _, tries: {"CI": "1", "WEB_LOOKS": "all", "WEB_CHANGES": f"{tries}"}),
    Part("fuzz", "what no client sends", ("tests/fuzz",), 60, 2,
         lambda _, tries: {"FUZZ_EXAMPLES": f"{tries}"}),
)  # fmt: skip


def play(part: Part, seconds: float, *, log: Path, first_round: int = 0) -> Outcome:
    """Rounds of one part until its time is over; the last one is let come to its end within reason."""
    outcome, began = Outcome(part.name, part.what), CLOCK.monotonic()
    while outcome.rounds == 0 or CLOCK.monotonic() - began < seconds:
        remaining = seconds - (CLOCK.monotonic() - began)
        if outcome.rounds and remaining < outcome.seconds / outcome.rounds / 2:
            break  # the next one would hardly begin
        number = first_round + outcome.rounds
        _round(part, outcome, number, longest=max(remaining, 0) + max(seconds, GRACE_S), log=log)
        outcome.seconds = round(CLOCK.monotonic() - began, 1)
        print(
            f"{part.name}: {outcome.rounds} rounds, {outcome.tries} tries, {outcome.violations} wrong,"
            f" {outcome.seconds:.0f} s",
            flush=True,
        )
        if outcome.unfinished or outcome.violations:
            break
    return outcome


def _round(part: Part, outcome: Outcome, number: int, *, longest: float, log: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="steward-soak-") as folder:
        actual = Path(folder) / "tests.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-s",
            "-p",
            "no:xdist",
            f"--junitxml={actual}",
            *part.paths,
        ]
        environ = {**os.environ, "STEWARD_TEST_REQUIRE_POSTGRES": "1"}
        environ |= part.environ(number, part.tries)
        with log.open("a") as out:
            out.write(f"=== {part.name}, round {number}: {' '.join(command)}\n")
            out.flush()
            code = _ended(command, environ, out, longest=longest)
        _count(outcome, actual, code=code)
        if code is None:
            outcome.unfinished += 1
        else:
            outcome.rounds += 1
            outcome.tries += part.tries


def _ended(command: Sequence[str], environ: Mapping[str, str], out: IO[str], *, longest: float) -> int | None:
    """Its exit code; None when it had to be stopped: asked first, so that it ends what it has started."""
    running = subprocess.Popen(
        command, env=environ, stdout=out, stderr=out, start_new_session=True, preexec_fn=_heed_interrupts
    )
    try:
        return running.wait(longest)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _stop(running)


def _heed_interrupts() -> None:
    """A shell starts what it puts into the background with SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _stop(running: subprocess.Popen[bytes]) -> None:
    """Ends a session that goes on: a first asking may only have cancelled what the test waited for."""
    for _ in range(2):
        if running.poll() is None:
            running.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                running.wait(STOP_S / 2)
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def _count(outcome: Outcome, path: Path, *, code: int | None) -> None:
    """Adds what pytest tells; a round that told nothing, ran nothing or broke off is a violation.

    Of a round that was cut what it had found counts; the test it was cut in is among its tests.
    """
    run, wrong = 0, []
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        cases = []
    for case in cases:
        outcome.tests += 1
        if case.find("skipped") is not None:
            outcome.skipped += 1
            continue
        run += 1
        if case.find("failure") is not None or case.find("error") is not None:
            wrong.append(f"{case.get('classname')}::{case.get('name')}")
    if code is not None and not wrong and (code or not run):
        wrong.append(f"pytest ended with {code} and ran {run} tests: see the log")
    outcome.violations += len(wrong)
    outcome.failed += wrong


def text_of(outcomes: Sequence[Outcome], seconds: float) -> str:
    """The report as a person reads it."""
    head = f"{'part':<14}{'rounds':>7}{'tries':>9}{'tests':>7}{'skipped':>9}"
    lines = [f"{head}{'wrong':>7}{'cut':>5}{'seconds':>9}  what"]
    for outcome in outcomes:
        lines.append(
            f"{outcome.name:<14}{outcome.rounds:>7}{outcome.tries:>9}{outcome.tests:>7}{outcome.skipped:>9}"
            f"{outcome.violations:>7}{outcome.unfinished:>5}{outcome.seconds:>9.0f}  {outcome.what}"
        )
        lines += [f"    failed: {name}" for name in outcome.failed]
    wrong = sum(each_outcome.violations for each_outcome in outcomes)
    cut = sum(item.unfinished for item in outcomes)
    lines.append(f"{wrong} violations, {cut} rounds cut short by the time, {seconds:.0f} s")
    return "\n".join(lines) + "\n"


def _reported(folder: Path) -> dict[str, Outcome]:
    """The outcomes of an earlier report in the folder, by part; empty where there is none."""
    report = folder / "report.json"
    if not report.exists():
        return {}
    return {part["name"]: Outcome(**part) for part in json.loads(report.read_text())["parts"]}


def _report(folder: Path, outcomes: Sequence[Outcome], minutes: float, seconds: float) -> None:
    parts = [asdict(outcome) for outcome in outcomes]
    whole = {"minutes": minutes, "seconds": round(seconds, 1), "parts": parts}
    (folder / "report.json").write_text(json.dumps(whole, indent=1) + "\n")
    (folder / "report.txt").write_text(text_of(outcomes, seconds))


def main(words: Sequence[str]) -> int:
    """0: every part ran a whole round and nothing was wrong; 1 otherwise; 2: no such part."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="for all parts together")
    parser.add_argument("--only", default="", help="parts by name, with commas between")
    parser.add_argument(
        "--report", type=Path, default=Path(".cache/soak"), help="folder of the reports and the log"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on after the rounds in the report, and add to its counts"
    )
    options = parser.parse_args(words)
    names = [name for name in options.only.split(",") if name]
    if unknown := sorted(set(names) - {part.name for part in PARTS}):
        print(f"There is no part {', '.join(unknown)}. There are: {', '.join(part.name for part in PARTS)}.")
        return 2
    chosen = [part for part in PARTS if not names or part.name in names]
    options.report.mkdir(parents=True, exist_ok=True)
    earlier = _reported(options.report) if options.resume else {}
    log = options.report / "log.txt"
    if not earlier:
        log.write_text("")
    began, whole = CLOCK.monotonic(), sum(part.share for part in chosen)
    outcomes: list[Outcome] = []
    for part in chosen:
        print(f"{part.name}: {part.what}", flush=True)
        outcome = earlier.pop(part.name, None) or Outcome(part.name, part.what)
        seconds = options.minutes * 60 * part.share / whole
        outcome.add(play(part, seconds, log=log, first_round=outcome.rounds))
        outcomes.append(outcome)
        _report(options.report, [*outcomes, *earlier.values()], options.minutes, CLOCK.monotonic() - began)
    print(text_of(outcomes, CLOCK.monotonic() - began), end="")
    print(f"The reports and the log are in {options.report}.")
    return int(any(each_outcome.violations or not each_outcome.rounds for each_outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
