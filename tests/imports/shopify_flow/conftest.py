"""A service beside the pretend store, for the tests of flows that run."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fake_clock import FakeClock
from tests.imports.shopify_flow.standing import FlowShop, open_flow_shop


@pytest.fixture
async def flow_shop(sqlite_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[FlowShop]:
    """On SQLite, which is the quicker one."""
    opened = await open_flow_shop(sqlite_url, clock, tmp_path)
    yield opened
    await opened.shop.service.close()


@pytest.fixture
async def anywhere(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[FlowShop]:
    """On each engine, for what its rows must hold."""
    opened = await open_flow_shop(database_url, clock, tmp_path)
    yield opened
    await opened.shop.service.close()
