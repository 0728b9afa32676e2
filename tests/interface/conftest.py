"""The service of these tests: whole where something runs, a desk with templates of the tests' own beside."""

import pytest

from tests.api.test_automations import desk
from tests.furnished_service import FurnishedService, furnished
from tests.people import Caller

__all__ = ["desk", "furnished"]


@pytest.fixture
async def token(furnished: FurnishedService) -> Caller:
    """A member of the organization that has everything connected, by token."""
    return await furnished.service.token("member")
