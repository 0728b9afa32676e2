"""Fault: reads a write back while the lost worker's call may still arrive."""

from dataclasses import replace
from typing import Any

import pytest

from steward.runs import reconcile
from steward.runs.reconcile import OpenLedger

_right = reconcile.open_ledger


async def _open_ledger(tx: Any, org: Any, run: Any) -> OpenLedger:
    ledger = await _right(tx, org, run)
    effects = [
        replace(effect, settle_after=min(effect.settle_after, ledger.now)) for effect in ledger.effects
    ]
    return replace(ledger, effects=effects)


def install(patch: pytest.MonkeyPatch) -> None:
    """Installs the fault."""
    patch.setattr(reconcile, "open_ledger", _open_ledger)
