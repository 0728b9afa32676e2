"""Writes the records of the client from the OpenAPI document: frozen dataclasses, lists as tuples."""

import json
import keyword
import re
import textwrap
from typing import Any

Json = dict[str, Any]
_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
HEAD = '"""Made from the OpenAPI document by generate.py; not kept under version control."""\n'
_RECORDS = """
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as _field
from datetime import datetime
from typing import Any, ClassVar

from steward_client.decoding import Kind, Record

VERSION = {version!r}
"""


class Records:
    """The records of one document, and the types of its fields."""

    def __init__(self, document: Json) -> None:
        self.document = document
        self.schemas: Json = document["components"]["schemas"]

    def module(self) -> str:
        """The module of records: every object that a response may hold."""
        version = self.document["info"]["version"]
        needed = [name for name in self.schemas if name in self.answered()]
        return HEAD + _RECORDS.format(version=version) + "".join(self._record(name) for name in needed)

    def answered(self) -> set[str]:
        names: set[str] = set()
        pending = ["StaleData"]
        for item in self.document["paths"].values():
            pending += [self.data(row) for row in item.values() if row["operationId"] != "login"]
        while pending:
            name = pending.pop()
            if name not in names:
                names.add(name)
                pending += re.findall(r'schemas/(\w+)"', json.dumps(self.schemas[name]))
        return names

    def data(self, row: Json) -> str:
        status = "201" if "201" in row["responses"] else "200"
        envelope = schema_name(row["responses"][status]["content"]["application/json"]["schema"])
        return schema_name(self.schemas[envelope]["properties"]["data"])

    def _record(self, name: str) -> str:
        schema = self.schemas[name]
        if "oneOf" in schema:  # a union is a name for its records
            return f"\n\n{name} = {' | '.join(schema_name(one) for one in schema['oneOf'])}\n"
        required = schema.get("required", [])
        lines, kinds = [], []
        for wire, shape in schema.get("properties", {}).items():
            annotation, kind = self.type(shape), self._kind(shape)
            absent = "" if wire in required else " = None"
            annotation += " | None" if absent and "None" not in annotation else ""
            lines.append(f"    {safe(wire)}: {annotation}{absent}\n")
            kinds.append(f"        {wire!r}: ({safe(wire)!r}, {kind}),\n")
        text = f"\n\n@dataclass(frozen=True, kw_only=True)\nclass {name}(Record):\n"
        text += f"    {doc(schema.get('description', name), 4)}\n\n"
        text += "    KINDS: ClassVar[Mapping[str, tuple[str, Kind]]] = {\n"
        text += "".join(kinds) + "    }\n\n" + "".join(lines)
        return text + "    unknown_fields: Mapping[str, Any] = _field(default_factory=dict)\n"

    def type(self, shape: Json, records: str = "") -> str:
        if "$ref" in shape:
            target = self.schemas[schema_name(shape)]
            if "enum" in target:
                return self.type(target, records)
            return records + schema_name(shape)
        for union in (shape.get("anyOf"), shape.get("oneOf")):
            if union:
                return " | ".join(dict.fromkeys(self.type(one, records) for one in union))
        types = shape.get("type", "any")
        names = [types] if isinstance(types, str) else types
        return " | ".join("None" if name == "null" else self._named(name, shape, records) for name in names)

    def _named(self, name: str, shape: Json, records: str) -> str:
        if name == "array":
            return f"tuple[{self.type(shape.get('items', {}), records)}, ...]"
        if name == "object":
            inner = shape.get("additionalProperties")
            return f"Mapping[str, {self.type(inner, records) if isinstance(inner, dict) else 'Any'}]"
        return "datetime" if shape.get("format") == "date-time" else _SIMPLE.get(name, "Any")

    def _kind(self, shape: Json) -> str:
        """How a value is read: as it is, as an instant, as a record, or as several of these."""
        if "$ref" in shape:
            target = self.schemas[schema_name(shape)]
            if "oneOf" in target:
                mapping = target["discriminator"]["mapping"]
                return f"({target['discriminator']['propertyName']!r}, " + repr(
                    {value: ref.rpartition("/")[2] for value, ref in mapping.items()}
                ) + ")"  # fmt: skip
            return repr(schema_name(shape)) if "properties" in target else "None"
        for one in shape.get("anyOf", []):
            if "$ref" in one:
                return self._kind(one)
        inner = shape.get("items") or shape.get("additionalProperties")
        if isinstance(inner, dict) and self._kind(inner) != "None":
            return f"[{self._kind(inner)}]"
        return "'datetime'" if shape.get("format") == "date-time" else "None"


def schema_name(reference: Json) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def safe(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def doc(words: str, indent: int) -> str:
    lines = textwrap.wrap(words, 100)
    return '"""' + ("\n" + " " * indent).join(lines) + '"""'
