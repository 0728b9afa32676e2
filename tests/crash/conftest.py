"""The fixtures of the crash tests: a shop with everything connected."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steward.failpoint import watch
from steward.model.account import Actor
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, open_shop


@pytest.fixture
async def shop(
    database_url: str, clock: FakeClock, tmp_path: Path, owner_of_shop: Actor
) -> AsyncIterator[Shop]:
    """Provides a connected service, once on each engine."""
    opened = await open_shop(database_url, clock, tmp_path, owner=owner_of_shop)
    yield opened
    watch(None)
    await opened.service.close()


@pytest.fixture
async def sqlite_shop(
    sqlite_url: str, clock: FakeClock, tmp_path: Path, owner_of_shop: Actor
) -> AsyncIterator[Shop]:
    """Provides a connected service on SQLite, for faults that do not depend on the engine."""
    opened = await open_shop(sqlite_url, clock, tmp_path, owner=owner_of_shop)
    yield opened
    watch(None)
    await opened.service.close()
