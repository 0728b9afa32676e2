"""Rules between the fields of a body, as JSON schema; domain functions check them."""

from typing import Any

from steward.api.schema.fields import MAX_INTEGER
from steward.model.plan import BOUND_KINDS
from steward.model.schedule import FIELDS, Cadence

Json = dict[str, Any]


def component(name: str) -> Json:
    """Returns a placeholder for a component; pydantic refuses a `$ref` that is not its own."""
    return {"x-component": name}


def _or_null(shape: Json) -> Json:
    return {"anyOf": [shape, {"type": "null"}]}


_WEEKDAY: Json = {"type": "integer", "minimum": 1, "maximum": 7}
_MONTHDAY: Json = {"type": "integer", "minimum": 1, "maximum": 31}
_TIME: Json = {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}
_DATE: Json = {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
_DAYS: Json = {"type": "array", "items": _WEEKDAY, "minItems": 1, "maxItems": 7, "uniqueItems": True}
_WEEK: Json = {"enum": [1, 2, 3, 4, -1]}
_SHAPES: Json = {
    "cadence": {"type": "string", "enum": [str(cadence) for cadence in Cadence]},
    "run_at": _or_null(_TIME),
    "day_of_week": _or_null(_WEEKDAY),
    "day_of_month": _or_null(_MONTHDAY),
    "date": _or_null(_DATE),
    "days": _or_null(_DAYS),
    "week_of_month": _or_null(_WEEK),
}


def _required_not_null(*names: str) -> Json:
    """Requires these fields to be present and not null."""
    return {"required": list(names), "properties": {name: {"not": {"type": "null"}} for name in names}}


def _when(cadences: tuple[str, ...], requirement: Json, otherwise: Json | None = None) -> Json:
    of_these = {"required": ["cadence"], "properties": {"cadence": {"enum": list(cadences)}}}
    return {"if": of_these, "then": requirement} | ({"else": otherwise} if otherwise else {})


_IN_WEEK: Json = {
    **_required_not_null("run_at", "day_of_week"),
    "not": _required_not_null("day_of_month"),
}
_MONTHLY: Json = {
    "if": _required_not_null("week_of_month"),
    "then": _IN_WEEK,
    "else": _required_not_null("run_at", "day_of_month"),
}

_SCHEDULE_SCHEMA: Json = {
    "description": "When an automation runs; which fields are required depends on `cadence`.",
    "type": "object",
    "required": ["cadence"],
    "properties": {name: _SHAPES[name] for name in FIELDS},
    "additionalProperties": False,
    # Conditions are nested, because client generators drop a schema with `allOf`.
    **_when(
        ("once",),
        _required_not_null("run_at", "date"),
        _when(
            ("weekly",),
            _required_not_null("run_at", "day_of_week"),
            _when(("monthly",), _MONTHLY, _when(("daily", "weekdays"), _required_not_null("run_at"))),
        ),
    ),
}

# Interface 2.7, StepBinding and StepTarget.
_STEP_TARGET_SCHEMA: Json = {
    "description": "Where a step writes; null or absent what the step decides while it runs.",
    "type": "object",
    "properties": {
        "spreadsheet_id": _or_null({"type": "string"}),
        "sheet": _or_null({"type": "string"}),
    },
    "additionalProperties": False,
}
_STEP_BINDING_SCHEMA: Json = {
    "description": "The connection a step is bound to, and the place in it.",
    "type": "object",
    "required": ["integration_id", "kind", "target"],
    "properties": {
        "integration_id": {"type": "integer", "minimum": 1, "maximum": MAX_INTEGER},
        "kind": {"type": "string", "enum": list(BOUND_KINDS)},
        "target": _or_null(component("StepTargetBody")),
    },
    "additionalProperties": False,
}
# The connection of a step whose kind is not in the closed list.
_STEP_ACCOUNT_SCHEMA: Json = {
    "description": "The connection a step is bound to by `accounts`.",
    "type": "object",
    "required": ["integration_id"],
    "properties": {"integration_id": {"type": "integer", "minimum": 1, "maximum": MAX_INTEGER}},
    "additionalProperties": False,
}
# The workflow chosen for a step that calls one.
_CALLED_IMPORT_SCHEMA: Json = {
    "description": "The import that a step calls.",
    "type": "object",
    "required": ["import_id"],
    "properties": {"import_id": {"type": "string"}},
    "additionalProperties": False,
}

# Each is a component of the document; `component` refers to it.
BODY_COMPONENTS: Json = {
    "ScheduleBody": _SCHEDULE_SCHEMA,
    "StepTargetBody": _STEP_TARGET_SCHEMA,
    "StepBindingBody": _STEP_BINDING_SCHEMA,
    "StepAccountBody": _STEP_ACCOUNT_SCHEMA,
    "CalledImportBody": _CALLED_IMPORT_SCHEMA,
}


def by_step(name: str, limit: int) -> Json:
    """Returns the schema of an object that maps at most `limit` step names to a component."""
    return {"type": "object", "maxProperties": limit, "additionalProperties": component(name)}


# Automations that store events start have no slots.
BY_EVENTS: Json = {
    "if": {
        "required": ["trigger"],
        "properties": {"trigger": {"required": ["kind"], "properties": {"kind": {"const": "event"}}}},
    },
    "then": {"properties": {"schedule": {"properties": {"cadence": {"const": "manual"}}}}},
}
