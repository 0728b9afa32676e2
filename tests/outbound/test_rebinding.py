"""Names whose addresses change: only an address that was judged is connected to, whatever comes next."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpcore
import pytest

from steward.model.ids import IntegrationId, OrgId
from steward.outbound.client import Outbound
from steward.outbound.endpoint import PlatformEndpoint, RateLimit, Timeouts
from steward.outbound.errors import CallError, CallRefused
from steward.outbound.sockets import GuardedBackend, GuardedTransport, tls_context
from steward.outbound.transport import HttpTransport
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.fake_clock import FakeClock
from tests.outbound.name_server import A, NameServer, Script, name_server
from tests.outbound.test_transport import ScriptedPeer, certificate, listening

NAME = "shop.example"
PUBLIC, OTHER, SIX = "93.184.216.34", "8.8.4.4", "2606:4700::1111"
PRIVATE = ["127.0.0.1", "10.0.0.5", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.5", "64:ff9b::a00:5",
           "2002:a00:5::", "3fff::1"]  # fmt: skip
CLOSING = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"


class _Stream(httpcore.AsyncNetworkStream):
    """A stream to the test's server that says it leads to the address that was asked for."""

    def __init__(self, inner: httpcore.AsyncNetworkStream, address: str) -> None:
        self._inner, self._address = inner, address

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._inner.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(self, *args: Any, **kwargs: Any) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._inner.start_tls(*args, **kwargs), self._address)

    def get_extra_info(self, info: str) -> Any:
        return (self._address, 443) if info == "server_addr" else self._inner.get_extra_info(info)


@dataclass
class Internet(httpcore.AsyncNetworkBackend):
    """Every address of the world leads to one server; notes which were connected to."""

    port: int
    unreachable: set[str] = field(default_factory=set)
    connected: list[str] = field(default_factory=list)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A stream to the server. Raises httpcore's error for an address that is not reached."""
        self.connected.append(host)
        if host in self.unreachable:
            raise httpcore.ConnectError
        return _Stream(await httpcore.AnyIOBackend().connect_tcp("127.0.0.1", self.port, timeout), host)


@dataclass
class Shop:
    """A client of https://shop.example, the names it asks and the network it uses."""

    names: NameServer
    internet: Internet
    peer: ScriptedPeer
    client: Outbound

    async def read(self) -> bytes:
        """One read. Raises CallError."""
        link = PlatformEndpoint("test", f"https://{NAME}", None, Timeouts(5, 5), RateLimit(), "test")
        response = await self.client.read_client(OrgId(1), IntegrationId(1), link).get("/x")
        return response.body


@asynccontextmanager
async def shop(
    folder: Path, script: Script, *, alias: str = "", reply: bytes = CLOSING
) -> AsyncIterator[Shop]:
    """A shop at a name whose addresses are the script's."""
    tls, authority = certificate(folder, NAME)
    peer = ScriptedPeer(reply)
    async with listening(peer, tls) as port, name_server(script, alias=alias) as (resolver, names):
        internet = Internet(port)
        backend = GuardedBackend(resolver, (), internet)
        clock, register = FakeClock(), SecretRegister()
        transport = GuardedTransport(backend, tls_context(authority))
        client = Outbound(
            HttpTransport(clock, register, Log(lambda line: None, clock, register), transport=transport)
        )
        try:
            yield Shop(names, internet, peer, client)
        finally:
            await transport.aclose()
            await client.aclose()


async def test_the_address_that_was_judged_is_the_one_connected_to(tmp_path: Path) -> None:
    """The name is looked up once a connection; what it leads to afterwards is not asked for it."""
    async with shop(tmp_path, lambda time: [PUBLIC] if time == 0 else ["127.0.0.1"]) as rebinding_shop:
        assert await rebinding_shop.read() == b"{}"
        assert rebinding_shop.internet.connected == [PUBLIC]
        assert rebinding_shop.names.asked[A] == 1
        assert f"host: {NAME}\r\n" in rebinding_shop.peer.heads[0].lower()


async def test_a_public_response_first_and_a_private_one_second_is_refused(tmp_path: Path) -> None:
    """Each new connection judges again, and nothing private is connected to."""
    async with shop(tmp_path, lambda time: [PUBLIC] if time == 0 else ["169.254.169.254"]) as rebinding_shop:
        assert await rebinding_shop.read() == b"{}"
        for _ in range(2):
            with pytest.raises(CallRefused):
                await rebinding_shop.read()
        assert rebinding_shop.internet.connected == [PUBLIC]
        assert len(rebinding_shop.peer.heads) == 1


async def test_a_kept_connection_stays_where_it_was_judged(tmp_path: Path) -> None:
    """Looks the name up once and keeps its address while the connection lasts."""
    stored = CLOSING.replace(b"connection: close\r\n", b"")
    async with shop(
        tmp_path, lambda time: [PUBLIC] if time == 0 else ["10.0.0.5"], reply=stored
    ) as rebinding_shop:
        assert [await rebinding_shop.read() for _ in range(3)] == [b"{}"] * 3
        assert rebinding_shop.internet.connected == [PUBLIC]
        assert rebinding_shop.names.asked[A] == 1


@pytest.mark.parametrize("private", PRIVATE)
@pytest.mark.parametrize("alias", ["", "cdn.example"])
async def test_one_private_address_among_several_refuses_them_all(
    tmp_path: Path, private: str, alias: str
) -> None:
    """In any place, of either kind, and behind another name."""
    orders: Sequence[Sequence[str]] = ([private, PUBLIC, SIX], [PUBLIC, private, SIX], [PUBLIC, SIX, private])
    async with shop(tmp_path, lambda time: orders[time % 3], alias=alias) as rebinding_shop:
        for _ in orders:
            with pytest.raises(CallRefused):
                await rebinding_shop.read()
        assert rebinding_shop.internet.connected == []


async def test_the_next_address_tried_is_one_of_those_judged(tmp_path: Path) -> None:
    """An address that is not reached is no reason to look the name up again."""
    async with shop(
        tmp_path, lambda time: [PUBLIC, OTHER, SIX] if time == 0 else ["127.0.0.1"]
    ) as rebinding_shop:
        rebinding_shop.internet.unreachable = {PUBLIC, OTHER}
        assert await rebinding_shop.read() == b"{}"
        assert rebinding_shop.internet.connected == [PUBLIC, OTHER, SIX]
        assert rebinding_shop.names.asked[A] == 1


async def test_a_name_that_changes_with_every_question_never_leads_inside(tmp_path: Path) -> None:
    """Many calls at once, half of them answered with a private address."""
    flipping = (["127.0.0.1"], [PUBLIC], ["10.0.0.5"], [OTHER])
    async with shop(tmp_path, lambda time: flipping[time % 4]) as rebinding_shop:
        actual = await asyncio.gather(*(rebinding_shop.read() for _ in range(24)), return_exceptions=True)
        assert {type(item) for item in actual} == {bytes, CallRefused}
        assert all(isinstance(entry, bytes | CallError) for entry in actual)
        assert set(rebinding_shop.internet.connected) == {PUBLIC, OTHER}
        assert len(rebinding_shop.peer.heads) == sum(isinstance(element, bytes) for element in actual)
