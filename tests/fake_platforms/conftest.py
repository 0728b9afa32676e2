"""A pretend world of seed 1 at a standing time, and clients into it without a socket."""

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
    """Where the pretend shop's webhooks go."""
    return Receiver()


@pytest.fixture
def pretend(clock: FakeClock, receiver: Receiver) -> FakePlatforms:
    """A fresh pretend world."""
    return world.create(1, URL, clock.now, deliver=receiver.transport())


@pytest.fixture
async def shop(pretend: FakePlatforms) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the shop with the key that may read and write."""
    pair = (pretend.state.keys.consumer_key, pretend.state.keys.consumer_secret)
    base = f"{URL}/wp-json/wc/v3/"
    async with httpx.AsyncClient(transport=pretend.transport(), base_url=base, auth=pair) as client:
        yield client


@pytest.fixture
async def outside(pretend: FakePlatforms) -> AsyncIterator[httpx.AsyncClient]:
    """A client without any key."""
    async with httpx.AsyncClient(transport=pretend.transport(), base_url=URL) as client:
        yield client
