"""The service of these tests: whole where something runs, a desk with templates of the tests' own beside."""

import pytest

from tests.api.test_automations import desk
from tests.furnished_service import FurnishedService, whole
from tests.people import Caller

__all__ = ["desk", "whole"]


@pytest.fixture
async def token(whole: FurnishedService) -> Caller:
    """A member of the organization that has everything connected, by token."""
    return await whole.service.token("member")
