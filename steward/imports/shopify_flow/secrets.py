"""Removes the secrets from a flow before it is stored, and records step and field."""

import json
import re
from collections.abc import Mapping
from typing import Any

from steward.imports.secrets.names import weight_of
from steward.imports.secrets.tree import SecretRemoval
from steward.imports.shopify_flow.file import inner
from steward.model.removed_secrets import MARKER

# The key of a signature in Liquid.
_SIGNING = re.compile(r"""(\|\s*+hmac_sha(?:1|256)\s*+:\s*+)(\\?["'])((?:(?!\2).)++)(\2)""", re.DOTALL)
NO_KEY = re.compile(rf"""\|\s*+hmac_sha(?:1|256)\s*+:\s*+(?:""|''|["']{MARKER.pattern})""")


def without_secrets(value: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[tuple[int | None, str]]]:
    """Returns the export with markers for secrets, and their places: (index of the step or None, field)."""
    locations: list[tuple[int | None, str]] = []
    removal = SecretRemoval()
    root = dict(value["root"])
    steps = []
    for index, step in enumerate(root["steps"]):
        rows = step.get("config_field_values") if isinstance(step, Mapping) else None
        if not isinstance(rows, list):
            steps.append(step)
            continue
        cleaned = [_row(removal, row) for row in rows]
        for row, now in zip(rows, cleaned, strict=True):
            if now is not row:
                locations.append((index, str(row["config_field_id"])))
        steps.append({**step, "config_field_values": cleaned})
    prepared = {**value, "root": {**root, "steps": steps}}
    removal.paths.clear()
    cleaned_export = removal.clean(prepared)
    locations += [_named(prepared, path) for path in removal.paths]
    return cleaned_export, list(dict.fromkeys(locations))  # type: ignore[return-value]


def _row(removal: SecretRemoval, row: Any) -> Any:
    """Replaces the secret in a setting: one named so, a signature's key, or one in headers."""
    if not isinstance(row, Mapping):
        return row
    name, text = row.get("config_field_id"), row.get("value")
    if not isinstance(name, str) or not isinstance(text, str):
        return row
    signed = _SIGNING.sub(lambda hit: f"{hit[1]}{hit[2]}{_signing_key(removal, hit[3])}{hit[4]}", text)
    headers = _cleaned_headers(removal, signed)
    cleaned = removal.named(signed, "", weight_of(name), name) if headers is None else headers
    return row if cleaned == text else {**row, "value": cleaned}


def _signing_key(removal: SecretRemoval, key: str) -> str:
    return key if MARKER.fullmatch(key) else removal.marker_of(key)


def _cleaned_headers(removal: SecretRemoval, text: str) -> str | None:
    """Returns a JSON list of header pairs without secrets; None for other texts or if it has none."""
    pairs = inner(text)
    if not isinstance(pairs, list) or not all(isinstance(pair, list) for pair in pairs):
        return None
    cleaned = removal.clean(pairs)
    return None if cleaned == pairs else json.dumps(cleaned, ensure_ascii=False)


def _named(value: Mapping[str, Any], path: str) -> tuple[int | None, str]:
    """Returns the step and field for a path into the export."""
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
    """Returns the list element that a path part refers to, or None."""
    number = int(index) if isinstance(rows, list) and index.isdecimal() and len(index) < 7 else None
    return rows[number] if number is not None and number < len(rows) else None
