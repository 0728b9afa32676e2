"""A shop for tests of what is written, and the owner who closes times."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.closed_periods.closing import Closer
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, connect_all, open_shop


@pytest.fixture
async def shop(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """A service beside the pretend shop."""
    opened = await open_shop(database_url, clock, tmp_path)
    await connect_all(opened)
    yield opened
    await opened.service.close()


@pytest.fixture
def shopkeeper(shop: Shop) -> Closer:
    """The owner of the shop, who closes times and opens them."""
    return Closer(shop.engine, shop.clock, shop.owner)
