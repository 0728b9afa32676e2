"""A store that answers with a bomb costs bounded memory and time, and the error says what was wrong."""

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import repeat

import pytest

from steward.clock import SystemClock
from steward.model.ids import IntegrationId, OrgId
from steward.outbound.errors import CallError, CallTimedOut, UnusableResponse
from steward.outbound.response import RESPONSE_BYTES, BodyReader, PlatformResponse, parse_json
from tests.fake_clock import FakeClock
from tests.outbound.test_address import Names
from tests.outbound.test_transport import listening, outbound

MIB = 1024 * 1024
OK = b"HTTP/1.1 200 OK\r\n"
Pieces = Callable[[], Iterator[bytes]]


class Bomb:
    """Sends pieces for as long as the other side takes them, and counts the bytes."""

    def __init__(self, pieces: Pieces, *, pause: float = 0.0) -> None:
        self._pieces = pieces
        self._pause = pause
        self.sent = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One answer."""
        await reader.readuntil(b"\r\n\r\n")
        for piece in self._pieces():
            writer.write(piece)
            await writer.drain()
            self.sent += len(piece)
            if self._pause:
                await SystemClock().sleep(self._pause)


@asynccontextmanager
async def answered(
    bomb: Bomb, *, read_s: float = 60.0
) -> AsyncIterator[Callable[[], "asyncio.Task[PlatformResponse]"]]:
    """A read of the bomb's address that is tried once."""
    async with listening(bomb) as port:
        client, link = outbound(port, Names("127.0.0.1"))
        clock = client.transport.clock
        assert isinstance(clock, FakeClock)
        times = replace(link.timeouts, read_s=read_s)
        http = client.read_client(OrgId(1), IntegrationId(1), replace(link, timeouts=times))
        try:
            yield lambda: clock.through(http.get("/x", retry_timeouts=False))
        finally:
            await client.aclose()


def whole(body: bytes, encoding: str = "") -> Pieces:
    """Returns the pieces of a response that states its length."""
    coded = f"content-encoding: {encoding}\r\n".encode() if encoding else b""
    head = OK + coded + b"content-length: %d\r\n\r\n" % len(body)
    return lambda: iter([head, body])


def endless(head: bytes, piece: bytes) -> Pieces:
    """The head, and the same piece for ever."""

    def pieces() -> Iterator[bytes]:
        yield head
        yield from repeat(piece)

    return pieces


def chunk(body: bytes) -> bytes:
    """A chunk as HTTP sends it."""
    return b"%x\r\n%s\r\n" % (len(body), body)


ZEROS = b"0" * (40 * MIB)
ZIPPED = gzip.compress(ZEROS, 1)
DEFLATED = zlib.compress(ZEROS, 1)
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
del ZEROS


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (whole(ZIPPED, "gzip"), "20 times its size"),
        (whole(DEFLATED, "deflate"), "20 times its size"),
        (whole(ZIPPED, "br"), "a way that was not requested"),
        (whole(gzip.compress(ZIPPED), "gzip, gzip"), "a way that was not requested"),
        (endless(OK + b"content-encoding: gzip\r\n" + CHUNKED, chunk(ZIPPED)), "20 times its size"),
        (endless(OK + CHUNKED, chunk(b"x" * 65_536)), "larger than 10 MiB"),
        (endless(OK + b"\r\n", b"x" * 65_536), "larger than 10 MiB"),
    ],
    ids=["gzip", "deflate", "br", "twice", "gzip for ever", "chunks for ever", "until it closes"],
)
async def test_a_body_is_not_held_beyond_its_cap(pieces: Pieces, words: str) -> None:
    """Neither what comes nor what it unpacks to; the connection is closed in the middle of it."""
    bomb = Bomb(pieces)
    async with answered(bomb) as read:
        tracemalloc.start()
        try:
            with pytest.raises(UnusableResponse, match=words):
                await read()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 5 * RESPONSE_BYTES
    assert bomb.sent < 2 * RESPONSE_BYTES


@pytest.mark.parametrize(
    "pieces",
    [
        lambda: iter([OK + b"x-big: " + b"x" * (2 * MIB) + b"\r\n\r\n{}"]),
        endless(OK + b"x-big: ", b"x" * 65_536),
        endless(OK, b"x-many: 1\r\n" * 1_000),
    ],
    ids=["one header", "one without an end", "many without an end"],
)
async def test_headers_are_not_held_beyond_their_cap(pieces: Pieces) -> None:
    bomb = Bomb(pieces)
    async with answered(bomb) as read:
        with pytest.raises(CallError):
            await read()
    assert bomb.sent < 3 * 8 * MIB  # of three tries


@pytest.mark.parametrize(
    "head",
    [
        OK + b"content-length: 100000\r\n\r\n",
        OK + b"x-slow: ",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"x: ",
    ],
    ids=["body", "header", "after a continue"],
)
async def test_bytes_that_drip_end_with_the_time_of_the_whole_call(head: bytes) -> None:
    """Each comes in time, so that only the limit of the call in all ends it."""
    bomb = Bomb(endless(head, b"x"), pause=0.05)
    async with answered(bomb, read_s=0.6) as read:
        async with asyncio.timeout(50):  # less than any other limit here
            with pytest.raises(CallTimedOut):
                await read()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"[" * MIB, "64 deep|200,000 values"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "64 deep"),
        (b"[" + b"9" * MIB + b"]", "40 digits"),
        (b"[1e400000000]", "40 digits"),
        (b"[-0.0000000000000000000000000000000000000001e-9999]", "40 digits"),
        (b"[" + b"1," * 250_000 + b"1]", "200,000 values"),
        (b'{"a": 1, "a": 2}', "repeats a key"),
        (b"[NaN]", "not a number"),
        (b'"' + b"\\" * MIB, "not JSON"),
    ],
)
async def test_json_is_refused_before_it_is_built(body: bytes, words: str) -> None:
    """Refuses JSON that is nested too deep or has too many values or digits, before it is built."""
    async with answered(Bomb(whole(body))) as read:
        response = await read()
    with pytest.raises(UnusableResponse, match=words):
        response.json()


def test_depth_and_digits_at_their_limits_are_read() -> None:
    assert parse_json(b"[" * 64 + b"]" * 64)
    assert parse_json(b"[" + b"9" * 40 + b"]") == [int("9" * 40)]


def test_a_body_in_tiny_chunks_takes_no_more_than_its_size() -> None:
    body = BodyReader("")
    tracemalloc.start()
    try:
        for number in range(100_000):
            body.feed(bytes((number & 255, number >> 8 & 255)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(body.whole()) == 200_000
    assert peak < 1_000_000
