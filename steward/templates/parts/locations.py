"""The one location stock is written at: named, or the only active one (templates E14)."""

from typing import Any

from steward.model.connection import Connection
from steward.model.json import JsonObject, JsonValue
from steward.model.refusals import FieldErrors
from steward.steps.base import StepContext, StepFailed

LOCATION_INPUT: JsonObject = {"type": ["string", "null"], "minLength": 1, "maxLength": 255, "default": None}


def location_faults(inputs: JsonObject, store: Connection | None) -> FieldErrors:
    """422 on `inputs.location`, by what the connection's last check found."""
    if store is None or not _has_locations(store):
        return {}
    try:
        _chosen(inputs.get("location"), store)
    except StepFailed as failed:
        return {"inputs.location": [failed.message]}
    return {}


def location_of(at: StepContext) -> str | None:
    """The id of the location; None where stock has none. Raises StepFailed `location_needed` when there are
    several and none is named, `location_missing` when the one named is not there."""
    store = at.home.connection
    return _chosen(at.inputs.get("location"), store) if _has_locations(store) else None


def _has_locations(store: Connection) -> bool:
    return store.kind != "woocommerce"


def _chosen(name: JsonValue, store: Connection) -> str:
    found: Any = store.facts.get("locations", [])
    active = [(str(number), str(named)) for number, named, is_active in found if is_active]
    if name is None:
        if len(active) == 1:
            return active[0][0]
        words = f"The store has {len(active)} active locations. Name the one stock is written at."
        raise StepFailed("location_needed", words)
    for number, named in active:
        if named == name:
            return number
    raise StepFailed("location_missing", f"The store has no active location named {name}. Choose another.")
