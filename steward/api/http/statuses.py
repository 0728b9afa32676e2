"""The HTTP status of each refusal code; no other module has these numbers."""

from collections.abc import Mapping

STATUS: Mapping[str, int] = {
    "malformed": 400,
    "unauthenticated": 401,
    "invalid_credentials": 401,
    "forbidden": 403,
    "csrf_failed": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "stale_version": 409,
    "wrong_state": 409,
    "too_large": 413,
    "unsupported_media_type": 415,
    "validation_failed": 422,
    "allowance_spent": 422,
    "not_connected": 422,
    "closed_period": 422,
    "not_ready": 422,
    "key_reused": 422,
    "too_many_waiting": 422,
    "rate_limited": 429,
    "internal": 500,
    "unavailable": 503,
    "not_configured": 503,
}

TARGET_TOO_LONG = 414
HEADERS_TOO_LARGE = 431
