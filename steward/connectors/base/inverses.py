"""Helpers by which operations declare their inverses, and reasons that several operations share."""

from collections.abc import Mapping

from steward.model.change import Part
from steward.model.json import JsonObject
from steward.model.undo import Irreversible, PutBack

NO_MESSAGE_BACK = Irreversible("A message cannot be taken back.")
UNKNOWN_EFFECT = Irreversible("What the request did is not known here.")
NO_CANCELLATION_BACK = Irreversible("A cancelled order cannot be opened again.")
STOCK_NOTE = "Sales since then make it a conflict."
NOT_LOOKED_UP = "It cannot be looked up in this account."


def mirrored(part: Part, arguments: JsonObject, operation: str | None = None) -> Part:
    """Returns the part that restores the value before, compared with the value after."""
    return Part(
        operation or part.operation, part.integration_id, part.target, arguments, part.after, part.before
    )


def value_restored(part: Part, note: str | None = None) -> PutBack:
    """Returns the inverse of a part whose arguments are the value to set."""
    assert isinstance(part.before, Mapping)
    return PutBack(mirrored(part, dict(part.before)), note)
