"""Fixtures of the event tests: a listening service, once on each engine."""

import pytest

from tests.events.world import ListeningService, open_ears
from tests.furnished_service import FurnishedService, furnished

__all__ = ["furnished"]


@pytest.fixture
async def ears(furnished: FurnishedService) -> ListeningService:
    """Provides a service beside the fake shop, whose webhooks reach it."""
    return await open_ears(furnished)
