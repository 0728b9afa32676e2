"""Fault: lets any worker that once had a run write to it."""

import pytest

from steward.database.runs import transitions


def install(patch: pytest.MonkeyPatch) -> None:
    """Installs the fault."""
    patch.setattr(transitions, "_FENCE", " WHERE org_id = :org AND id = :run AND :epoch >= 0")
