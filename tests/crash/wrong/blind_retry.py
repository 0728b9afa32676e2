"""Fault: sends a message again whose response was lost."""

from typing import Any

import pytest

from steward.database.runs.write_ledger import LedgerState, WriteEntry
from steward.model.change import Recovery
from steward.runs.writes import reconcile
from steward.runs.writes.verdicts import Verdict

_right = reconcile._look_up


async def _find_out(ctx: Any, org: Any, ledger: Any, entry: WriteEntry) -> Verdict:
    if entry.recovery is Recovery.AT_MOST_ONCE:
        return Verdict(entry, LedgerState.NOT_SENT)
    return await _right(ctx, org, ledger, entry)


def install(patch: pytest.MonkeyPatch) -> None:
    """Installs the fault."""
    patch.setattr(reconcile, "_look_up", _find_out)
