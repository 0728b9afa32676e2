"""Tests that a notice client only posts to its one address, follows no redirect and drops the response."""

import json
from typing import Any

import httpx
import pytest

from steward.model.ids import IntegrationId, OrgId
from steward.outbound.client import Outbound
from steward.outbound.endpoint import PlatformEndpoint, SecretUrl
from steward.outbound.errors import CallRefused, PlatformUnavailable, WrongAddress
from steward.outbound.notice import NOTICE_RESPONSE_BYTES, webhook_endpoint
from steward.outbound.transport import HttpTransport
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.fake_clock import FakeClock
from tests.outbound.test_address import SPELLINGS, Names
from tests.outbound.test_transport import GOOD, ScriptedPeer, listening

HOOK = "https://hooks.example/t/abc?key=123456789"
ORG = OrgId(1)


def over(response: httpx.Response, seen: list[httpx.Request], lines: list[str] | None = None) -> Outbound:
    """A client whose requests are collected and answered with `answer`."""

    async def respond(request: httpx.Request) -> httpx.Response:
        await request.aread()
        seen.append(request)
        return response

    clock, register = FakeClock(), SecretRegister()
    log = Log([].append if lines is None else lines.append, clock, register)
    return Outbound(HttpTransport(clock, register, log, transport=httpx.MockTransport(respond)))


def streamed(status: int, body: bytes, **headers: str) -> httpx.Response:
    """Returns a response that is read as a stream, as one from a socket is."""
    return httpx.Response(status, headers=headers, stream=httpx.ByteStream(body))


async def test_a_notice_is_one_post_to_the_whole_address() -> None:
    """Path and query are those of the webhook, and the body is sent as it is."""
    seen: list[httpx.Request] = []
    client = over(streamed(204, b""), seen)
    response = await client.notice_client(ORG, None, webhook_endpoint(ORG, HOOK)).post(
        b'{"a":1}', {"x-id": "7"}
    )
    [request] = seen
    assert (request.method, str(request.url), request.content) == ("POST", HOOK, b'{"a":1}')
    assert (request.headers["content-type"], request.headers["x-id"]) == ("application/json", "7")
    assert response.status == 204


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    """Where it leads is never called."""
    seen: list[httpx.Request] = []
    client = over(streamed(status, b"", location="https://other.example/"), seen)
    with pytest.raises(WrongAddress):
        await client.notice_client(ORG, None, webhook_endpoint(ORG, HOOK)).post(b"{}")
    assert len(seen) == 1


@pytest.mark.parametrize("size", [NOTICE_RESPONSE_BYTES, NOTICE_RESPONSE_BYTES + 1, 12 * 1024 * 1024])
async def test_a_response_of_any_size_is_thrown_away(size: int) -> None:
    """The status alone counts; a receiver cannot make its answer a burden."""
    client = over(streamed(200, b"x" * size), [])
    http = client.notice_client(ORG, None, webhook_endpoint(ORG, HOOK))
    response = await http.post(b"{}", reads_response=False)
    assert (response.status, response.body) == (200, b"")


async def test_a_damaged_response_is_no_failure_when_it_is_thrown_away() -> None:
    """A body that claims to be compressed and is not does not hide that the notice was accepted."""
    client = over(streamed(200, b"not gzip", **{"content-encoding": "gzip"}), [])
    http = client.notice_client(ORG, None, webhook_endpoint(ORG, HOOK))
    assert (await http.post(b"{}", reads_response=False)).ok


async def test_the_address_is_in_no_log_line() -> None:
    """The host alone is logged: the path of a webhook is its key."""
    lines: list[str] = []
    client = over(streamed(500, b"abc?key=123456789"), [], lines)
    await client.notice_client(ORG, None, webhook_endpoint(ORG, HOOK)).post(b"{}")
    [line] = lines
    assert json.loads(line)["host"] == "hooks.example"
    assert "abc" not in line
    assert "123456789" not in line


async def test_a_path_cannot_leave_the_connection() -> None:
    """A secret address takes no path, and an API's path stays below its host."""
    client = over(streamed(200, b""), [])
    with pytest.raises(CallRefused):
        client.notice_client(ORG, None, webhook_endpoint(ORG, HOOK), "/elsewhere")
    hook = webhook_endpoint(ORG, HOOK)
    api = PlatformEndpoint("slack", "https://slack.com", None, hook.timeouts, hook.rate_limit, "slack 1")
    for path in ("https://evil.example/", "/../x", "//evil.example/x", "/api?x=1", "/api#x"):
        with pytest.raises(CallRefused):
            client.notice_client(ORG, IntegrationId(1), api, path)


@pytest.mark.parametrize(
    "url",
    [
        *(f"https://{host}/hook" for host in SPELLINGS),
        "http://hooks.example/x",
        "https://hooks.example:8443/x",
        "https://user:password@hooks.example/x",
        "https://hooks.example/x#part",
        "ftp://hooks.example/x",
        "file:///etc/passwd",
        "gopher://hooks.example/x",
        "https:///x",
    ],
)
def test_an_address_that_is_not_public_https_is_refused(url: str) -> None:
    """Every spelling of an address, other schemes, ports, names and fragments."""
    with pytest.raises(CallRefused):
        over(streamed(200, b""), []).notice_client(ORG, None, webhook_endpoint(ORG, url))


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd12:3456::1"])
async def test_a_name_that_leads_inside_is_never_connected_to(address: str) -> None:
    """The resolved address is judged, and nothing is sent."""
    clock, register = FakeClock(), SecretRegister()
    wire = HttpTransport(clock, register, Log([].append, clock, register), resolver=Names(address))
    client = Outbound(wire)
    try:
        with pytest.raises(CallRefused, match="not public"):
            await client.notice_client(ORG, None, webhook_endpoint(ORG, HOOK)).post(b"{}")
    finally:
        await client.aclose()


async def test_the_operators_private_host_may_be_a_webhook() -> None:
    """What the operator lists by name and port is reached, also over plain http."""
    peer = ScriptedPeer(GOOD)
    async with listening(peer) as port:
        clock, register = FakeClock(), SecretRegister()
        private = [f"tools.internal:{port}"]
        log = Log([].append, clock, register)
        wire = HttpTransport(clock, register, log, private_hosts=private, resolver=Names("127.0.0.1"))
        client = Outbound(wire)
        endpoint = webhook_endpoint(ORG, f"http://tools.internal:{port}/hook")
        assert isinstance(endpoint.credentials, SecretUrl)
        reply: Any = await client.notice_client(ORG, None, endpoint).post(b"{}", reads_response=False)
        await client.aclose()
    assert reply.ok
    assert peer.heads[0].startswith("POST /hook ")


async def test_a_host_that_does_not_resolve_is_tried_again_later() -> None:
    """No name now is not a refusal permanently."""
    clock, register = FakeClock(), SecretRegister()
    client = Outbound(HttpTransport(clock, register, Log([].append, clock, register), resolver=Names()))
    try:
        with pytest.raises(PlatformUnavailable):
            await client.notice_client(ORG, None, webhook_endpoint(ORG, HOOK)).post(b"{}")
    finally:
        await client.aclose()
