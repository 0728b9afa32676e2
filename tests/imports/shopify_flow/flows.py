"""Builds Shopify Flow files for tests, as JSON and as text with its checksum."""

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

ADMIN = "shopify::admin::"
FLOW = "shopify::flow::"
Link = tuple[Any, str, Any]


def task(number: Any, name: str, kind: str = "ACTION", /, **fields: Any) -> dict[str, Any]:
    """Returns a step of a file; fields that are not text are written as their JSON."""
    return {
        "step_id": number,
        "step_position": [0, 100 * number if isinstance(number, int) else 0],
        "config_field_values": [
            {"config_field_id": field, "value": value if isinstance(value, str) else json.dumps(value)}
            for field, value in fields.items()
        ],
        "task_id": name,
        "task_version": "0.1",
        "task_type": kind,
        "description": None,
        "note": None,
        "name": None,
    }


def began(name: str = "order_created", /, **fields: Any) -> dict[str, Any]:
    """Returns the trigger, which is step 1."""
    task_type = name if "::" in name else ADMIN + name
    return task(1, task_type, "TRIGGER", **fields)


def condition(number: Any, text: Any) -> dict[str, Any]:
    """Returns a condition, in either of the two spellings."""
    return task(number, FLOW + "condition", "CONDITION", condition=text)


def foreach(number: Any, path: str) -> dict[str, Any]:
    """Returns a for-each step over a list."""
    return task(number, FLOW + "foreach", "FOREACH", listpath=path)


def code(number: Any, selection: str, script: str, schema: str = "") -> dict[str, Any]:
    """Returns a run-code step."""
    return task(number, FLOW + "run_code", input=selection, script=script, output_schema=schema)


def http(number: Any, **fields: Any) -> dict[str, Any]:
    """Returns a step that makes an HTTP request."""
    task_fields = {"method": "POST", "url": "https://hooks.example/flow", "headers": [], "body": "{}"}
    return task(number, FLOW + "http_request", **{**task_fields, **fields})


def compared(path: str, operator: str, value: Any = "", kind: str = "String") -> dict[str, Any]:
    """Returns a comparison in the JSON spelling."""
    return {
        "lhs": {"comparison_value_type": "EnvironmentValue", "value": path, "full_environment_path": path},
        "rhs": {"comparison_value_type": "LiteralValue", "value": value},
        "value_type": f"EnvironmentScalarDefinition:{kind}",
        "operator": operator,
        "operation_type": "Comparison",
    }


def joined(word: str, remaining: Any, right: Any = None) -> dict[str, Any]:
    """Joins one or two comparisons by a logical operator."""
    return {"lhs": remaining, "rhs": right, "operator": word, "operation_type": "LogicalExpression"}


def listed(word: str, path: str, item: str, holds: Any) -> dict[str, Any]:
    """Returns a condition on the elements of a list."""
    return {
        "array_path": {"value": path, "comparison_value_type": "EnvironmentValue"},
        "array_item_key": {"value": item, "comparison_value_type": "EnvironmentValue"},
        "operation": holds,
        "operator": word,
        "operation_type": "ArrayExpression",
    }


def patched(of: str, handle: str, namespace: str, key: str) -> dict[str, Any]:
    """Returns a metafield that is added as a field of a type."""
    arguments = json.dumps({"key": key, "namespace": namespace})
    return {"handle": handle, "field": "metafield", "patched_type": of, "arguments": arguments}


def chained(steps: Sequence[Mapping[str, Any]]) -> list[Link]:
    """Links each step to the next by its only port."""
    return [(item["step_id"], "output", after["step_id"]) for item, after in itertools.pairwise(steps)]


def flow(
    *steps: Mapping[str, Any], links: Sequence[Link] | None = None, name: str = "A flow", **more: Any
) -> dict[str, Any]:
    """Returns the JSON of a file; without `links` its steps follow one another."""
    root = {
        "steps": list(steps),
        "links": [
            {"from_step_id": source, "from_port_id": port, "to_step_id": target, "to_port_id": "input"}
            for source, port, target in (chained(steps) if links is None else links)
        ],
        "patched_fields": [],
        "variables": [],
        "note": None,
        "workflow_name": name,
    }
    return {"__metadata": {"version": 0.1}, "root": {**root, **more}}


def text_of(value: Mapping[str, Any]) -> str:
    """Returns the text of a file: its checksum, a colon and its JSON."""
    body = json.dumps(value, ensure_ascii=False)
    return f"{hashlib.sha256(body.encode()).hexdigest()}:{body}"
