"""Writes records and operations of the client: `python generate.py openapi.json FOLDER`.

Each group of operations is a class for `Steward` and one for `AsyncSteward`.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from generate_records import HEAD, Records, doc, safe, schema_name

Json = dict[str, Any]
_OPERATIONS = """
from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from steward_client import records as r
from steward_client.calls import ABSENT, Absent, AsyncGroup, Group, Id, Operation
"""


class Operations:
    """The operations of one document, without those that no token may call."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def module(self) -> str:
        """The module of operations, without those that no token may call."""
        rows: dict[str, list[tuple[str, str, str, Json]]] = {}
        for path, item in self._records.document["paths"].items():
            for method, row in item.items():
                noun, _, verb = row["operationId"].partition(".")
                if verb and row["x-scope"] != "automations:approve":
                    rows.setdefault(noun, []).append((verb.removeprefix("list_"), method, path, row))
        text = HEAD + _OPERATIONS
        for noun, methods in rows.items():
            for prefix in ("", "Async"):
                text += f"\n\nclass {prefix}{_camel(noun)}({prefix}Group):\n"
                text += f'    """Operations of {noun.replace("_", " ")}."""\n'
                text += "".join(self._method(*row, prefix=prefix) for row in methods)
        for prefix in ("", "Async"):
            text += f"\n\nclass {prefix}Operations:\n"
            text += (
                '    """Every group of operations."""\n\n    def __init__(self, transport: Any) -> None:\n'
            )
            text += "".join(f"        self.{noun} = {prefix}{_camel(noun)}(transport)\n" for noun in rows)
        return text

    def _method(self, verb: str, method: str, path: str, row: Json, *, prefix: str) -> str:
        in_path = [one for one in row["parameters"] if one["in"] == "path"]
        query = [one for one in row["parameters"] if one["in"] == "query" and one["name"] != "cursor"]
        body = row.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        fields = self._records.schemas[schema_name(body)] if body else {}
        key_made = row["x-idempotent"] == "by_key"
        arguments = [f"{one['name']}: {'str' if one['name'] == 'template_id' else 'Id'}" for one in in_path]
        named = [self._argument(one["name"], one["schema"], one["required"]) for one in query]
        for name, shape in fields.get("properties", {}).items():
            required = name in fields.get("required", []) and not (key_made and name == "idempotency_key")
            named.append(self._argument(name, shape, required))
        named.sort(key=lambda argument: "= ABSENT" in argument)
        arguments += ["*", *named] if named else []
        items = row.get("x-page", {}).get("items")
        answer = self._records.schemas[self._records.data(row)]["properties"]
        if items:
            result = self._records.type(answer[items]["items"], "r.")
            declared, call = (f"{prefix}Iterator[{result}]", "_pages")
        else:
            [*parts] = answer
            result = {0: "None", 1: self._records.type(answer[parts[0]], "r.") if parts else ""}.get(
                len(parts), f"r.{self._records.data(row)}"
            )
            declared, call = result, "_call"
        operation = (
            f"Operation({method.upper()!r}, {path!r}, {row['x-idempotent']!r}, {self._answer(row, items)})"
        )
        values = (", ".join(f"{one['name']!r}: {one['name']}" for one in in_path), *(
            ", ".join(f"{name!r}: {safe(name)}" for name in names)
            for names in ([one["name"] for one in query], list(fields.get("properties", {})))
        ))  # fmt: skip
        is_async = "async " if prefix and not items else ""
        given = ", ".join(["self", *arguments])
        passed = f"{operation}, {{{values[0]}}}, {{{values[1]}}}, {{{values[2]}}}"
        returned = f"{'await ' if is_async else ''}self.{call}({passed})"
        text = f"\n    {is_async}def {verb}({given}) -> {declared}:\n        {doc(row['summary'] + '.', 8)}\n"
        if result == "None":
            return text + f"        {returned}\n"
        return text + f"        result: {declared} = {returned}\n        return result\n"

    def _argument(self, name: str, shape: Json, required: bool) -> str:
        annotation = re.sub(r"tuple\[(.*), \.\.\.\]", r"Sequence[\1]", self._records.type(shape, "r."))
        annotation = re.sub(r"r\.\w+(Body|Target)\b( \| r\.\w+Body)*", "Mapping[str, Any]", annotation)
        return f"{safe(name)}: {annotation}" + ("" if required else " | Absent = ABSENT")

    def _answer(self, row: Json, items: str | None) -> str:
        name = self._records.data(row)
        names = list(self._records.schemas[name]["properties"])
        return f"r.{name}, {(items or names[0]) if items or len(names) == 1 else None!r}"


def _camel(noun: str) -> str:
    return "".join(word.capitalize() for word in noun.split("_"))


def write(document: Json, folder: Path) -> None:
    """Writes both modules into `folder`; a file that would stay as it is is not touched."""
    records = Records(document)
    for name, text in (("records", records.module()), ("operations", Operations(records).module())):
        file = folder / f"{name}.py"
        if not file.exists() or file.read_text("utf-8") != text:
            file.write_text(text, "utf-8")


if __name__ == "__main__":
    write(json.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2]))
