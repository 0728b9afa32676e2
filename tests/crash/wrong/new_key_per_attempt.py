"""Fault: gives a write a new idempotency key in each attempt."""

from dataclasses import replace

import pytest

from steward.model.change import Change
from steward.runs.writes.applying_step import ApplyingStep

_right = ApplyingStep._key


def _key(self: ApplyingStep, change: Change, number: int) -> str:
    return _right(replace(self, version=self.version + self.lease.epoch), change, number)


def install(patch: pytest.MonkeyPatch) -> None:
    """Installs the fault."""
    patch.setattr(ApplyingStep, "_key", _key)
