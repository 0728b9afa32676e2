"""The fixtures of the run tests: a connected shop, once on each engine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steward.model.account import Actor
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, open_shop


@pytest.fixture
async def shop(
    database_url: str, clock: FakeClock, tmp_path: Path, owner_of_shop: Actor
) -> AsyncIterator[Shop]:
    """Provides a running service with the fake shop, spreadsheet and channel connected."""
    opened = await open_shop(database_url, clock, tmp_path, owner=owner_of_shop)
    yield opened
    await opened.service.close()
