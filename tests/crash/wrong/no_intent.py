"""Fault: sends a write without storing an intent first."""

from collections.abc import Sequence
from typing import Any

import pytest

from steward.database.runs import write_ledger
from steward.database.runs.write_ledger import Intent


async def _record_intents(*_: Any, intents: Sequence[Intent], **__: Any) -> set[str]:
    return {intent.key for intent in intents}


def install(patch: pytest.MonkeyPatch) -> None:
    """Installs the fault."""
    patch.setattr(write_ledger, "record_intents", _record_intents)
