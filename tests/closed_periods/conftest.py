"""Provides a shop for tests of writes, and the owner who creates closed periods."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.closed_periods.closing import Closer
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, connect_all, open_shop


@pytest.fixture
async def shop(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Provides a service beside the pretend shop."""
    opened = await open_shop(database_url, clock, tmp_path)
    await connect_all(opened)
    yield opened
    await opened.service.close()


@pytest.fixture
def shopkeeper(shop: Shop) -> Closer:
    """Provides the owner of the shop, who creates and ends closed periods."""
    return Closer(shop.engine, shop.clock, shop.owner)
