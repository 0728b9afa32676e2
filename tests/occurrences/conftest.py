"""Fixtures of the calendar tests, on both engines."""

from dataclasses import replace

import pytest

from steward.database.engine.base import Engine
from steward.scheduling.zones import use_packaged_zones
from tests.automations.world import World, make_world
from tests.fake_clock import FakeClock
from tests.occurrences.calendar_edits import CalendarClient


@pytest.fixture(autouse=True, scope="session")
def packaged_zones() -> None:
    """Makes time zones come from the tzdata package only, as in the service."""
    use_packaged_zones()


@pytest.fixture
async def world(engine: Engine, clock: FakeClock) -> World:
    """Provides two organizations with connections; slots have no spread, so that times are easy to read."""
    world = await make_world(engine, clock)
    world.rules = replace(world.rules, spread_max=0)
    return world


@pytest.fixture
def diary(world: World) -> CalendarClient:
    """Provides the calendar of the owner's organization and its edits."""
    return CalendarClient(world)
