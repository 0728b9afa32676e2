"""Builds the OpenAPI 3.1 document from the table of operations.

`python -m steward.api.openapi FILE` writes the document the web app's types are made from; with `--public`
the public one, which clients and the reference are made from.
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
from steward.api.schema.body_rules import BODY_COMPONENTS
from steward.api.schema.components import REF, inlined, reachable, ref, tidied, without_null
from steward.api.schema.json_passthrough import DESCRIBED
from steward.api.schema.login_schemas import LOGIN_SCHEMAS
from steward.api.schema.refusal_schemas import refusal_schemas
from steward.model.account import Scope
from steward.model.refusals import (
    Forbidden,
    InvalidCredentials,
    Malformed,
    NotConfigured,
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
_LOGIN_PATH = "/v2/api/automations/login"
_MODELS = "#/components/schemas/{model}"
_ALWAYS: tuple[type[Refusal], ...] = (
    Unauthenticated,
    Forbidden,
    RateLimited,
    ValidationFailed,
    Unavailable,
    NotConfigured,
)
_WITH_BODY: tuple[type[Refusal], ...] = (Malformed, TooLarge, UnsupportedMediaType)
_LOGIN: tuple[type[Refusal], ...] = (
    *_WITH_BODY,
    InvalidCredentials,
    ValidationFailed,
    RateLimited,
    Unavailable,
    NotConfigured,
)
_INTERNAL = 500
_WORDS = {
    400: "The body is not acceptable JSON",
    401: "No valid token or session",
    403: "Not allowed",
    404: "Not found, or another organization's",
    409: "Stale version or wrong state",
    413: "Too large",
    TARGET_TOO_LONG: "The address is too long",
    415: "Not JSON",
    422: "The request is invalid, or cannot be done now",
    429: "Too many calls; nothing was done",
    HEADERS_TOO_LARGE: "The headers are too long",
    _INTERNAL: "A defect; `message` holds the request id",
    503: "Cannot be completed now",
}
_TAGS = {
    "Login": "A token for an API credential, acting as one person in one organization.",
    "Automations": "Set up, change, pause, archive and run automations.",
    "Runs": "Follow, cancel and undo runs, and list what they changed.",
    "Calendar": "Coming runs: list, move, skip, and preview a schedule.",
    "Approvals": "What waits for a person. A token reads these and never decides.",
    "Templates": "What an automation can be set up from.",
    "Connections": "Stores, accounts and the places in them. They are connected in the web app.",
    "Imports": "Workflows of other tools: keep them, see how they would run, run them as automations.",
    "Status": "Versions, counts, limits and the state of the scheduler.",
    "Web app": "The web app's own operations.",
}
_TAG_OF_NOUN = {
    "login": "Login",
    "automations": "Automations",
    "runs": "Runs",
    "occurrences": "Calendar",
    "schedule": "Calendar",
    "approvals": "Approvals",
    "templates": "Templates",
    "stores": "Connections",
    "connections": "Connections",
    "destinations": "Connections",
    "imports": "Imports",
    "status": "Status",
}
_HEADERS: Json = {
    "X-Request-Id": {
        "description": "The request's own id, or one made for it; name it when you ask about a call.",
        "required": True,
        "schema": {"type": "string"},
    },
    "Retry-After": {
        "description": "Whole seconds to wait.",
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
    },
    "Idempotent-Replayed": {
        "description": "The call was done before: this is the same record.",
        "required": True,
        "schema": {"type": "string", "const": "true"},
    },
}


def document(
    operations: Sequence[Operation],
    base_url: str,
    *,
    version: str,
    auth_url: str | None = None,
    under: tuple[str, ...] = ("/v1/", "/v2/"),
    codes: bool = False,
) -> Json:
    """Returns the OpenAPI document of the operations under these prefixes.

    `auth_url` is the address of the login if it differs. With `codes`, the code of a refusal is a closed
    enumeration, for programs that are built with the service.
    """
    rows = [operation for operation in operations if operation.path.startswith(under)]
    schemas = _schemas(rows, codes=codes)
    paths: Json = {}
    if _LOGIN_PATH.startswith(under):
        paths[_LOGIN_PATH] = {"post": _login(auth_url or base_url)}
    for row in rows:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row, schemas)
    tags = {tag for item in paths.values() for operation in item.values() for tag in operation["tags"]}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Steward Automations API",
            "version": version,
            "description": f"Contract version {CONTRACT_VERSION}.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url}],
        "tags": [{"name": name, "description": words} for name, words in _TAGS.items() if name in tags],
        "paths": paths,
        "components": {
            "schemas": reachable(paths, schemas),
            "headers": _HEADERS,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
                **({"client": {"type": "http", "scheme": "basic"}} if _LOGIN_PATH in paths else {}),
            },
        },
    }


def _operation(row: Operation, schemas: Json) -> Json:
    operation: Json = {
        "operationId": row.name,
        "summary": row.summary,
        "tags": [_tag(row)],
        "security": [{"token": []}],
        **({"x-scope": str(row.scope)} if row.scope else {}),
        "x-idempotent": _idempotent(row),
        **_page(row),
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


def _login(auth_url: str) -> Json:
    example = examples().get(f"POST {_LOGIN_PATH}")
    json_body: Json = {"schema": ref("LoginBody")}
    response: Json = {"schema": ref("LoginResponse")}
    if example is not None:
        json_body["example"], response["example"] = example.request, example.response
    responses: Json = {"200": _response("A token", response)}
    for status, refusals in sorted(_grouped(_LOGIN).items()):
        responses[str(status)] = _refusal(status, refusals)
    return {
        "operationId": "login",
        "summary": "Log in",
        "tags": ["Login"],
        "servers": [{"url": auth_url}],
        "security": [{}, {"client": []}],
        "x-idempotent": "no",
        "parameters": [],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": json_body,
                "application/x-www-form-urlencoded": {"schema": ref("LoginForm")},
            },
        },
        "responses": responses,
    }


def _tag(row: Operation) -> str:
    if row.path.startswith("/app/"):
        return "Web app"
    noun, _, verb = row.name.partition(".")
    return "Calendar" if verb.endswith("_occurrence") else _TAG_OF_NOUN.get(noun, "Web app")


def _idempotent(row: Operation) -> str:
    """Returns how a call may be repeated: `yes`, `by_key`, `by_version` or `no`."""
    fields = row.body.model_fields
    if row.method == "GET" or row.scope is Scope.READ or row.repeats:
        return "yes"
    if "idempotency_key" in fields:
        return "by_key"
    return "by_version" if fields.keys() & {"version", "automation_version"} else "no"


def _page(row: Operation) -> Json:
    """Returns the names of a list's records field and cursor parameter; empty without pages."""
    fields = [field.name for field in msgspec.structs.fields(row.response)]
    if "next_cursor" not in fields:
        return {}
    return {"x-page": {"items": fields[0], "cursor": "cursor"}}


def _example(row: Operation) -> Example | None:
    """Returns the recorded call of an operation, or None; the web app's operations have none."""
    return examples().get(f"{row.method} {row.path}")


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
            "schema": tidied(without_null(shape)),
        }
        if "array" in str(shape):
            parameter |= {"style": "form", "explode": False}
        parameters.append(parameter)
    return parameters


def _body_schema(row: Operation, schemas: Json) -> Json:
    schema = row.body.model_json_schema(ref_template=_MODELS)
    _adopt(schema, schemas)
    schema = tidied(schema, defaults=row.method != "PATCH")
    # Two bodies with the same name would be one type for readers of the document.
    assert schemas.setdefault(row.body.__name__, schema) == schema, row.body.__name__
    return ref(row.body.__name__)


def _adopt(schema: Json, schemas: Json) -> None:
    """Moves the definitions inside a schema to the components of the document."""
    for name, definition in schema.pop("$defs", {}).items():
        schemas.setdefault(name, tidied(definition))


def _schemas(rows: Sequence[Operation], *, codes: bool) -> Json:
    """Returns every component except the bodies of operations; unused ones are removed later."""
    types = list(dict.fromkeys([*(row.response for row in rows), *DESCRIBED]))
    _, components = msgspec.json.schema_components(types, ref_template=REF)
    trigger_kinds = {"schedule": "ScheduleTriggerRecord", "event": "EventTriggerRecord"}
    described: Json = {
        **components,
        **{_envelope_name(row): _envelope(row) for row in rows},
        **BODY_COMPONENTS,
        "AutomationTrigger": {
            "description": "How an automation starts.",
            "oneOf": [ref(name) for name in trigger_kinds.values()],
            "discriminator": {
                "propertyName": "kind",
                "mapping": {kind: ref(name)["$ref"] for kind, name in trigger_kinds.items()},
            },
        },
        **refusal_schemas(STATUS, codes=codes, components=components),
        **LOGIN_SCHEMAS,
    }
    return {name: tidied(schema) for name, schema in described.items()}


def _envelope_name(row: Operation) -> str:
    return row.response.__name__.removesuffix("Response") + "Envelope"


def _envelope(row: Operation) -> Json:
    return {
        "type": "object",
        "description": "A call that was done: `data` is its response.",
        "required": ["success", "contract_version", "data"],
        "properties": {
            "success": {"type": "boolean", "const": True},
            "contract_version": {"type": "integer", "const": CONTRACT_VERSION},
            "data": ref(row.response.__name__),
        },
    }


def _responses(row: Operation) -> Json:
    content: Json = {"schema": ref(_envelope_name(row))}
    example = _example(row)
    if example is not None:
        content["example"] = inlined(example.response)
    responses: Json = {str(row.status): _response("Done", content)}
    if row.status == 201:
        responses["200"] = _response("Done before: the same record", content, "Idempotent-Replayed")
    for status, refusals in sorted(_by_status(row).items()):
        responses[str(status)] = _refusal(status, refusals, stale=_stale_name(row))
    return responses


def _response(words: str, content: Json, *headers: str) -> Json:
    names = ("X-Request-Id", *headers)
    return {
        "description": words,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names},
        "content": {"application/json": content},
    }


def _by_status(row: Operation) -> Mapping[int, list[type[Refusal]]]:
    possible = [*_ALWAYS, *row.refusals]
    if row.method != "GET":
        possible += _WITH_BODY
    if "{" in row.path:
        possible.append(NotFound)
    return _grouped(possible)


def _grouped(possible: Sequence[type[Refusal]]) -> Mapping[int, list[type[Refusal]]]:
    by_status: dict[int, list[type[Refusal]]] = {}
    for refusal in dict.fromkeys(possible):
        by_status.setdefault(STATUS[refusal.code], []).append(refusal)
    return by_status | {TARGET_TOO_LONG: [TooLarge], HEADERS_TOO_LARGE: [TooLarge], _INTERNAL: []}


def _stale_name(row: Operation) -> str:
    return "StaleClosedPeriodRefusal" if "/app/closed-periods" in row.path else "StaleRefusal"


def _refusal(status: int, refusals: Sequence[type[Refusal]], *, stale: str = "") -> Json:
    codes = {refusal.code: refusal.words for refusal in refusals}
    if status == _INTERNAL:
        codes = {"internal": "Something went wrong on our side. Give this id when you ask about it: …."}
    examples_by_code: Json = {
        code: {
            "value": {
                "success": False,
                "contract_version": CONTRACT_VERSION,
                "message": words,
                "code": code,
                **({"errors": {}} if status == 422 else {}),
            }
        }
        for code, words in codes.items()
        # The current record has no fixed example: the examples of get and move show its records.
        if code != StaleVersion.code
    }
    schema = ref("ValidationRefusal" if status == 422 else "Refusal")
    if StaleVersion in refusals:
        schema = {"anyOf": [ref(stale), schema]} if len(refusals) > 1 else ref(stale)
    waits = ("Retry-After",) if status in (429, 503) else ()
    response = _response(_WORDS[status], {"schema": schema, "examples": examples_by_code}, *waits)
    response["x-codes"] = sorted(codes)
    if status == 401:
        is_sure = refusals == [Unauthenticated]
        response["headers"]["WWW-Authenticate"] = {"required": is_sure, "schema": {"type": "string"}}
    return response


def write_for_web(file: Path) -> None:
    """Writes the document of the operations that the web app may call: /v1 and /app."""
    _write(file, under=("/v1/", "/app/"), codes=True)


def write_public(file: Path) -> None:
    """Writes the document of the public API, as a release serves it."""
    _write(file, under=("/v1/", "/v2/"), codes=False)


def _write(file: Path, *, under: tuple[str, ...], codes: bool) -> None:
    # Imported only here: the service itself passes the table as an argument.
    from steward.api.operations import OPERATIONS
    from steward.version import __version__

    described = document(OPERATIONS, "/", version=__version__, under=under, codes=codes)
    body = msgspec.json.format(msgspec.json.encode(described), indent=1)
    if not file.exists() or file.read_bytes() != body:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)


if __name__ == "__main__":
    (write_public if sys.argv[1] == "--public" else write_for_web)(Path(sys.argv[-1]))
