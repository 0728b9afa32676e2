"""The guarded SMTP client: checked addresses, verified certificates, one attempt, a typed outcome.

The rules are in `docs/design/mail.md#sending`. aiosmtplib speaks the protocol over a socket that is opened
here.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit

import aiosmtplib

from steward.clock import Clock
from steward.outbound.address import Resolver
from steward.outbound.errors import (
    CallError,
    CallRefused,
    CallTimedOut,
    Invalid,
    LocalQueueFull,
    PlatformUnavailable,
    UnusableResponse,
)
from steward.outbound.mail_message import MailMessage
from steward.outbound.mail_server import DEFER_S, MailFailed, MailOutcome, MailResult, MailServer
from steward.outbound.mail_session import MailDialer, MailSession
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister

MAX_CONNECTIONS = 4
_MESSAGES_PER_CONNECTION = 100
_IDLE_S = 20.0
_PROCESS_MESSAGES = 32
_DOT = re.compile(rb"(?m)^\.")


@dataclass(slots=True)
class _Pool:
    """The connections of one account: at most four at once; idle ones are reused, last used first."""

    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONNECTIONS))
    idle: list[MailSession] = field(default_factory=list)
    users: int = 0


class MailTransport:
    """Sends messages to mail servers; app.py builds it with the HTTP transport.

    `resolver` and `tls` replace the machine's resolver and certificate authorities.
    """

    def __init__(
        self,
        clock: Clock,
        register: SecretRegister,
        log: Log,
        *,
        private_hosts: Collection[str] = (),
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.clock = clock
        self._register = register
        self._log = log
        self._dialer = MailDialer(register, private_hosts, resolver, tls)
        self._pools: dict[MailServer, _Pool] = {}
        self._process_slots = asyncio.Semaphore(_PROCESS_MESSAGES)

    async def send(
        self,
        server: MailServer,
        message: MailMessage,
        *,
        max_wait_s: float | None = None,
        check_allowed: Callable[[datetime], None] | None = None,
    ) -> MailOutcome:
        """Sends a message once and returns its outcome; never raises for a server's response.

        `max_wait_s` limits the wait for a free connection; `check_allowed` is called after it and may raise
        CallRefused.
        """
        started_at = self.clock.monotonic()
        with self._pool_of(server) as pool:
            try:
                async with self._slot(pool, max_wait_s):
                    started_at = self.clock.monotonic()  # the server did not cause the wait
                    if check_allowed is not None:
                        check_allowed(self.clock.now())
                    outcome = await self._send_within_time(pool, server, message)
            except (CallRefused, LocalQueueFull) as error:
                outcome = MailOutcome(MailResult.DEFERRED, error)
        self._record(server, "mail.send", outcome, size=len(message.content), started_at=started_at)
        return outcome

    async def check(self, server: MailServer) -> tuple[str, ...]:
        """Connects, encrypts and signs in without sending a message; returns the server's extensions.

        Raises CallError.
        """
        started_at = self.clock.monotonic()
        outcome = MailOutcome(MailResult.ACCEPTED)
        try:
            async with asyncio.timeout(server.message_s):
                session = await self._dialer.open(server)
                try:
                    return tuple(sorted(session.smtp.esmtp_extensions))
                finally:
                    session.close()
        except MailFailed as failure:
            outcome = failure.outcome
            raise (outcome.error or PlatformUnavailable()) from None
        except TimeoutError:
            raise CallTimedOut("The mail server did not answer in time.") from None
        finally:
            self._record(server, "mail.check", outcome, size=0, started_at=started_at)

    async def aclose(self) -> None:
        """Closes every idle connection."""
        for pool in self._pools.values():
            for session in pool.idle:
                session.close()
        self._pools.clear()

    @asynccontextmanager
    async def _slot(self, pool: _Pool, max_wait_s: float | None) -> AsyncIterator[None]:
        """Waits for a connection of the account and of the process. Raises LocalQueueFull."""
        try:
            async with asyncio.timeout(max_wait_s):
                await pool.slots.acquire()
                try:
                    await self._process_slots.acquire()
                except BaseException:  # also when cancelled
                    pool.slots.release()
                    raise
        except TimeoutError:
            raise LocalQueueFull(1.0) from None
        try:
            yield
        finally:
            self._process_slots.release()
            pool.slots.release()

    @contextmanager
    def _pool_of(self, server: MailServer) -> Iterator[_Pool]:
        pool = self._pools.setdefault(server, _Pool())
        pool.users += 1
        try:
            yield pool
        finally:
            pool.users -= 1
            self._drop_if_unused(server, pool)

    def _drop_if_unused(self, server: MailServer, pool: _Pool) -> None:
        if not pool.users and not pool.idle:
            self._pools.pop(server, None)

    async def _send_within_time(self, pool: _Pool, server: MailServer, message: MailMessage) -> MailOutcome:
        progress = _Progress()
        try:
            async with asyncio.timeout(server.message_s):
                return await self._send_on_a_connection(pool, server, message, progress)
        except MailFailed as failure:
            return failure.outcome
        except TimeoutError:
            return _interrupted(progress, CallTimedOut("The mail server did not answer in time."))

    async def _send_on_a_connection(
        self, pool: _Pool, server: MailServer, message: MailMessage, progress: "_Progress"
    ) -> MailOutcome:
        session = await self._reused(pool) or await self._dialer.open(server)
        is_usable = False
        try:
            outcome = await self._transact(session, message, progress)
            is_usable = outcome.result is not MailResult.UNKNOWN
            return outcome
        finally:
            session.sent += 1
            if is_usable and session.smtp.is_connected and session.sent < _MESSAGES_PER_CONNECTION:
                self._keep(server, pool, session)
            else:
                session.close()

    async def _reused(self, pool: _Pool) -> MailSession | None:
        """Returns an idle connection that still answers; closes dead ones."""
        while pool.idle:
            session = pool.idle.pop()
            if session.expiry is not None:
                session.expiry.cancel()
            try:
                await session.smtp.rset()
            except (aiosmtplib.SMTPException, OSError):
                session.close()
            except asyncio.CancelledError:
                session.close()
                raise
            else:
                return session
        return None

    def _keep(self, server: MailServer, pool: _Pool, session: MailSession) -> None:
        def expire() -> None:
            if session in pool.idle:
                pool.idle.remove(session)
            session.close()
            self._drop_if_unused(server, pool)

        session.expiry = asyncio.get_running_loop().call_later(_IDLE_S, expire)
        pool.idle.append(session)

    async def _transact(
        self, session: MailSession, message: MailMessage, progress: "_Progress"
    ) -> MailOutcome:
        """Sends envelope and content over an open connection. Raises MailFailed before the content."""
        smtp = session.smtp
        try:
            options = [f"SIZE={len(message.content)}"] if smtp.supports_extension("size") else []
            await smtp.mail(message.sender, options=options)
            rejected = await self._name_recipients(smtp, message.recipients)
            start = await smtp.execute_command(b"DATA")
            if smtp.protocol is None or start.code != aiosmtplib.SMTPStatus.start_input:
                raise self._answered(start.code, start.message)
            progress.has_sent_content = True
            smtp.protocol.write(_DOT.sub(b"..", message.content) + b".\r\n")
            reply = await smtp.protocol.read_response(timeout=smtp.timeout)
        except aiosmtplib.SMTPResponseException as error:
            if progress.has_sent_content:  # an unreadable response says nothing about the message
                return _interrupted(
                    progress, UnusableResponse("the mail server's response is not one of SMTP")
                )
            raise self._answered(error.code, error.message) from None
        except (aiosmtplib.SMTPException, OSError) as error:
            if isinstance(error, TimeoutError):
                return _interrupted(progress, CallTimedOut("The mail server did not answer in time."))
            return _interrupted(progress, PlatformUnavailable("The mail server ended the connection."))
        if reply.code != aiosmtplib.SMTPStatus.completed:
            return self._answered(reply.code, reply.message).outcome
        text = self._register.clean(reply.message)[:300]
        return MailOutcome(MailResult.ACCEPTED, None, reply.code, text, rejected)

    async def _name_recipients(self, smtp: aiosmtplib.SMTP, recipients: tuple[str, ...]) -> tuple[str, ...]:
        """Names every recipient and returns the refused ones. Raises MailFailed when all are refused."""
        refusals: dict[str, aiosmtplib.SMTPRecipientRefused] = {}
        for recipient in recipients:
            try:
                await smtp.rcpt(recipient)
            except aiosmtplib.SMTPRecipientRefused as refusal:
                refusals[recipient] = refusal
        if len(refusals) == len(recipients):
            decisive = min(refusals.values(), key=lambda refusal: refusal.code)
            raise self._answered(decisive.code, decisive.message)
        return tuple(refusals)

    def _answered(self, code: int, message: str) -> MailFailed:
        """Returns the failure for a response: 4xx is temporary, 5xx permanent."""
        text = self._register.clean(message)[:300]
        if 400 <= code < 500:
            words = f"The mail server does not take the message now (code {code})."
            error: CallError = PlatformUnavailable(words, wait_s=DEFER_S, platform_text=text)
            return MailFailed(MailResult.DEFERRED, error, code, text)
        words = f"The mail server refused the message (code {code})."
        return MailFailed(MailResult.REFUSED, Invalid([], words, platform_text=text), code, text)

    def _record(
        self, server: MailServer, operation: str, outcome: MailOutcome, *, size: int, started_at: float
    ) -> None:
        """Logs a call, but never addresses, subjects or texts."""
        self._log.info(
            "call",
            org=server.org,
            integration=server.integration_id,
            connector="smtp",
            operation=operation,
            host=urlsplit(server.address).hostname or "",
            status=outcome.code or 0,
            bytes=size,
            seconds=round(self.clock.monotonic() - started_at, 3),
            attempt=1,
        )


@dataclass(slots=True)
class _Progress:
    """Whether the content of a message may have reached the server."""

    has_sent_content: bool = False


def _interrupted(progress: _Progress, error: CallError) -> MailOutcome:
    return MailOutcome(MailResult.UNKNOWN if progress.has_sent_content else MailResult.DEFERRED, error)
