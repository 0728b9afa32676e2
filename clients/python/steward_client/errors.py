"""Errors of the client: one class for each code of a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steward_client.decoding import read_record
from steward_client.records import RunRecord, StaleData


class StewardError(Exception):
    """A call that did not succeed: `code` to act on, `message` for people, `request_id` to ask about it.

    `status` is 0 where no response came. `idempotency_key` is the key that was sent, if any: the same call
    with it is safe.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        status: int = 0,
        request_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.request_id = request_id
        self.idempotency_key = idempotency_key

    def __str__(self) -> str:
        label = " ".join(part for part in (self.code, str(self.status or "")) if part)
        return f"{self.message} ({label})" if label else self.message


class NoResponse(StewardError):
    """No response came: the service cannot be reached, or its response was lost."""


class Malformed(StewardError):
    """The service could not read the request."""


class Unauthenticated(StewardError):
    """The token is not accepted, and neither is a new one."""


class InvalidCredentials(Unauthenticated):
    """The login was refused; the service does not say which value is wrong."""


class Forbidden(StewardError):
    """A scope is missing, or automations are switched off for the organization."""


class NotFound(StewardError):
    """There is nothing of this id in the organization."""


class Conflict(StewardError):
    """The record has changed, or is not in a state that allows the call."""


class StaleVersion(Conflict):
    """A version that was sent is not the current one; `current` is what is."""

    current: StaleData


class OutcomeUnknown(StaleVersion):
    """The response of a first try was lost and the version has moved on: by this call or by another.

    Compare `current` with what was wanted.
    """


class WrongState(Conflict):
    """The record is not in a state that allows the call."""


class TooLarge(StewardError):
    """The request is over a limit of the service."""


class ValidationFailed(StewardError):
    """Fields are wrong, or the call cannot be made now; `errors` maps paths of fields to messages."""

    errors: Mapping[str, tuple[str, ...]]


class AllowanceSpent(ValidationFailed):
    """A counted allowance is used up."""


class NotConnected(ValidationFailed):
    """A store or account that is needed is not connected."""


class ClosedPeriod(ValidationFailed):
    """A closed period keeps runs from beginning."""


class NotReady(ValidationFailed):
    """Steps of a workflow have no usable connection."""


class KeyReused(ValidationFailed):
    """The idempotency key stands for something else."""


class TooManyWaiting(ValidationFailed):
    """Too many runs of the automation wait already."""


class RateLimited(StewardError):
    """A limit is reached and nothing was done; wait `retry_after` seconds."""

    retry_after: int | None = None


class InternalError(StewardError):
    """A defect of the service; ask about `request_id`."""


class Unavailable(StewardError):
    """The service cannot complete the call now."""

    retry_after: int | None = None


class NotConfigured(Unavailable):
    """API access is off on this environment."""


class WaitTimeout(StewardError):
    """A run did not end in time; `run` is the run as it was last read."""

    run: RunRecord


BY_CODE: Mapping[str, type[StewardError]] = {
    "malformed": Malformed,
    "unauthenticated": Unauthenticated,
    "invalid_credentials": InvalidCredentials,
    "forbidden": Forbidden,
    "not_found": NotFound,
    "stale_version": StaleVersion,
    "wrong_state": WrongState,
    "too_large": TooLarge,
    "validation_failed": ValidationFailed,
    "allowance_spent": AllowanceSpent,
    "not_connected": NotConnected,
    "closed_period": ClosedPeriod,
    "not_ready": NotReady,
    "key_reused": KeyReused,
    "too_many_waiting": TooManyWaiting,
    "rate_limited": RateLimited,
    "internal": InternalError,
    "unavailable": Unavailable,
    "not_configured": NotConfigured,
}
BY_STATUS: Mapping[int, type[StewardError]] = {
    400: Malformed,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: ValidationFailed,
    429: RateLimited,
    500: InternalError,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def refusal(
    status: int, body: Mapping[str, Any], headers: Mapping[str, str], *, key: str | None, is_lost: bool
) -> StewardError:
    """Returns the error of a refusal; a code that this release does not know, by its status.

    With `is_lost`, an earlier try of the same call had no response.
    """
    code = str(body.get("code") or "")
    kind = BY_CODE.get(code) or BY_STATUS.get(status, StewardError)
    if kind is StaleVersion and is_lost:
        kind = OutcomeUnknown
    error = kind(
        str(body.get("message") or f"The service answered {status} without words."),
        code=code,
        status=status,
        request_id=headers.get("x-request-id"),
        idempotency_key=key,
    )
    if isinstance(error, StaleVersion):
        error.current = read_record(StaleData, body.get("data") or {})
    if isinstance(error, ValidationFailed):
        error.errors = {name: tuple(words) for name, words in (body.get("errors") or {}).items()}
    if isinstance(error, RateLimited | Unavailable):
        error.retry_after = seconds_of(headers)
    return error


def seconds_of(headers: Mapping[str, str]) -> int | None:
    """Returns the seconds of `Retry-After`; None where it is absent or a date."""
    text = headers.get("retry-after", "")
    return int(text) if text.isdecimal() else None
