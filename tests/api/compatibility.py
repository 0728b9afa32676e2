"""What a new OpenAPI document takes away from those who call by an older one.

`python -m tests.api.compatibility`, at a release, writes the document that later ones are held to.
"""

import json
from collections.abc import Iterator
from typing import Any

from steward.api import openapi
from steward.api.operations import OPERATIONS
from steward.version import __version__
from tests.source import ROOT

Json = dict[str, Any]

RELEASED = ROOT / "docs/reference/openapi.json"
_UPPER = ("maximum", "maxLength", "maxItems", "maxProperties")
_LOWER = ("minimum", "minLength", "minItems")


def without_examples(value: Any) -> Any:
    """Returns the document without its examples, which differ from one recording to the next."""
    if isinstance(value, dict):
        return {
            name: without_examples(part)
            for name, part in value.items()
            if not (name in ("example", "examples") and ("schema" in value or "value" in value))
        }
    return [without_examples(part) for part in value] if isinstance(value, list) else value


def breaks(old: Json, new: Json) -> list[str]:
    """Lists each removal or narrowing by location: a call that becomes refused, a field that disappears."""
    return list(dict.fromkeys(_Comparison(old, new).operations()))


class _Comparison:
    def __init__(self, old: Json, new: Json) -> None:
        self._old, self._new = old, new
        self._seen: set[tuple[str, str, bool]] = set()

    def operations(self) -> Iterator[str]:
        for path, item in self._old["paths"].items():
            for method, before in item.items():
                where = f"{method.upper()} {path}"
                after = self._new["paths"].get(path, {}).get(method)
                if after is None:
                    yield f"{where}: removed"
                    continue
                for name in ("operationId", "x-scope", "x-idempotent", "x-page"):
                    if before.get(name) != after.get(name):
                        yield f"{where}: {name} changed"
                yield from self._parameters(before, after, where)
                yield from self._body(before, after, where)
                yield from self._responses(before, after, where)

    def _parameters(self, before: Json, after: Json, where: str) -> Iterator[str]:
        old = {
            (each_parameter["in"], each_parameter["name"]): each_parameter
            for each_parameter in before["parameters"]
        }
        new = {(item["in"], item["name"]): item for item in after["parameters"]}
        for key, parameter in old.items():
            if key not in new:
                yield f"{where}: parameter {key[1]} removed"
            else:
                yield from self._sent(parameter["schema"], new[key]["schema"], f"{where} {key[1]}")
        for key, parameter in new.items():
            if parameter["required"] and not old.get(key, {}).get("required"):
                yield f"{where}: parameter {key[1]} required"

    def _body(self, before: Json, after: Json, where: str) -> Iterator[str]:
        old, new = before.get("requestBody"), after.get("requestBody")
        if new is not None and new["required"] and not (old and old["required"]):
            yield f"{where}: body required"
        for kind, content in (old or {}).get("content", {}).items():
            if new is None or kind not in new["content"]:
                yield f"{where}: body {kind} removed"
            else:
                yield from self._sent(content["schema"], new["content"][kind]["schema"], f"{where} body")

    def _responses(self, before: Json, after: Json, where: str) -> Iterator[str]:
        for status, response in before["responses"].items():
            if status not in after["responses"]:
                if status < "400":
                    yield f"{where}: answer {status} removed"
                continue
            schemas = [
                item["content"]["application/json"]["schema"]
                for item in (response, after["responses"][status])
            ]
            yield from self._answered(schemas[0], schemas[1], f"{where} {status}")

    def _sent(self, before: Json, after: Json, where: str) -> Iterator[str]:
        """Yields what callers may send by the old schema and the new one refuses."""
        old, new = self._pair(before, after, is_sent=True)
        if old is None or new is None:
            return
        if not _types(old) <= _types(new) and _types(new):
            yield f"{where}: type narrowed"
        if "enum" in new and not set(old.get("enum", [object()])) <= set(new["enum"]):
            yield f"{where}: values narrowed"
        for name, factor in (*((name, 1) for name in _UPPER), *((name, -1) for name in _LOWER)):
            if name in new and (name not in old or new[name] * factor < old[name] * factor):
                yield f"{where}: {name} narrowed"
        if "pattern" in new and new["pattern"] != old.get("pattern"):
            yield f"{where}: pattern changed"
        for name in set(new.get("required", [])) - set(old.get("required", [])):
            yield f"{where}.{name}: required"
        for name, schema in old.get("properties", {}).items():
            if name not in new.get("properties", {}):
                yield f"{where}.{name}: removed"
            else:
                yield from self._sent(schema, new["properties"][name], f"{where}.{name}")
        yield from self._parts(old, new, where, self._sent)

    def _answered(self, before: Json, after: Json, where: str) -> Iterator[str]:
        """Yields the answered fields that the new schema drops, makes optional or gives another type."""
        old, new = self._pair(before, after, is_sent=False)
        if old is None or new is None:
            return
        if not _types(new) <= _types(old) and _types(old):
            yield f"{where}: type widened"
        for name in set(old.get("required", [])) - set(new.get("required", [])):
            yield f"{where}.{name}: may be absent now"
        for name, schema in old.get("properties", {}).items():
            if name not in new.get("properties", {}):
                yield f"{where}.{name}: removed"
            else:
                yield from self._answered(schema, new["properties"][name], f"{where}.{name}")
        yield from self._parts(old, new, where, self._answered)

    def _parts(self, old: Json, new: Json, where: str, compare: Any) -> Iterator[str]:
        for name in ("items", "additionalProperties"):
            if isinstance(old.get(name), dict) and isinstance(new.get(name), dict):
                yield from compare(old[name], new[name], f"{where}[]")
        for name in ("anyOf", "oneOf"):
            if len(old.get(name, [])) != len(new.get(name, [])):
                yield f"{where}: {name} changed"
            for before, after in zip(old.get(name, []), new.get(name, []), strict=False):
                yield from compare(before, after, where)

    def _pair(self, before: Json, after: Json, *, is_sent: bool) -> tuple[Json | None, Json | None]:
        """Returns both schemas behind their references, or (None, None) for a pair compared before."""
        names = (before.get("$ref", ""), after.get("$ref", ""))
        if names[0] and names[1]:
            if (*names, is_sent) in self._seen:
                return None, None
            self._seen.add((*names, is_sent))
        return _resolved(self._old, before), _resolved(self._new, after)


def _resolved(document: Json, schema: Json) -> Json:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def _types(schema: Json) -> set[str]:
    kind = schema.get("type", [])
    return {kind} if isinstance(kind, str) else set(kind)


def lines(value: Json, depth: int = 2) -> str:
    """Returns an object as JSON with one entry a line down to `depth`, so that a diff is readable."""
    if not depth or not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    entries = [f"{json.dumps(name)}: {lines(part, depth - 1)}" for name, part in value.items()]
    return "{\n" + ",\n".join(entries) + "\n}"


def main() -> None:
    """Writes the document of this release, without its examples."""
    document = openapi.document(OPERATIONS, "/", version=__version__)
    RELEASED.parent.mkdir(exist_ok=True)
    RELEASED.write_text(lines(without_examples(document), 3) + "\n", "utf-8")


if __name__ == "__main__":
    main()
