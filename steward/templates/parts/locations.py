"""Finds the one location at which stock is written: the named one, or the only active one."""

from steward.model.connection import Connection
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.refusals import FieldErrors
from steward.steps.base import StepContext, StepFailed

LOCATION_INPUT: JsonObject = {"type": ["string", "null"], "minLength": 1, "maxLength": 255, "default": None}


def location_errors(inputs: JsonObject, store: Connection | None) -> FieldErrors:
    """Rejects a location that the store did not have at the last check of its connection."""
    if store is None or not _has_locations(store):
        return {}
    try:
        _location_id(inputs.get("location"), store)
    except StepFailed as failed:
        return {"inputs.location": [failed.message]}
    return {}


def location_of(context: StepContext) -> str | None:
    """Returns the id of the location; None on platforms without locations.

    Raises StepFailed `location_needed` when there are several and none is named, `location_missing`.
    """
    store = context.home.connection
    return _location_id(context.inputs.get("location"), store) if _has_locations(store) else None


def _has_locations(store: Connection) -> bool:
    return store.kind != "woocommerce"


def _location_id(name: JsonValue, store: Connection) -> str:
    locations: AnyJson = store.facts.get("locations", [])
    ids = {str(title): str(location_id) for location_id, title, is_active in locations if is_active}
    if name is not None:
        if name in ids:
            return ids[str(name)]
        message = f"The store has no active location named {name}. Choose another."
        raise StepFailed("location_missing", message)
    active = [str(location_id) for location_id, _, is_active in locations if is_active]
    if len(active) == 1:
        return active[0]
    message = f"The store has {len(active)} active locations. Name the one stock is written at."
    raise StepFailed("location_needed", message)
