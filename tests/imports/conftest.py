"""Provides each test of imports with a shop that has every account connected, once on each engine."""

from tests.runs.conftest import shop

__all__ = ["shop"]
