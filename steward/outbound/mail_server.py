"""Mail servers and outcomes of messages: values, without sockets."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import SplitResult, urlsplit

from steward.model.ids import IntegrationId, OrgId
from steward.outbound.address import UrlOrigin, looks_like_address, normalized
from steward.outbound.errors import CallError, CallRefused
from steward.telemetry.redact import Secret

COMMAND_S = 30.0
MESSAGE_S = 60.0
# The ports of mail servers; any other port counts like a private address.
_PORTS = frozenset((25, 465, 587, 2465, 2525, 2587))
# The delays after which a temporarily declined message is tried again.
DEFER_S = 120.0


class MailResult(StrEnum):
    """The result of a message: accepted, refused permanently, to be tried again, or unknown."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    DEFERRED = "deferred"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class MailOutcome:
    """The outcome of one message.

    `deferred` means that it was certainly not accepted, `unknown` that the connection ended after its bytes
    were sent. `error` says why it was not accepted. `code` and `reply` are the server's last response,
    redacted; `rejected` are recipients that it refused although it accepted others.
    """

    result: MailResult
    error: CallError | None = None
    code: int | None = None
    reply: str = ""
    rejected: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MailServer:
    """An account at a mail server; `org` and `integration_id` are null for the operator's own.

    `address` is `smtps://host:port`, with TLS from the start, or `smtp://host:port`, with STARTTLS.
    """

    address: str
    user: str | None = None
    password: Secret | None = None
    org: OrgId | None = None
    integration_id: IntegrationId | None = None
    command_s: float = COMMAND_S
    message_s: float = MESSAGE_S


def operators_server(address: str, user: str | None, password: str | None) -> MailServer:
    """Returns the operator's own mail server from the settings."""
    return MailServer(address, user, None if password is None else Secret(password))


def is_mail_address(address: str) -> bool:
    """Returns whether an address is a mail server's."""
    return address.startswith(("smtp://", "smtps://"))


def mail_origin(address: str, private: Collection[str]) -> UrlOrigin:
    """Returns scheme, host and port of a mail server's address if it may be called.

    Raises CallRefused for another scheme, a host that is not a name, and a port other than those of mail
    servers, unless `host:port` is an exact entry of `private` (STEWARD_ALLOW_PRIVATE_HOSTS).
    """
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise CallRefused("the address of a mail server is a host and a port") from None
    is_plain = address.isprintable() and " " not in address
    if (
        not is_plain
        or _has_more(parts)
        or parts.scheme not in ("smtp", "smtps")
        or not parts.hostname
        or not port
    ):
        raise CallRefused("the address of a mail server is a host and a port")
    origin = UrlOrigin(parts.scheme, normalized(parts.hostname), port)
    _check_host(origin, private)
    return origin


def _has_more(parts: SplitResult) -> bool:
    return parts.username is not None or any((parts.path, parts.query, parts.fragment))


def _check_host(origin: UrlOrigin, private: Collection[str]) -> None:
    if origin.entry in private:
        return
    if looks_like_address(origin.host):
        raise CallRefused("a host is given by name, not as an address")
    if not re.fullmatch(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)+", origin.host):
        raise CallRefused("the host is not a name")
    if origin.port not in _PORTS:
        raise CallRefused(f"mail is sent to one of the ports {', '.join(map(str, sorted(_PORTS)))}")


class MailFailed(Exception):
    """Raised for a message that was not accepted, with its outcome."""

    def __init__(
        self, result: MailResult, error: CallError, code: int | None = None, reply: str = ""
    ) -> None:
        super().__init__(error.message)
        self.outcome = MailOutcome(result, error, code, reply)
