"""The table of operations as OpenAPI 3.1.

`python -m steward.api.openapi FILE` writes the document the web app's types are made from.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from steward.api.examples import Example, examples
from steward.api.http.envelope import CONTRACT_VERSION
from steward.api.http.operation import Operation
from steward.api.http.router import parameter_schema
from steward.api.http.statuses import HEADERS_TOO_LARGE, STATUS, TARGET_TOO_LONG
from steward.api.schema.body_rules import TRIGGER_RULE
from steward.api.schema.json_passthrough import DESCRIBED
from steward.model.refusals import (
    Forbidden,
    Malformed,
    NotFound,
    RateLimited,
    Refusal,
    StaleVersion,
    TooLarge,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
    ValidationFailed,
)

Json = dict[str, Any]
_SCHEMAS = "#/components/schemas/{name}"
_MODELS = "#/components/schemas/{model}"
_ALWAYS: tuple[type[Refusal], ...] = (Unauthenticated, Forbidden, RateLimited, ValidationFailed, Unavailable)
_WITH_BODY: tuple[type[Refusal], ...] = (Malformed, TooLarge, UnsupportedMediaType)
_WORDS = {
    400: "The body is not acceptable JSON",
    401: "No valid token or session",
    403: "Not allowed",
    404: "Not found, or another organisation's",
    409: "Stale version or wrong state",
    413: "Too large",
    TARGET_TOO_LONG: "The address is too long",
    415: "Not JSON",
    422: "The request is invalid, or cannot be done now",
    429: "Too many calls; nothing was done",
    HEADERS_TOO_LARGE: "The headers are too long",
    503: "Cannot be completed now",
}


def document(
    operations: Sequence[Operation], base_url: str, *, version: str, under: tuple[str, ...] = ("/v1/",)
) -> Json:
    """The operations under these prefixes with their parameters, bodies, answers, refusals and examples."""
    rows = [operation for operation in operations if operation.path.startswith(under)]
    schemas = _answer_schemas(rows)
    paths: Json = {}
    for row in rows:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Steward Automations API",
            "version": version,
            "description": f"Contract version {CONTRACT_VERSION}.",
        },
        "servers": [{"url": base_url}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            },
        },
    }


def _operation(row: Operation, schemas: Json) -> Json:
    operation: Json = {
        "operationId": _operation_id(row),
        "summary": row.summary,
        "security": [{"token": []}],
        "x-scope": str(row.scope) if row.scope else None,
        "parameters": [*_path_parameters(row), *_query_parameters(row, schemas)],
        "responses": _responses(row),
    }
    if row.method in ("POST", "PATCH"):
        content: Json = {"schema": _body_schema(row, schemas)}
        example = _example(row)
        if example is not None:
            content["example"] = example.request or {}
        operation["requestBody"] = {
            "required": bool(schemas[row.body.__name__].get("required")),
            "content": {"application/json": content},
        }
    return operation


def _example(row: Operation) -> Example | None:
    """A call as it was made; of the web app's own operations none is kept."""
    return examples().get(f"{row.method} {row.path}")


def _operation_id(row: Operation) -> str:
    words = [
        word for word in re.split(r"[^a-z0-9]+", row.path.removeprefix("/v1/automations").lower()) if word
    ]
    return "_".join([row.method.lower(), *(words or ["automations"])])


def _path_parameters(row: Operation) -> list[Json]:
    names = re.findall(r"\{([a-z_]+)\}", row.path)
    return [
        {"name": name, "in": "path", "required": True, "schema": parameter_schema(name)} for name in names
    ]


def _query_parameters(row: Operation, schemas: Json) -> list[Json]:
    if row.query is None:
        return []
    schema = row.query.model_json_schema(ref_template=_MODELS)
    _adopt(schema, schemas)
    parameters = []
    for name, shape in schema.get("properties", {}).items():
        parameter: Json = {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", []),
            "schema": shape,
        }
        if "array" in str(shape):
            parameter |= {"style": "form", "explode": False}
        parameters.append(parameter)
    return parameters


def _body_schema(row: Operation, schemas: Json) -> Json:
    schema = row.body.model_json_schema(ref_template=_MODELS)
    _adopt(schema, schemas)
    # Two bodies of one name would be one type to those who read the document.
    assert schemas.setdefault(row.body.__name__, schema) == schema, row.body.__name__
    return {"$ref": _SCHEMAS.format(name=row.body.__name__)}


def _adopt(schema: Json, schemas: Json) -> None:
    """Moves the definitions inside a schema to the document's own, without defaults that stand for absent."""
    for shape in schema.get("properties", {}).values():
        if shape.get("default") in ("", None):
            shape.pop("default", None)
    for name, definition in schema.pop("$defs", {}).items():
        schemas.setdefault(name, definition)


def _answer_schemas(rows: Sequence[Operation]) -> Json:
    types = list(dict.fromkeys([*(row.answer for row in rows), *DESCRIBED]))
    _, components = msgspec.json.schema_components(types, ref_template=_SCHEMAS)
    components["TriggerRecord"] |= TRIGGER_RULE
    return {
        **components,
        "ErrorResponse": _ERROR,
        "ValidationError": _VALIDATION,
        "StaleOccurrence": _stale_occurrence(components),
        **({"StaleClosedPeriod": _stale(_CLOSED_PERIOD)} if "ClosedPeriodRecord" in components else {}),
    }


_CLOSED_PERIOD: Json = {
    "type": "object",
    "required": ["closed_period"],
    "properties": {
        "closed_period": {
            "anyOf": [{"$ref": _SCHEMAS.format(name="ClosedPeriodRecord")}, {"type": "null"}],
        }
    },
}


_ERROR: Json = {
    "type": "object",
    "required": ["success", "contract_version", "message"],
    "properties": {
        "success": {"const": False},
        "contract_version": {"type": "integer", "minimum": 1},
        "message": {"type": "string", "maxLength": 500},
        "code": {"type": "string", "enum": sorted(STATUS)},
        "errors": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
        "data": {"type": "object"},
    },
}


_VALIDATION: Json = {
    "allOf": [{"$ref": _SCHEMAS.format(name="ErrorResponse")}],
    "required": ["errors"],
}


def _stale(data: Json) -> Json:
    """A refusal that holds what is current."""
    return {
        "allOf": [{"$ref": _SCHEMAS.format(name="ErrorResponse")}],
        "required": ["data"],
        "properties": {"code": {"const": StaleVersion.code}, "data": data},
    }


def _stale_occurrence(components: Json) -> Json:
    held = {"occurrence": "OccurrenceRecord", "automation": "AutomationRecord", "approval": "ApprovalRecord"}
    properties: Json = {
        field: {"$ref": _SCHEMAS.format(name=name)} for field, name in held.items() if name in components
    }
    if "occurrence" in properties:
        properties["occurrence"] = {"anyOf": [properties["occurrence"], {"type": "null"}]}
    return _stale({"type": "object", "required": ["occurrence", "automation"], "properties": properties})


def _responses(row: Operation) -> Json:
    name = row.answer.__name__
    schema: Json = {
        "type": "object",
        "required": ["success", "contract_version", "data"],
        "properties": {
            "success": {"const": True},
            "contract_version": {"const": CONTRACT_VERSION},
            "data": {"$ref": _SCHEMAS.format(name=name)},
        },
    }
    content: Json = {"application/json": {"schema": schema}}
    example = _example(row)
    if example is not None:
        content["application/json"]["example"] = example.answer
    responses: Json = {str(row.status): {"description": "Done", "content": content}}
    if row.status == 201:
        replayed = {"required": True, "schema": {"const": "true"}}
        responses["200"] = {
            "description": "Done before: the same record",
            "content": content,
            "headers": {"Idempotent-Replayed": replayed},
        }
    for status, refusals in sorted(_by_status(row).items()):
        responses[str(status)] = _refusal(status, refusals, stale=_stale_name(row))
    return responses


def _by_status(row: Operation) -> Mapping[int, list[type[Refusal]]]:
    possible = [*_ALWAYS, *row.refusals]
    if row.method in ("POST", "PATCH"):
        possible += _WITH_BODY
    if "{" in row.path:
        possible.append(NotFound)
    by_status: dict[int, list[type[Refusal]]] = {}
    for refusal in dict.fromkeys(possible):
        by_status.setdefault(STATUS[refusal.code], []).append(refusal)
    return by_status | {TARGET_TOO_LONG: [TooLarge], HEADERS_TOO_LARGE: [TooLarge]}


def _stale_name(row: Operation) -> str:
    return "StaleClosedPeriod" if "/app/closed-periods" in row.path else "StaleOccurrence"


def _refusal(status: int, refusals: Sequence[type[Refusal]], *, stale: str) -> Json:
    examples_by_code: Json = {}
    for refusal in refusals:
        value: Json = {
            "success": False,
            "contract_version": CONTRACT_VERSION,
            "message": refusal.words,
            "code": refusal.code,
        }
        if status == 422:
            value["errors"] = {}
        examples_by_code[refusal.code] = {"value": value}
    schema: Json = {"$ref": _SCHEMAS.format(name="ValidationError" if status == 422 else "ErrorResponse")}
    if StaleVersion in refusals:
        # What is current is no fixed text: get and move show the records it holds.
        examples_by_code.pop(StaleVersion.code)
        others: Json = {"allOf": [schema], "properties": {"code": {"not": {"const": StaleVersion.code}}}}
        schema = {"anyOf": [{"$ref": _SCHEMAS.format(name=stale)}, others]}
    response: Json = {
        "description": _WORDS[status],
        "content": {"application/json": {"schema": schema, "examples": examples_by_code}},
    }
    if status == 401:
        is_sure = refusals == [Unauthenticated]
        response["headers"] = {"WWW-Authenticate": {"required": is_sure, "schema": {"type": "string"}}}
    if status in (429, 503):
        response["headers"] = {"Retry-After": {"required": True, "schema": {"type": "integer", "minimum": 1}}}
    return response


def write_for_web(file: Path) -> None:
    """Writes what the web app may call: /v1 and its own /app."""
    # Taken when asked for: the service itself hands the table over, and needs no second way to it.
    from steward.api.operations import OPERATIONS

    web_document = document(OPERATIONS, "/", version=str(CONTRACT_VERSION), under=("/v1/", "/app/"))
    body = msgspec.json.format(msgspec.json.encode(web_document), indent=1)
    if not file.exists() or file.read_bytes() != body:
        file.write_bytes(body)


if __name__ == "__main__":
    write_for_web(Path(sys.argv[1]))
