"""Mail of one connection: a message for a granted write, and the check of an account."""

from collections.abc import Sequence
from datetime import datetime

from steward.outbound.endpoint import Basic
from steward.outbound.errors import CallRefused, NotSent
from steward.outbound.grant import WriteGrant
from steward.outbound.mail_message import MailMessage
from steward.outbound.mail_server import COMMAND_S, MESSAGE_S, MailOutcome, MailServer
from steward.outbound.transport import HttpTransport, Target
from steward.telemetry.redact import Secret


class MailWriteClient:
    """Sends one message at most once, for a write whose intent is committed."""

    def __init__(self, transport: HttpTransport, target: Target, grant: WriteGrant) -> None:
        self._transport = transport
        self._target = target
        self._grant = grant
        self._used: set[str] = set()

    def now(self) -> datetime:
        """Returns the time for the message's date."""
        return self._transport.clock.now()

    async def send(self, message: MailMessage, *, write_keys: Sequence[str], key: str) -> MailOutcome:
        """Returns the outcome of the message. Raises NotSent when the grant does not cover it."""
        try:
            if self._target.integration_id is None:
                raise CallRefused("a write needs a stored connection")
            self._grant.check(write_keys, key, connection=self._target.integration_id)
            now = self._transport.clock.now()
            self._grant.check_time(now)
            if self._used & set(write_keys):
                raise CallRefused("this attempt of the write was sent already")
        except CallRefused as refusal:
            raise NotSent(refusal) from None
        self._used |= set(write_keys)
        return await self._transport.mail.send(
            _server_of(self._target),
            message,
            max_wait_s=max((self._grant.send_by - now).total_seconds(), 0.0),
            check_allowed=self._grant.check_time,
        )


async def check_mail(transport: HttpTransport, target: Target) -> tuple[str, ...]:
    """Connects, encrypts and signs in without sending; returns the server's extensions. Raises CallError."""
    return await transport.mail.check(_server_of(target))


def _server_of(target: Target) -> MailServer:
    endpoint = target.endpoint
    user: str | None = None
    password: Secret | None = None
    if isinstance(endpoint.credentials, Basic):
        user, password = endpoint.credentials.user.reveal(), endpoint.credentials.password
    return MailServer(
        endpoint.base_url,
        user,
        password,
        target.org,
        target.integration_id,
        min(COMMAND_S, endpoint.timeouts.write_s),
        min(MESSAGE_S, endpoint.timeouts.write_s),
    )
