"""Wrong: the end of any run frees the lane, whoever holds it."""

import pytest

from steward.model.ids import AutomationId, OrgId, RunId
from steward.store import lanes
from steward.store.engine import Tx


async def _hold(tx: Tx, org: OrgId, automation: AutomationId, *, run: RunId | None, was: RunId | None) -> int:
    return await tx.execute(
        "UPDATE lanes SET holder_run_id = :run WHERE org_id = :org AND automation_id = :automation",
        {"org": org, "automation": automation, "run": run},
    )


def install(patch: pytest.MonkeyPatch) -> None:
    """Puts it in force."""
    patch.setattr(lanes, "hold", _hold)
