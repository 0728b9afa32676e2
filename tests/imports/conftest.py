"""A shop for each test of imports that run, everything connected, once on each engine."""

from tests.runs.conftest import shop

__all__ = ["shop"]
