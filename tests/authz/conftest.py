"""Provides two organizations with data, once on each engine."""

from collections.abc import AsyncIterator

import pytest

from steward.database.engine.base import Engine
from tests.authz.two_organizations import RowsOfTwo, TwoOrganizations, make_two
from tests.fake_clock import FakeClock


@pytest.fixture
async def two(engine: Engine, clock: FakeClock, rows_of_two: RowsOfTwo) -> AsyncIterator[TwoOrganizations]:
    """Provides the service with both organizations."""
    pair = await make_two(engine, clock, rows_of_two)
    yield pair
    await pair.service.close()
