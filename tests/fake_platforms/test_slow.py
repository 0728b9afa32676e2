"""Tests the fake shop's slowness, set at the start or on the control surface, for every caller."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from steward.fake_platforms.application import FakePlatforms, create
from steward.fake_platforms.slow import Slowness, span

URL = "http://shop.example"
NOW = datetime(2026, 5, 1, 6, 0, tzinfo=UTC)


class WaitRecorder:
    """Records the waits instead of waiting."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        """Records the seconds; no time passes."""
        self.seconds.append(seconds)


def served(
    waited: Callable[[float], Awaitable[None]], slow: Slowness | None = None
) -> tuple[FakePlatforms, Any]:
    """Returns fake platforms and a client of their shop."""
    world = create(1, URL, lambda: NOW, slow=slow, sleep=waited)
    keys = world.described()["woocommerce"]
    auth = (keys["consumer_key"], keys["consumer_secret"])
    return world, httpx.AsyncClient(transport=world.transport(), base_url=URL, auth=auth, timeout=60)


async def test_a_page_takes_as_long_as_it_is_and_an_object_the_least() -> None:
    waited = WaitRecorder()
    _, client = served(waited, Slowness(2, 20))
    for path in ("products?per_page=100", "products?per_page=50", "products", "products/1", "orders/1"):
        await client.get(f"/wp-json/wc/v3/{path}")
    await client.put("/wp-json/wc/v3/products/1", json={"name": "New"})
    assert waited.seconds == [20, 11, 3.8, 2, 2, 2]
    await client.get("/sandbox/ledger")
    await client.get("/s3/supplier/stock.csv")
    assert len(waited.seconds) == 6  # only the shop is slow


async def test_it_is_set_shown_and_taken_away_on_the_control_surface() -> None:
    waited = WaitRecorder()
    _, client = served(waited)
    await client.get("/wp-json/wc/v3/products")
    assert waited.seconds == []
    body = {"least_seconds": 2, "most_seconds": 20}
    assert (await client.post("/sandbox/slow", json=body)).json() == body
    assert (await client.get("/sandbox/slow")).json() == body
    await client.get("/wp-json/wc/v3/products/1")
    assert waited.seconds == [2]
    none = {"least_seconds": 0, "most_seconds": 0}
    assert (await client.delete("/sandbox/slow")).json() == none
    await client.post("/sandbox/slow", json=body)
    await client.post("/sandbox/reset")
    assert (await client.get("/sandbox/slow")).json() == none


@pytest.mark.parametrize(
    "query", [{}, {"least_seconds": 3, "most_seconds": 2}, {"least_seconds": 0, "most_seconds": 601},
            {"least_seconds": True, "most_seconds": 2}, {"least_seconds": 1, "most_seconds": 2, "x": 1}, []]
)  # fmt: skip
async def test_an_invalid_slowness_is_refused(query: Any) -> None:
    _, client = served(WaitRecorder())
    response = await client.post("/sandbox/slow", json=query)
    assert (response.status_code, list(response.json())) == (400, ["error"])


async def test_a_caller_that_does_not_wait_gets_no_response_but_its_write_is_made() -> None:
    """The client times out, and the shop still makes the write, as over a socket."""
    waited = WaitRecorder()
    world, client = served(waited, Slowness(90, 90))
    with pytest.raises(httpx.ReadTimeout):
        await client.put("/wp-json/wc/v3/products/1", json={"name": "New"})
    assert waited.seconds == [60]
    assert world.state.shop.products[1]["name"] == "New"


def test_the_command_line_takes_a_span() -> None:
    assert span("2-20") == Slowness(2, 20)
    for text in ("", "2", "20-2", "2-", "2-601", "a-b"):
        with pytest.raises(ValueError, match="seconds"):
            span(text)
