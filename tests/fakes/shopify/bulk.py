"""Bulk operations: a query run in the background, its result lines kept at an address of their own."""

import json
from collections.abc import Iterator
from typing import Any

from graphql import FieldNode, FragmentDefinitionNode, InlineFragmentNode

from tests.fakes.shopify.execution import RunningDocument, checked, operation_of, run
from tests.fakes.shopify.goods import Row
from tests.fakes.shopify.mutations import refusal

AT_ONCE = 5


class BulkOperations:
    """Those of one app; an operation is finished when it was looked at so often as it takes."""

    def __init__(self, url: str, *, takes: int = 2) -> None:
        self._url = url
        self.takes = takes
        self.results: dict[str, bytes] = {}
        self.started = 0

    def start(self, running: RunningDocument, text: str) -> Row:
        """`bulkOperationRunQuery`."""
        document, wrong = checked(running.version, text)
        if wrong:
            return {"bulkOperation": None, "userErrors": [refusal(["query"], wrong[0], "INVALID")]}
        going = [row for row in running.goods.of("BulkOperation") if row["status"] == "RUNNING"]
        if len(going) >= AT_ONCE:
            return {"bulkOperation": None, "userErrors": [refusal(None, "too many", "LIMIT_REACHED")]}
        self.started += 1
        row = running.goods.make(
            "BulkOperation", status="RUNNING", looks=0, errorCode=None, objectCount="0", url=None
        )
        data, errors = run(running, document, {})
        if errors:
            row.update(status="FAILED", errorCode="ACCESS_DENIED")
            return {"bulkOperation": row, "userErrors": []}
        lines = list(_lines(operation_of(document).selection_set, data or {}, None))
        path = f"/bulk/{row['id'].rpartition('/')[2]}.jsonl"
        self.results[path] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        row["left"] = f"{self._url}{path}" if lines else None
        row["objectCount"] = str(len(lines))
        return {"bulkOperation": row, "userErrors": []}

    def look(self, row: Row) -> None:
        """Every look brings it on."""
        row["looks"] += 1
        if row["status"] == "RUNNING" and row["looks"] >= self.takes:
            row.update(status="COMPLETED", url=row["left"])


def _lines(selection: Any, value: Row, parent: str | None) -> Iterator[Row]:
    """The nodes of the connections in a value, each followed by those within it."""
    for field in selection.selections:
        assert isinstance(field, FieldNode)
        held = value.get(field.name.value)
        if not _is_connection(field) or held is None:
            continue
        [edges] = field.selection_set.selections
        [node] = edges.selection_set.selections
        for edge in held["edges"]:
            row = edge["node"]
            fields = {
                name: field_value for name, field_value in row.items() if not _names_connection(node, name)
            }
            yield fields if parent is None else {**fields, "__parentId": parent}
            yield from _lines(node.selection_set, row, row.get("id"))


def _is_connection(field: Any) -> bool:
    inner = field.selection_set.selections if field.selection_set else ()
    return len(inner) == 1 and isinstance(inner[0], FieldNode) and inner[0].name.value == "edges"


def _names_connection(node: Any, name: str) -> bool:
    return any(
        isinstance(selection, FieldNode) and selection.name.value == name and _is_connection(selection)
        for selection in node.selection_set.selections
        if not isinstance(selection, InlineFragmentNode | FragmentDefinitionNode)
    )
