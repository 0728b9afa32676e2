"""The pretend store and a connection to it, for the tests of this folder."""

import pytest

from tests.connectors.shopify.bench import Bench
from tests.fake_clock import FakeClock
from tests.fakes.shopify.store import ShopifyFake


@pytest.fixture
def store(clock: FakeClock) -> ShopifyFake:
    """A store with 20 products, 10 orders and 5 customers."""
    made = ShopifyFake(now=clock.now)
    made.seed()
    return made


@pytest.fixture
def bench(clock: FakeClock, store: ShopifyFake) -> Bench:
    """A connection to it."""
    return Bench(clock, store)
