"""Refusals: expected errors with a stable code and a message; the API maps codes to HTTP statuses."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

FieldErrors = Mapping[str, Sequence[str]]


class Refusal(Exception):
    """An expected refusal. `errors` maps dotted request paths to messages; `data` holds current records."""

    code: ClassVar[str] = ""
    words: ClassVar[str] = ""

    def __init__(
        self,
        message: str | None = None,
        *,
        errors: FieldErrors | None = None,
        data: Mapping[str, object] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message or self.words)
        self.message = message or self.words
        self.errors = errors
        self.data = data
        self.retry_after = retry_after


class Malformed(Refusal):
    """The body is not valid JSON or form data."""

    code = "malformed"
    words = "The body is not valid JSON. Check it and send it again."


class Unauthenticated(Refusal):
    """No valid token or session."""

    code = "unauthenticated"
    words = "Sign in first: the token or session is missing, has expired or was revoked."

    def __init__(self, message: str | None = None, *, token_sent: bool = False) -> None:
        super().__init__(message)
        self.token_sent = token_sent


class InvalidCredentials(Refusal):
    """A login that cannot be validated; never says which value was wrong."""

    code = "invalid_credentials"
    words = "These values do not belong together or are not known. Check all of them and try again."

    def __init__(self, message: str | None = None, *, basic: bool = False) -> None:
        super().__init__(message)
        self.basic = basic


class Forbidden(Refusal):
    """The caller may not do this."""

    code = "forbidden"
    words = "This is not allowed for you."

    def __init__(self, message: str | None = None, *, needed_scope: str | None = None) -> None:
        super().__init__(message)
        self.needed_scope = needed_scope


class CsrfFailed(Refusal):
    """A web call without the session's token, or from another origin."""

    code = "csrf_failed"
    words = "This page is out of date. Load it again and repeat what you did."


class NotFound(Refusal):
    """The record is absent or another organization's, which the response does not distinguish."""

    code = "not_found"
    words = "There is nothing at this address that you can see."


class MethodNotAllowed(Refusal):
    """The path exists, the method does not."""

    code = "method_not_allowed"
    words = "This address does not take that method."

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(f"{self.words} It takes {', '.join(allowed)}.")
        self.allowed = allowed


class StaleVersion(Refusal):
    """The record changed since it was read; `data` holds the current one."""

    code = "stale_version"
    words = "This was changed in the meantime. Check the current values and try again."


class WrongState(Refusal):
    """The record is not in a state that allows the act."""

    code = "wrong_state"
    words = "This can no longer be done. Reload it to see its state."


class TooLarge(Refusal):
    """The body, target or headers exceed their limit."""

    code = "too_large"
    words = "The request is larger than this address takes. Send less."


class UnsupportedMediaType(Refusal):
    """The body has a media type that the operation does not accept."""

    code = "unsupported_media_type"
    words = "Send the body as application/json in UTF-8, without a content encoding."


class ValidationFailed(Refusal):
    """The request is invalid; `errors` names each field."""

    code = "validation_failed"
    words = "Some values need to be put right; see errors."


class AllowanceSpent(Refusal):
    """A counted allowance is used up."""

    code = "allowance_spent"
    words = "The allowance is used up. Remove something you no longer need first."


class NotConnected(Refusal):
    """A store or account that is needed is not connected."""

    code = "not_connected"
    words = "A store or account this needs is not connected. Reconnect it in the web app."


class InClosedPeriod(Refusal):
    """A closed period prevents runs from beginning."""

    code = "closed_period"
    words = "Runs are closed at this time. Run it once the closed period has ended."


class NotReady(Refusal):
    """Steps of a workflow lack a usable connection, or variables a value."""

    code = "not_ready"
    words = "Some steps have no usable connection, or some variables no value. See its steps."


class KeyReused(Refusal):
    """An idempotency key that belongs to another object."""

    code = "key_reused"
    words = "This idempotency key was used for something else. Use a new one."


class TooManyWaiting(Refusal):
    """Too many runs of the automation are waiting already."""

    code = "too_many_waiting"
    words = "Too many runs of this automation wait already. Try again when some have finished."


class RateLimited(Refusal):
    """Too many calls; nothing was done or counted."""

    code = "rate_limited"
    words = "Too many calls. Nothing was done. Wait and try again."


class Unavailable(Refusal):
    """The request cannot be completed now."""

    code = "unavailable"
    words = "The service cannot complete this now. Try again shortly."


class NotConfigured(Refusal):
    """API access, or a required setting, is off in this environment."""

    code = "not_configured"
    words = "This is not configured on this environment. Ask its operator."
