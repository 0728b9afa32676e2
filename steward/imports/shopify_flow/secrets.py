"""Takes credential values out of a flow before anything is kept, naming step and field."""

import json
import re
from collections.abc import Mapping
from typing import Any

from steward.imports.n8n import secrets
from steward.imports.shopify_flow.file import inner

EMPTY = secrets.EMPTY
# The key of a signature, written out in Liquid.
_SIGNING = re.compile(r"""(\|\s*+hmac_sha(?:1|256)\s*+:\s*+)(\\?["'])((?:(?!\2).)+)(\2)""", re.DOTALL)
NO_KEY = re.compile(r"""\|\s*+hmac_sha(?:1|256)\s*+:\s*+(?:""|'')""")


def without_secrets(value: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[tuple[int | None, str]]]:
    """The export with every credential value empty; (place in its list of steps or None, field) of each."""
    locations: list[tuple[int | None, str]] = []
    root = dict(value["root"])
    steps = []
    for index, step in enumerate(root["steps"]):
        rows = step.get("config_field_values") if isinstance(step, Mapping) else None
        if not isinstance(rows, list):
            steps.append(step)
            continue
        cleaned = [_row(row) for row in rows]
        for row, now in zip(rows, cleaned, strict=True):
            if now is not row:
                locations.append((index, str(row["config_field_id"])))
        steps.append({**step, "config_field_values": cleaned})
    rest, paths = secrets.without_secrets({**value, "root": {**root, "steps": steps}})
    locations += [_named(rest, path) for path in paths]
    return rest, list(dict.fromkeys(locations))


def _row(row: Any) -> Any:
    """One setting: a key by its own name, or headers as pairs with a key among them."""
    if not isinstance(row, Mapping):
        return row
    name, text = row.get("config_field_id"), row.get("value")
    if not isinstance(name, str) or not isinstance(text, str):
        return row
    if secrets.is_named(name) and secrets.is_literal(text):
        return {**row, "value": EMPTY}
    signed = _SIGNING.sub(r"\1\2\4", text)
    if signed != text:
        return _row({**row, "value": signed})
    headers = _cleaned_headers(text)
    return row if headers is None else {**row, "value": headers}


def _cleaned_headers(text: str) -> str | None:
    """Headers, written as a list of pairs, without their keys; None: no such text, or no key in it."""
    pairs = inner(text)
    if not isinstance(pairs, list):
        return None
    cleaned = [_pair(pair) for pair in pairs]
    if all(now is pair for now, pair in zip(cleaned, pairs, strict=True)):
        return None
    return json.dumps(cleaned, ensure_ascii=False)


def _pair(pair: Any) -> Any:
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
        return pair
    name, text = pair
    return [name, EMPTY] if secrets.is_named_header(name) and secrets.is_literal(text) else pair


def _named(value: Mapping[str, Any], path: str) -> tuple[int | None, str]:
    """The step and field of a path into the export."""
    parts = path.split(".")
    is_step = parts[:2] == ["root", "steps"] and len(parts) > 3
    step = _element(value["root"]["steps"], parts[2]) if is_step else None
    if step is None:
        return None, path.removeprefix("root.")
    if parts[3] == "config_field_values" and len(parts) > 4 and isinstance(step, Mapping):
        row = _element(step.get(parts[3]), parts[4])
        if isinstance(row, Mapping):
            return int(parts[2]), str(row.get("config_field_id"))
    return int(parts[2]), ".".join(parts[3:])


def _element(rows: Any, index: str) -> Any:
    """The element a part of a path names; None where it is a name: names may have dots and digits too."""
    number = int(index) if isinstance(rows, list) and index.isdecimal() and len(index) < 7 else None
    return rows[number] if number is not None and number < len(rows) else None
