"""The three clients: what each lets through, repeats, redirects, outcomes of writes.

See docs/design/connectors.md#test-mode and docs/design/connectors.md#outbound-guard.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from steward.model.change import batch_key
from steward.model.ids import IntegrationId, OrgId, RunId
from steward.outbound.client import ManagementClient, Outbound, ReadClient, WriteClient
from steward.outbound.endpoint import Basic, Credentials, PlatformEndpoint, RateLimit, SecretUrl, Timeouts
from steward.outbound.errors import (
    CallRefused,
    NotSent,
    OutcomeUnknown,
    PlatformUnavailable,
    Throttled,
    UnknownHost,
    UnusableResponse,
    WrongAddress,
)
from steward.outbound.grant import WriteGrant
from steward.outbound.transport import REQUEST_BYTES, HttpTransport
from steward.telemetry.log import Log
from steward.telemetry.redact import Secret, SecretRegister
from tests.fake_clock import FakeClock

ORG, SHOP = OrgId(1), IntegrationId(11)
KEYS = ("6f0a3d2e-0000-5000-8000-000000000001", "6f0a3d2e-0000-5000-8000-000000000002")
Responder = Callable[[httpx.Request], httpx.Response]


class Shop:
    """Answers as the test says, and counts what arrived."""

    def __init__(self, *responses: httpx.Response | Exception | Responder) -> None:
        self.responses = list(responses)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Returns the next response, and the last one again and again."""
        self.requests.append(request)
        reply = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
        if isinstance(reply, Exception):
            raise reply
        response = reply if isinstance(reply, httpx.Response) else reply(request)
        assert isinstance(response.stream, httpx.SyncByteStream)
        raw = httpx.ByteStream(b"".join(response.stream))
        return httpx.Response(response.status_code, headers=response.headers, stream=raw)


class ShopClient:
    """A client over a Shop."""

    def __init__(
        self, clock: FakeClock, *responses: Any, proof: Credentials = None, base: str = "https://shop.example"
    ) -> None:
        self.clock = clock
        self.shop = Shop(*(responses or (httpx.Response(200, json={}),)))
        self.lines: list[str] = []
        self.register = SecretRegister()
        log = Log(self.lines.append, clock, self.register)
        transport = httpx.MockTransport(self.shop)
        self.wire = HttpTransport(
            clock, self.register, log, transport=transport, private_hosts=["127.0.0.1:8500"]
        )
        self.outbound = Outbound(self.wire, jitter=lambda: 0.5)
        self.link = PlatformEndpoint("test", base, proof, Timeouts(), RateLimit(max_concurrency=4), "test")

    def reading(self) -> ReadClient:
        """A reading client."""
        return self.outbound.read_client(ORG, SHOP, self.link)

    def upkeep(self) -> ManagementClient:
        """An upkeep client."""
        return self.outbound.management_client(ORG, None, self.link)

    def grant(self, **changed: Any) -> WriteGrant:
        """A grant for both keys, good for 30 s, to be sent within 5."""
        now = self.clock.now()
        grant = WriteGrant(
            ORG, RunId("r"), 1, "0" * 64, dict.fromkeys(KEYS, SHOP), lambda: now + timedelta(seconds=30),
            now + timedelta(seconds=5),
        )  # fmt: skip
        return replace(grant, **changed)

    def writing(self, **changed: Any) -> WriteClient:
        """A writing client."""
        return self.outbound.write_client(self.grant(**changed), SHOP, self.link)

    async def waited(self, work: Any) -> Any:
        """Runs `work` while the time goes on by itself."""
        task = asyncio.ensure_future(work)
        for _ in range(20):
            await self.clock.settle()
            if task.done():
                break
            await self.clock.advance(20)
        return await task


async def write(client: WriteClient, *keys: str, **changed: Any) -> Any:
    """One write for `keys`."""
    named = keys or KEYS[:1]
    fields = {"write_keys": named, "key": batch_key(named)} | changed
    return await client.send("POST", "/things", {"a": 1}, **fields)


def test_a_reading_client_has_no_way_to_send_anything_but_reads() -> None:
    """Refusing is the absence of a method. See docs/design/connectors.md#test-mode."""
    public = {name for name in dir(ReadClient) if not name.startswith("_")}
    # ask: registered documents that only read; ask_made: queries the platform's own compiler makes
    assert public == {"get", "head", "execute", "execute_compiled", "fetch", "lines", "pause"}
    assert not issubclass(ReadClient, WriteClient)
    assert not issubclass(ManagementClient, WriteClient)


async def test_reads_arrive_as_get_and_head_without_anything_of_ours_but_the_key(clock: FakeClock) -> None:
    """See docs/design/connectors.md#test-mode and docs/design/connectors.md#addresses."""
    bench = ShopClient(clock, proof=Basic(Secret("ck_12345678"), Secret("cs_12345678")))
    await bench.reading().get("/a b/x", {"sku": "A,B & C", "page": "1"})
    await bench.reading().head("/a")
    get, head = bench.shop.requests
    assert (get.method, head.method) == ("GET", "HEAD")
    assert str(get.url) == "https://shop.example/a%20b/x?sku=A%2CB+%26+C&page=1"
    assert get.headers["authorization"].startswith("Basic ")
    assert get.headers["accept-encoding"] == "gzip, deflate"
    assert "cookie" not in get.headers
    assert "idempotency-key" not in get.headers


async def test_a_check_does_not_try_an_unknown_host_again(clock: FakeClock) -> None:
    """Ends a check at once for a mistyped name, for which a person waits; a run's read is tried again."""
    for kind, tries in ((ShopClient.upkeep, 1), (ShopClient.reading, 3)):
        bench = ShopClient(clock, UnknownHost("shop.example"))
        with pytest.raises(UnknownHost, match="There is no host named shop"):
            await bench.waited(kind(bench).get("/"))
        assert len(bench.shop.requests) == tries


@pytest.mark.parametrize("path", ["x", "//evil.example/x", "/a/../b", "/a?x=1", "/a#b", "/a\\b", "", "/./a"])
async def test_a_path_cannot_leave_the_connection(clock: FakeClock, path: str) -> None:
    """See docs/design/connectors.md#hosts-and-secrets."""
    bench = ShopClient(clock)
    with pytest.raises(CallRefused):
        await bench.reading().get(path)
    assert bench.shop.requests == []


@pytest.mark.parametrize(
    "failure",
    [httpx.ConnectError("x"), httpx.ReadTimeout("x"), httpx.ReadError("x"), httpx.Response(429),
     httpx.Response(500), httpx.Response(502), httpx.Response(503), httpx.Response(504)],
)  # fmt: skip
async def test_a_read_is_tried_three_times_with_one_and_four_seconds_between(
    clock: FakeClock, failure: Any
) -> None:
    """See docs/design/connectors.md#retries."""
    bench = ShopClient(clock, failure, failure, httpx.Response(200, json={"ok": 1}))
    begun = clock.monotonic()
    task = asyncio.create_task(bench.reading().get("/x"))
    await clock.advance(0.9)
    assert len(bench.shop.requests) == 1
    await clock.advance(0.1)
    assert len(bench.shop.requests) == 2
    await clock.advance(4)
    assert (await task).status == 200
    assert clock.monotonic() - begun == 5


async def test_a_read_is_not_tried_a_fourth_time(clock: FakeClock) -> None:
    """Up to 3 tries. See docs/design/connectors.md#retries."""
    bench = ShopClient(clock, httpx.ReadTimeout("x"))
    with pytest.raises(PlatformUnavailable):
        await bench.waited(bench.reading().get("/x"))
    assert len(bench.shop.requests) == 3
    limited = ShopClient(clock, httpx.Response(429, headers={"retry-after": "3"}))
    with pytest.raises(Throttled):
        await limited.waited(limited.reading().get("/x"))
    maintained = ShopClient(clock, httpx.Response(503))
    assert (await maintained.waited(maintained.reading().get("/x"))).status == 503


@pytest.mark.parametrize(("named", "tries"), [("60", 3), ("61", 1)])
async def test_a_named_wait_is_kept_up_to_a_minute(clock: FakeClock, named: str, tries: int) -> None:
    """Retry-After up to 60 s in the step. See docs/design/connectors.md#retries."""
    bench = ShopClient(clock, httpx.Response(429, headers={"retry-after": named}))
    with pytest.raises(Throttled) as told:
        await bench.waited(bench.reading().get("/x"))
    assert told.value.wait_s == int(named)
    assert len(bench.shop.requests) == tries


@pytest.mark.parametrize("status", [400, 401, 403, 404, 501])
async def test_other_responses_are_not_retried(clock: FakeClock, status: int) -> None:
    """See docs/design/connectors.md#retries."""
    bench = ShopClient(clock, httpx.Response(status))
    assert (await bench.reading().get("/x")).status == status
    assert len(bench.shop.requests) == 1


def moved(to: str, status: int = 302) -> httpx.Response:
    """A redirect."""
    return httpx.Response(status, headers={"location": to})


async def test_reads_follow_three_redirects_of_the_same_host(clock: FakeClock) -> None:
    """See docs/design/connectors.md#redirects."""
    chain = [moved("/b"), moved("https://shop.example/c", 307), moved("d"), httpx.Response(200)]
    bench = ShopClient(clock, *chain)
    assert (await bench.reading().get("/a")).ok
    assert [request.url.path for request in bench.shop.requests] == ["/a", "/b", "/c", "/d"]
    with pytest.raises(WrongAddress):
        await ShopClient(clock, moved("/again")).reading().get("/a")


@pytest.mark.parametrize(
    "to",
    ["https://evil.example/", "http://shop.example/", "https://shop.example:8443/", "//evil.example/",
     "https://user@shop.example/", "https://169.254.169.254/", "http://127.0.0.1:8500/"],
)  # fmt: skip
async def test_a_redirect_elsewhere_is_never_followed(clock: FakeClock, to: str) -> None:
    """See docs/design/connectors.md#redirects."""
    bench = ShopClient(clock, moved(to), httpx.Response(200))
    with pytest.raises(WrongAddress):
        await bench.reading().get("/a")
    assert len(bench.shop.requests) == 1


async def test_a_secret_address_and_a_write_follow_no_redirect(clock: FakeClock) -> None:
    """See docs/design/connectors.md#redirects."""
    secret = SecretUrl(Secret("https://shop.example/hook?sig=abcdefgh"))
    bench = ShopClient(clock, moved("/b"), httpx.Response(200), proof=secret)
    with pytest.raises(WrongAddress):
        await bench.reading().get("")
    writing = ShopClient(clock, moved("/b"), httpx.Response(200))
    assert (await write(writing.writing())).status == 302
    assert [len(each_bench.shop.requests) for each_bench in (bench, writing)] == [1, 1]


async def test_a_write_carries_the_key_of_its_effects(clock: FakeClock) -> None:
    """See docs/design/fake-platforms.md#control and docs/design/writes.md#keys."""
    bench = ShopClient(clock)
    await write(bench.writing(), *KEYS)
    assert bench.shop.requests[0].headers["idempotency-key"] == batch_key(KEYS)
    await write(bench.writing(), KEYS[0])
    assert bench.shop.requests[1].headers["idempotency-key"] == KEYS[0]


@pytest.mark.parametrize(
    "changed",
    [
        {"write_keys": (), "key": ""},
        {"write_keys": ("unknown",), "key": "unknown"},
        {"write_keys": (KEYS[0], KEYS[0])},
        {"write_keys": KEYS, "key": KEYS[0]},
        {"write_keys": KEYS[:1], "key": "another"},
    ],
)
async def test_a_write_without_its_named_effect_is_refused(clock: FakeClock, changed: dict[str, Any]) -> None:
    """See docs/design/connectors.md#test-mode."""
    bench = ShopClient(clock)
    with pytest.raises(NotSent) as refused:
        await write(bench.writing(), **changed)
    assert isinstance(refused.value.cause, CallRefused)
    assert bench.shop.requests == []


async def test_a_write_to_another_connection_is_refused(clock: FakeClock) -> None:
    """See docs/design/connectors.md#test-mode."""
    bench = ShopClient(clock)
    with pytest.raises(NotSent):
        await write(bench.writing(connections={KEYS[0]: IntegrationId(12)}))
    assert bench.shop.requests == []


async def test_a_write_after_the_confirmed_end_of_the_lease_is_refused(clock: FakeClock) -> None:
    """The lease is asked at the moment of sending. See docs/design/connectors.md#test-mode."""
    bench = ShopClient(clock)
    end = [clock.now() + timedelta(milliseconds=1)]
    client = bench.writing(confirmed_until=lambda: end[0])
    await write(client, KEYS[0])
    end[0] = clock.now()
    with pytest.raises(NotSent):
        await write(client, KEYS[1])
    assert len(bench.shop.requests) == 1


async def test_a_write_five_seconds_after_its_intent_is_sent_and_later_is_not(clock: FakeClock) -> None:
    """See docs/design/writes.md#protocol-of-one-write."""
    bench = ShopClient(clock)
    first, second = bench.writing(), bench.writing()
    clock.tick(5)
    await write(first)
    clock.tick(0.001)
    with pytest.raises(NotSent):
        await write(second)
    assert len(bench.shop.requests) == 1


async def test_an_effect_is_sent_once_by_a_client(clock: FakeClock) -> None:
    """A write is never repeated, at any layer. See docs/design/connectors.md#retries."""
    bench = ShopClient(clock, httpx.ReadError("reset"))
    client = bench.writing()
    with pytest.raises(OutcomeUnknown):
        await write(client)
    with pytest.raises(NotSent):
        await write(client)
    assert len(bench.shop.requests) == 1


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (httpx.ConnectError("refused"), NotSent), (httpx.ConnectTimeout("late"), NotSent),
        (httpx.PoolTimeout("full"), NotSent), (httpx.Response(429, headers={"retry-after": "9"}), NotSent),
        (httpx.ReadError("reset"), OutcomeUnknown), (httpx.WriteError("pipe"), OutcomeUnknown),
        (httpx.ReadTimeout("slow"), OutcomeUnknown), (httpx.WriteTimeout("slow"), OutcomeUnknown),
        (httpx.RemoteProtocolError("no answer"), OutcomeUnknown), (ConnectionResetError(), OutcomeUnknown),
        (httpx.Response(200, content=b"x" * (10 * 1024 * 1024 + 1)), OutcomeUnknown),
        (httpx.Response(200, headers={"content-encoding": "br"}), OutcomeUnknown),
    ],
)  # fmt: skip
async def test_a_failed_write_arrives_at_most_once(clock: FakeClock, failure: Any, kind: type) -> None:
    """Sends a write at most once, however it fails. See docs/design/writes.md#protocol-of-one-write."""
    bench = ShopClient(clock, failure)
    with pytest.raises(kind) as told:
        await write(bench.writing())
    assert len(bench.shop.requests) == 1
    if isinstance(told.value.cause, Throttled):
        assert told.value.cause.wait_s == 9


@pytest.mark.parametrize("status", [200, 201, 400, 401, 404, 413, 500, 503])
async def test_other_responses_to_a_write_are_passed_on(clock: FakeClock, status: int) -> None:
    """Their meaning is the connector's. See docs/design/connectors.md#errors."""
    bench = ShopClient(clock, httpx.Response(status))
    assert (await write(bench.writing())).status == status
    assert len(bench.shop.requests) == 1


async def test_a_request_over_two_mebibytes_and_headers_over_64_kib_are_stopped(clock: FakeClock) -> None:
    """See docs/design/connectors.md#limits."""
    bench = ShopClient(clock)
    with pytest.raises(NotSent):
        await bench.writing().send("POST", "/x", "x" * REQUEST_BYTES, write_keys=KEYS[:1], key=KEYS[0])
    await bench.writing().send("POST", "/x", "x" * (REQUEST_BYTES - 2), write_keys=KEYS[:1], key=KEYS[0])
    wide = ShopClient(clock, httpx.Response(200, headers={"x-wide": "x" * 65_536}))
    with pytest.raises(UnusableResponse):
        await wide.reading().get("/x")


async def test_only_writes_are_written(clock: FakeClock) -> None:
    """See docs/design/connectors.md#test-mode."""
    with pytest.raises(NotSent):
        await ShopClient(clock).writing().send("GET", "/x", {}, write_keys=KEYS[:1], key=KEYS[0])


async def test_a_check_can_be_made_without_the_secret(clock: FakeClock) -> None:
    """The site's index needs no key. See docs/design/connectors.md#woocommerce."""
    bench = ShopClient(clock, proof=Basic(Secret("ck_12345678"), Secret("cs_12345678")))
    await bench.upkeep().get_without_credentials("/wp-json/")
    await bench.upkeep().send("POST", "/x", {})
    bare, sent = bench.shop.requests
    assert "authorization" not in bare.headers
    assert sent.headers["authorization"].startswith("Basic ")


async def test_a_secret_in_a_response_or_error_never_reaches_a_line_or_a_text(clock: FakeClock) -> None:
    """Canaries. See docs/design/connectors.md#redaction and docs/design/connectors.md#tests."""
    key, word = Secret("ck_canary_1234567890"), Secret("cs_canary_0987654321")
    echo = f"no: {key.reveal()} {word.reveal()}"
    bench = ShopClient(clock, httpx.Response(404, text=echo), proof=Basic(key, word))
    response = await bench.reading().get("/x", {"q": word.reveal()})
    assert response.quote(response.body.decode()) == "no: [redacted] [redacted]"
    assert not any("canary" in line for line in bench.lines)
    assert '"host": "shop.example"' in bench.lines[0]


def test_a_connection_to_an_address_is_refused_when_it_is_opened(clock: FakeClock) -> None:
    """See docs/design/connectors.md#addresses."""
    for base in ("https://2130706433/", "http://shop.example", "https://[::1]/"):
        with pytest.raises(CallRefused):
            ShopClient(clock, base=base).reading()


async def test_a_secret_address_on_another_host_than_its_link_is_refused(clock: FakeClock) -> None:
    """A secret goes to its connection's host alone. See docs/design/connectors.md#hosts-and-secrets."""
    bench = ShopClient(clock, proof=SecretUrl(Secret("https://evil.example/hook?sig=abcdefgh")))
    with pytest.raises(CallRefused):
        await bench.reading().get("")
    assert bench.shop.requests == []
