"""Fault: lets any worker that once had a run end it."""

from typing import Any

import pytest

from steward.database.engine.base import Tx
from steward.database.runs import transitions
from steward.database.runs.transitions import Lease
from steward.model.run import RunStatus


async def _finish(tx: Tx, lease: Lease, status: RunStatus, **outcome: Any) -> bool:
    touched = await tx.execute(
        "UPDATE runs SET status = :status, queue = 'done', worker_id = NULL, finished_at = :now,"
        " expires_at = NULL WHERE org_id = :org AND id = :run",
        {"org": lease.org, "run": lease.run, "status": status},
    )
    await transitions.set_outcome(tx, lease.org, lease.run, **outcome)
    return touched == 1


def install(patch: pytest.MonkeyPatch) -> None:
    """Installs the fault."""
    patch.setattr(transitions, "finish", _finish)
