"""Wrong: an effect has another key each time its run is taken up."""

from dataclasses import replace

import pytest

from steward.model.change import Change
from steward.runs.ledger import Applying

_right = Applying._key


def _key(self: Applying, change: Change, number: int) -> str:
    return _right(replace(self, version=self.version + self.lease.epoch), change, number)


def install(patch: pytest.MonkeyPatch) -> None:
    """Puts it in force."""
    patch.setattr(Applying, "_key", _key)
