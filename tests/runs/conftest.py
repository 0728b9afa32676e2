"""A shop for each test of runs, everything connected, once on each engine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, connect_all, open_shop


@pytest.fixture
async def shop(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """A service beside the pretend shop."""
    opened = await open_shop(database_url, clock, tmp_path)
    await connect_all(opened)
    yield opened
    await opened.service.close()
