"""Fault: reads a write back while the lost worker's call may still arrive."""

from dataclasses import replace
from typing import Any

import pytest

from steward.runs.writes import open_ledger, reconcile
from steward.runs.writes.open_ledger import OpenLedger

_right = open_ledger.open_ledger


async def _open_ledger(tx: Any, org: Any, run: Any) -> OpenLedger:
    ledger = await _right(tx, org, run)
    effects = [
        replace(effect, settle_after=min(effect.settle_after, ledger.now)) for effect in ledger.effects
    ]
    return replace(ledger, effects=effects)


def install(patch: pytest.MonkeyPatch) -> None:
    """Installs the fault."""
    patch.setattr(reconcile, "open_ledger", _open_ledger)
