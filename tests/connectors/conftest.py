"""The fake platforms and their connections for tests of connectors."""

import pytest

from tests.connectors.fake_connections import Connection, FakePlatformsClient, outside
from tests.fake_clock import FakeClock


@pytest.fixture
def world(clock: FakeClock) -> FakePlatformsClient:
    """Returns fresh fake platforms in this process."""
    return outside(clock)


@pytest.fixture
def shop(world: FakePlatformsClient) -> Connection:
    """Returns the connection of the shop."""
    return world.connection("woocommerce")


@pytest.fixture
def sheet(world: FakePlatformsClient) -> Connection:
    """Returns the connection of the spreadsheet with prices."""
    return world.connection("spreadsheet")


@pytest.fixture
def teams(world: FakePlatformsClient) -> Connection:
    """Returns the connection of the Teams channel."""
    return world.connection("teams")
