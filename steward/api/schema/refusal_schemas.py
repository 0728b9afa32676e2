"""The schemas of refusals as components of the OpenAPI document."""

from collections.abc import Mapping, Sequence
from typing import Any

from steward.api.schema.components import ref

Json = dict[str, Any]

_STALE = "stale_version"


def refusal_schemas(statuses: Mapping[str, int], *, codes: bool, components: Json) -> Json:
    """Returns the components of refusals; with `codes`, `code` is a closed list.

    The public document leaves `code` open, because codes may be added. `components` are those of the
    document: current records are only described if their schemas are among them.
    """
    schemas: Json = {
        "Refusal": _refusal(statuses, codes=codes),
        "ValidationRefusal": _refusal(
            statuses,
            codes=codes,
            description="A request that is invalid, or cannot be done now: `errors` names each field.",
            required=("errors",),
            errors=ref("FieldErrors"),
        ),
        "FieldErrors": {
            "type": "object",
            "description": "Messages by the path of a field, such as `schedule.day_of_week`.",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
    }
    # A stale version always comes with the current records; client generators ignore the condition.
    schemas["Refusal"] |= {
        "if": {"required": ["code"], "properties": {"code": {"const": _STALE}}},
        "then": {"required": ["data"]},
    }
    for name, data in (("Stale", _STALE_DATA), ("StaleClosedPeriod", _STALE_CLOSED_PERIOD)):
        fields = {field: schema for field, (record, schema) in data.items() if record in components}
        if fields:
            schemas[f"{name}Refusal"] = _refusal(
                statuses,
                codes=False,
                description="A version that was sent is not the current one: `data` is what is current.",
                required=("code", "data"),
                code={"type": "string", "const": _STALE},
                data=ref(f"{name}Data"),
            )
            schemas[f"{name}Data"] = {
                "type": "object",
                "description": "What is current.",
                "required": [field for field in fields if field != "approval"],
                "properties": fields,
            }
    return schemas


def _or_null(name: str) -> Json:
    return {"anyOf": [ref(name), {"type": "null"}]}


_STALE_DATA: Mapping[str, tuple[str, Json]] = {
    "occurrence": ("OccurrenceRecord", _or_null("OccurrenceRecord")),
    "automation": ("AutomationRecord", ref("AutomationRecord")),
    "approval": ("ApprovalRecord", ref("ApprovalRecord")),
}
_STALE_CLOSED_PERIOD: Mapping[str, tuple[str, Json]] = {
    "closed_period": ("ClosedPeriodRecord", _or_null("ClosedPeriodRecord")),
}


def _refusal(
    statuses: Mapping[str, int],
    *,
    codes: bool,
    description: str = "A call that was refused: nothing was changed.",
    required: Sequence[str] = (),
    **more: Json,
) -> Json:
    code_list = ", ".join(f"`{code}`" for code in sorted(statuses))
    code: Json = {
        "type": "string",
        "description": f"Stable, to act on. More may be added; act on the status then. Known: {code_list}.",
        "x-codes": sorted(statuses),
    }
    if codes:
        code["enum"] = sorted(statuses)
    return {
        "type": "object",
        "description": description,
        "required": ["success", "contract_version", "message", *required],
        "properties": {
            "success": {"type": "boolean", "const": False},
            "contract_version": {"type": "integer", "minimum": 1},
            "message": {
                "type": "string",
                "maxLength": 500,
                "description": "Plain words for people: what happened and what to do.",
            },
            "code": code,
            **more,
        },
    }
