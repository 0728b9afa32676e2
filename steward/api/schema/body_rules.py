"""Rules between the fields of a body, as JSON schema; domain functions check them."""

from typing import Any

from steward.api.schema.fields import MOST_INTEGER
from steward.model.plan import BOUND_KINDS
from steward.model.schedule import FIELDS, Cadence

Json = dict[str, Any]

_TIMED = ("once", "daily", "weekdays", "weekly", "monthly")


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
    """These are there and not null."""
    return {"required": list(names), "properties": {name: {"not": {"type": "null"}} for name in names}}


def _when(cadences: tuple[str, ...], then: Json) -> Json:
    of_these = {"required": ["cadence"], "properties": {"cadence": {"enum": list(cadences)}}}
    return {"if": of_these, "then": then}


SCHEDULE_SCHEMA: Json = {
    "type": "object",
    "required": ["cadence"],
    "properties": {name: _SHAPES[name] for name in FIELDS},
    "additionalProperties": False,
    "allOf": [
        _when(_TIMED, _required_not_null("run_at")),
        _when(("once",), _required_not_null("date")),
        _when(("weekly",), _required_not_null("day_of_week")),
        _when(
            ("monthly",),
            {
                "if": _required_not_null("week_of_month"),
                "then": {**_required_not_null("day_of_week"), "not": _required_not_null("day_of_month")},
                "else": _required_not_null("day_of_month"),
            },
        ),
    ],
}

# Interface 2.7, StepBindings.
BINDINGS_SCHEMA: Json = {
    "type": "object",
    "maxProperties": 500,
    "additionalProperties": {
        "type": "object",
        "required": ["integration_id", "kind", "target"],
        "properties": {
            "integration_id": {"type": "integer", "minimum": 1, "maximum": MOST_INTEGER},
            "kind": {"type": "string", "enum": list(BOUND_KINDS)},
            "target": _or_null(
                {
                    "type": "object",
                    "properties": {
                        "spreadsheet_id": _or_null({"type": "string"}),
                        "sheet": _or_null({"type": "string"}),
                    },
                    "additionalProperties": False,
                }
            ),
        },
        "additionalProperties": False,
    },
}

# Connections of steps whose kind is none of the closed list.
ACCOUNTS_SCHEMA: Json = {
    "type": "object",
    "maxProperties": 500,
    "additionalProperties": {
        "type": "object",
        "required": ["integration_id"],
        "properties": {"integration_id": {"type": "integer", "minimum": 1, "maximum": MOST_INTEGER}},
        "additionalProperties": False,
    },
}

# Workflows chosen for steps that call one.
CALLS_SCHEMA: Json = {
    "type": "object",
    "maxProperties": 20,
    "additionalProperties": {
        "type": "object",
        "required": ["import_id"],
        "properties": {"import_id": {"type": "string"}},
        "additionalProperties": False,
    },
}

# What store events start has no slots.
BY_EVENTS: Json = {
    "if": {
        "required": ["trigger"],
        "properties": {"trigger": {"required": ["kind"], "properties": {"kind": {"const": "event"}}}},
    },
    "then": {"properties": {"schedule": {"properties": {"cadence": {"const": "manual"}}}}},
}

# One started on its schedule has its kind alone, one started by events all seven fields.
TRIGGER_RULE: Json = {
    "if": {"properties": {"kind": {"const": "event"}}},
    "then": {
        "required": ["topics", "words", "listening", "reason", "events_dropped", "events_dropped_at"],
        "properties": {"topics": {"minItems": 1, "maxItems": 8, "items": {"minLength": 1, "maxLength": 80}}},
    },
    "else": {"maxProperties": 1},
}
