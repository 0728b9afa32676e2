"""Extracts the workflow from an export, and gives its nodes unique names."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steward.imports.content import MAX_STEPS, Unreadable
from steward.model.json import JsonObject, JsonValue

MAX_EDGES = 10_000
MAX_NAME = 120
MAX_TITLE = 200
_STICKY = "stickyNote"
_TOO_LARGE = 1e15  # for versions and positions; JSON can hold numbers beyond any float
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_CORE = "n8n-nodes-base."
AI = "@n8n/n8n-nodes-langchain."
SAVE_AGAIN = "Open it in n8n, save the workflow and export it again."
READ_AS_FIRST = f"It is read as version 1, the first one. {SAVE_AGAIN}"


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the file. `type` has no core prefix; types of other packages keep theirs.

    `version` is 1 if the file has none that can be read, and `version_problem` says so.
    """

    name: str
    original_name: str
    type: str
    version: float
    version_problem: str | None
    parameters: JsonObject
    position: tuple[float, float]
    credentials: tuple[str, ...]
    disabled: bool
    settings: JsonObject
    notes: str


@dataclass(slots=True)
class Workflow:
    """The extracted workflow. `targets` maps names in the file to the names of the steps."""

    name: str
    nodes: list[Node]
    connections: Mapping[str, Any]
    settings: Mapping[str, Any]
    has_pin_data: bool
    targets: dict[str, str] = field(default_factory=dict)
    renamed: list[tuple[str, str]] = field(default_factory=list)


def unwrapped(value: JsonValue) -> Mapping[str, Any]:
    """Extracts the workflow from a one-element list or a `workflow` member. Raises Unreadable."""
    if isinstance(value, list):
        if len(value) > 1:
            raise Unreadable(f"This holds {len(value)} workflows; import them one by one.")
        value = value[0] if value else None
    if isinstance(value, Mapping) and "nodes" not in value and isinstance(value.get("workflow"), Mapping):
        value = value["workflow"]
    if not isinstance(value, Mapping) or not isinstance(value.get("nodes"), list):
        raise Unreadable("This is not an export of n8n: it has no list of nodes.")
    if not isinstance(value.get("connections"), Mapping):
        raise Unreadable("This is not an export of n8n: it has no connections.")
    return value


def workflow_of(raw_workflow: Mapping[str, Any]) -> Workflow:
    """Returns the nodes and their connections. Raises Unreadable for no steps or too many."""
    settings = raw_workflow.get("settings")
    pins = raw_workflow.get("pinData")
    workflow = Workflow(
        name=plain(str(raw_workflow.get("name") or "")),
        nodes=[],
        connections=raw_workflow["connections"],
        settings=settings if isinstance(settings, Mapping) else {},
        has_pin_data=isinstance(pins, Mapping) and bool(pins),
    )
    used_names: set[str] = set()
    for number, node in enumerate(_step_nodes(raw_workflow), 1):
        original_name = str(node.get("name") or f"Step {number}")
        name = _unique_name(original_name, used_names)
        used_names.add(name)
        workflow.targets.setdefault(original_name, name)
        if name != original_name:
            workflow.renamed.append((original_name, name))
        workflow.nodes.append(_node(node, original_name, name))
    return workflow


def _step_nodes(raw_workflow: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    nodes = [node for node in raw_workflow["nodes"] if is_step_node(node)]
    if not nodes:
        raise Unreadable("This export has no steps. Add one in n8n and export the workflow again.")
    if len(nodes) > MAX_STEPS:
        raise Unreadable(f"This export has {len(nodes)} steps; at most {MAX_STEPS} can be imported.")
    return nodes


def is_step_node(node: JsonValue) -> bool:
    """Returns whether an entry of the file's nodes is a node, not a sticky note."""
    return isinstance(node, Mapping) and bare(str(node.get("type", ""))) != _STICKY


def plain(text: str) -> str:
    """Returns a text from a file as one line without control characters."""
    return _CONTROL.sub(" ", text).strip()


def bare(type_: str) -> str:
    """Returns a type without the core prefix."""
    return type_.removeprefix(_CORE)


def _unique_name(original_name: str, used_names: set[str]) -> str:
    name = plain(original_name) or "Step"
    if len(name) > MAX_NAME:
        name = name[: MAX_NAME - 3] + "…"
    number, unique = 2, name
    while unique in used_names:
        tail = f" ({number})"
        unique = name[: MAX_NAME - len(tail)] + tail
        number += 1
    return unique


def _node(raw: Mapping[str, Any], original_name: str, name: str) -> Node:
    parameters = raw.get("parameters")
    credentials = raw.get("credentials")
    return Node(
        name=name,
        original_name=original_name,
        type=bare(str(raw.get("type") or "")),
        version=_number(raw.get("typeVersion"), 1),
        version_problem=_version_problem(raw.get("typeVersion")),
        parameters=parameters if isinstance(parameters, Mapping) else {},
        position=_position(raw.get("position")),
        credentials=tuple(str(credential) for credential in credentials)
        if isinstance(credentials, Mapping)
        else (),
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


def _version_problem(version: object) -> str | None:
    """Returns why the version of a node is not known, or None if it is."""
    if version is None:
        return "The file does not say its version."
    is_number = not math.isnan(_number(version, math.nan))
    return None if is_number else "Its version in the file is not a number."


def _number(value: object, default: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return default
    return value if abs(value) < _TOO_LARGE else default


def _position(value: object) -> tuple[float, float]:
    if isinstance(value, list) and len(value) == 2:
        return _number(value[0], 0), _number(value[1], 0)
    if isinstance(value, Mapping):
        return _number(value.get("x"), 0), _number(value.get("y"), 0)
    return 0, 0
