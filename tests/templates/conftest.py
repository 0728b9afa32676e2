"""Both pretend stores beside a whole service, for each test of a template that runs through it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fake_clock import FakeClock
from tests.templates.both import Both, open_both
from tests.templates.goods import PLATFORMS, Twin
from tests.templates.sales import Market


@pytest.fixture
async def both(sqlite_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Both]:
    """The service on SQLite, which is the quicker one; a test of both engines opens its own."""
    opened = await open_both(sqlite_url, clock, tmp_path)
    yield opened
    await opened.shop.service.close()


@pytest.fixture(params=PLATFORMS)
def twin(request: pytest.FixtureRequest, both: Both) -> Twin:
    """One of its stores, once for each platform."""
    return Twin(request.param, both)


@pytest.fixture
def market(twin: Twin) -> Market:
    """One of its stores without an order or a customer, once for each platform."""
    new_market = Market(twin)
    new_market.clear()
    return new_market
