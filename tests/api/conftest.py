"""Provides the service with the operations of tests/api/probes.py beside its own."""

import pytest

from tests.api.probes import PROBES
from tests.service import Service


@pytest.fixture
async def probed(service: Service) -> Service:
    """Returns the service with the probe operations added."""
    service.restart(extra=PROBES)
    return service
