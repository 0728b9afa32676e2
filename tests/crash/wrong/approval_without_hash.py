"""Fault: applies the approved changes as the rows say now, without comparing their hash."""

from collections.abc import Sequence

import pytest

from steward.model.change import Change
from steward.model.plan import PlanStep
from steward.runs import proposals
from steward.runs.state import Walk


async def _verified(walk: Walk, step: PlanStep, items: Sequence[Change]) -> str:
    return "0" * 64


def install(patch: pytest.MonkeyPatch) -> None:
    """Installs the fault."""
    patch.setattr(proposals, "_verified", _verified)
