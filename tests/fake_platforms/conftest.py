"""Provides pretend platforms of seed 1 at a fixed time, and clients of them without a socket."""

from collections.abc import AsyncIterator

import httpx
import pytest

from steward.fake_platforms import world
from steward.fake_platforms.world import FakePlatforms
from tests.fake_clock import FakeClock
from tests.fake_platforms.receiver import Receiver

URL = "https://shop.example"


@pytest.fixture
def receiver() -> Receiver:
    """Provides the receiver of the pretend shop's webhooks."""
    return Receiver()


@pytest.fixture
def pretend(clock: FakeClock, receiver: Receiver) -> FakePlatforms:
    """Provides new pretend platforms."""
    return world.create(1, URL, clock.now, deliver=receiver.transport())


@pytest.fixture
async def shop(pretend: FakePlatforms) -> AsyncIterator[httpx.AsyncClient]:
    """Provides a client of the shop with the key that may read and write."""
    pair = (pretend.state.keys.consumer_key, pretend.state.keys.consumer_secret)
    base = f"{URL}/wp-json/wc/v3/"
    async with httpx.AsyncClient(transport=pretend.transport(), base_url=base, auth=pair) as client:
        yield client


@pytest.fixture
async def outside(pretend: FakePlatforms) -> AsyncIterator[httpx.AsyncClient]:
    """Provides a client without any key."""
    async with httpx.AsyncClient(transport=pretend.transport(), base_url=URL) as client:
        yield client
