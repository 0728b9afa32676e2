"""Wrong: the outcome of a call is written by anyone who made it, whether the run is still theirs or not."""

from typing import Any

import pytest

from steward.database.runs import transitions
from steward.database.runs.transitions import Lease
from steward.runs import ledger
from steward.runs.run_context import LeaseLost, WriteContext

_right = ledger.settle


async def _held_by(*_: Any) -> tuple[bool, str | None]:
    return True, None


async def _settle(*args: Any, **more: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transitions, "lock_lease", _held_by)
        await _right(*args, **more)


async def _hold(self: WriteContext, lease: Lease) -> None:
    """Lets go where the right one waits for its lease, which never comes back in this scene."""
    if self.clock.monotonic() >= self.lease_confirmation.until:
        raise LeaseLost(lease)


def install(patch: pytest.MonkeyPatch) -> None:
    """Puts it in force."""
    patch.setattr(ledger, "settle", _settle)
    patch.setattr(WriteContext, "wait_for_lease", _hold)
