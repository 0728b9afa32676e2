"""Wrong: a write is sent without an intent that is kept first."""

from typing import Any

import pytest

from steward.store import effects


async def _intend(*_: Any, **__: Any) -> int:
    return 1


def install(patch: pytest.MonkeyPatch) -> None:
    """Puts it in force."""
    patch.setattr(effects, "intend", _intend)
