"""The fake store and a connection to it, for the tests of this folder."""

import pytest

from tests.connectors.shopify.bench import StoreConnection
from tests.fake_clock import FakeClock
from tests.fakes.shopify.store import ShopifyFake


@pytest.fixture
def store(clock: FakeClock) -> ShopifyFake:
    """Returns a store with 10 products, 4 orders and 3 customers."""
    fake_store = ShopifyFake(now=clock.now)
    fake_store.seed(products=10, orders=4, customers=3)
    return fake_store


@pytest.fixture
def bench(clock: FakeClock, store: ShopifyFake) -> StoreConnection:
    """Returns a connection to the store."""
    return StoreConnection(clock, store)
