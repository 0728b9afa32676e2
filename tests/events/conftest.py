"""Fixtures of the event tests: a listening service, once on each engine."""

import pytest

from tests.events.world import ListeningService, open_listener
from tests.populated_service import PopulatedService, populated

__all__ = ["populated"]


@pytest.fixture
async def listener(populated: PopulatedService) -> ListeningService:
    """Provides a service beside the fake shop, whose webhooks reach it."""
    return await open_listener(populated)
