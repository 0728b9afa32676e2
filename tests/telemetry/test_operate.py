"""docs/guides/operators.md names every metric and every warning, and says what to do about each."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from steward.telemetry.known import DESCRIPTIONS
from steward.telemetry.metrics import Metrics
from tests.source import ROOT, nodes_of, python_files

PAGE = (ROOT / "docs/guides/operators.md").read_text("utf-8")
TELLING = {"count", "set", "observe", "add_counter", "recorder"}


@cache
def named_calls() -> tuple[tuple[str, str, ast.Call], ...]:
    """Each call of a method in the service whose first argument is a text: method, text and call."""
    return tuple(
        (node.func.attr, node.args[0].value, node)
        for path in python_files("steward")
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args
        if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
    )


def called(*methods: str) -> Iterator[tuple[str, str]]:
    """Each call of these methods in the service with a name as first argument: the method and the name."""
    return ((method, name) for method, name, _ in named_calls() if method in methods)


def rows(heading: str) -> dict[str, list[str]]:
    """The first table below a heading: each word in code of its first column, and the other columns."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells_by_name = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for name in re.findall(r"`([a-z_]+)`", cells[0]):
            if line.startswith("| `") and "_" in name:
                cells_by_name[name] = cells[1:]
    return cells_by_name


def test_every_metric_is_known_and_told_with_what_to_do() -> None:
    """Issue: metrics for everything an operator must see; the page says what each means and what to do."""
    documented = {name for method, name in called(*TELLING) if name.startswith("steward_")}
    assert documented == set(DESCRIPTIONS)
    page = rows("Metrics")
    assert set(page) == set(DESCRIPTIONS)
    assert all(len(cells) == 2 and all(cells) for cells in page.values())


def test_the_labels_of_every_metric_are_told() -> None:
    """What is asked of a metric is asked by its label: the page names each, and none that is not there."""
    results: dict[str, set[str]] = {name: set() for name in DESCRIPTIONS}
    for _, name, call in named_calls():
        if name in results:
            results[name] |= {word.arg or "**" for word in call.keywords} - {"bounds", "by"}
    page = PAGE.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    table = re.findall(r"^\| `(\w+)`(?: by ((?:`\w+`(?:, )?)+))? \|", page, re.MULTILINE)
    assert {name: set(re.findall(r"\w+", labels)) for name, labels in table} == results


def test_every_warning_and_error_is_told_with_what_to_do() -> None:
    """A fixed word an event; somebody has to know what it asks for."""
    logged = {name for method, name in called("warning", "error") if re.fullmatch(r"[a-z_]+", name)}
    assert set(rows("The log")) >= logged
    every = {name for _, name in called("warning", "error", "info", "debug")}
    assert set(rows("The log")) <= every


def test_what_is_told_has_its_help_and_one_line_a_series() -> None:
    """What is documented has its help and one line a series."""
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
