"""Opaque cursors of lists, signed with the organization, path and filters they belong to."""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence

from steward.api.http.operation import ApiCall
from steward.model.json import JsonValue
from steward.model.refusals import ValidationFailed

_TAG = 16


def after(call: ApiCall) -> list[JsonValue] | None:
    """Returns the sort key of the previous page's last row, or None on the first page.

    Raises ValidationFailed (`errors.cursor`) for a cursor of another organization, path, filter or sort.
    """
    if call.query.cursor is None:
        return None
    try:
        sealed = base64.b64decode(call.query.cursor.encode("ascii"), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        sealed = b""
    key = sealed[_TAG:]
    if not key or not hmac.compare_digest(sealed[:_TAG], _seal(call, key)):
        raise ValidationFailed(
            errors={"cursor": ["Take the cursor from the page before, with the same filters."]}
        )
    sort_key: list[JsonValue] = json.loads(key)
    return sort_key


def next_cursor(call: ApiCall, key: Sequence[JsonValue]) -> str:
    """Returns the cursor that continues after the row with this sort key."""
    plain = json.dumps(list(key), separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    return base64.b64encode(_seal(call, plain) + plain, altchars=b"-_").decode("ascii")


def _seal(call: ApiCall, key: bytes) -> bytes:
    filters = call.query.model_dump(mode="json", exclude={"limit", "cursor"})
    about = [call.actor.org, call.path, filters]
    text = json.dumps(about, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return hmac.digest(call.context.keys.cursor, digest + key, "sha256")[:_TAG]
