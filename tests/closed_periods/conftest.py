"""Provides a shop for tests of writes, an organization for tests of slots, and the owners of both."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from steward.database.engine.base import Engine
from steward.model.account import Actor
from tests.automations.world import World, make_world
from tests.closed_periods.edit_periods import PeriodEditor
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, open_shop


@pytest.fixture
async def shop(
    database_url: str, clock: FakeClock, tmp_path: Path, owner_of_shop: Actor
) -> AsyncIterator[Shop]:
    """Provides a service beside the fake shop."""
    opened = await open_shop(database_url, clock, tmp_path, owner=owner_of_shop)
    yield opened
    await opened.service.close()


@pytest.fixture
def shopkeeper(shop: Shop) -> PeriodEditor:
    """Provides the owner of the shop, who creates and ends closed periods."""
    return PeriodEditor(shop.engine, shop.clock, shop.owner)


@pytest.fixture
async def world(engine: Engine, clock: FakeClock) -> World:
    """Provides an organization whose daily slots are at 08:00 UTC."""
    world = await make_world(engine, clock)
    world.rules = replace(world.rules, spread_max=0)
    return world


@pytest.fixture
def closer(world: World) -> PeriodEditor:
    """Provides the owner in the web app."""
    return PeriodEditor(world.engine, world.clock, world.owner)
