"""Wrong: the outcome of a call is written by whoever made it, whether the run is still theirs or not."""

from typing import Any

import pytest

from steward.database.runs import transitions as run_queue
from steward.database.runs.transitions import Lease
from steward.runs import ledger
from steward.runs.tools import Fenced, Tools

_right = ledger.settle


async def _held_by(*_: Any) -> tuple[bool, str | None]:
    return True, None


async def _settle(*args: Any, **more: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_queue, "held_by", _held_by)
        await _right(*args, **more)


async def _hold(self: Tools, lease: Lease) -> None:
    """Lets go where the right one waits for its lease, which never comes back in this scene."""
    if self.clock.monotonic() >= self.confirmed.until:
        raise Fenced(lease)


def install(patch: pytest.MonkeyPatch) -> None:
    """Puts it in force."""
    patch.setattr(ledger, "settle", _settle)
    patch.setattr(Tools, "hold", _hold)
