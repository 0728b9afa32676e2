"""Parses an export of Shopify Flow: its checksum, its tasks and their links."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steward.imports.content import MAX_STEPS, Unreadable
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import Patched

_MAX_LINKS = 10_000
_MAX_DEPTH = 150  # for JSON inside a text
VERSION = 0.1  # the only version seen, of files and of tasks
TRIGGER = "TRIGGER"
_PREFIX = re.compile(r"\ufeff?\s*([0-9A-Fa-f]{64}):")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


@dataclass(frozen=True, slots=True)
class Task:
    """A step of the file. `fields` holds its config values as texts; `wrong` says what is unreadable."""

    id: str
    task: str
    version: float
    type: str
    fields: Mapping[str, str]
    position: tuple[float, float]
    name: str
    note: str
    wrong: str | None = None


@dataclass(frozen=True, slots=True)
class TaskLink:
    """A link from a task's port to another task; the port is '' if the file names none."""

    source: str
    port: str
    target: str
    input: str = ""


@dataclass(slots=True)
class Flow:
    """The extracted flow: its trigger and its tasks, in file order."""

    name: str
    version: float
    trigger: Task
    tasks: list[Task]
    links: list[TaskLink]
    patched: list[Patched]
    oddities: list[str] = field(default_factory=list)  # descriptions of the parts that were left out


def split(text: str) -> tuple[str, bool | None]:
    """Returns the JSON of an export, and whether its checksum matches, or None without a checksum.

    The checksum is the SHA-256 of the bytes after the colon, with or without a final line break.
    """
    prefix = _PREFIX.match(text)
    if prefix is None:
        return text, None
    body = text[prefix.end() :]
    bare = body.removesuffix("\n").removesuffix("\r")
    digits = prefix[1].lower()
    checksum_matches = digits in (
        hashlib.sha256(content.encode("utf-8")).hexdigest() for content in (bare, body)
    )
    return bare, checksum_matches


def root_of(value: JsonValue) -> Mapping[str, Any]:
    """Returns the `root` of an export. Raises Unreadable if it has no list of steps."""
    root = value.get("root") if isinstance(value, Mapping) else None
    if not isinstance(root, Mapping) or not isinstance(root.get("steps"), list):
        raise Unreadable("This is not an export of Shopify Flow: it has no list of steps.")
    return root


def flow_of(value: Mapping[str, Any]) -> Flow:
    """Returns the tasks and their links.

    Raises Unreadable for no step, too many steps, or not exactly one trigger.
    """
    root = root_of(value)
    raw = [row for row in root["steps"] if isinstance(row, Mapping)]
    if len(raw) > MAX_STEPS:
        raise Unreadable(f"This export has {len(raw)} steps; at most {MAX_STEPS} can be imported.")
    trigger, tasks = _trigger_and_tasks([_task(row, number) for number, row in enumerate(raw, 1)])
    flow = Flow(
        name=plain(_text(root.get("workflow_name"))),
        version=_version(_mapping(value.get("__metadata")).get("version")),
        trigger=trigger,
        tasks=tasks,
        links=_links(root.get("links")),
        patched=[],
    )
    _patched(flow, root.get("patched_fields"))
    if root.get("variables"):
        flow.oddities.append("It has variables of its own, which are not supported here.")
    if len(raw) != len(root["steps"]):
        flow.oddities.append("Some entries among its steps are not steps and were left out.")
    return flow


def _trigger_and_tasks(steps: list[Task]) -> tuple[Task, list[Task]]:
    """Returns the trigger and the tasks. Raises Unreadable without exactly one trigger and a known task."""
    triggers = [step for step in steps if step.type == TRIGGER]
    if len(triggers) != 1:
        message = "no trigger" if not triggers else f"{len(triggers)} triggers"
        raise Unreadable(f"This export has {message}; a flow has exactly one. Export it again.")
    tasks = [step for step in steps if step.type != TRIGGER]
    if not tasks:
        raise Unreadable("This export has only a trigger. Add a step in Shopify Flow and export it again.")
    if not any(task.task for task in tasks):
        raise Unreadable("No step of this export says what it does. Export it from Shopify Flow again.")
    return triggers[0], tasks


def plain(text: str) -> str:
    """Returns a text from a file as one line without control characters."""
    return _CONTROL.sub(" ", text).strip()


def inner(text: str) -> JsonValue:
    """Returns the list or object in a JSON text; None for other texts and for JSON nested too deeply."""
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        parsed: JsonValue = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, list | Mapping) and not _is_deep(parsed) else None


def _is_deep(value: JsonValue) -> bool:
    stack: list[tuple[JsonValue, int]] = [(value, 1)]
    while stack:
        current, depth = stack.pop()
        if depth > _MAX_DEPTH:
            return True
        members = (
            current.values() if isinstance(current, Mapping) else current if isinstance(current, list) else ()
        )
        stack += [(member, depth + 1) for member in members if isinstance(member, list | Mapping)]
    return False


def _no_constant(name: str) -> object:
    raise ValueError(name)


def _task(raw: Mapping[str, Any], number: int) -> Task:
    fields, wrong = _fields(raw.get("config_field_values"))
    name = raw.get("task_id")
    if not isinstance(name, str) or not name.strip():
        wrong = "It does not say what it does (task_id)."
    kind = raw.get("task_type")
    if not isinstance(kind, str):
        wrong = "It does not say what kind of step it is (task_type)."
    return Task(
        id=_id(raw.get("step_id")) or f"step {number}",
        task=plain(_text(name)),
        version=_version(raw.get("task_version")),
        type=_text(kind),
        fields=fields,
        position=_position(raw.get("step_position")),
        name=plain(_text(raw.get("name"))),
        note=plain(_text(raw.get("note"))),
        wrong=wrong,
    )


def _fields(raw: Any) -> tuple[dict[str, str], str | None]:
    if not isinstance(raw, list):
        return {}, "It has no list of settings (config_field_values)."
    fields: dict[str, str] = {}
    wrong = None
    for row in raw:
        name = row.get("config_field_id") if isinstance(row, Mapping) else None
        value = row.get("value") if isinstance(row, Mapping) else None
        if not isinstance(name, str) or not (value is None or isinstance(value, str)):
            wrong = "One of its settings is not of the shape Shopify Flow writes."
        elif name in fields:
            wrong = f"Its setting “{name[:80]}” is given twice."
        elif value is not None:
            fields[name] = value
    return fields, wrong


def _links(raw: Any) -> list[TaskLink]:
    rows = [row for row in raw if isinstance(row, Mapping)] if isinstance(raw, list) else []
    if len(rows) > _MAX_LINKS:
        raise Unreadable(f"This export has more than {_MAX_LINKS} connections.")
    return [
        TaskLink(
            _id(row.get("from_step_id")),
            _text(row.get("from_port_id")),
            _id(row.get("to_step_id")),
            _text(row.get("to_port_id")),
        )
        for row in rows
    ]


def _patched(flow: Flow, raw: Any) -> None:
    for row in raw if isinstance(raw, list) else ():
        patch = _mapping(row)
        arguments = patch.get("arguments")
        metafield = _mapping(inner(arguments) if isinstance(arguments, str) else arguments)
        texts = (
            _type(patch.get("patched_type")),
            patch.get("handle"),
            metafield.get("namespace"),
            metafield.get("key"),
        )
        if patch.get("field") == "metafield" and all(isinstance(text, str) and text for text in texts):
            flow.patched.append(Patched(*(str(text) for text in texts)))
        else:
            handle = plain(_text(patch.get("handle")))[:80]
            flow.oddities.append(f"Its added field “{handle}” is not a metafield with a namespace and a key.")


def _type(value: Any) -> Any:
    """Returns the name of a type; some files write `DRAFT_ORDER` for DraftOrder, `VARIANT` for
    ProductVariant.
    """
    if not isinstance(value, str) or not value.isupper():
        return value
    return "ProductVariant" if value == "VARIANT" else "".join(word.capitalize() for word in value.split("_"))


def _mapping(value: Any) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _id(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return str(value)


def _version(value: Any) -> float:
    """Returns a version from a number or text: 0 if it is neither, VERSION if it is absent."""
    if value is None:
        return VERSION
    try:
        version = (
            float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else 0.0
        )
    except (ValueError, OverflowError):
        return 0.0
    return version if abs(version) < 1e6 else 0.0


def _position(value: Any) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        return 0.0, 0.0
    x, y = (
        float(coordinate)
        if isinstance(coordinate, int | float) and not isinstance(coordinate, bool) and abs(coordinate) < 1e12
        else 0.0
        for coordinate in value
    )
    return x, y
