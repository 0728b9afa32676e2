"""The schemas of results: counts, money, texts and lists as all templates write them."""

from collections.abc import Mapping

from steward.model.json import JsonObject, JsonValue
from steward.templates.parts.inputs import DIALECT

# A list in a result holds the first 200 entries.
RESULT_ENTRIES = 200

COUNT: JsonObject = {"type": "integer", "minimum": 0}
INTEGER: JsonObject = {"type": "integer"}  # such as stock, which may be negative
TEXT: JsonObject = {"type": "string"}
AMOUNT: JsonObject = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}

_REFUSED_ROW: Mapping[str, JsonObject] = {
    "row": {"type": ["integer", "null"], "minimum": 1},
    "key": {"type": ["string", "null"]},
    "code": TEXT,
    "message": TEXT,
}


def or_null(rule: JsonObject) -> JsonObject:
    """Returns the rule with null allowed."""
    return {**rule, "type": [str(rule["type"]), "null"]}


def list_of(fields: Mapping[str, JsonObject]) -> JsonObject:
    """Returns the schema of a list of objects with exactly these fields."""
    return {"type": "array", "maxItems": RESULT_ENTRIES, "items": _closed(fields)}


def result_schema(fields: Mapping[str, JsonObject]) -> JsonObject:
    """Returns the schema of a result with exactly these fields."""
    return {"$schema": DIALECT, **_closed(fields)}


def counts_schema(*counts: str, **fields: JsonObject) -> JsonObject:
    """Returns the schema of a result with these counts, followed by the other fields."""
    return result_schema({**dict.fromkeys(counts, COUNT), **fields})


def _closed(fields: Mapping[str, JsonObject]) -> dict[str, JsonValue]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(fields),
        "properties": dict(fields),
    }


REFUSED_ROWS = list_of(_REFUSED_ROW)
