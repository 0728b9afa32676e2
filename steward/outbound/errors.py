"""What can go wrong with a call to a platform: one family of errors for all connectors."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import ClassVar

PLATFORM_TEXT = 300


class ErrorKind(StrEnum):
    """The class of a call's error, as steps, outcomes of writes and logs carry it."""

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
    """A failed call; only its subclasses are raised.

    `message` is the product's own text. `platform_text` is the platform's text, redacted and cut.
    `wait_s` is how many seconds to wait before the next try; null when nothing names a time.
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


class Unauthorized(CallError):
    """Key unknown, wrong, expired or revoked; http instead of https."""

    kind = ErrorKind.UNAUTHORIZED
    default_message = "The account did not accept its key. Reconnect it."

    def __init__(self, why: str | None = None, *, platform_text: str = "") -> None:
        super().__init__(why, platform_text=platform_text)


class MissingRight(CallError):
    """The key is good, the right is missing."""

    kind = ErrorKind.FORBIDDEN

    def __init__(self, right: str, message: str | None = None, *, platform_text: str = "") -> None:
        super().__init__(message or f"The key lacks the right to {right}.", platform_text=platform_text)
        self.right = right


class RemoteNotFound(CallError):
    """The object is gone."""

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
    """A compare-and-swap was refused: somebody changed the value meanwhile."""

    kind = ErrorKind.STALE
    default_message = "It was changed meanwhile."


class Throttled(CallError):
    """The platform did nothing and asks for a pause of `wait_s` seconds."""

    kind = ErrorKind.THROTTLED

    default_message = "The account asks for a pause between calls."
    wait_s: float

    def __init__(self, wait_s: float, *, platform_text: str = "") -> None:
        super().__init__(wait_s=wait_s, platform_text=platform_text)


class LocalQueueFull(Throttled):
    """Other calls of the same account were still under way; the account itself asked for no pause."""

    default_message = "Other calls to this account were still under way, so nothing was sent."


class PlatformUnavailable(CallError):
    """Not reachable, under maintenance, or a 5xx without our reading."""

    kind = ErrorKind.UNAVAILABLE
    default_message = "The account cannot be reached now."


class CallTimedOut(PlatformUnavailable):
    """The answer, or its next bytes, did not come in time: a smaller question may be answered."""

    default_message = "The account did not answer in time."


class WrongAddress(CallError):
    """Something else answers at the address; `field` is the setting to correct, when that is known."""

    kind = ErrorKind.WRONG_ADDRESS
    default_message = "Something else answers at this address. Check the address of the account."

    def __init__(
        self, message: str | None = None, *, field: str | None = None, platform_text: str = ""
    ) -> None:
        super().__init__(message, platform_text=platform_text)
        self.field = field


class WrongResponder(WrongAddress):
    """A web page or a redirect came in the place of the account's answer; that often passes."""


class BadCertificate(PlatformUnavailable):
    """The certificate of the account's host is not accepted, so that nothing was sent."""


class UnusableResponse(CallError):
    """The answer is not as documented, too large or too deep."""

    kind = ErrorKind.BROKEN

    def __init__(self, what: str, *, platform_text: str = "") -> None:
        super().__init__(f"The account's answer cannot be used: {what}.", platform_text=platform_text)
        self.what = what


class ResponseTooLarge(UnusableResponse):
    """What is there is larger than is ever fetched."""


class CallRefused(CallError):
    """Stopped by the guard before connecting; `rule` names the rule."""

    kind = ErrorKind.REFUSED

    def __init__(self, rule: str, message: str | None = None) -> None:
        super().__init__(message or f"The call was stopped: {rule}.")
        self.rule = rule

    @property
    def sentence(self) -> str:
        """The rule as a sentence of its own."""
        return f"{self.rule[:1].upper()}{self.rule[1:]}."


class WriteFailed(Exception):
    """A write without a usable answer; never repeated by itself."""

    def __init__(self, cause: CallError) -> None:
        super().__init__(cause.message)
        self.cause = cause


class NotSent(WriteFailed):
    """Not one byte of the request left, or the platform says it did nothing: safe to send again."""


class OutcomeUnknown(WriteFailed):
    """The request left, or may have: whether it took effect has to be found out."""
