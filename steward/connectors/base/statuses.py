"""Interprets the HTTP status of a response, for platforms without error codes of their own."""

from steward.outbound.errors import (
    CallError,
    Invalid,
    MissingRight,
    PlatformUnavailable,
    RemoteNotFound,
    Throttled,
    Unauthorized,
)
from steward.outbound.response import PlatformResponse


def failure_of_status(title: str, response: PlatformResponse, words: str = "") -> CallError | None:
    """Returns the error for a status; `words` are the service's own reason, which the error quotes."""
    status, quoted = response.status, response.quote(words)
    reason = f" It said: {quoted}" if quoted else ""
    if response.ok:
        return None
    if status == 401:
        return Unauthorized(f"{title} did not accept the key. Reconnect it.", platform_text=quoted)
    if status == 403:
        return MissingRight(
            "do this", f"{title} does not let this key do that.{reason}", platform_text=quoted
        )
    if status == 404:
        return RemoteNotFound(f"{title} knows nothing of that name.{reason}", platform_text=quoted)
    if status == 429:
        return Throttled(_wait_of(response), platform_text=quoted)
    if status in (408, 425) or status >= 500 or status < 400:
        return PlatformUnavailable(f"{title} failed to respond (status {status}).", platform_text=quoted)
    return Invalid([], f"{title} refused it (status {status}).{reason}", platform_text=quoted)


def _wait_of(response: PlatformResponse) -> float:
    named = response.headers.get("retry-after", "")
    return float(named) if named.isdigit() else 2.0
