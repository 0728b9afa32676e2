"""Rewrites schemas as named components that client generators read without a warning."""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
REF = "#/components/schemas/{name}"

_OF_ONE = ("items", "additionalProperties", "not", "if", "then", "else")
_OF_SEVERAL = ("anyOf", "oneOf", "allOf")
_NULL: Json = {"type": "null"}


def ref(name: str) -> Json:
    """Returns a reference to the component `name`."""
    return {"$ref": REF.format(name=name)}


def tidied(schema: Any, *, defaults: bool = True) -> Any:
    """Returns a schema without field titles and without defaults that are objects, lists, "" or null.

    "T or null" becomes one list of types unless T is a reference. Without `defaults`, all defaults are
    removed: an update leaves absent fields unchanged, and a client that filled in defaults would change them.
    """
    if not isinstance(schema, dict):
        return schema
    if "x-component" in schema:
        return ref(schema["x-component"])
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    result = {name: value for name, value in schema.items() if name != "title"}
    if not defaults or result.get("default") in ("", None) or isinstance(result["default"], dict | list):
        result.pop("default", None)
    if "properties" in result:
        result["properties"] = {
            name: tidied(value, defaults=defaults) for name, value in result["properties"].items()
        }
    for name in _OF_ONE:
        if name in result:
            result[name] = tidied(result[name], defaults=defaults)
    for name in _OF_SEVERAL:
        if name in result:
            result[name] = [tidied(value, defaults=defaults) for value in result[name]]
    return _typed(_joined(result))


def without_null(schema: Json) -> Json:
    """Returns a schema without null: a query parameter is either absent or has a value."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind != _NULL]
    if len(kinds) == 1:
        other_keys = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
        return {**other_keys, **kinds[0]}
    return schema


def reachable(root: Any, components: Json) -> Json:
    """Returns the components that `root` refers to, also indirectly, in the order of `components`."""
    names: set[str] = set()
    pending = [root]
    while pending:
        for name in references(pending.pop()):
            if name not in names:
                names.add(name)
                pending.append(components[name])
    return {name: schema for name, schema in components.items() if name in names}


def references(value: Any) -> Iterator[str]:
    """Yields the names of the components that a part of the document refers to."""
    if isinstance(value, dict):
        target = value.get("$ref")
        if isinstance(target, str) and target.startswith("#/components/schemas/"):
            yield target.rpartition("/")[2]
        for name, part in value.items():
            if name not in ("example", "examples", "mapping"):
                yield from references(part)
    elif isinstance(value, list):
        for part in value:
            yield from references(part)


def inlined(example: Any, definitions: Json | None = None) -> Any:
    """Returns an example whose JSON schemas have their definitions inline.

    Readers of the document would resolve a `$ref` inside an example against the document.
    """
    if isinstance(example, list):
        return [inlined(value, definitions) for value in example]
    if not isinstance(example, dict):
        return example
    definitions = example.get("$defs", definitions)
    target = example.get("$ref")
    if isinstance(target, str) and definitions is not None:
        return inlined(definitions[target.rpartition("/")[2]], definitions)
    return {name: inlined(value, definitions) for name, value in example.items() if name != "$defs"}


def _joined(schema: Json) -> Json:
    """Returns `anyOf` of a simple type and null as one list of types."""
    kinds = schema.get("anyOf", [])
    if len(kinds) != 2 or _NULL not in kinds:
        return schema
    kind = _typed(next(schema for schema in kinds if schema != _NULL))
    if not isinstance(kind.get("type"), str):
        return schema
    other_keys = {name: value for name, value in schema.items() if name != "anyOf"}
    joined = {**other_keys, **kind, "type": [kind["type"], "null"]}
    if "enum" in kind:
        joined["enum"] = [*kind["enum"], None]
    return joined


def _typed(schema: Json) -> Json:
    """Returns an enumeration with the type of its values; leaves other schemas unchanged."""
    values = schema.get("enum", [])
    if values and "type" not in schema:
        return {"type": "integer" if isinstance(values[0], int) else "string", **schema}
    return schema
