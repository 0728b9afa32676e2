"""The pretend world and its connections for tests of connectors."""

import pytest

from tests.connectors.outside import Connection, Outside, outside
from tests.fake_clock import FakeClock


@pytest.fixture
def world(clock: FakeClock) -> Outside:
    """A fresh pretend world in this process."""
    return outside(clock)


@pytest.fixture
def shop(world: Outside) -> Connection:
    """The shop."""
    return world.connection("woocommerce")


@pytest.fixture
def sheet(world: Outside) -> Connection:
    """The spreadsheet with prices."""
    return world.connection("spreadsheet")


@pytest.fixture
def teams(world: Outside) -> Connection:
    """The channel."""
    return world.connection("teams")
