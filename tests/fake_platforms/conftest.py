"""Provides fake platforms of seed 1 at a fixed time, and clients of them without a socket."""

from collections.abc import AsyncIterator

import httpx
import pytest

from steward.fake_platforms import application
from steward.fake_platforms.application import FakePlatforms
from tests.fake_clock import FakeClock
from tests.fake_platforms.receiver import Receiver

URL = "https://shop.example"


@pytest.fixture
def receiver() -> Receiver:
    """Provides the receiver of the fake shop's webhooks."""
    return Receiver()


@pytest.fixture
def platforms(clock: FakeClock, receiver: Receiver) -> FakePlatforms:
    """Provides new fake platforms."""
    return application.create(1, URL, clock.now, deliver=receiver.transport())


@pytest.fixture
async def shop(platforms: FakePlatforms) -> AsyncIterator[httpx.AsyncClient]:
    """Provides a client of the shop with the key that may read and write."""
    pair = (platforms.state.keys.consumer_key, platforms.state.keys.consumer_secret)
    base = f"{URL}/wp-json/wc/v3/"
    async with httpx.AsyncClient(transport=platforms.transport(), base_url=base, auth=pair) as client:
        yield client


@pytest.fixture
async def outside(platforms: FakePlatforms) -> AsyncIterator[httpx.AsyncClient]:
    """Provides a client without any key."""
    async with httpx.AsyncClient(transport=platforms.transport(), base_url=URL) as client:
        yield client
