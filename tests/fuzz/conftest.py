"""The two populated organizations of tests/authz, for hostile requests."""

from tests.authz.conftest import two

__all__ = ["two"]
