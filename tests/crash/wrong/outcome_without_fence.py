"""Wrong: the outcome of a call is written by whoever made it, whether the run is still theirs or not."""

import pytest

from steward.connectors.writing import WriteOutcome, WriteState
from steward.runs import apply
from steward.runs.apply import Applying, Piece
from steward.store import effects
from steward.store.engine import Tx


async def _settle(tx: Tx, *, applying: Applying, pieces: list[Piece], outcomes: list[WriteOutcome]) -> None:
    known = dict(applying.known)
    for piece, outcome in zip(pieces, outcomes, strict=True):
        state, words = apply._effect_of(outcome)
        await effects.settle(tx, applying.lease.org, piece.key, state=state, by="call", message=words)
        if outcome.state is not WriteState.NOT_SENT:
            known[piece.key] = (apply._AS_OUTCOME[state], words)
    for change in {piece.change.id: piece.change for piece in pieces}.values():
        await apply._settle_change(tx, applying, change, known)


def install(patch: pytest.MonkeyPatch) -> None:
    """Puts it in force."""
    patch.setattr(apply, "_settle", _settle)
