"""Wrong: the end of any run lets the next one go, no matter who holds the lane."""

import pytest

from steward.database.engine.base import Tx
from steward.database.runs import active_run, fairness, transitions
from steward.model.ids import AutomationId, OrgId, RunId
from steward.run_queue import queue as run_queue


async def _release(tx: Tx, org: OrgId, automation: AutomationId) -> RunId | None:
    following = await active_run.oldest_blocked(tx, org, automation)
    if following is not None:
        await transitions.promote(tx, org, following, vt=await fairness.stamp(tx, org))
    return following


def install(patch: pytest.MonkeyPatch) -> None:
    """Puts it in force."""
    patch.setattr(run_queue, "promote_next", _release)
