"""The service of these tests: whole where something runs, a desk with templates of the tests' own beside."""

import pytest

from tests.api.test_automations import desk
from tests.people import Caller
from tests.populated_service import PopulatedService, populated

__all__ = ["desk", "populated"]


@pytest.fixture
async def token(populated: PopulatedService) -> Caller:
    """A member of the organization that has everything connected, by token."""
    return await populated.service.token("member")
