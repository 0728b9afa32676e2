"""What can go wrong with a call to a platform: one family for all connectors (connectors 4)."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

PLATFORM_TEXT = 300


class CallError(Exception):
    """A failed call: `message` in our own words, the platform's text apart, cut and redacted."""

    kind: ClassVar[str] = ""
    words: ClassVar[str] = ""

    def __init__(self, message: str | None = None, *, platform_text: str = "") -> None:
        super().__init__(message or self.words)
        self.message = message or self.words
        self.platform_text = platform_text[:PLATFORM_TEXT]


class Unauthorized(CallError):
    """Key unknown, wrong, expired or revoked; http instead of https."""

    kind = "unauthorized"
    words = "The account did not accept its key. Reconnect it."

    def __init__(self, why: str | None = None, *, platform_text: str = "") -> None:
        super().__init__(why, platform_text=platform_text)


class Forbidden(CallError):
    """The key is good, the right is missing."""

    kind = "forbidden"

    def __init__(self, right: str, message: str | None = None, *, platform_text: str = "") -> None:
        super().__init__(message or f"The key lacks the right to {right}.", platform_text=platform_text)
        self.right = right


class NotFound(CallError):
    """The object is gone."""

    kind = "not_found"
    words = "It no longer exists."


class Invalid(CallError):
    """The platform refused the value; `fields` maps its field names to reasons."""

    kind = "invalid"

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

    kind = "stale"
    words = "It was changed meanwhile."


class Throttled(CallError):
    """Nothing was done; come again after `wait_s` seconds."""

    kind = "throttled"

    def __init__(self, wait_s: float, *, platform_text: str = "") -> None:
        super().__init__("The account asks for a pause between calls.", platform_text=platform_text)
        self.wait_s = wait_s


class Unavailable(CallError):
    """Not reachable, under maintenance, or a 5xx without our reading."""

    kind = "unavailable"
    words = "The account cannot be reached now."

    def __init__(
        self, message: str | None = None, *, wait_s: float | None = None, platform_text: str = ""
    ) -> None:
        super().__init__(message, platform_text=platform_text)
        self.wait_s = wait_s


class WrongAddress(CallError):
    """Something else lives at the address."""

    kind = "wrong_address"
    words = "Something else answers at this address. Check the address of the account."


class Broken(CallError):
    """The answer is not as documented, too large or too deep."""

    kind = "broken"

    def __init__(self, what: str, *, platform_text: str = "") -> None:
        super().__init__(f"The account's answer cannot be used: {what}.", platform_text=platform_text)
        self.what = what


class TooLarge(Broken):
    """What is there is larger than is ever fetched."""


class Refused(CallError):
    """Stopped by the guard before connecting; `rule` names the rule."""

    kind = "refused"

    def __init__(self, rule: str, message: str | None = None) -> None:
        super().__init__(message or f"The call was stopped: {rule}.")
        self.rule = rule


class WriteFailed(Exception):
    """A write without a usable answer; never repeated by itself (connectors 5.5)."""

    def __init__(self, cause: CallError) -> None:
        super().__init__(cause.message)
        self.cause = cause


class NotSent(WriteFailed):
    """Not one byte of the request left, or the platform says it did nothing: safe to send again."""


class OutcomeUnknown(WriteFailed):
    """The request left, or may have: whether it took effect has to be found out."""
