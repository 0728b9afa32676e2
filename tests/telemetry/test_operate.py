"""Tests that docs/guides/operators.md describes every metric and every action of the log."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from steward.telemetry.log_actions import ACTIONS
from steward.telemetry.metric_list import DESCRIPTIONS
from steward.telemetry.metrics import Metrics
from tests.source import ROOT, nodes_of, python_files

PAGE = (ROOT / "docs/guides/operators.md").read_text("utf-8")
TELLING = {"count", "set", "observe", "add_counter", "recorder"}


@cache
def named_calls() -> tuple[tuple[str, str, ast.Call], ...]:
    """Returns method, text and node of each call in the service whose first argument is a text."""
    return tuple(
        (node.func.attr, node.args[0].value, node)
        for path in python_files("steward")
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args
        if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
    )


def called(*methods: str) -> Iterator[tuple[str, str]]:
    """Yields method and name of each call of these methods in the service."""
    return ((method, name) for method, name, _ in named_calls() if method in methods)


def rows(heading: str) -> dict[str, list[str]]:
    """Returns the first table below a heading: the other columns by each name in its first column."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells_by_name = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for name in re.findall(r"`([a-z_]+)`", cells[0].partition(" by ")[0]):
            if line.startswith("| `") and "_" in name:
                cells_by_name[name] = cells[1:]
    return cells_by_name


def test_every_metric_is_documented_with_what_to_do() -> None:
    """Documents every metric that the service records, with its meaning and what to do, and no other."""
    documented = {name for method, name in called(*TELLING) if name.startswith("steward_")}
    assert documented == set(DESCRIPTIONS)
    page = rows("Metrics")
    assert set(page) == set(DESCRIPTIONS)
    assert all(len(cells) == 2 and all(cells) for cells in page.values())


def test_the_labels_of_every_metric_are_documented() -> None:
    """Documents exactly the labels that the service gives each metric."""
    results: dict[str, set[str]] = {name: set() for name in DESCRIPTIONS}
    for _, name, call in named_calls():
        if name in results:
            results[name] |= {word.arg or "**" for word in call.keywords} - {"bounds", "by"}
    page = PAGE.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    table = re.findall(r"^\| `(\w+)`(?: by ((?:`\w+`(?:, )?)+))? \|", page, re.MULTILINE)
    assert {name: set(re.findall(r"\w+", labels)) for name, labels in table} == results


def logged_actions() -> Iterator[tuple[str, str]]:
    """Yields action and level of each line that the service logs; a library's line has either level."""
    for level, action in called("debug", "info", "warning", "error"):
        if re.fullmatch(r"[a-z_]+", action):  # other classes have methods of these names
            yield action, level
    yield from (("library", "warning"), ("library", "error"))


def levels_in(text: str) -> set[str]:
    """Returns the levels that a text such as `warning or error` names."""
    return set(text.replace("`", "").split(" or "))


def test_every_action_is_listed_with_its_levels() -> None:
    """Lists exactly the actions that the service logs, each with the levels that its lines have."""
    levels: dict[str, set[str]] = {}
    for action, level in logged_actions():
        levels.setdefault(action, set()).add(level)
    assert {name: levels_in(action.level) for name, action in ACTIONS.items()} == levels
    assert list(ACTIONS) == sorted(ACTIONS)
    assert all(action.meaning.endswith(".") for action in ACTIONS.values())


def test_no_action_is_named_by_a_value() -> None:
    """Writes each action as a text at the call, except for the line of a library."""
    unnamed = [
        f"{path.name}:{node.lineno}"
        for path in python_files("steward")
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in ("line", "debug", "info", "warning", "error")
        if ast.unparse(node.func.value).rpartition(".")[2] in ("log", "_log")
        if not (node.args and isinstance(node.args[0], ast.Constant))
    ]
    assert [place.partition(":")[0] for place in unnamed] == ["log.py"], unnamed


def test_the_guide_lists_every_action_with_its_level() -> None:
    """Documents each action once, with its level and meaning; what to do about warnings and errors."""
    section = PAGE.partition("\n## The log\n")[2].partition("\n## ")[0]
    table = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    documented = [(name, cells) for cells in table for name in re.findall(r"`([a-z_]+)`", cells[0])]
    assert sorted(name for name, _ in documented) == list(ACTIONS)
    for name, (_, level, meaning, what_to_do) in documented:
        assert levels_in(level) == levels_in(ACTIONS[name].level), name
        assert meaning.strip()
        assert what_to_do.strip() or ACTIONS[name].level in ("debug", "info") or name == "disk_recovered"


def test_metrics_have_help_and_one_line_a_series() -> None:
    """Writes help and type once, and one line for each series."""
    metrics = Metrics()
    metrics.add_counter("steward_requests_total", {(200, "runs.get"): 7}, status=0, operation=1)
    record = metrics.recorder("steward_request_seconds", (0.1, 1.0))
    for value in (0.05, 0.1, 5.0):
        record(value)
    metrics.observe("steward_request_seconds", 0.5)
    lines = [line for line in metrics.text().splitlines() if "process_" not in line]
    assert lines == [
        f"# HELP steward_requests_total {DESCRIPTIONS['steward_requests_total']}",
        "# TYPE steward_requests_total counter",
        'steward_requests_total{operation="runs.get",status="200"} 7.0',
        f"# HELP steward_request_seconds {DESCRIPTIONS['steward_request_seconds']}",
        "# TYPE steward_request_seconds histogram",
        'steward_request_seconds_bucket{le="0.1"} 2.0',
        'steward_request_seconds_bucket{le="1.0"} 3.0',
        'steward_request_seconds_bucket{le="+Inf"} 4.0',
        "steward_request_seconds_count 4.0",
        "steward_request_seconds_sum 5.65",
    ]
    assert "process_resident_memory_bytes" in metrics.text()
