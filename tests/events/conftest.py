"""Fixtures of the event tests: a listening service, once on each engine."""

import pytest

from tests.events.world import ListeningService, open_ears
from tests.furnished_service import FurnishedService, whole

__all__ = ["whole"]


@pytest.fixture
async def ears(whole: FurnishedService) -> ListeningService:
    """Provides a service beside the fake shop, whose webhooks reach it."""
    return await open_ears(whole)
