"""Fault: applies the approved changes as the rows say now, without comparing their hash."""

from collections.abc import Sequence

import pytest

from steward.model.change import Change
from steward.runs.walk import apply_held
from steward.runs.walk.state import Walk


async def _verified_hash(walk: Walk, items: Sequence[Change]) -> str:
    return "0" * 64


def install(patch: pytest.MonkeyPatch) -> None:
    """Installs the fault."""
    patch.setattr(apply_held, "verified_hash", _verified_hash)
