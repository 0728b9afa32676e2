"""Finds the workflow in what was sent, and its nodes under names of their own (imports 2.1, 2.2, 12)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steward.imports.content import Unreadable
from steward.model.json import JsonObject, JsonValue

MOST_STEPS = 1000
MOST_EDGES = 10_000
LONGEST_NAME = 120
LONGEST_TITLE = 200
STICKY = "stickyNote"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
CORE = "n8n-nodes-base."
AI = "@n8n/n8n-nodes-langchain."


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the file. `type` is without the core prefix; of other packages it is whole."""

    name: str
    was: str
    type: str
    version: float
    parameters: JsonObject
    place: tuple[float, float]
    credentials: tuple[str, ...]
    disabled: bool
    settings: JsonObject
    notes: str


@dataclass(slots=True)
class Workflow:
    """The workflow as found. `targets` maps names of the file to the names steps have here."""

    name: str
    nodes: list[Node]
    connections: Mapping[str, Any]
    settings: Mapping[str, Any]
    has_pin_data: bool
    targets: dict[str, str] = field(default_factory=dict)
    renamed: list[tuple[str, str]] = field(default_factory=list)


def unwrapped(value: JsonValue) -> Mapping[str, Any]:
    """The workflow object, out of a list of one or a `workflow` member. Raises Unreadable."""
    if isinstance(value, list):
        if len(value) > 1:
            raise Unreadable(f"This holds {len(value)} workflows; import them one by one.")
        value = value[0] if value else None
    if isinstance(value, Mapping) and "nodes" not in value and isinstance(value.get("workflow"), Mapping):
        value = value["workflow"]
    if not isinstance(value, Mapping) or not isinstance(value.get("nodes"), list):
        raise Unreadable("This is not an export of the workflow tool: it has no list of nodes.")
    if not isinstance(value.get("connections"), Mapping):
        raise Unreadable("This is not an export of the workflow tool: it has no connections.")
    return value


def workflow_of(found: Mapping[str, Any]) -> Workflow:
    """The nodes and what connects them. Raises Unreadable when there is no step or there are too many."""
    raw = [node for node in found["nodes"] if isinstance(node, Mapping)]
    raw = [node for node in raw if bare(str(node.get("type", ""))) != STICKY]
    if not raw:
        raise Unreadable("This export holds no step. Add one in n8n and export the workflow again.")
    if len(raw) > MOST_STEPS:
        raise Unreadable(f"This export has {len(raw)} steps; at most {MOST_STEPS} can be imported.")
    settings = found.get("settings")
    pins = found.get("pinData")
    workflow = Workflow(
        name=plain(str(found.get("name") or "")),
        nodes=[],
        connections=found["connections"],
        settings=settings if isinstance(settings, Mapping) else {},
        has_pin_data=isinstance(pins, Mapping) and bool(pins),
    )
    taken: set[str] = set()
    for number, node in enumerate(raw, 1):
        was = str(node.get("name") or f"Step {number}")
        name = _own_name(was, taken)
        taken.add(name)
        workflow.targets.setdefault(was, name)
        if name != was:
            workflow.renamed.append((was, name))
        workflow.nodes.append(_node(node, was, name))
    return workflow


def plain(text: str) -> str:
    """Text from a file as a line: no control characters."""
    return _CONTROL.sub(" ", text).strip()


def bare(type_: str) -> str:
    """A type without the core prefix."""
    return type_.removeprefix(CORE)


def _own_name(was: str, taken: set[str]) -> str:
    name = plain(was) or "Step"
    if len(name) > LONGEST_NAME:
        name = name[: LONGEST_NAME - 3] + "…"
    number, found = 2, name
    while found in taken:
        tail = f" ({number})"
        found = name[: LONGEST_NAME - len(tail)] + tail
        number += 1
    return found


def _node(raw: Mapping[str, Any], was: str, name: str) -> Node:
    parameters = raw.get("parameters")
    credentials = raw.get("credentials")
    return Node(
        name=name,
        was=was,
        type=bare(str(raw.get("type") or "")),
        version=_number(raw.get("typeVersion"), 1),
        parameters=parameters if isinstance(parameters, Mapping) else {},
        place=_place(raw.get("position")),
        credentials=tuple(str(one) for one in credentials) if isinstance(credentials, Mapping) else (),
        disabled=raw.get("disabled") is True,
        settings={
            key: raw[key]
            for key in (
                (
                    "onError",
                    "continueOnFail",
                    "retryOnFail",
                    "maxTries",
                    "waitBetweenTries",
                    "executeOnce",
                    "alwaysOutputData",
                )
            )
            if key in raw
        },
        notes=plain(str(raw.get("notes") or "")),
    )


def _number(value: object, default: float) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else default


def _place(value: object) -> tuple[float, float]:
    if isinstance(value, list) and len(value) == 2:
        return _number(value[0], 0), _number(value[1], 0)
    if isinstance(value, Mapping):
        return _number(value.get("x"), 0), _number(value.get("y"), 0)
    return 0, 0
