"""Provides recorded steps with expressions and scripts, with their recorded inputs and outputs.

See docs/design/imports-n8n.md#recorded-cases.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from steward.steps.workflow.expressions.paths import UNDEFINED
from steward.steps.workflow.expressions.views import (
    ExpressionContext,
    ExpressionVariables,
    ItemPosition,
    StepView,
)

Json = Any
NOW = datetime(2026, 1, 15, 10, 0, tzinfo=UTC)


@dataclass(frozen=True)
class RecordedStep:
    """A step of a case that ran once: its node, its input items, and its output, None if it had none."""

    case: str
    node: Mapping[str, Json]
    items: Sequence[Mapping[str, Json]]
    put_out: Sequence[Mapping[str, Json]] | None
    failed: bool
    context: ExpressionContext
    unstable: frozenset[str]

    @property
    def kind(self) -> str:
        return str(self.node["type"]).rpartition(".")[2]

    @property
    def name(self) -> str:
        return f"{self.case}:{self.node['name']}"


def recorded_steps(folder: Path, families: Sequence[str]) -> Iterator[RecordedStep]:
    """Yields the steps after the trigger, from the cases of these families."""
    for file in sorted(folder.glob("*.json")):
        if file.stem.rpartition("-")[0] in families:
            yield from _steps_of(json.loads(file.read_text("utf-8")))


def _steps_of(case: Mapping[str, Json]) -> Iterator[RecordedStep]:
    workflow = case["workflow"]
    nodes = {node["name"]: node for node in workflow["nodes"]}
    sources = {
        edge["node"]: source
        for source, ports in workflow["connections"].items()
        for port in ports["main"]
        for edge in port or []
    }
    executed = [name for name, run in case["order"] if run == 0]
    views = {name: _view_of(case["expected"].get(name), nodes[name]) for name in executed}
    for name in executed:
        source = sources.get(name)
        if source is None or source not in views or not views[source].runs[0]:
            continue
        items = views[source].runs[0][0]
        recorded = case["expected"].get(name)
        outputs = recorded[0] if recorded else None
        before = {
            other: view for other, view in views.items() if other == "Start" or other in sources.values()
        }
        yield RecordedStep(
            case["name"],
            nodes[name],
            items,
            outputs[0] if outputs else None,
            bool(case["errors"].get(name)),
            _context(case, nodes[name], items, before, frozenset(nodes), source),
            frozenset(path for path in case["unstable"] if path.startswith(f"{name}.")),
        )


def _view_of(recorded: Json, node: Mapping[str, Json]) -> StepView:
    return StepView(runs=recorded or [[[]]], params=node["parameters"])


def _context(
    case: Mapping[str, Json],
    node: Mapping[str, Json],
    items: Sequence[Mapping[str, Json]],
    views: Mapping[str, StepView],
    names: frozenset[str],
    source: str,
) -> ExpressionContext:
    def same_place(name: str, index: int) -> ItemPosition:
        return 0, 0, index

    scope = ExpressionVariables(
        now=NOW,
        timezone=case["workflow"]["settings"].get("timezone", "UTC"),
        seed=7,
        node_id="n",
        node_name=node["name"],
        node_version=node["typeVersion"],
        workflow={"id": "w", "name": case["name"], "active": False},
        execution={"id": "e", "mode": "test"},
        parameters=node["parameters"],
        previous={"name": source, "outputIndex": 0, "runIndex": 0},
        input_params={"a": 1},
    )
    return ExpressionContext(items=items, variables=scope, steps=views, names=names, pairing=same_place)


def stored(value: Json) -> Json:
    """Returns a value as an item stores it: NaN and infinity become null; UNDEFINED stays."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def equal(item: Json, other: Json) -> bool:
    """Returns whether two JSON values are equal, comparing integers and floats by value."""
    if isinstance(item, bool) or isinstance(other, bool) or item is UNDEFINED or other is UNDEFINED:
        return item is other
    if isinstance(item, dict) and isinstance(other, dict):
        return item.keys() == other.keys() and all(equal(item[key], other[key]) for key in item)
    if isinstance(item, list) and isinstance(other, list):
        return len(item) == len(other) and all(map(equal, item, other))
    if isinstance(item, int | float) and isinstance(other, int | float):
        return float(item) == float(other)
    return bool(item == other)
