"""The envelope of every response and refusal."""

from collections.abc import Mapping

import msgspec

from steward.api.http.operation import Reply, Response, ResponseWithHeaders
from steward.api.http.statuses import STATUS
from steward.model.refusals import (
    Forbidden,
    InvalidCredentials,
    MethodNotAllowed,
    Refusal,
    Unauthenticated,
)

CONTRACT_VERSION = 1
_REALM = 'Bearer realm="steward"'
# The headers of every JSON response.
FIXED_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'"),
)
_FIXED_HEAD = b"".join(name + b": " + value + b"\r\n" for name, value in FIXED_HEADERS)

_OPENED = b'{"success":true,"contract_version":1,"data":'
EMPTY_RESPONSE = _OPENED + b"{}}"
_LONGEST_MESSAGE = 500
_WAIT_CONFIGURED = 60


def _encoded(value: object) -> object:
    if isinstance(value, frozenset):
        return sorted(value)
    raise TypeError(f"a response contains {type(value).__name__}")


ENCODER = msgspec.json.Encoder(enc_hook=_encoded)


def head(length: int, request_id: str) -> bytes:
    """Returns the encoded headers of a response without special ones; `length` is the size of its body."""
    return b"%scontent-length: %d\r\nx-request-id: %s\r\n" % (_FIXED_HEAD, length, request_id.encode("ascii"))


def accept(response: Response, status: int) -> Reply:
    """Builds the envelope of a response."""
    if isinstance(response, ResponseWithHeaders):
        return Reply(response.status, _OPENED + ENCODER.encode(response.data) + b"}", response.headers)
    return Reply(status, b"".join((_OPENED, ENCODER.encode(response), b"}")))


def refuse(refusal: Refusal, data: Mapping[str, object] | None = None) -> Reply:
    """Builds the envelope of a refusal, with the headers of its status."""
    status = STATUS[refusal.code]
    body: dict[str, object] = {
        "success": False,
        "contract_version": CONTRACT_VERSION,
        "message": refusal.message[:_LONGEST_MESSAGE],
        "code": refusal.code,
    }
    if status == 422:
        body["errors"] = refusal.errors or {}
    if data is not None:
        body["data"] = data
    return Reply(status, ENCODER.encode(body), _headers(refusal, status))


def defect(request_id: str) -> Reply:
    """Builds the response to an internal error: the request id and nothing else."""
    body = {
        "success": False,
        "contract_version": CONTRACT_VERSION,
        "message": f"Something went wrong on our side. Give this id when you ask about it: {request_id}.",
        "code": "internal",
    }
    return Reply(STATUS["internal"], ENCODER.encode(body))


def too_large(status: int) -> Reply:
    """Builds the response to a target or headers that are too long."""
    body = {
        "success": False,
        "contract_version": CONTRACT_VERSION,
        "message": "The address or the headers of the request are too long.",
        "code": "too_large",
    }
    return Reply(status, ENCODER.encode(body))


def _headers(refusal: Refusal, status: int) -> tuple[tuple[bytes, bytes], ...]:
    headers: list[tuple[bytes, bytes]] = []
    challenge = _challenge(refusal)
    if challenge is not None:
        headers.append((b"www-authenticate", challenge.encode("ascii")))
    elif isinstance(refusal, MethodNotAllowed):
        headers.append((b"allow", ", ".join(refusal.allowed).encode("ascii")))
    if status in (429, 503):
        wait = refusal.retry_after or (_WAIT_CONFIGURED if refusal.code == "not_configured" else 1)
        headers.append((b"retry-after", str(max(1, wait)).encode("ascii")))
    return tuple(headers)


def _challenge(refusal: Refusal) -> str | None:
    """Returns the WWW-Authenticate header of a refusal that has one."""
    if isinstance(refusal, Unauthenticated):
        return _REALM + (', error="invalid_token"' if refusal.token_sent else "")
    if isinstance(refusal, Forbidden) and refusal.needed_scope:
        return f'{_REALM}, error="insufficient_scope", scope="{refusal.needed_scope}"'
    if isinstance(refusal, InvalidCredentials) and refusal.basic:
        return 'Basic realm="steward"'
    return None
