"""A mail server on loopback that takes, refuses, defers, hangs or ends the connection as a test says."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from typing import Any, cast

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from steward.outbound.mail import MAX_CONNECTIONS

USER, PASSWORD = "shop", "correct horse"


@dataclass
class ReceivedMail:
    """One message as it arrived: the envelope, and the bytes."""

    sender: str
    recipients: list[str]
    content: bytes

    @property
    def message(self) -> EmailMessage:
        """The message as a mail program reads it."""
        return cast("EmailMessage", BytesParser(policy=default).parsebytes(self.content))


@dataclass
class MailScript:
    """What the server does: answers to recipients by address, to the end of a message, and how it ends.

    `end` is `answer`, `hang` or `cut`; `answers` are used one after the other, the last one again.
    """

    replies: Sequence[str] = ("250 2.0.0 Ok: queued as 4F2",)
    recipients: dict[str, str] = field(default_factory=dict)
    end: str = "answer"
    received: list[ReceivedMail] = field(default_factory=list)
    connections: int = 0
    most_at_once: int = 0
    open_now: int = 0
    sign_ins: list[str] = field(default_factory=list)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    held: asyncio.Event | None = None
    is_busy: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Answers a recipient."""
        reply = self.recipients.get(address, "250 2.1.5 Ok")
        if reply.startswith("250"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """Answers a message."""
        if self.open_now == MAX_CONNECTIONS:
            self.is_busy.set()
        if self.held is not None:
            await self.held.wait()
        content = envelope.original_content or b""
        self.received.append(ReceivedMail(str(envelope.mail_from), list(envelope.rcpt_tos), content))
        if self.end == "cut":
            cast("asyncio.Transport", server.transport).abort()
        if self.end == "hang":
            await self.release.wait()
        return self.replies[min(len(self.received), len(self.replies)) - 1]

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        """Takes one user with one password."""
        assert isinstance(data, LoginPassword)
        self.sign_ins.append(mechanism)
        is_right = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
        return AuthResult(success=is_right, handled=False)


class _CountedServer(SMTP):
    """Counts connections and how many are open at the same time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        script = cast("MailScript", self.event_handler)
        if not self.is_upgrade:
            script.connections += 1
            script.open_now += 1
            script.most_at_once = max(script.most_at_once, script.open_now)
        self.is_upgrade = not self.is_upgrade
        super().connection_made(transport)

    is_upgrade = False

    def connection_lost(self, error: Exception | None) -> None:
        cast("MailScript", self.event_handler).open_now -= 1
        super().connection_lost(error)


@asynccontextmanager
async def mail_server(
    script: MailScript,
    *,
    tls: ssl.SSLContext | None = None,
    starttls: ssl.SSLContext | None = None,
    signs_in: bool = False,
) -> AsyncIterator[int]:
    """A running server on a free loopback port: with TLS from the start, with STARTTLS, or with neither."""
    loop = asyncio.get_running_loop()

    def build() -> SMTP:
        return _CountedServer(
            script,
            hostname="mail.internal",
            loop=loop,
            tls_context=starttls,
            authenticator=script.authenticate if signs_in else None,
            auth_require_tls=starttls is not None,
            auth_required=signs_in and starttls is not None,
        )

    server = await loop.create_server(build, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        script.release.set()
        server.close()
