"""Provides each test of a template with a service and both fake stores."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steward.model.account import Actor
from tests.fake_clock import FakeClock
from tests.templates.sales import Market
from tests.templates.sample_products import PLATFORMS, PlatformStore
from tests.templates.two_platforms import ConnectedService, open_both


@pytest.fixture
async def both(
    sqlite_url: str, clock: FakeClock, tmp_path: Path, owner_of_shop: Actor
) -> AsyncIterator[ConnectedService]:
    """Provides the service on SQLite, the quicker engine; tests of both engines open their own."""
    opened = await open_both(sqlite_url, clock, tmp_path, owner=owner_of_shop)
    yield opened
    await opened.shop.service.close()


@pytest.fixture(params=PLATFORMS)
def store(request: pytest.FixtureRequest, both: ConnectedService) -> PlatformStore:
    """Provides one of the stores, once for each platform."""
    return PlatformStore(request.param, both)


@pytest.fixture
def market(store: PlatformStore) -> Market:
    """Provides one of the stores without orders and customers, once for each platform."""
    new_market = Market(store)
    new_market.clear()
    return new_market
