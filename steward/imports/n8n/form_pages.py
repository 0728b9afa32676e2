"""Further pages of a form, whose fields are asked for on the first page, at the start of a run.

See docs/design/imports-n8n.md#triggers-and-schedules.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from steward.imports.n8n.form_fields import form_fields
from steward.imports.n8n.unwrap import Node
from steward.steps.n8n.nodes.forms import START_FIELDS

_TRIGGER, _PAGE = "formTrigger", "form"
_OF_EACH_FORM = ("submittedAt", "formMode")
# Texts that need no escaping inside single and double quotes of an expression.
_START, _FIELD = re.compile(r"[^'\\{}\n]+"), re.compile(r"[^=\"\\{}\n][^\"\\{}\n]*")
_ASKS_NOTHING = frozenset(("html",))


def with_pages(nodes: Sequence[Node]) -> list[Node]:
    """Returns the nodes with the fields of all further pages added to the only form trigger.

    Each page reads its values from the trigger. A page whose fields cannot be asked for in advance stays
    unchanged, and so do all pages unless exactly one form starts the workflow.
    """
    starts = [node for node in nodes if node.type == _TRIGGER and not node.disabled]
    if len(starts) != 1 or not _START.fullmatch(starts[0].name):
        return list(nodes)
    later_fields: list[Any] = []
    changed: dict[str, Node] = {}
    for node in nodes:
        rows = _rows(node) if node.type == _PAGE and _is_page(node) else []
        # a file of a later page would belong only to that page
        fields = [field for field in form_fields(node.parameters) if not field.is_file]
        if not rows or len(fields) != len([row for row in rows if _kind(row) not in _ASKS_NOTHING]):
            continue
        names = [*dict.fromkeys((*(field.name for field in fields), *_OF_EACH_FORM))]
        if not all(_FIELD.fullmatch(name) for name in names):
            continue
        read = [{"name": name, "value": _reading(starts[0].name, name)} for name in names]
        changed[node.name] = replace(node, parameters={**node.parameters, START_FIELDS: read})
        later_fields += [{**row, "requiredField": False} for row in rows]  # may not be reached
    if changed:
        start = starts[0]
        values = [*_rows(start), *later_fields]
        changed[start.name] = replace(
            start, parameters={**start.parameters, "formFields": {"values": values}}
        )
    return [changed.get(node.name, node) for node in nodes]


def _is_page(node: Node) -> bool:
    is_json = node.parameters.get("defineForm", "fields") != "fields"
    return node.parameters.get("operation", "page") == "page" and not is_json


def _rows(node: Node) -> list[Mapping[str, Any]]:
    listed = node.parameters.get("formFields")
    values = listed.get("values") if isinstance(listed, Mapping) else None
    return [row for row in values if isinstance(row, Mapping)] if isinstance(values, list) else []


def _kind(row: Mapping[str, Any]) -> str:
    return str(row.get("fieldType", "text"))


def _reading(start: str, name: str) -> str:
    return f"={{{{ $('{start}').first().json[\"{name}\"] }}}}"
