"""Fault: reads a write back while the lost worker's call may still arrive."""

from dataclasses import replace
from typing import Any

import pytest

from steward.runs.writes import open_ledger, reconcile
from steward.runs.writes.open_ledger import OpenLedger

_right = open_ledger.open_ledger


async def _open_ledger(tx: Any, org: Any, run: Any) -> OpenLedger:
    ledger = await _right(tx, org, run)
    entries = [replace(entry, settle_after=min(entry.settle_after, ledger.now)) for entry in ledger.entries]
    return replace(ledger, entries=entries)


def install(patch: pytest.MonkeyPatch) -> None:
    """Installs the fault."""
    patch.setattr(reconcile, "open_ledger", _open_ledger)
