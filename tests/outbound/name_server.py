"""A name server on loopback that answers as a test says, and a resolver that asks it over UDP."""

import asyncio
import ipaddress
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

A, CNAME, AAAA = 1, 5, 28
# What a name leads to when it is asked for the n-th time, from 0: addresses of both kinds in their order.
Script = Callable[[int], Sequence[str]]


def _labels(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def _read_name(packet: bytes, index: int) -> tuple[str, int]:
    labels, end = [], 0
    while length := packet[index]:
        if length >= 0xC0:  # a pointer to a name before
            end = end or index + 2
            index = struct.unpack(">H", packet[index : index + 2])[0] & 0x3FFF
            continue
        labels.append(packet[index + 1 : index + 1 + length].decode())
        index += 1 + length
    return ".".join(labels), end or index + 1


@dataclass
class NameServer(asyncio.DatagramProtocol):
    """Answers for every name by one script; `asked` counts the questions of each kind of record.

    With `alias` a name is first said to be another name, as hosts behind a provider are.
    """

    script: Script
    alias: str = ""
    asked: dict[int, int] = field(default_factory=lambda: {A: 0, AAAA: 0})

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        """One question, one answer; nothing may be kept (the time to live is 0)."""
        name, index = _read_name(data, 12)
        [kind] = struct.unpack(">H", data[index : index + 2])
        addresses = self.script(self.asked[kind])
        self.asked[kind] += 1
        version = 4 if kind == A else 6
        packed = [ip.packed for ip in map(ipaddress.ip_address, addresses) if ip.version == version]
        owner, records = name, b""
        if self.alias:
            records, owner = _record(name, CNAME, _labels(self.alias)), self.alias
        records += b"".join(_record(owner, kind, item) for item in packed)
        head = data[:2] + struct.pack(">HHHHH", 0x8180, 1, len(packed) + bool(self.alias), 0, 0)
        self._transport.sendto(head + data[12 : index + 4] + records, addr)


def _record(name: str, kind: int, value: bytes) -> bytes:
    return _labels(name) + struct.pack(">HHIH", kind, 1, 0, len(value)) + value


@dataclass
class UdpResolver:
    """Asks the server at a port for both kinds of addresses, each time again."""

    port: int

    async def resolve(self, host: str, port: int) -> list[str]:
        """Every address of `host`. Raises OSError when there is none."""
        addresses = [address for kind in (A, AAAA) for address in await self._asked(host, kind)]
        if not addresses:
            raise OSError(f"{host} has no address")
        return addresses

    async def _asked(self, host: str, kind: int) -> list[str]:
        response: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        class Asking(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, addr: Any) -> None:
                response.set_result(data)

        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            Asking, remote_addr=("127.0.0.1", self.port)
        )
        try:
            question = (
                struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + _labels(host) + struct.pack(">HH", kind, 1)
            )
            transport.sendto(question)
            return list(_addresses(await response, kind))
        finally:
            transport.close()


def _addresses(packet: bytes, kind: int) -> list[str]:
    [count] = struct.unpack(">H", packet[6:8])
    _, index = _read_name(packet, 12)
    index += 4
    addresses = []
    for _ in range(count):
        _, index = _read_name(packet, index)
        stored, _, _, length = struct.unpack(">HHIH", packet[index : index + 10])
        if stored == kind:
            addresses.append(str(ipaddress.ip_address(packet[index + 10 : index + 10 + length])))
        index += 10 + length
    return addresses


@asynccontextmanager
async def name_server(script: Script, *, alias: str = "") -> AsyncIterator[tuple[UdpResolver, NameServer]]:
    """A running server and the resolver that asks it."""
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: NameServer(script, alias), local_addr=("127.0.0.1", 0)
    )
    try:
        yield UdpResolver(transport.get_extra_info("sockname")[1]), server
    finally:
        transport.close()
