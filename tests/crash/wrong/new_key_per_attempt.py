"""Wrong: an effect has another key each time its run is taken up."""

from dataclasses import replace

import pytest

from steward.model.change import Change
from steward.runs.apply import Applying, Piece

_right = Applying.pieces


def _pieces(self: Applying, change: Change) -> list[Piece]:
    return _right(replace(self, version=self.version + self.lease.epoch), change)


def install(patch: pytest.MonkeyPatch) -> None:
    """Puts it in force."""
    patch.setattr(Applying, "pieces", _pieces)
