"""Limits on incoming connections: their number, in all and by address, and the time of a request's head."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_network

import uvicorn

from steward.cli import serve
from steward.cli.connection_limits import MAX_HEAD_BYTES, ConnectionLimits
from tests.people import Caller
from tests.processes.running import eventually
from tests.service import Service

HEALTH_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Opened = Callable[[], "asyncio.Future[Streams]"]


@asynccontextmanager
async def listening(service: Service, limits: ConnectionLimits) -> AsyncIterator[int]:
    """Runs the service on a loopback port within these connection limits and yields the port."""
    bound = serve.listen("127.0.0.1", 0)
    server = serve.bounded(service.gate, limits)
    task = asyncio.create_task(server.serve(sockets=[bound]))
    await eventually(partial(_started, server))
    yield bound.getsockname()[1]
    server.should_exit = True
    server.force_exit = True
    await task


async def _started(server: uvicorn.Server) -> bool:
    return server.started


async def _holds(limits: ConnectionLimits, count: int) -> bool:
    return limits.open_connections == count


async def _is_slow(limits: ConnectionLimits, count: int) -> bool:
    return limits.metrics.value("steward_connections_slow_total") == count


async def answered(streams: Streams) -> int:
    """Returns the status of a health check on a connection that stays open."""
    reader, writer = streams
    writer.write(HEALTH_REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    await reader.readexactly(int(length.split(b":")[1]))
    return int(head.split()[1])


async def turned_away(port: int) -> None:
    """Checks that a connection over the limit gets 503 with Retry-After and is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1" in head
    assert json.loads(body)["code"] == "unavailable"
    writer.close()


async def test_connections_are_counted_in_all_and_by_address(service: Service) -> None:
    """Serves connections up to each limit and answers 503 to one more; trusted proxies count only in all."""
    limits = ConnectionLimits(max_connections=4, max_per_address=2)
    async with listening(service, limits) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        assert [await answered(streams) for streams in held] == [200, 200]
        await turned_away(port)
        assert limits.metrics.value("steward_connections") == 2
        held[0][1].close()
        await held[0][1].wait_closed()
        await eventually(partial(_holds, limits, 1))
        held[0] = await asyncio.open_connection("127.0.0.1", port)
        assert await answered(held[0]) == 200
        limits.proxies = (ip_network("127.0.0.0/8"),)
        held += [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        assert [await answered(streams) for streams in held] == [200] * 4
        await turned_away(port)
        assert limits.metrics.value("steward_connections_refused_total") == 2
        for _, writer in held:
            writer.close()


async def test_a_head_that_does_not_arrive_ends_the_connection(service: Service) -> None:
    """Closes a connection whose request head is late, also on a kept connection, or too long."""
    assert ConnectionLimits().head_seconds == 10.0
    assert (ConnectionLimits().max_connections, ConnectionLimits().max_per_address) == (1_000, 100)
    limits = ConnectionLimits(head_seconds=0.15)
    async with listening(service, limits) as port:
        for begun in (b"", b"GET /healthz HTTP/1.1\r\nHost:"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(begun)
            assert await reader.read() == b""
            writer.close()
        limits.head_seconds = 60.0  # gives the complete request time to be answered
        streams = await asyncio.open_connection("127.0.0.1", port)
        assert await answered(streams) == 200
        limits.head_seconds = 0.15
        streams[1].write(b"\r\n")
        assert await streams[0].read() == b""
        streams[1].close()
        assert limits.metrics.value("steward_connections_slow_total") == 3
    async with listening(service, ConnectionLimits()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * (MAX_HEAD_BYTES + 1))
        assert await reader.read() == b""
        writer.close()


async def test_a_client_that_does_not_read_is_disconnected(service: Service) -> None:
    """Closes a connection whose client does not read the responses, and honours `Connection: close`."""
    assert ConnectionLimits().unread_seconds == 15.0
    limits = ConnectionLimits(unread_seconds=0.1)
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 60
    async with listening(service, limits) as port:
        streams = await asyncio.open_connection("127.0.0.1", port, limit=1)
        streams[1].write(request)
        await eventually(partial(_is_slow, limits, 1))
        await eventually(partial(_holds, limits, 0))
        streams[1].close()
    async with listening(service, ConnectionLimits()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert (await reader.read()).count(b"HTTP/1.1 200 OK") == 1
        writer.close()


async def read_responses(port: int, sent: bytes) -> tuple[list[int], dict[str, object]]:
    """Returns the statuses that a connection answers to these bytes until it closes, and the last body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    response = await reader.read()
    writer.close()
    last: dict[str, object] = json.loads(response.rpartition(b"\r\n\r\n")[2])
    return [int(piece[:3]) for piece in response.split(b"HTTP/1.1 ")[1:]], last


async def test_a_request_needs_exactly_one_valid_host(service: Service) -> None:
    """Refuses HTTP/1.1 requests with no Host, two or an invalid one (RFC 9112 section 3.2)."""
    good = [
        b"HTTP/1.1\r\nHost: localhost",
        b"HTTP/1.1\r\nhOST:localhost:8400",
        b"HTTP/1.1\r\nHost: [::1]:8400",
        b"HTTP/1.1\r\nHost: \tlocalhost \t",
        b"HTTP/1.1\r\nHost:",
        b"HTTP/1.0\r\nHost: localhost",
        b"HTTP/1.0",
    ]
    bad = [
        b"HTTP/1.1",
        b"HTTP/1.1\r\nX-Forwarded-Host: localhost",
        b"HTTP/1.1\r\nHost: localhost\r\nHost: localhost",
        b"HTTP/1.1\r\nHost: localhost\r\nhost: evil.example",
        b"HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nHost:",
        b"HTTP/1.0\r\nHost: localhost\r\nHost: localhost",
        b"HTTP/1.1\r\nHost: local host",
        b"HTTP/1.1\r\nHost: user@localhost",
        b"HTTP/1.1\r\nHost: localhost/path",
        b"HTTP/1.1\r\nHost: localhost:port",
    ]
    async with listening(service, ConnectionLimits()) as port:
        for path in (b"/healthz", b"http://localhost/healthz"):
            for head in good:
                assert (await read_responses(port, b"GET %s %s\r\nConnection: close\r\n\r\n" % (path, head)))[
                    0
                ] == [200]
            for head in bad:
                statuses, body = await read_responses(port, b"GET " + path + b" " + head + b"\r\n\r\n")
                assert (statuses, body["code"], body["success"]) == ([400], "malformed", False), head
                assert "Host" in str(body["message"])
        # On a kept connection, requests pipelined after the refused one are not answered.
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await answered((reader, writer)) == 200
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n" + HEALTH_REQUEST)
        response = await reader.read()
        assert response.startswith(b"HTTP/1.1 400 ")
        assert response.count(b"HTTP/1.1 ") == 1
        writer.close()


async def test_a_word_that_is_no_id_is_no_path(service: Service, member: Caller) -> None:
    """Answers 404 for an unknown path with any method, and 405 for a path whose last part is an id."""
    for path in ("/v1/automations/nothing", "/v1/automations/no-such", "/v1/automations/nothing/pause"):
        for method in ("GET", "POST", "PATCH", "DELETE"):
            response = await member.call(method, path)
            assert (response.status, response.code) == (404, "not_found"), (method, path)
    response = await member.call("DELETE", "/v1/automations/01HF7YAT3VWENBYK9N635GV5BA")
    assert (response.status, response.code) == (405, "method_not_allowed")
