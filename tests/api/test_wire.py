"""Requests as bytes on a connection: what the server makes of them before and after the application."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from steward.cli.edge import ConnectionLimits
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
class Answer:
    """One answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> Any:
        """The refusal's code; None for a success, which holds none."""
        actual = json.loads(self.body)
        assert actual["contract_version"] == 1
        return actual.get("code")


@dataclass
class Line:
    """A connection on which one of the cast has a token."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    token: bytes

    def request_head(
        self, method: bytes, path: bytes, headers: bytes = b"", version: bytes = b"1.1"
    ) -> bytes:
        """The head of a request, with its token."""
        host = b"Host: localhost\r\nAuthorization: " + self.token + b"\r\n"
        kind = b"Content-Type: application/json\r\n" if method == b"POST" else b""
        return method + b" " + path + b" HTTP/" + version + b"\r\n" + host + kind + headers + b"\r\n"

    async def next(self, *, has_body: bool = True) -> Answer:
        """The next answer on the connection."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("ascii").split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        assert status in (100, 400) or headers.pop("date").endswith(" GMT")
        if status == 100:
            return Answer(100, headers, b"")
        body = await self.reader.readexactly(int(headers["content-length"])) if has_body else b""
        return Answer(status, headers, body)

    async def send(self, sent: bytes, *, has_body: bool = True) -> Answer:
        """The answer to a request."""
        self.writer.write(sent)
        return await self.next(has_body=has_body)

    async def ends(self) -> bool:
        """Whether nothing more comes: the connection was closed."""
        return await self.reader.read() == b""


@pytest.fixture
async def port(service: Service) -> AsyncIterator[int]:
    """Where the service listens."""
    async with listening(service, ConnectionLimits()) as number:
        yield number


@asynccontextmanager
async def opened(service: Service, port: int) -> AsyncIterator[Line]:
    """A connection of its own."""
    token = (await service.token("member")).headers["Authorization"]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    yield Line(reader, writer, token.encode())
    writer.close()
    await writer.wait_closed()


@pytest.fixture
async def line(service: Service, port: int) -> AsyncIterator[Line]:
    """A connection."""
    async with opened(service, port) as new_line:
        yield new_line


async def test_an_answer_is_the_same_over_a_connection_and_in_order(service: Service, line: Line) -> None:
    """Every header; HEAD without a body; what is asked in one go is answered in order."""
    header = b"X-Request-Id: mine-1\r\n"
    heard = await line.send(line.request_head(b"GET", b"/v1/automations", header))
    caller = await service.token("member")
    direct = await caller.call("GET", "/v1/automations", headers={"X-Request-Id": "mine-1"})
    assert (heard.status, json.loads(heard.body)) == (direct.status, direct.body)
    assert heard.headers == dict(direct.headers)
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
    answers = [await line.next() for _ in range(4)]
    assert [answer.status for answer in answers] == [200] * 4
    for answer, name in zip(answers, ("scheduler", "spread_note", "stores", "ok"), strict=True):
        assert f'"{name}"'.encode() in answer.body
    last = await line.send(line.request_head(b"GET", b"/healthz", version=b"1.0"))
    assert (last.status, last.headers["connection"], await line.ends()) == (200, "close", True)


async def test_a_body_may_come_in_any_of_the_ways_http_has(line: Line) -> None:
    """With or without its length, on demand, and behind an offer of another protocol."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    for headers, body in ((LENGTH, BODY), (CHUNKED, CHUNKS)):
        for offered in (b"", offer):
            head = line.request_head(b"POST", PREVIEW, offered + headers)
            # In one piece with the next request behind it, then in pieces.
            line.writer.write(head + body + line.request_head(b"GET", b"/healthz", offered))
            assert [(await line.next()).status for _ in range(2)] == [200, 200]
            line.writer.write(head + body[:3])
            await line.writer.drain()
            assert (await line.send(body[3:])).status == 200
    line.writer.write(line.request_head(b"POST", PREVIEW, LENGTH + b"Expect: 100-continue\r\n"))
    assert (await line.next()).status == 100
    assert (await line.send(BODY)).status == 200
    away = b"POST " + PREVIEW + b" HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n" + LENGTH + b"\r\n"
    assert (await line.send(away)).code == "unauthenticated"  # nobody asks for the rest of it


def unread(line: Line) -> list[bytes]:
    """What is no request, or has no end that can be told."""
    return [
        b"\x16\x03\x01\x02\x00\x01",
        b"GET /v1/automations\xff HTTP/1.1\r\n\r\n",
        line.request_head(b"CONNECT", b"localhost:443"),
        line.request_head(b"GET", b"/healthz", b"X-Long: a\r\n b\r\n"),
        line.request_head(b"POST", PREVIEW, LENGTH + CHUNKED) + BODY,
        line.request_head(b"POST", PREVIEW, LENGTH + LENGTH) + BODY,
        line.request_head(b"POST", PREVIEW, CHUNKED) + b"no length\r\n",
    ]


async def test_what_is_no_request_is_told_so_and_ends_the_connection(
    service: Service, port: int, line: Line
) -> None:
    """Every answer is JSON, also to what no client sends; what was asked before is answered."""
    for sent in unread(line):
        async with opened(service, port) as other:
            heard = await other.send(sent)
            assert (heard.status, heard.code, heard.headers["connection"]) == (400, "malformed", "close")
            assert len(heard.headers["x-request-id"]) == 26
            assert await other.ends()
    heard = await line.send(line.request_head(b"GET", b"/v1/automations/status") + b"\x00\x00\x00")
    assert (heard.status, await line.ends()) == (200, True)
