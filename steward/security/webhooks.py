"""Signs webhooks as Standard Webhooks requires (v1: HMAC-SHA256), also while a secret is replaced."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

_PREFIX = "whsec_"
_SECRET_BYTES = 32
# A replaced secret signs beside the new one for a day.
REPLACED_SECRET_VALID_FOR = timedelta(hours=24)


def new_webhook_secret() -> str:
    """Returns a secret in the receiver's form: `whsec_` and 32 random bytes in base64."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode("ascii")


def webhook_headers(
    secrets_by_age: Sequence[str], message_id: str, sent_at: datetime, body: bytes
) -> dict[str, str]:
    """Returns the three headers of a delivery, with one signature for each secret, the newest first.

    `message_id` is the same for every attempt of a message; `sent_at` is the time of this attempt. Raises
    ValueError without a secret.
    """
    if not secrets_by_age:
        raise ValueError("a webhook is signed with at least one secret")
    webhook_id, timestamp = f"msg_{message_id}", str(int(sent_at.timestamp()))
    signed = f"{webhook_id}.{timestamp}.".encode("ascii") + body
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signature(secret, signed) for secret in secrets_by_age),
    }


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode("ascii")
