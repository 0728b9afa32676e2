"""Opaque cursors of lists, signed with the organization, path and filters they belong to."""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence

from steward.model.json import JsonValue

_TAG = 16


def sealed_cursor(secret: bytes, filters: JsonValue, key: Sequence[JsonValue]) -> str:
    """Returns the cursor that continues after the row with this sort key, for a list with these filters."""
    payload = json.dumps(list(key), separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    return base64.b64encode(_tag(secret, filters, payload) + payload, altchars=b"-_").decode("ascii")


def opened_cursor(secret: bytes, filters: JsonValue, cursor: str) -> list[JsonValue] | None:
    """Returns the sort key of a cursor, or None when it was not sealed here for a list with these filters."""
    try:
        sealed = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return None
    key = sealed[_TAG:]
    if not key or not hmac.compare_digest(sealed[:_TAG], _tag(secret, filters, key)):
        return None
    sort_key: list[JsonValue] = json.loads(key)
    return sort_key


def _tag(secret: bytes, filters: JsonValue, key: bytes) -> bytes:
    text = json.dumps(filters, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return hmac.digest(secret, digest + key, "sha256")[:_TAG]
