"""Signatures of store events: HMAC-SHA-256 over the raw bytes as received."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

_DIGEST = 32


class BodyVerifier:
    """Computes the signatures of a body while it streams, to compare them with the one that came with it.

    There is one for each valid secret: the current one, and the former one after a rotation.
    """

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self._digests = [hmac.new(secret, digestmod=hashlib.sha256) for secret in secrets if secret]

    def feed(self, chunk: bytes) -> None:
        """Adds the next bytes of the body."""
        for digest in self._digests:
            digest.update(chunk)

    def matches(self, signature: str) -> bool:
        """Returns whether `signature`, in base64, is right under any of the secrets.

        Every secret is compared, in constant time.
        """
        received = _decoded(signature)
        results = [hmac.compare_digest(digest.digest(), received) for digest in self._digests]
        return any(results)


def sign(body: bytes, secret: bytes) -> str:
    """Returns the signature that a store sends with `body`."""
    return base64.b64encode(hmac.new(secret, body, hashlib.sha256).digest()).decode("ascii")


def _decoded(signature: str) -> bytes:
    try:
        raw = base64.b64decode(signature.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError, ValueError):
        return b""
    # Only the canonical spelling: base64 with other spare bits would be a second signature for one body.
    if len(raw) != _DIGEST or base64.b64encode(raw).decode("ascii") != signature:
        return b""
    return raw
