"""The world of these tests, on both engines: a shop with automations, and a diary to edit its calendar."""

from dataclasses import replace

import pytest

from steward.database.engine.base import Engine
from steward.scheduling.zones import use_packaged_zones
from tests.automations.world import World, make_world
from tests.fake_clock import FakeClock
from tests.occurrences.diary import Diary


@pytest.fixture(autouse=True, scope="session")
def packaged_zones() -> None:
    """Zones come from the package alone, as in the service."""
    use_packaged_zones()


@pytest.fixture
async def world(engine: Engine, clock: FakeClock) -> World:
    """Two organisations with connections; slots without spread, so that times are easy to read."""
    world = await make_world(engine, clock)
    world.rules = replace(world.rules, spread_max=0)
    return world


@pytest.fixture
def diary(world: World) -> Diary:
    """The calendar of the owner's organisation, and its edits."""
    return Diary(world)
