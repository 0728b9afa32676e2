"""Opens connections to mail servers: checked address, verified certificate, sign-in.

The rules are in `docs/design/mail.md#sending`. aiosmtplib speaks the protocol over a socket that is opened
here.
"""

import asyncio
import socket
import ssl
from collections.abc import Collection
from dataclasses import dataclass
from typing import NoReturn

import aiosmtplib

from steward.outbound.address import Resolver, SystemResolver, UrlOrigin, resolve_allowed
from steward.outbound.errors import (
    BadCertificate,
    CallError,
    CallTimedOut,
    PlatformUnavailable,
    Unauthorized,
    UnusableResponse,
)
from steward.outbound.mail_server import DEFER_S, MailFailed, MailResult, MailServer, mail_origin
from steward.outbound.sockets import certificate_problem, tls_context
from steward.telemetry.redact import Secret, SecretRegister

_CONNECT_S = 10.0
# Bytes that one connection may send us: a hundred messages need a few thousand.
_MAX_REPLY_BYTES = 1024 * 1024
# Our name in the greeting: the machine's name is private, and looking it up may take long.
_OUR_NAME = "[127.0.0.1]"


class MailRelay:
    """Carries bytes between a connected socket and aiosmtplib, which stores everything a server sends.

    `near` is the end for aiosmtplib; after 1 MiB of replies the connection ends.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.near, inner = socket.socketpair()
        self.near.setblocking(False)
        inner.setblocking(False)
        self._carrying = asyncio.create_task(self._carry_both(inner, connection))

    async def _carry_both(self, inner: socket.socket, outer: socket.socket) -> None:
        """Carries bytes in both directions, then closes both ends.

        They are closed only once the loop has released them, because their numbers are reused at once.
        """
        try:
            await asyncio.gather(self._carry(outer, inner, _MAX_REPLY_BYTES), self._carry(inner, outer, None))
        finally:
            inner.close()
            outer.close()

    async def _carry(self, source: socket.socket, sink: socket.socket, limit: int | None) -> None:
        """Copies bytes from `source` to `sink` until either ends, or `limit` bytes were copied."""
        loop = asyncio.get_running_loop()
        count = 0
        try:
            while data := await loop.sock_recv(source, 65_536):
                count += len(data)
                if limit is not None and count > limit:
                    break
                await loop.sock_sendall(sink, data)
        except OSError:
            pass
        finally:
            for connection in (source, sink):
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self) -> None:
        """Ends both directions."""
        self._carrying.cancel()


@dataclass(slots=True)
class MailSession:
    """A signed-in connection to a server; `sent` counts its messages."""

    smtp: aiosmtplib.SMTP
    relay: MailRelay
    sent: int = 0
    expiry: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Closes the connection at once."""
        if self.expiry is not None:
            self.expiry.cancel()
        self.smtp.close()
        self.relay.close()


class MailDialer:
    """Opens sessions; `resolver` and `tls` replace the machine's resolver and certificate authorities."""

    def __init__(
        self,
        register: SecretRegister,
        private_hosts: Collection[str],
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._register = register
        self._private_hosts = frozenset(private_hosts)
        self._resolver = resolver or SystemResolver()
        self._tls = tls

    async def open(self, server: MailServer) -> MailSession:
        """Connects to a checked address, encrypts and signs in. Raises MailFailed, CallRefused."""
        origin = mail_origin(server.address, self._private_hosts)
        return await self.greet(await self._connect(origin), server)

    async def greet(self, relay: MailRelay, server: MailServer) -> MailSession:
        """Encrypts and signs in over a connection. Raises MailFailed after closing it."""
        origin = mail_origin(server.address, self._private_hosts)
        smtp = aiosmtplib.SMTP(
            hostname=origin.host,
            sock=relay.near,
            timeout=server.command_s,
            use_tls=origin.scheme == "smtps",
            start_tls=False,
            local_hostname=_OUR_NAME,
            tls_context=self._tls_context(),
        )
        session = MailSession(smtp, relay)
        try:
            await self._sign_on(session, server, origin)
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            session.close()
            self._fail_opening(error, origin.host)
        except BaseException:  # also when cancelled
            session.close()
            raise
        return session

    async def _sign_on(self, session: MailSession, server: MailServer, origin: UrlOrigin) -> None:
        """Greets the server, encrypts and signs in. Raises MailFailed.

        Only the operator's private hosts may do without encryption.
        """
        smtp = session.smtp
        await smtp.connect()
        await smtp.ehlo()
        if origin.scheme == "smtp":
            if smtp.supports_extension("starttls"):
                await smtp.starttls()
                # Answers sent before encryption would be read as if sent after it.
                if smtp.protocol is not None and smtp.protocol._buffer:
                    raise MailFailed(
                        MailResult.DEFERRED, UnusableResponse("the mail server spoke before it encrypted")
                    )
                await smtp.ehlo()
            elif origin.entry not in self._private_hosts:
                message = f"{origin.host} offers no encryption (STARTTLS), so nothing was sent to it."
                raise MailFailed(MailResult.DEFERRED, BadCertificate(message))
        if server.user is not None and server.password is not None:
            await self._sign_in(smtp, server.user, server.password)

    async def _sign_in(self, smtp: aiosmtplib.SMTP, user: str, password: Secret) -> None:
        self._register.add(password.reveal())
        if not smtp.supports_extension("auth"):
            message = (
                "The mail server offers no sign-in on this port. Check the port, or leave user and password"
                " out."
            )
            raise MailFailed(MailResult.DEFERRED, Unauthorized(message))
        try:
            await smtp.login(user, password.reveal())
        except aiosmtplib.SMTPAuthenticationError as error:
            text = self._register.clean(error.message)
            if error.code < 500:
                later = PlatformUnavailable("The mail server accepts no sign-ins now.", wait_s=DEFER_S)
                raise MailFailed(MailResult.DEFERRED, later, error.code, text) from None
            message = "The mail server did not accept user and password. Reconnect it."
            raise MailFailed(
                MailResult.DEFERRED, Unauthorized(message, platform_text=text), error.code, text
            ) from None

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = tls_context()
        return self._tls

    async def _connect(self, origin: UrlOrigin) -> MailRelay:
        """Connects to a checked address of the host. Raises MailFailed, CallRefused."""
        loop = asyncio.get_running_loop()
        failure: CallError = PlatformUnavailable("The mail server cannot be reached now.")
        try:
            async with asyncio.timeout(_CONNECT_S):
                addresses = await resolve_allowed(
                    origin.host, origin.port, self._resolver, self._private_hosts
                )
                for address in addresses[:4]:
                    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
                    connection = socket.socket(family, socket.SOCK_STREAM)
                    connection.setblocking(False)
                    try:
                        await loop.sock_connect(connection, (str(address), origin.port))
                    except OSError:
                        connection.close()
                        continue
                    except BaseException:  # also when cancelled
                        connection.close()
                        raise
                    return MailRelay(connection)
        except TimeoutError:
            failure = CallTimedOut("The mail server cannot be reached now.")
        except PlatformUnavailable as error:
            failure = error
        raise MailFailed(MailResult.DEFERRED, failure)

    def _fail_opening(self, error: Exception, host: str) -> NoReturn:
        """Raises MailFailed with the reason why a connection could not be opened."""
        why = certificate_problem(error)
        if why is not None:
            message = f"The certificate of {host} was not accepted: {why}."
            raise MailFailed(MailResult.DEFERRED, BadCertificate(message)) from None
        if isinstance(error, aiosmtplib.SMTPResponseException):
            text = self._register.clean(error.message)
            message = f"The mail server refused the connection (code {error.code})."
            cause: CallError = PlatformUnavailable(message, wait_s=DEFER_S, platform_text=text)
            raise MailFailed(MailResult.DEFERRED, cause, error.code, text) from None
        if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
            message = f"{host} does not encrypt on this port. Check the port and the kind of encryption."
            raise MailFailed(MailResult.DEFERRED, BadCertificate(message)) from None
        timed_out = isinstance(error, TimeoutError)
        raise MailFailed(
            MailResult.DEFERRED,
            CallTimedOut("The mail server did not answer in time.")
            if timed_out
            else PlatformUnavailable("The mail server ended the connection."),
        ) from None
