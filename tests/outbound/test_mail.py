"""Mail over real sockets to a real server: what it takes, refuses, defers, and what is not known.

See docs/design/mail.md#sending.
"""

import asyncio
import socket
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from steward.model.ids import IntegrationId, OrgId
from steward.outbound.errors import (
    BadCertificate,
    CallRefused,
    CallTimedOut,
    Invalid,
    LocalQueueFull,
    PlatformUnavailable,
    Unauthorized,
    UnusableResponse,
)
from steward.outbound.mail import MailTransport
from steward.outbound.mail_message import Mailbox, MailContent, MailMessage, compose
from steward.outbound.mail_server import MailFailed, MailOutcome, MailResult, MailServer, mail_origin
from steward.outbound.mail_session import MailDialer, MailRelay
from steward.outbound.sockets import tls_context
from steward.telemetry.log import Log
from steward.telemetry.redact import Secret, SecretRegister
from tests.fake_clock import FakeClock
from tests.outbound.mail_server import PASSWORD, USER, MailScript, mail_server
from tests.outbound.test_address import REFUSED, Names
from tests.outbound.test_transport import certificate, listening

NAME = "mail.internal"
CONTENT = MailContent(
    Mailbox("shop@shop.example", "Northwind Tea"),
    [Mailbox("jane@customer.example")],
    "Your order",
    "run-1",
    datetime(2026, 11, 22, 9, 30, tzinfo=UTC),
    text="It is on its way.\n.\n..two dots\n",
)
MESSAGE = compose(CONTENT)


def transport(names: Names | None = None, *, private: list[str], tls: Any = None) -> MailTransport:
    """A client with sockets of its own, and what it logs."""
    clock, register = FakeClock(), SecretRegister()
    lines: list[str] = []
    client = MailTransport(
        clock,
        register,
        Log(lines.append, clock, register),
        private_hosts=private,
        resolver=names or Names("127.0.0.1"),
        tls=tls,
    )
    client.lines = lines  # type: ignore[attr-defined]
    return client


async def send(port: int, message: MailMessage = MESSAGE, **options: Any) -> MailOutcome:
    """Sends one message over a plain connection to a host of the private list."""
    client = transport(private=[f"{NAME}:{port}"])
    server = replace(MailServer(f"smtp://{NAME}:{port}", command_s=60.0, message_s=60.0), **options)
    try:
        return await client.send(server, message)
    finally:
        await client.aclose()


async def test_a_message_arrives_as_it_was_composed() -> None:
    """Envelope and bytes are those of the message; lines of dots are as before."""
    script = MailScript()
    async with mail_server(script) as port:
        outcome = await send(port)
    assert (outcome.result, outcome.code, outcome.error) == (MailResult.ACCEPTED, 250, None)
    assert "queued as 4F2" in outcome.reply
    [received] = script.received
    assert (received.sender, received.recipients) == ("shop@shop.example", ["jane@customer.example"])
    assert received.content == MESSAGE.content
    assert received.message.get_content().splitlines() == ["It is on its way.", ".", "..two dots"]


@pytest.mark.parametrize(
    ("reply", "result", "error"),
    [
        ("550 5.7.1 No", MailResult.REFUSED, Invalid),
        ("554 5.6.0 Spam", MailResult.REFUSED, Invalid),
        ("451 4.7.1 Later", MailResult.DEFERRED, PlatformUnavailable),
        ("421 4.3.2 Closing", MailResult.DEFERRED, PlatformUnavailable),
    ],
)
async def test_the_response_to_the_content_decides(
    reply: str, result: MailResult, error: type[Exception]
) -> None:
    """4xx is for now and names a wait, 5xx is permanently."""
    script = MailScript(replies=[reply])
    async with mail_server(script) as port:
        outcome = await send(port)
    assert (outcome.result, outcome.code) == (result, int(reply[:3]))
    assert isinstance(outcome.error, error)
    assert (outcome.error.wait_s is not None) is (result is MailResult.DEFERRED)


async def test_greylisting_defers_and_the_next_try_is_accepted() -> None:
    """The server refuses every recipient for now; nothing of the message is sent."""
    script = MailScript(recipients={"jane@customer.example": "450 4.2.0 Greylisted"})
    async with mail_server(script) as port:
        first = await send(port)
        script.recipients.clear()
        second = await send(port)
    assert (first.result, second.result) == (MailResult.DEFERRED, MailResult.ACCEPTED)
    assert len(script.received) == 1


async def test_recipients_refused_among_others_are_named() -> None:
    """The others get the message."""
    script = MailScript(recipients={"gone@customer.example": "550 5.1.1 Unknown"})
    both = compose(replace(CONTENT, to=[Mailbox("gone@customer.example"), Mailbox("jane@customer.example")]))
    async with mail_server(script) as port:
        outcome = await send(port, both)
    assert (outcome.result, outcome.rejected) == (MailResult.ACCEPTED, ("gone@customer.example",))
    assert script.received[0].recipients == ["jane@customer.example"]


async def test_of_refused_recipients_one_that_is_refused_for_now_defers() -> None:
    """Trying again may reach that one; when all are refused permanently, so is the message."""
    both = compose(replace(CONTENT, to=[Mailbox("a@customer.example"), Mailbox("b@customer.example")]))
    script = MailScript(recipients={"a@customer.example": "550 No", "b@customer.example": "450 Later"})
    async with mail_server(script) as port:
        assert (await send(port, both)).result is MailResult.DEFERRED
        script.recipients["b@customer.example"] = "550 No"
        assert (await send(port, both)).result is MailResult.REFUSED


@pytest.mark.parametrize("end", ["cut", "hang"])
async def test_a_connection_that_ends_after_the_content_is_unknown(end: str) -> None:
    """The message may have been accepted, so nobody sends it again by itself."""
    script = MailScript(end=end)
    async with mail_server(script) as port:
        for command_s in (0.5, 5.0, 50.0):  # a machine that needs longer before the content gets it
            outcome = await send(port, command_s=command_s)
            if script.received:
                break
        assert outcome.result is MailResult.UNKNOWN
        assert isinstance(outcome.error, CallTimedOut if end == "hang" else PlatformUnavailable)
    assert len(script.received) == 1


async def talk(replies: dict[bytes, bytes], *, greeting: bytes = b"220 hello\r\n") -> Any:
    """A server that answers commands by their first word; an empty reply ends the connection."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        while line := await reader.readline():
            reply = replies.get(line.split()[0].upper(), b"250 ok\r\n")
            if not reply:
                return
            writer.write(reply)
            await writer.drain()

    return served


@pytest.mark.parametrize("command", [b"EHLO", b"MAIL", b"RCPT", b"DATA"])
async def test_a_connection_that_ends_before_the_content_is_deferred(command: bytes) -> None:
    """Nothing of the message was sent, so it can be sent again."""
    async with listening(await talk({command: b""})) as port:
        outcome = await send(port)
    assert outcome.result is MailResult.DEFERRED
    assert isinstance(outcome.error, PlatformUnavailable)


@pytest.mark.parametrize(
    ("command", "reply", "result"),
    [
        (b"MAIL", b"550 no\r\n", MailResult.REFUSED),
        (b"MAIL", b"452 full\r\n", MailResult.DEFERRED),
        (b"DATA", b"554 no\r\n", MailResult.REFUSED),
        (b"DATA", b"451 later\r\n", MailResult.DEFERRED),
        (b"EHLO", b"550 no\r\n", MailResult.DEFERRED),
    ],
)
async def test_a_response_before_the_content_decides_too(
    command: bytes, reply: bytes, result: MailResult
) -> None:
    """A server that speaks of itself alone, at its greeting, never refuses a message permanently."""
    async with listening(await talk({command: reply})) as port:
        assert (await send(port)).result is result


async def test_a_silent_server_and_an_endless_response_end_in_time() -> None:
    """A command waits its time; a megabyte of reply ends the connection."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220-")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    async with listening(silent) as port:
        outcome = await send(port, command_s=0.5)
        assert outcome.result is MailResult.DEFERRED
        assert isinstance(outcome.error, CallTimedOut)
    async with listening(endless) as port:
        outcome = await send(port)
        assert (outcome.result, type(outcome.error)) == (MailResult.DEFERRED, PlatformUnavailable)


async def test_a_malformed_response_to_the_content_is_unknown() -> None:
    """What cannot be read says nothing about the message."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        while not (await reader.readline()).startswith(b"DATA"):
            writer.write(b"250 ok\r\n")
        writer.write(b"354 go on\r\n")
        await reader.readuntil(b"\r\n.\r\n")
        writer.write(b"certainly\r\n")
        await reader.read()

    async with listening(served) as port:
        outcome = await send(port)
    assert (outcome.result, type(outcome.error)) == (MailResult.UNKNOWN, UnusableResponse)


async def test_tls_from_the_start_and_starttls_with_sign_in(tmp_path: Path) -> None:
    """The name in the certificate is the configured one, the connection goes to the checked address."""
    context, authority = certificate(tmp_path, NAME)
    for scheme, options in (("smtps", {"tls": context}), ("smtp", {"starttls": context})):
        script = MailScript()
        async with mail_server(script, signs_in=scheme == "smtp", **options) as port:
            client = transport(private=[f"{NAME}:{port}"], tls=tls_context(authority))
            server = MailServer(f"{scheme}://{NAME}:{port}")
            if scheme == "smtp":
                server = replace(server, user=USER, password=Secret(PASSWORD))
            assert (await client.send(server, MESSAGE)).result is MailResult.ACCEPTED
            assert await client.check(server)
            await client.aclose()
        assert len(script.received) == 1


async def test_a_certificate_of_an_unknown_issuer_or_another_name_gets_nothing(tmp_path: Path) -> None:
    """With TLS from the start and with STARTTLS."""
    for name, is_trusted, words in (
        (NAME, False, "self-signed"),
        ("other.internal", True, "belongs to another host"),
    ):
        context, authority = certificate(tmp_path, name)
        for scheme, options in (("smtps", {"tls": context}), ("smtp", {"starttls": context})):
            script = MailScript()
            async with mail_server(script, **options) as port:
                tls = tls_context(authority if is_trusted else None)
                client = transport(private=[f"{NAME}:{port}"], tls=tls)
                outcome = await client.send(MailServer(f"{scheme}://{NAME}:{port}"), MESSAGE)
                await client.aclose()
            assert (outcome.result, type(outcome.error)) == (MailResult.DEFERRED, BadCertificate)
            assert words in str(outcome.error)
            assert script.received == []


async def test_a_server_without_encryption_is_refused_unless_it_is_on_the_private_list() -> None:
    """On the list it gets the message (as the other tests do); beside it not even the name of a sender."""
    commands: list[bytes] = []

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        while line := await reader.readline():
            commands.append(line.split()[0])
            writer.write(b"250 ok\r\n")

    async with listening(served) as port:
        connection = socket.socket()
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        with pytest.raises(MailFailed) as failure:
            await MailDialer(SecretRegister(), ()).greet(
                MailRelay(connection), MailServer("smtp://mail.example:587")
            )
    assert "no encryption" in str(failure.value)
    assert commands == [b"EHLO"]


async def test_responses_before_encryption_are_not_read_as_responses_after_it(tmp_path: Path) -> None:
    """Somebody on the way cannot put words into the mouth of the server."""
    async with listening(
        await talk({b"EHLO": b"250-hello\r\n250 STARTTLS\r\n", b"STARTTLS": b"220 go\r\n250 AUTH PLAIN\r\n"})
    ) as port:
        outcome = await send(port)
    assert outcome.result is MailResult.DEFERRED


async def test_a_wrong_password_says_so_and_is_in_no_log() -> None:
    """Nothing is sent; the text of the server is kept apart."""
    script = MailScript()
    async with mail_server(script, signs_in=True) as port:
        client = transport(private=[f"{NAME}:{port}"])
        server = MailServer(f"smtp://{NAME}:{port}", USER, Secret("another word"))
        outcome = await client.send(server, MESSAGE)
        with pytest.raises(Unauthorized):
            await client.check(server)
        await client.aclose()
    assert (outcome.result, type(outcome.error)) == (MailResult.DEFERRED, Unauthorized)
    logged = "".join(client.lines)  # type: ignore[attr-defined]
    assert "mail.send" in logged
    for secret in ("another word", "jane@customer.example", "Your order", "on its way"):
        assert secret not in logged
    assert script.received == []


@pytest.mark.parametrize("address", REFUSED)
async def test_a_host_that_leads_to_an_address_that_is_not_public_is_never_connected_to(address: str) -> None:
    """See docs/design/connectors.md#addresses: the guard holds for mail as for HTTP."""
    client = transport(Names(address), private=[])
    outcome = await client.send(MailServer("smtps://mail.example:465"), MESSAGE)
    assert (outcome.result, type(outcome.error)) == (MailResult.DEFERRED, CallRefused)
    assert "not public" in str(outcome.error)


@pytest.mark.parametrize(
    "address",
    [
        "smtps://127.0.0.1:465", "smtps://[::1]:465", "smtps://2130706433:465", "smtps://mail:465",
        "smtps://mail.example:22", "smtps://mail.example:443", "smtp://mail.example:6379",
        "https://mail.example:465", "smtps://mail.example", "smtps://user@mail.example:465",
        "smtps://mail.example:465/x", "smtps://mail.example:99999", "smtps://mail\r\n.example:465",
        "mail.example",
    ],
)  # fmt: skip
def test_odd_addresses_of_mail_servers_are_refused(address: str) -> None:
    """See docs/design/mail.md#sending."""
    with pytest.raises(CallRefused):
        mail_origin(address, ())


def test_only_an_exact_entry_of_the_private_list_opens_other_hosts_and_ports() -> None:
    """See docs/design/mail.md#sending."""
    private = {"127.0.0.1:1025"}
    assert mail_origin("smtp://127.0.0.1:1025", private).entry == "127.0.0.1:1025"
    assert mail_origin("smtp://Mail.Example:587", ()).host == "mail.example"
    for address in ("smtp://127.0.0.1:1026", "smtp://localhost:1025"):
        with pytest.raises(CallRefused):
            mail_origin(address, private)


async def test_four_connections_at_once_and_a_hundred_messages_each() -> None:
    """The fifth message waits; the 101st opens a new connection."""
    script = MailScript(held=asyncio.Event())
    async with mail_server(script) as port:
        client = transport(private=[f"{NAME}:{port}"])
        server = MailServer(f"smtp://{NAME}:{port}")
        sending = [asyncio.create_task(client.send(server, MESSAGE)) for _ in range(5)]
        await script.is_busy.wait()
        late = await client.send(server, MESSAGE, max_wait_s=0.01)
        assert isinstance(late.error, LocalQueueFull)
        assert script.held is not None
        script.held.set()
        assert {(await item).result for item in sending} == {MailResult.ACCEPTED}
        assert script.most_at_once == 4
        before = script.connections
        for _ in range(4 * 100 - 5):
            assert (await client.send(server, MESSAGE)).result is MailResult.ACCEPTED
        assert script.connections == before
        await client.send(server, MESSAGE)
        assert script.connections == before + 1
        await client.aclose()
    assert len(script.received) == 401


async def test_an_idle_connection_that_died_is_replaced() -> None:
    """The next message goes over a new one, once."""
    script = MailScript(replies=["421 4.3.2 Closing", "250 Ok"])
    async with mail_server(script) as port:
        client = transport(private=[f"{NAME}:{port}"])
        server = MailServer(f"smtp://{NAME}:{port}")
        await client.send(server, MESSAGE)
        assert (await client.send(server, MESSAGE)).result is MailResult.ACCEPTED
        for session in client._pools[server].idle:
            session.relay.close()
        assert (await client.send(server, MESSAGE)).result is MailResult.ACCEPTED
        await client.aclose()
    assert len(script.received) == 3


async def test_accounts_never_share_a_connection() -> None:
    """Not even those of one user at one server."""
    script = MailScript()
    async with mail_server(script) as port:
        client = transport(private=[f"{NAME}:{port}"])
        for org in (OrgId(1), OrgId(2)):
            server = MailServer(f"smtp://{NAME}:{port}", org=org, integration_id=IntegrationId(1))
            assert (await client.send(server, MESSAGE)).result is MailResult.ACCEPTED
        await client.aclose()
    assert script.connections == 2


async def test_a_run_without_its_lease_sends_nothing() -> None:
    """A run whose lease has ended sends nothing, however long it waited."""

    def refuse(now: datetime) -> None:
        raise CallRefused("the run's lease is not confirmed any more")

    script = MailScript()
    async with mail_server(script) as port:
        client = transport(private=[f"{NAME}:{port}"])
        outcome = await client.send(MailServer(f"smtp://{NAME}:{port}"), MESSAGE, check_allowed=refuse)
        await client.aclose()
    assert (outcome.result, type(outcome.error)) == (MailResult.DEFERRED, CallRefused)
    assert script.connections == 0
