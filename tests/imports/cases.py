"""Runs recorded n8n cases through the reader, the plan and the walk of a real run.

`make n8n-cases DIR=folder`: names each case that differs and ends with 'N of M equal'.

See docs/design/imports-n8n.md#recorded-cases.
"""

import asyncio
import hashlib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from steward.imports.n8n.read import read_value
from steward.sandbox.pool import SandboxPool
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.workflow.execute import ExecutionResult
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.items import trigger_items
from steward.steps.workflow.plan_order import Execution
from steward.steps.workflow.step_types import RunEnvironment
from steward.steps.workflow.walk import ExecutionHold, InMemoryJournal, SettledExecution, WalkContext, walk

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
START = "Start"
LONGEST_S = 60.0  # limit of one case; the recorded ones take milliseconds


@dataclass(slots=True)
class Recording(InMemoryJournal):
    """Keeps the outputs of each step, to be compared with the recording."""

    outputs: dict[str, list[ExecutionResult]] = field(default_factory=dict)

    async def record(self, execution: Execution, done: ExecutionResult) -> SettledExecution | ExecutionHold:
        """Notes the result and hands it on."""
        self.outputs.setdefault(execution.step.name, []).append(done)
        return SettledExecution(done.outputs, done.error, done.code)


@dataclass(slots=True)
class FilesInMemory:
    """Keeps the files of a case in memory."""

    by_hash: dict[str, bytes] = field(default_factory=dict)

    async def put(self, content: bytes) -> str:
        """Stores a file and returns its hash."""
        sha256 = hashlib.sha256(content).hexdigest()
        self.by_hash[sha256] = content
        return sha256

    async def get(self, sha256: str) -> bytes:
        """Returns a file."""
        return self.by_hash[sha256]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Names a case and its differences; without differences it is equal."""

    name: str
    differences: tuple[str, ...]


async def run_case(case: Mapping[str, Any], children: SandboxPool) -> Verdict:
    """Reads and runs one case, and compares the outputs of its steps with the recording."""
    read = read_value(case["workflow"])
    plan = read.plan
    unsupported = [step.name for step in plan.steps if step.operation == "unsupported"]
    if unsupported:
        return Verdict(case["name"], (f"not supported: {', '.join(unsupported)}",))
    scene = RunEnvironment(
        zone=plan.timezone or case.get("process_timezone", "UTC"),
        now=NOW,
        seed=case["name"],
        mode="live",
        active=False,  # the cases were recorded while the workflow was not active
    )
    evaluator = Evaluator(children, "cases", "all")
    means = WalkContext(
        evaluator=evaluator, environment=scene, types=BY_TYPE, sleep=_no_sleep, clock=lambda: NOW
    )
    journal = Recording()
    entry = plan.entry()
    assert entry is not None
    walked = await walk(
        plan, entry.name, trigger_items(case["trigger_items"]), context=means, journal=journal
    )
    return Verdict(case["name"], tuple(_differences(case, journal, stopped=walked.failed is not None)))


async def _no_sleep(seconds: float) -> None:
    """Returns at once, so that waits take no time."""


def _differences(case: Mapping[str, Any], journal: Recording, *, stopped: bool) -> Sequence[str]:
    differences: list[str] = []
    unstable = {tuple(path.split(".")) for path in case["unstable"]}
    expected = {name: runs for name, runs in case["expected"].items() if name != START}
    for name in sorted(set(expected) | set(journal.outputs)):
        recorded_runs, own_runs = expected.get(name), journal.outputs.get(name)
        if recorded_runs is None or own_runs is None:
            differences.append(
                f"{name}: {'did not run there' if recorded_runs is None else 'did not run here'}"
            )
        elif len(recorded_runs) != len(own_runs):
            differences.append(f"{name}: ran {len(recorded_runs)} times there, {len(own_runs)} here")
        else:
            for number, (item, done) in enumerate(zip(recorded_runs, own_runs, strict=True)):
                differences += _run_differences(name, number, item, done, unstable)
    differences += _error_differences(case, journal)
    if bool(case["stopped"]) != stopped:
        differences.append(f"stopped: {case['stopped']!r} there, {stopped} here")
    order = [[name, run] for name, run in case["order"] if name != START]
    if order != [list(entry) for entry in journal.ran]:
        differences.append(f"order: {order} there, {journal.ran} here")
    return differences


def _error_differences(case: Mapping[str, Any], journal: Recording) -> Sequence[str]:
    differences = []
    for name, runs in journal.outputs.items():
        recorded_errors = case["errors"].get(name) or [None] * len(runs)
        for number, done in enumerate(runs):
            expected = recorded_errors[number] if number < len(recorded_errors) else None
            if bool(expected) != bool(done.error):
                differences.append(f"{name}[{number}]: error {expected!r} there, {done.error!r} here")
    return differences


def _run_differences(
    name: str, number: int, recorded: Any, done: ExecutionResult, unstable: set[tuple[str, ...]]
) -> Sequence[str]:
    where = f"{name}[{number}]"
    if recorded is None or done.outputs is None:
        return (
            []
            if recorded is None and done.outputs is None
            else [f"{where}: {'no output' if recorded is None else 'output'} there"]
        )
    own_outputs = [[dict(item.json) for item in items] for items in done.outputs]
    remaining, right = _trimmed(recorded), _trimmed(own_outputs)
    if len(remaining) != len(right):
        return [f"{where}: {[len(o) for o in remaining]} items there, {[len(o) for o in right]} here"]
    differences = []
    for output, (entry, two) in enumerate(zip(remaining, right, strict=True)):
        if len(entry) != len(two):
            differences.append(f"{where}.{output}: {len(entry)} items there, {len(two)} here")
            continue
        for index, (a, b) in enumerate(zip(entry, two, strict=True)):
            path = (name, str(number), str(output), str(index))
            if not _equal(a, b, path, unstable):
                differences.append(f"{where}.{output}.{index}: {_short(a, b)}")
    return differences


def _trimmed(outputs: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    stored = list(outputs)
    while stored and not stored[-1]:
        stored.pop()
    return stored


def _equal(a: Any, b: Any, path: tuple[str, ...], unstable: set[tuple[str, ...]]) -> bool:
    if path in unstable:
        return True
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        names = {name for name in (*a, *b) if (*path, name) not in unstable}
        return all(
            name in a and name in b and (name == "error" or _equal(a[name], b[name], (*path, name), unstable))
            for name in names
        )
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(
            _equal(item, two, (*path, str(index)), unstable)
            for index, (item, two) in enumerate(zip(a, b, strict=True))
        )
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a == b or (math.isfinite(a) and math.isfinite(b) and float(a) == float(b))
    return bool(a == b) and type(a) is type(b)


def _short(a: Any, b: Any) -> str:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        names = [name for name in (*a, *b) if a.get(name, "∅") != b.get(name, "∅")]
        a = {name: a.get(name, "∅") for name in dict.fromkeys(names)}
        b = {name: b.get(name, "∅") for name in dict.fromkeys(names)}
    remaining, right = (json.dumps(item, ensure_ascii=False, default=str)[:240] for item in (a, b))
    return f"{remaining} there, {right} here"


def cases_of(folder: Path) -> list[Path]:
    """Returns the case files of a folder, sorted by name."""
    return sorted(folder.glob("*.json"))


async def _verdict(name: str, text: str, children: SandboxPool) -> Verdict:
    """Returns the verdict on a case. A case that breaks or does not end in time counts as a difference."""
    try:
        case = json.loads(text)
    except ValueError as error:
        return Verdict(name, (f"cannot be read: {error}",))
    attempt = asyncio.wait_for(run_case(case, children), LONGEST_S)
    [outcome] = await asyncio.gather(attempt, return_exceptions=True)
    if isinstance(outcome, TimeoutError):
        return Verdict(name, (f"did not end within {LONGEST_S:.0f} s",))
    if isinstance(outcome, Exception):
        return Verdict(name, (f"broke: {type(outcome).__name__}: {outcome}",))
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


async def _main(texts: Mapping[str, str]) -> int:
    children = SandboxPool(2)
    equal = 0
    try:
        for name, text in texts.items():
            verdict = await _verdict(name, text, children)
            if verdict.differences:
                print(f"{verdict.name} differs")
                for line in verdict.differences[:6]:
                    print(f"    {line}")
            equal += not verdict.differences
    finally:
        await children.close()
    print(f"{equal} of {len(texts)} equal")
    return 0 if equal == len(texts) and texts else 1


def main(folder: Path, only: str) -> int:
    """Runs the cases of a folder whose name contains `only`.

    Returns 0 if all are equal, 2 if the folder does not exist, else 1.
    """
    if not folder.is_dir():
        print(f"There is no folder {folder}.")
        return 2
    paths = [path for path in cases_of(folder) if only in path.stem]
    return asyncio.run(
        _main({path.stem: path.read_text(encoding="utf-8", errors="replace") for path in paths})
    )


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""))
