"""Answers that are not plain JSON: PHP notices before the data are skipped, web pages are named."""

from typing import Any

import httpx
import pytest

from steward.connectors.base.commands import SetPrice
from steward.connectors.base.queries import PRODUCTS, ProductsQuery
from steward.connectors.base.writing import WriteState
from steward.connectors.woocommerce.bodies import decoded_of, page_error
from steward.connectors.woocommerce.responses import error_of, rows_of
from steward.outbound.errors import UnusableResponse, WrongResponder
from steward.outbound.response import PlatformResponse
from tests.connectors.fake_connections import Connection, FakePlatformsClient, outside
from tests.fake_clock import FakeClock

NOTICE = (
    b"<br />\n<b>Warning</b>:  Undefined array key [sku] in <b>/var/www/x.php</b> on line <b>12</b><br />\n"
    b"PHP Notice: Trying {this} in /var/www/y.php on line 7\n"
)
PAGE = b"<!DOCTYPE html><html><head><title>%s</title></head><body>Checking your browser</body></html>"
HTML = {"content-type": "text/html; charset=UTF-8"}


def response(body: bytes, status: int = 200, clean: Any = str) -> PlatformResponse:
    """Returns a response with this body."""
    return PlatformResponse(status, HTML, body, clean)


@pytest.mark.parametrize("data", [b'{"id": 1}', b'[{"id": 1}]', b"[]", b'{"id": 1}\r\n', b'\n  {"id": 1}'])
def test_data_after_notices_is_read(data: bytes) -> None:
    assert decoded_of(response(NOTICE + data)) == decoded_of(response(data.strip()))


@pytest.mark.parametrize(
    "body",
    [
        NOTICE,
        NOTICE + b'{"id": 1',
        NOTICE + b'{"id": 1} and more',
        b"",
        b"Forbidden",
        NOTICE + b"[" * 100_000,
        b"\n[" * 100_000,
        b"<br />\n" + b'{"a":' * 60 + b"1" + b"}" * 60 + b" <br />",
        NOTICE + b'{"n": ' + b"9" * 41 + b"}",
    ],
)
def test_a_response_without_data_after_notices_stays_unusable(body: bytes) -> None:
    with pytest.raises(UnusableResponse):
        decoded_of(response(body))


def test_a_web_page_as_a_response_is_named_by_its_title() -> None:
    """Names a web page by its title, on one line, redacted and cut to 80 characters."""
    with pytest.raises(WrongResponder) as refusal:
        rows_of(response(PAGE % b"Just a moment..."))
    assert refusal.value.message == (
        "The shop answered with a web page titled “Just a moment...” instead of data: a security plug-in or a"
        " CDN may be in between."
    )
    hostile = "A\r\n&#8238;B&amp;C\u202eD\x1b[31m hunter22 ".encode() + b"x" * 400
    error = page_error(response(PAGE % hostile, clean=lambda text: text.replace("hunter22", "[redacted]")))
    assert error is not None
    displayed = error.message.partition("“")[2].partition("”")[0]
    assert displayed.startswith("A B&C D [31m [redacted] xxx")
    assert len(displayed) <= 80
    bare = page_error(response(b"<html><body>x</body></html>"))
    assert bare is not None
    assert "a web page instead of data" in bare.message


@pytest.mark.parametrize("status", [200, 401, 403, 404])
def test_a_page_says_nothing_of_the_key(status: int) -> None:
    error = error_of(response(PAGE % b"Blocked", status), write=status == 403)
    assert isinstance(error, WrongResponder)
    assert "key" not in error.message


@pytest.fixture
def world(clock: FakeClock) -> FakePlatformsClient:
    """Returns the fake platforms."""
    return outside(clock)


@pytest.fixture
def shop(world: FakePlatformsClient) -> Connection:
    """Returns the connection of the shop."""
    return world.connection("woocommerce")


def fault(world: FakePlatformsClient, method: str, body: bytes, **more: Any) -> None:
    """Makes the shop answer the next request of `method` with this body."""
    query = {"method": method, "path": "/wp-json/**", "kind": "status", "status": 200, **more}
    world.world.state.faults.make({**query, "body": body.decode()})


@pytest.mark.parametrize(("applied", "settled"), [(False, WriteState.NOT_SENT), (True, WriteState.APPLIED)])
async def test_a_403_page_on_a_write_is_unknown_and_read_back(
    shop: Connection, world: FakePlatformsClient, applied: bool, settled: WriteState
) -> None:
    """Treats a 403 page on a write as unknown, since the shop may have written, and settles it by reading."""
    [product, *_] = await shop.all(PRODUCTS, ProductsQuery(ids=("1",)))
    [proposal] = shop.plan("variant.set_price", SetPrice(product.variants[0], "50.00")).proposals
    fault(world, "POST", PAGE % b"Access denied", status=403, kind="status_after" if applied else "status")
    [outcome] = await shop.send(proposal.parts)
    assert outcome.state is WriteState.UNKNOWN
    assert outcome.reason is not None
    assert "“Access denied”" in outcome.reason
    assert "key" not in outcome.reason
    assert (await shop.reader().confirm(proposal.parts[0])).state is settled


async def test_a_check_warns_of_notices_and_continues(shop: Connection, world: FakePlatformsClient) -> None:
    """Warns of notices in every response and reads the data behind them."""
    inner = world.transport

    class Noisy(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await inner.handle_async_request(request)
            body = NOTICE + await response.aread()
            headers = [item for item in response.headers.raw if item[0].lower() != b"content-length"]
            return httpx.Response(response.status_code, headers=headers, stream=httpx.ByteStream(body))

    noisy = FakePlatformsClient(world.clock, world.world, Noisy()).connection("woocommerce")
    health = await noisy.check()
    assert health.ok
    assert [warning.code for warning in health.warnings if warning.code == "notices"] == ["notices"]
    assert not [
        each_warning for each_warning in (await shop.check()).warnings if each_warning.code == "notices"
    ]
    assert len(await noisy.all(PRODUCTS, ProductsQuery())) == 50


@pytest.mark.parametrize("status", [200, 401, 403])
async def test_a_check_that_meets_a_page_says_so(
    shop: Connection, world: FakePlatformsClient, status: int
) -> None:
    world.world.state.faults.make(
        {"method": "*", "path": "/**", "kind": "status", "status": status, "body": (PAGE % b"Shop").decode(),
         "count": -1}
    )  # fmt: skip
    health = await shop.check()
    assert isinstance(health.error, WrongResponder)
    assert "“Shop”" in health.error.message
