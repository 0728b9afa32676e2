"""Wrong: the end of any run lets the next one go, whoever holds the lane."""

import pytest

from steward.database.engine.base import Tx
from steward.database.runs import active_run as lanes
from steward.database.runs import fairness as fair
from steward.database.runs import transitions as run_queue
from steward.model.ids import AutomationId, OrgId, RunId
from steward.run_queue import queue as lane


async def _release(tx: Tx, org: OrgId, automation: AutomationId) -> RunId | None:
    following = await lanes.oldest_blocked(tx, org, automation)
    if following is not None:
        await run_queue.promote(tx, org, following, vt=await fair.stamp(tx, org))
    return following


def install(patch: pytest.MonkeyPatch) -> None:
    """Puts it in force."""
    patch.setattr(lane, "promote_next", _release)
