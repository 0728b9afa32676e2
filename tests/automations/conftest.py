"""Fixtures of the automation tests, on both engines."""

import pytest

from steward.database.engine.base import Engine
from tests.automations.world import World, make_world
from tests.fake_clock import FakeClock


@pytest.fixture
async def world(engine: Engine, clock: FakeClock) -> World:
    """Provides two organizations with connections, and the templates of these tests."""
    return await make_world(engine, clock)
