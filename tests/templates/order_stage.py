"""Runs the steps of an order template beside a fake store of orders."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from steward.connectors.base.queries import RecordPage
from steward.connectors.base.records import Order, OrderLine
from steward.connectors.shopify.connector import Shopify
from steward.connectors.woocommerce.connector import WooCommerceConnector
from steward.model.change import Outcome
from steward.outbound.errors import RemoteNotFound
from steward.templates.base import Template
from tests.templates.stage import NOW, SHOP, Stage, StageRun, connection

CHANGES: Mapping[str, Any] = {
    "shopify": Shopify(version="2026-10", url=None, read_s=20.0).writes,
    "woocommerce": WooCommerceConnector(private_hosts=(), read_s=20.0).writes,
}


def line(sku: str = "TEA-1", **changed: Any) -> OrderLine:
    """Returns a line of one unsent pot of tea."""
    about: dict[str, Any] = {
        "id": f"l-{sku}", "product_id": "7", "variant_id": "8", "sku": sku, "title": "Earl Grey",
        "quantity": 1, "total": "20.00", "open_quantity": 1,
    }  # fmt: skip
    return OrderLine(**{**about, **changed})


def order(number: str = "1", **changed: Any) -> Order:
    """Returns an open order of 20.00 EUR, placed and last changed an hour ago."""
    about: dict[str, Any] = {
        "id": number, "number": f"#{number}", "status": "open", "paid": False, "fulfilled": False,
        "cancelled_at": None, "total": "20.00", "currency": "EUR", "tags": (), "customer_id": None,
        "lines": (line(),), "created_at": ago(1), "modified_at": ago(1), "country": "DE",
    }  # fmt: skip
    return Order(**{**about, **changed})


def ago(hours: float, now: datetime = NOW) -> datetime:
    """Returns the time so many hours before the stage's time."""
    return now - timedelta(hours=hours)


@dataclass
class Orders:
    """Holds orders, returns them in small pages that overlap, and records every query.

    See docs/design/templates.md#e10-pages.
    """

    orders: list[Order] = field(default_factory=list)
    asks: list[Any] = field(default_factory=list)

    async def read(self, op: Any, params: Any) -> AsyncIterator[RecordPage[Any]]:
        """Yields pages as a store's reader does."""
        self.asks.append(params)
        if op.name == "order":
            orders = [order for order in self.orders if order.id == params.id]
            if not orders:
                raise RemoteNotFound
            yield RecordPage((orders[0],))
            return
        assert op.name == "orders"
        fitting = [each_order for each_order in self.orders if self._fits(each_order, params)]
        size = max(2, len(fitting) // 50)
        for index in range(0, len(fitting), size):
            yield RecordPage(tuple(fitting[max(index - 1, 0) : index + size]), next=str(index))
        yield RecordPage(())

    def _fits(self, order: Order, query: Any) -> bool:
        return (query.ids is None or order.id in query.ids) and (
            query.modified_after is None
            or (order.modified_at is not None and order.modified_at > query.modified_after)
        )


@dataclass
class OrderStage(Stage):
    """Runs one automation on a store of orders, taking its changes for applied without making them."""

    async def run(self, **options: Any) -> StageRun:
        """Makes one run."""
        return await super().run(**{"outcome": Outcome.APPLIED, **options})


def stage(template: Template, *orders: Order, platform: str = "shopify", **inputs: Any) -> OrderStage:
    """Returns a stage on a store of that platform which holds these orders."""
    return OrderStage(
        template,
        inputs,
        shop=Orders(list(orders)),
        store=connection(platform, SHOP),
        changes=CHANGES[platform],
    )


def ids(run: StageRun) -> list[str | None]:
    """Returns the ids of the orders that a run would change, in order."""
    return [proposal.object.id for proposal in run.proposals]
