"""Tests that a call to a slow shop carries at most as many items as the shop handles in 20 seconds."""

import json
from typing import Any

import httpx
import pytest

from steward import worker
from steward.model.change import Outcome
from steward.model.run import RunStatus
from tests.runs.shop import Shop

PRODUCTS = 100


class SlowShop(httpx.AsyncBaseTransport):
    """A shop that takes `item_seconds` per written object and records the size of each call."""

    def __init__(self, shop: Shop, item_seconds: float) -> None:
        self._shop = shop
        self._transport = shop.world.transport()
        self.item_seconds = item_seconds
        self.sizes: dict[str, list[int]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Advances the clock by the time the call takes, with a heartbeat, then passes the request on."""
        if request.method != "GET" and self._shop.worker is not None:
            body: dict[str, Any] = json.loads(request.content)
            items = body.get("update", [body])
            changed = next(name for name in items[0] if name != "id")
            self.sizes.setdefault(changed, []).append(len(items))
            self._shop.clock.tick(self.item_seconds * len(items))
            await worker.heartbeat(self._shop.worker)
        return await self._transport.handle_async_request(request)


@pytest.mark.parametrize(
    ("item_seconds", "second"),
    [(0.5, 40), (7.0, 2)],
)
async def test_no_call_takes_longer_than_twenty_seconds(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, item_seconds: float, second: int
) -> None:
    """Batch sizes follow the measured time per item: after a probe no call takes over 20 seconds."""
    slow = SlowShop(shop, item_seconds)
    monkeypatch.setattr(shop.world, "transport", lambda: slow)
    shop.world.load_products(PRODUCTS)
    await shop.restart()
    run = await shop.waiting(await shop.hiding(threshold=100_000, limit=5_000))
    await shop.approve(run)
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.SUCCEEDED
    changes = await shop.changes(run)
    assert {change.outcome for change in changes} == {Outcome.APPLIED}
    for changed in ("catalog_visibility", "tags"):
        sizes = slow.sizes[changed]
        assert sum(sizes) == len(changes)
        # The first product goes by itself, for it has the tag made.
        assert sizes[:2] == [1, min(second, len(changes) - 1)]
        assert max(sizes) * item_seconds <= 20
