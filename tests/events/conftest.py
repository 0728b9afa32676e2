"""A listening service for each test of events, once on each engine."""

import pytest

from tests.events.world import Ears, open_ears
from tests.whole import Whole, whole

__all__ = ["whole"]


@pytest.fixture
async def ears(whole: Whole) -> Ears:
    """The service beside the pretend shop, whose webhooks lead to it."""
    return await open_ears(whole)
