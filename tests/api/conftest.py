"""The service with the operations of tests/api/probes.py beside its own."""

import pytest

from tests.api.probes import PROBES
from tests.service import Service


@pytest.fixture
async def probed(service: Service) -> Service:
    """The service with the probes."""
    service.restart(extra=PROBES)
    return service
