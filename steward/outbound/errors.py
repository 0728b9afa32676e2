"""The errors of a call to a platform: one hierarchy for all connectors."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import ClassVar

PLATFORM_TEXT = 300


class ErrorKind(StrEnum):
    """The class of a call's error for steps, write outcomes and logs."""

    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    INVALID = "invalid"
    STALE = "stale"
    THROTTLED = "throttled"
    UNAVAILABLE = "unavailable"
    WRONG_ADDRESS = "wrong_address"
    BROKEN = "broken"
    REFUSED = "refused"


class CallError(Exception):
    """The base of the errors of a failed call; only its subclasses are raised.

    `message` is the product's own text. `platform_text` is the platform's text, redacted and cut. `wait_s`
    is the number of seconds before the next attempt; null when none is known. `status` is the HTTP status
    of the last response, null without one; `attempts` is the number of failed calls in a row.
    """

    kind: ClassVar[ErrorKind]
    default_message: ClassVar[str] = ""

    def __init__(
        self, message: str | None = None, *, wait_s: float | None = None, platform_text: str = ""
    ) -> None:
        super().__init__(message or self.default_message)
        self.message = message or self.default_message
        self.wait_s = wait_s
        self.platform_text = platform_text[:PLATFORM_TEXT]
        self.status: int | None = None
        self.attempts = 1


class Unauthorized(CallError):
    """The key is unknown, wrong, expired or revoked, or http was used instead of https."""

    kind = ErrorKind.UNAUTHORIZED
    default_message = "The account did not accept its key. Reconnect it."

    def __init__(self, why: str | None = None, *, platform_text: str = "") -> None:
        super().__init__(why, platform_text=platform_text)


class MissingRight(CallError):
    """The key is valid but lacks a right."""

    kind = ErrorKind.FORBIDDEN

    def __init__(self, right: str, message: str | None = None, *, platform_text: str = "") -> None:
        super().__init__(message or f"The key lacks the right to {right}.", platform_text=platform_text)
        self.right = right


class RemoteNotFound(CallError):
    """The object no longer exists at the platform."""

    kind = ErrorKind.NOT_FOUND
    default_message = "It no longer exists."


class Invalid(CallError):
    """The platform refused the value; `fields` maps its field names to reasons."""

    kind = ErrorKind.INVALID

    def __init__(
        self,
        fields: Mapping[str, str] | Sequence[str],
        message: str | None = None,
        *,
        platform_text: str = "",
    ) -> None:
        named = ", ".join(fields)
        words = f"The account refused the value of {named}." if named else "The account refused the values."
        super().__init__(message or words, platform_text=platform_text)
        self.fields = dict(fields) if isinstance(fields, Mapping) else {field: "" for field in fields}


class Stale(CallError):
    """A compare-and-swap was refused: the value has changed since it was read."""

    kind = ErrorKind.STALE
    default_message = "It was changed in the meantime."


class Throttled(CallError):
    """The platform did nothing and asks for a pause of `wait_s` seconds."""

    kind = ErrorKind.THROTTLED

    default_message = "The account asks for a pause between calls."
    wait_s: float

    def __init__(self, wait_s: float, *, platform_text: str = "") -> None:
        super().__init__(wait_s=wait_s, platform_text=platform_text)


class LocalQueueFull(Throttled):
    """Other calls of the same account were still running; the account itself did not ask for a pause."""

    default_message = "Other calls to this account were still under way, so nothing was sent."


class PlatformUnavailable(CallError):
    """The account is not reachable, under maintenance, or responded with an unclassified 5xx."""

    kind = ErrorKind.UNAVAILABLE
    default_message = "The account cannot be reached now."


class CallTimedOut(PlatformUnavailable):
    """The response, or its next bytes, did not arrive in time; a smaller request may succeed."""

    default_message = "The account did not answer in time."


class WrongAddress(CallError):
    """Another server responds at the address; `field` is the setting to correct, if known."""

    kind = ErrorKind.WRONG_ADDRESS
    default_message = "Something else answers at this address. Check the address of the account."

    def __init__(
        self, message: str | None = None, *, field: str | None = None, platform_text: str = ""
    ) -> None:
        super().__init__(message, platform_text=platform_text)
        self.field = field


class WrongResponder(WrongAddress):
    """A web page or a redirect was received instead of the account's response; often temporary."""


class UnknownHost(PlatformUnavailable):
    """The resolver knows no host of this name."""

    def __init__(self, host: str) -> None:
        super().__init__(f"There is no host named {host}. Check the address.")


class BadCertificate(PlatformUnavailable):
    """The certificate of the account's host is not valid, so nothing was sent."""


class UnusableResponse(CallError):
    """The response differs from the documentation, or is too large or too deeply nested."""

    kind = ErrorKind.BROKEN

    def __init__(self, reason: str, *, platform_text: str = "") -> None:
        super().__init__(f"The account's response cannot be used: {reason}.", platform_text=platform_text)


class ResponseTooLarge(UnusableResponse):
    """The content is larger than Steward ever fetches."""


class CallRefused(CallError):
    """The guard stopped the call before connecting; `rule` names the rule."""

    kind = ErrorKind.REFUSED

    def __init__(self, rule: str, message: str | None = None) -> None:
        super().__init__(message or f"The call was stopped: {rule}.")
        self.rule = rule

    @property
    def sentence(self) -> str:
        """The rule as a sentence."""
        return f"{self.rule[:1].upper()}{self.rule[1:]}."


class WriteFailed(Exception):
    """A write without a usable response; it is never repeated automatically."""

    def __init__(self, cause: CallError) -> None:
        super().__init__(cause.message)
        self.cause = cause


class NotSent(WriteFailed):
    """No byte of the request was sent, or the platform says that it did nothing: sending again is safe."""


class OutcomeUnknown(WriteFailed):
    """The request was or may have been sent: whether it took effect must be reconciled."""
