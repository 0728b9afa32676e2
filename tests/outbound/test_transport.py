"""Over real sockets: the checked address is the one connected to, and what left is known.

See docs/design/connectors.md#outbound-guard.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpcore
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from steward.clock import SystemClock
from steward.model.ids import IntegrationId, OrgId, RunId
from steward.outbound.client import Outbound
from steward.outbound.endpoint import PlatformEndpoint, RateLimit, Timeouts
from steward.outbound.errors import (
    BadCertificate,
    CallRefused,
    CallTimedOut,
    NotSent,
    OutcomeUnknown,
    PlatformUnavailable,
)
from steward.outbound.grant import WriteGrant
from steward.outbound.sockets import GuardedBackend, tls_context
from steward.outbound.transport import HttpTransport
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.fake_clock import START, FakeClock
from tests.outbound.test_address import Names

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
NAME = "shop.internal"
GOOD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


@asynccontextmanager
async def listening(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on a free loopback port."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


class ScriptedPeer:
    """Records the heads of complete requests; sends `response` to each, or resets the connection."""

    def __init__(self, response: bytes = GOOD, *, reset: bool = False) -> None:
        self.heads: list[str] = []
        self.is_asked = asyncio.Event()
        self.response = response
        self.reset = reset

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request after another on the connection."""
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = [line for line in head.lower().split("\r\n") if line.startswith("content-length:")]
            if length:
                await reader.readexactly(int(length[0].partition(":")[2]))
            self.heads.append(head)
            self.is_asked.set()
            if self.reset:
                writer.transport.abort()
                return
            writer.write(self.response)
            await writer.drain()


# What is answered comes at once; however slow the machine, nobody gives it up before.
PATIENT = Timeouts(read_s=60, write_s=60, connect_s=60, first_byte_s=60, between_bytes_s=60)


def outbound(
    port: int, names: Names, *, times: Timeouts = PATIENT, **options: Any
) -> tuple[Outbound, PlatformEndpoint]:
    """A client with sockets of its own, to `shop.internal:port`."""
    clock, register = FakeClock(), SecretRegister()
    log = Log(lambda line: None, clock, register)
    private = options.pop("private", [f"{NAME}:{port}"])
    scheme = options.pop("scheme", "http")
    wire = HttpTransport(clock, register, log, private_hosts=private, resolver=names, **options)
    return Outbound(wire), PlatformEndpoint(
        "test", f"{scheme}://{NAME}:{port}", None, times, RateLimit(), "test"
    )


async def send(client: Outbound, link: PlatformEndpoint) -> Any:
    """One write."""
    later = START + timedelta(seconds=5)
    grant = WriteGrant(OrgId(1), RunId("r"), 1, "", {"k": IntegrationId(1)}, lambda: later, later)
    http = client.write_client(grant, IntegrationId(1), link)
    try:
        return await http.send("POST", "/x", {"a": 1}, write_keys=["k"], key="k")
    finally:
        await client.aclose()


async def read(client: Outbound, link: PlatformEndpoint) -> Any:
    """One read."""
    try:
        return await client.read_client(OrgId(1), IntegrationId(1), link).get("/x")
    finally:
        await client.aclose()


async def test_the_name_stands_in_host_while_the_address_is_the_checked_one() -> None:
    """See docs/design/connectors.md#addresses."""
    peer, names = ScriptedPeer(), Names("127.0.0.1")
    async with listening(peer) as port:
        assert (await read(*outbound(port, names))).body == b"{}"
    assert f"host: {NAME}:{port}" in peer.heads[0].lower()
    assert names.asked == 1


async def test_a_name_outside_the_list_that_leads_inside_is_never_connected_to() -> None:
    """Rebinding cannot help, the resolved address itself is judged.

    See docs/design/connectors.md#addresses.
    """
    backend = GuardedBackend(Names("127.0.0.1"), ())
    peer = ScriptedPeer()
    async with listening(peer) as port:
        with pytest.raises(CallRefused):
            await backend.connect_tcp("shop.example", port, 1)
    assert peer.heads == []


async def test_a_name_that_changes_between_two_calls_is_judged_again() -> None:
    """Resolved once for each connection. See docs/design/connectors.md#addresses."""

    class Inner(httpcore.AsyncMockBackend):
        connected: list[str]

        async def connect_tcp(self, host: str, *rest: Any, **named: Any) -> httpcore.AsyncNetworkStream:
            connected.append(host)
            return Stream(host)

    class Stream(httpcore.AsyncMockStream):
        def __init__(self, host: str) -> None:
            super().__init__([])
            self.host = host

        def get_extra_info(self, info: str) -> Any:
            return (self.host, 443)

    connected: list[str] = []
    names = Names("8.8.8.8")
    backend = GuardedBackend(names, (), Inner([]))
    await backend.connect_tcp("shop.example", 443, 1)
    names.addresses = ["169.254.169.254"]
    with pytest.raises(CallRefused):
        await backend.connect_tcp("shop.example", 443, 1)
    assert connected == ["8.8.8.8"]


async def test_a_connection_that_ends_elsewhere_is_closed() -> None:
    """The peer's address is compared. See docs/design/connectors.md#addresses."""
    closed: list[bool] = []

    class Elsewhere(httpcore.AsyncMockStream):
        def get_extra_info(self, info: str) -> Any:
            return ("127.0.0.1", 443)

        async def aclose(self) -> None:
            closed.append(True)

    class Inner(httpcore.AsyncMockBackend):
        async def connect_tcp(self, *rest: Any, **named: Any) -> httpcore.AsyncNetworkStream:
            return Elsewhere([])

    with pytest.raises(CallRefused):
        await GuardedBackend(Names("8.8.8.8"), (), Inner([])).connect_tcp("shop.example", 443, 1)
    assert closed == [True]


async def test_nothing_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """See docs/design/connectors.md#addresses."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    peer = ScriptedPeer()
    async with listening(peer) as port:
        assert (await read(*outbound(port, Names("127.0.0.1")))).ok
    assert len(peer.heads) == 1


async def test_a_refused_connection_and_an_unknown_name_are_not_sent() -> None:
    """Before the first byte. See docs/design/writes.md#protocol-of-one-write."""
    async with listening(ScriptedPeer()) as port:
        pass
    with pytest.raises(NotSent):
        await send(*outbound(port, Names("127.0.0.1")))
    with pytest.raises(NotSent) as failure:
        await send(*outbound(port, Names()))
    assert isinstance(failure.value.cause, PlatformUnavailable)


async def test_a_reset_after_the_request_is_unknown_and_arrived_once() -> None:
    """A test sends a reset after the request and counts arrivals. See docs/design/connectors.md#retries."""
    peer = ScriptedPeer(reset=True)
    async with listening(peer) as port:
        with pytest.raises(OutcomeUnknown):
            await send(*outbound(port, Names("127.0.0.1")))
    assert len(peer.heads) == 1


async def test_a_kept_connection_that_dies_does_not_send_a_write_twice() -> None:
    """Also over a connection used before. See docs/design/connectors.md#retries."""
    peer = ScriptedPeer()
    async with listening(peer) as port:
        client, link = outbound(port, Names("127.0.0.1"))
        assert (await client.read_client(OrgId(1), IntegrationId(1), link).get("/x")).ok
        peer.reset = True
        with pytest.raises(OutcomeUnknown):
            await send(client, link)
    assert [head.split()[0] for head in peer.heads] == ["GET", "POST"]


async def test_a_half_response_and_a_silent_one_are_unknown() -> None:
    """15 s between bytes, here a moment.

    See docs/design/writes.md#protocol-of-one-write and docs/design/connectors.md#limits.
    """
    half = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"
    for reply, times in (
        (half, replace(PATIENT, between_bytes_s=0.3)),
        (b"", replace(PATIENT, first_byte_s=0.3)),
    ):
        peer = ScriptedPeer(reply)
        async with listening(peer) as port:
            with pytest.raises(OutcomeUnknown):
                await send(*outbound(port, Names("127.0.0.1"), times=times))
            await peer.is_asked.wait()  # it was sent, however late it is read
        assert len(peer.heads) == 1


class LateServer:
    """Answers after a pause, in one piece, or is silent before the first byte or in the midst of the body."""

    def __init__(self, pause: float, *, silent_after: int | None) -> None:
        self.pause = pause
        self.silent_after = silent_after
        self.arrived = 0
        self.is_asked = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request on the connection."""
        await reader.readuntil(b"\r\n\r\n")
        self.arrived += 1
        self.is_asked.set()
        await SystemClock().sleep(self.pause)
        writer.write(GOOD[: self.silent_after])
        await writer.drain()
        await reader.read()  # until the other side has had enough


@pytest.mark.parametrize(
    ("pause", "silent_after", "first_byte", "comes"),
    [(0.5, None, 60.0, True), (0.0, 0, 0.4, False), (0.0, len(GOOD) - 1, 60.0, False)],
)
async def test_the_first_byte_may_take_longer_than_the_next_ones(
    pause: float, silent_after: int | None, first_byte: float, comes: bool
) -> None:
    """Waits longer for the first byte than between later bytes, because an account may still be working."""
    late = LateServer(pause, silent_after=silent_after)
    async with listening(late) as port:
        times = replace(PATIENT, first_byte_s=first_byte, between_bytes_s=0.3)
        client, link = outbound(port, Names("127.0.0.1"), times=times)
        reading = client.read_client(OrgId(1), IntegrationId(1), link)
        try:
            if comes:
                assert (await reading.get("/x", retry_timeouts=False)).body == b"{}"
            else:
                with pytest.raises(CallTimedOut):
                    await reading.get("/x", retry_timeouts=False)
        finally:
            await client.aclose()
        await late.is_asked.wait()  # however late it is read
    assert late.arrived == 1


@pytest.mark.parametrize(("setting", "first_byte"), [(1.0, 60.0), (60.0, 60.0), (90.0, 90.0)])
def test_a_kind_of_connection_waits_a_minute_for_the_first_byte_or_longer_by_setting(
    setting: float, first_byte: float
) -> None:
    times = Timeouts.of_kind(setting)
    assert (times.first_byte_s, times.read_s) == (first_byte, first_byte + 30)
    assert Timeouts.of_kind(2.0, bounded=True) == Timeouts(read_s=2.0, write_s=2.0, first_byte_s=2.0)


async def test_a_certificate_of_an_unknown_issuer_or_another_name_is_not_sent_to(tmp_path: Path) -> None:
    """Certificate and name are checked before a byte of the request leaves.

    See docs/design/connectors.md#addresses.
    """
    for name, trusted, sent in ((NAME, True, True), ("other.internal", True, False), (NAME, False, False)):
        server, authority = certificate(tmp_path, name)
        peer = ScriptedPeer()
        tls = tls_context(authority if trusted else None)
        async with listening(peer, server) as port:
            client, link = outbound(port, Names("127.0.0.1"), scheme="https", tls=tls)
            if sent:
                assert (await send(client, link)).ok
            else:
                with pytest.raises(NotSent):
                    await send(client, link)
        assert len(peer.heads) == (1 if sent else 0)


@pytest.mark.parametrize(
    ("name", "days", "trusted", "why"),
    [
        ("other.internal", 36_500, True, "it belongs to another host"),
        (NAME, 30, True, "it has expired"),
        (NAME, 36_500, False, "it is self-signed"),
    ],
)
async def test_a_certificate_that_fails_says_why_and_is_not_tried_again(
    tmp_path: Path, name: str, days: int, trusted: bool, why: str
) -> None:
    server, authority = certificate(tmp_path, name, days=days)
    tls = tls_context(authority if trusted else None)
    arrived: list[object] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.append(await reader.read(1))

    async with listening(talk, server) as port:
        names = Names("127.0.0.1")
        with pytest.raises(BadCertificate) as failure:
            await read(*outbound(port, names, scheme="https", tls=tls))
    assert failure.value.message.startswith(f"The certificate of {NAME} was not accepted: {why}")
    assert (names.asked, [item for item in arrived if item]) == (1, [])


def certificate(folder: Path, name: str, *, days: int = 36_500) -> tuple[ssl.SSLContext, str]:
    """A server's TLS and the file of its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime(2020, 1, 1, tzinfo=UTC)
    sign = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, secret = folder / f"{name}.pem", folder / f"{name}.key"
    pem.write_bytes(sign.public_bytes(Encoding.PEM))
    secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem, secret)
    return server, str(pem)
