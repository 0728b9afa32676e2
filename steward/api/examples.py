"""An example value for a JSON schema, the same at every start; for the OpenAPI document alone."""

from collections.abc import Mapping
from typing import Any

_BY_FORMAT = {"date-time": "2026-11-20T07:00:00.000Z", "date": "2026-11-20"}
_BY_PATTERN = {
    "^[0-9A-HJKMNP-TV-Z]{26}$": "01JD3Z0QH8N2Y5V7W9X1C4B6A8",
    "^[a-z0-9][a-z0-9-]{1,80}$": "low-stock-alert",
    "^[a-z][a-z0-9_]{1,63}$": "woocommerce",
    "^[\\x21-\\x7E]+$": "order-4711",
}
_BY_NAME = {
    "timezone": "Europe/Berlin",
    "name": "Every morning",
    "run_at": "08:00",
    "cursor": None,
    "next_cursor": None,
}
_DEEPEST = 12


def example(schema: Mapping[str, Any], schemas: Mapping[str, Any], name: str = "", *, depth: int = 0) -> Any:
    """A value of the schema; `schemas` are the document's components."""
    if depth > _DEEPEST:
        return None
    if "$ref" in schema:
        target = schemas[schema["$ref"].rsplit("/", 1)[-1]]
        return example(target, schemas, name, depth=depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return example(schema[key][0], schemas, name, depth=depth + 1)
    return _of_type(schema, schemas, name, depth)


def _of_type(schema: Mapping[str, Any], schemas: Mapping[str, Any], name: str, depth: int) -> Any:
    kind = schema.get("type")
    if kind == "object":
        return {
            key: example(shape, schemas, key, depth=depth + 1)
            for key, shape in schema.get("properties", {}).items()
        }
    if kind == "array":
        return [example(schema["items"], schemas, name, depth=depth + 1)] if "items" in schema else []
    if kind == "integer":
        return max(1, schema.get("minimum", 1))
    if kind == "number":
        return 1.5
    if kind == "boolean":
        return True
    if kind == "string":
        return _text(schema, name)
    return None


def _text(schema: Mapping[str, Any], name: str) -> str:
    if schema.get("format") in _BY_FORMAT:
        return _BY_FORMAT[schema["format"]]
    if schema.get("pattern") in _BY_PATTERN:
        return _BY_PATTERN[schema["pattern"]]
    if name in _BY_NAME and isinstance(_BY_NAME[name], str):
        return str(_BY_NAME[name])
    if name == "id" or name.endswith("_id"):
        return "01JD3Z0QH8N2Y5V7W9X1C4B6A8"
    if name.endswith("_at") or name == "time":
        return _BY_FORMAT["date-time"]
    return name.replace("_", " ") or "text"
