"""Fault: promotes the next run at the end of any run, even while another one is active."""

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
    """Installs the fault."""
    patch.setattr(run_queue, "promote_next", _release)
