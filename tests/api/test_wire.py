"""Requests as bytes on a connection: what the server does with them before and after the application."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from steward.cli.connection_limits import ConnectionLimits
from tests.api.test_edge import listening
from tests.service import Service

PREVIEW = b"/v1/automations/schedule/preview"
BODY = b'{"schedule":{"cadence":"hourly"}}'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = (
    b"5;of=more\r\n" + BODY[:5] + b"\r\n%x\r\n" % (len(BODY) - 5) + BODY[5:] + b"\r\n0\r\nLast: one\r\n\r\n"
)


@dataclass
class Response:
    """Holds one answer as received."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> Any:
        """Returns the refusal's code, or None for a success."""
        envelope = json.loads(self.body)
        assert envelope["contract_version"] == 1
        return envelope.get("code")


@dataclass
class WireConnection:
    """A connection and the token of one of the cast."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    token: bytes

    def request_head(
        self, method: bytes, path: bytes, headers: bytes = b"", version: bytes = b"1.1"
    ) -> bytes:
        """Returns the head of a request with the token."""
        host = b"Host: localhost\r\nAuthorization: " + self.token + b"\r\n"
        kind = b"Content-Type: application/json\r\n" if method == b"POST" else b""
        return method + b" " + path + b" HTTP/" + version + b"\r\n" + host + kind + headers + b"\r\n"

    async def next(self, *, has_body: bool = True) -> Response:
        """Reads the next response on the connection."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("ascii").split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        assert status in (100, 400) or headers.pop("date").endswith(" GMT")
        if status == 100:
            return Response(100, headers, b"")
        body = await self.reader.readexactly(int(headers["content-length"])) if has_body else b""
        return Response(status, headers, body)

    async def send(self, sent: bytes, *, has_body: bool = True) -> Response:
        """Sends bytes and returns the response."""
        self.writer.write(sent)
        return await self.next(has_body=has_body)

    async def ends(self) -> bool:
        """Returns whether the connection was closed without further bytes."""
        return await self.reader.read() == b""


@pytest.fixture
async def port(service: Service) -> AsyncIterator[int]:
    """Yields the port on which the service listens."""
    async with listening(service, ConnectionLimits()) as number:
        yield number


@asynccontextmanager
async def opened(service: Service, port: int) -> AsyncIterator[WireConnection]:
    """Opens a connection of its own and closes it afterwards."""
    token = (await service.token("member")).headers["Authorization"]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    yield WireConnection(reader, writer, token.encode())
    writer.close()
    await writer.wait_closed()


@pytest.fixture
async def line(service: Service, port: int) -> AsyncIterator[WireConnection]:
    """Yields an open connection."""
    async with opened(service, port) as new_line:
        yield new_line


async def test_a_response_is_the_same_over_a_connection_and_in_order(
    service: Service, line: WireConnection
) -> None:
    """Answers the same headers and body over a connection as in process, and pipelined requests in order."""
    header = b"X-Request-Id: mine-1\r\n"
    response = await line.send(line.request_head(b"GET", b"/v1/automations", header))
    caller = await service.token("member")
    direct = await caller.call("GET", "/v1/automations", headers={"X-Request-Id": "mine-1"})
    assert (response.status, json.loads(response.body)) == (direct.status, direct.body)
    assert response.headers == dict(direct.headers)
    head = await line.send(line.request_head(b"HEAD", b"/v1/automations", header), has_body=False)
    refused = await caller.call("PUT", "/v1/automations", headers={"X-Request-Id": "mine-1"})
    assert (head.status, head.headers) == (405, dict(refused.headers))
    line.writer.write(
        line.request_head(b"GET", b"/v1/automations/status")
        + line.request_head(b"POST", PREVIEW, LENGTH)
        + BODY
        + line.request_head(b"GET", b"/v1/automations/stores")
        + line.request_head(b"GET", b"/healthz")
    )
    responses = [await line.next() for _ in range(4)]
    assert [reply.status for reply in responses] == [200] * 4
    for reply, name in zip(responses, ("scheduler", "spread_note", "stores", "ok"), strict=True):
        assert f'"{name}"'.encode() in reply.body
    last = await line.send(line.request_head(b"GET", b"/healthz", version=b"1.0"))
    assert (last.status, last.headers["connection"], await line.ends()) == (200, "close", True)


async def test_a_body_may_use_every_transfer_encoding_of_http(line: WireConnection) -> None:
    """Reads bodies with a length, in chunks, after `100 Continue` and beside an offer to upgrade."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    for headers, body in ((LENGTH, BODY), (CHUNKED, CHUNKS)):
        for offered in (b"", offer):
            head = line.request_head(b"POST", PREVIEW, offered + headers)
            # In one piece followed by the next request, then in two pieces.
            line.writer.write(head + body + line.request_head(b"GET", b"/healthz", offered))
            assert [(await line.next()).status for _ in range(2)] == [200, 200]
            line.writer.write(head + body[:3])
            await line.writer.drain()
            assert (await line.send(body[3:])).status == 200
    line.writer.write(line.request_head(b"POST", PREVIEW, LENGTH + b"Expect: 100-continue\r\n"))
    assert (await line.next()).status == 100
    assert (await line.send(BODY)).status == 200
    away = b"POST " + PREVIEW + b" HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n" + LENGTH + b"\r\n"
    assert (await line.send(away)).code == "unauthenticated"  # the refusal precedes `100 Continue`


def unread(line: WireConnection) -> list[bytes]:
    """Returns byte sequences that are no valid request or have no certain end."""
    return [
        b"\x16\x03\x01\x02\x00\x01",
        b"GET /v1/automations\xff HTTP/1.1\r\n\r\n",
        line.request_head(b"CONNECT", b"localhost:443"),
        line.request_head(b"GET", b"/healthz", b"X-Long: a\r\n b\r\n"),
        line.request_head(b"POST", PREVIEW, LENGTH + CHUNKED) + BODY,
        line.request_head(b"POST", PREVIEW, LENGTH + LENGTH) + BODY,
        line.request_head(b"POST", PREVIEW, CHUNKED) + b"no length\r\n",
    ]


async def test_malformed_requests_get_a_response_and_end_the_connection(
    service: Service, port: int, line: WireConnection
) -> None:
    """Answers 400 as JSON to bytes that are no request and closes; an earlier request is answered first."""
    for sent in unread(line):
        async with opened(service, port) as other:
            response = await other.send(sent)
            assert (response.status, response.code, response.headers["connection"]) == (
                400,
                "malformed",
                "close",
            )
            assert len(response.headers["x-request-id"]) == 26
            assert await other.ends()
    response = await line.send(line.request_head(b"GET", b"/v1/automations/status") + b"\x00\x00\x00")
    assert (response.status, await line.ends()) == (200, True)
