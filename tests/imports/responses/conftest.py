"""Provides a shop and an HTTP address that takes orders, once on each engine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steward.fake_platforms.application import FakePlatforms
from steward.model.account import Actor
from tests.fake_clock import FakeClock
from tests.imports.responses.orders_address import OrdersAddress
from tests.runs.shop import Shop, open_shop


@pytest.fixture
def orders() -> OrdersAddress:
    """Provides the address that takes orders."""
    return OrdersAddress()


@pytest.fixture
async def shop(
    database_url: str, clock: FakeClock, tmp_path: Path, owner_of_shop: Actor, orders: OrdersAddress
) -> AsyncIterator[Shop]:
    """Provides a service whose requests reach the fake platforms and the address of orders."""

    def around(world: FakePlatforms) -> None:
        orders.inner = world.transport()
        world.transport = lambda: orders  # type: ignore[method-assign]

    opened = await open_shop(database_url, clock, tmp_path, owner=owner_of_shop, around=around)
    yield opened
    await opened.service.close()
