"""Provides a store of either platform with any goods and orders, read and written by its connector."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from steward.connectors.base.connector import Reader, WriteOperation
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.model.change import Part, Proposal
from steward.model.connection import Connection
from steward.outbound.client import Outbound
from tests.connectors.fake_connections import Connection as Connected
from tests.connectors.fake_connections import outside
from tests.connectors.shopify.bench import NUMBER, StoreConnection
from tests.fake_clock import FakeClock
from tests.fakes.shopify.store import ShopifyFake
from tests.templates.orders_of import OrderSpec, in_shopify, in_woocommerce
from tests.templates.sample_products import ProductSpec, fill_shopify, fill_woocommerce
from tests.templates.stage import SHOP, connection

PLATFORMS = ("woocommerce", "shopify")


@dataclass
class StoreAccess:
    """Holds one store: the reader that a run has, and the operations that write."""

    store: Connection
    reader: Reader
    changes: dict[str, WriteOperation[Any]]
    outbound: Outbound
    clock: FakeClock
    woo: Any = None
    shop: Connected | None = None
    bench: StoreConnection | None = None

    async def apply(self, proposals: Sequence[Proposal]) -> list[WriteState]:
        """Sends all parts, grouped by operation, reads back open ones and returns their states."""
        bench = self.bench
        if bench is None:
            assert self.shop is not None
            return await self.shop.apply(proposals)
        states: list[WriteState] = []
        for op in dict.fromkeys(part.operation for proposal in proposals for part in proposal.parts):
            parts = [
                part for each_proposal in proposals for part in each_proposal.parts if part.operation == op
            ]
            for group in self.changes[op].group(parts):
                sent = zip(group, await bench.send(bench.batch(group)), strict=True)
                states += [(await self._settled(part, outcome)).state for part, outcome in sent]
        return states

    async def _settled(self, part: Part, outcome: WriteOutcome) -> WriteOutcome:
        """Reads back a write whose outcome is open, because Shopify cancels orders in a later job."""
        return await self.reader.confirm(part) if outcome.state is WriteState.UNKNOWN else outcome

    def prices(self) -> dict[str, tuple[str | None, str | None]]:
        """Returns price and compare-at price of every variant by its id."""
        if self.bench is not None:
            rows = self.bench.store.of("ProductVariant")
            return {row["id"]: (row["price"], row["compareAtPrice"]) for row in rows}
        rows = [*self.woo.products.values(), *self.woo.variations.values()]
        return {str(row["id"]): (row["regular_price"], row["sale_price"]) for row in rows}


async def ground(
    platform: str, goods: Sequence[ProductSpec], sold: Sequence[tuple[int, str, str]]
) -> StoreAccess:
    """Opens a store that holds these goods and orders and nothing else.

    `sold` holds orders of `Cup 1` as (hours ago, state, total); every order belongs to one of two
    customers.
    """
    clock = FakeClock()
    hours_ago = [(clock.now() - timedelta(hours=hours), state, total) for hours, state, total in sold]
    bought = [OrderSpec(moment, (("Cup 1", 1, total),), state) for moment, state, total in hours_ago]
    if platform == "woocommerce":
        fakes = outside(clock)
        woo = fakes.world.state.shop
        fill_woocommerce(SimpleNamespace(world=fakes.world), goods)  # type: ignore[arg-type]
        in_woocommerce(woo, bought)
        for index, row in enumerate(woo.orders.values()):
            row["customer_id"] = list(woo.customers)[index % 2]
        shop = fakes.connection("woocommerce")
        changes = dict(shop.connector.writes)
        own_connection = connection("woocommerce", SHOP)
        return StoreAccess(own_connection, shop.reader(), changes, fakes.outbound, clock, woo=woo, shop=shop)
    fake = ShopifyFake(now=clock.now)
    bench = StoreConnection(clock, fake)
    fill_shopify(fake, goods)
    in_shopify(fake, bought)
    people = [fake.add_customer(name) for name in ("Ada", "Bo")]
    for index, row in enumerate(fake.of("Order")):
        row["customer"] = people[index % 2]["id"]
    health = await bench.check()
    facts = {
        name: [[position.id, position.name, position.active] for position in getattr(health, name)]
        for name in ("channels", "locations")
    }
    own_connection = connection("shopify", NUMBER, facts=facts)
    return StoreAccess(
        own_connection, bench.reader(), dict(bench.connector.writes), bench.outbound, clock, bench=bench
    )
