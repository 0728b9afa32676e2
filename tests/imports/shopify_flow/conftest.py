"""Provides a service beside the fake Shopify store, for tests of flows that run."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fake_clock import FakeClock
from tests.imports.shopify_flow.flow_service import FlowShop, open_flow_shop


@pytest.fixture
async def flow_shop(sqlite_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[FlowShop]:
    """Provides the service on SQLite, which is the quicker engine."""
    opened = await open_flow_shop(sqlite_url, clock, tmp_path)
    yield opened
    await opened.shop.service.close()


@pytest.fixture
async def on_both_engines(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[FlowShop]:
    """Provides the service on each engine, for tests whose database rows matter."""
    opened = await open_flow_shop(database_url, clock, tmp_path)
    yield opened
    await opened.shop.service.close()
