"""Fault: stores the outcome of a call even if the run now belongs to another worker."""

from typing import Any

import pytest

from steward.database.runs import transitions
from steward.database.runs.transitions import Lease
from steward.runs.lease import LeaseLost
from steward.runs.run_context import WriteContext
from steward.runs.writes import ledger

_right = ledger.settle


async def _held_by(*_: Any) -> tuple[bool, str | None]:
    return True, None


async def _settle(*args: Any, **more: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transitions, "lock_lease", _held_by)
        await _right(*args, **more)


async def _hold(self: WriteContext, lease: Lease) -> None:
    """Returns at once where the right engine waits for its lease, which never comes back here."""
    if self.clock.monotonic() >= self.lease_confirmation.until:
        raise LeaseLost(lease)


def install(patch: pytest.MonkeyPatch) -> None:
    """Installs the fault."""
    patch.setattr(ledger, "settle", _settle)
    patch.setattr(WriteContext, "wait_for_lease", _hold)
