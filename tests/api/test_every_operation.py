"""Rules that hold for every row of the operations table, also for rows without tests of their own."""

import re
from typing import Any

import httpx
import openapi_spec_validator
import pytest
from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from steward.api import openapi
from steward.api.http.operation import Access, Operation
from steward.api.http.statuses import STATUS
from steward.api.operations import OPERATIONS
from steward.model import refusals
from steward.model.account import TOKEN_SCOPES, Scope
from tests.people import Caller
from tests.service import LOGIN, Service

ID = "01JD3Z0QH8N2Y5V7W9X1C4B6A8"
JSON = "application/json"
API_ROWS = [row for row in OPERATIONS if row.access is Access.API]


def path_of(row: Operation) -> str:
    """Returns the row's path with values that name nothing."""
    path = re.sub(r"\{(integration_id|user_id)\}", "999999", row.path)
    return re.sub(r"\{[a-z_]+\}", ID, path.replace("{template_id}", "no-such-template"))


async def test_without_a_token_every_operation_is_refused(nobody: Caller) -> None:
    """Answers 401 to every API operation without a token, before it reads the body.

    See docs/design/api/conventions.md#order-of-refusals.

    Interface statements: 4 bearer.
    """
    for row in API_ROWS:
        response = await nobody.call(row.method, path_of(row), content=b"{")
        assert (response.status, response.code) == (401, "unauthenticated"), row


async def test_a_token_without_its_scope_is_refused(member: Caller) -> None:
    """Answers 403 exactly where the operation's scope is one that tokens never hold.

    See docs/design/api/conventions.md#order-of-refusals.

    Interface statements: 4 scope; 5.3 missing; 7 scope.
    """
    for row in API_ROWS:
        response = await member.call(
            row.method, path_of(row), content=b"{", headers={"Content-Type": "application/json"}
        )
        assert (response.status == 403) == (row.scope not in TOKEN_SCOPES), row


async def test_absent_and_malformed_ids_return_404(service: Service) -> None:
    """Answers the same 404 for absent and malformed ids, whatever else is wrong in the request.

    See docs/design/api/conventions.md#order-of-refusals.

    Interface statements: 7 absent.
    """
    web = await service.web("owner")
    for row in OPERATIONS:
        if "{" in row.path:
            absent = await web.call(row.method, path_of(row), body={"surplus": 1}, params={"surplus": 1})
            malformed = await web.call(row.method, path_of(row).replace(ID, "no-id"), body={})
            assert absent.status == malformed.status == 404, row
            assert absent.body == malformed.body, row


@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: f"{row.method} {row.path}")
def test_a_row_is_whole(row: Operation) -> None:
    """Checks that each row's path, access, scope, role, method and status agree with each other.

    See docs/design/api/conventions.md#operations and docs/design/api/sign-in.md#login-checks.

    Interface statements: 9 prefix.
    """
    inside = row.path.startswith("/v1/automations")
    assert inside == (row.access is Access.API)
    assert inside == (row.scope is not None)
    assert row.path.startswith(("/v1/automations", "/app/"))
    assert (row.role is not None) == (row.access is Access.APP)
    assert row.method in ("GET", "POST", "PATCH", "DELETE")
    # The sign-in callback is reached by a link; its state parameter replaces the CSRF header.
    assert not (row.method == "GET" and row.writes) or row.path.endswith("/sign-in/callback")
    assert row.scope is not Scope.READ or not row.writes
    assert row.status in (200, 303) or (row.status, row.method) == (201, "POST")


def test_every_refusal_has_its_status() -> None:
    """Gives every refusal class an HTTP status, and no status to anything else."""
    codes = {refusal.code for refusal in refusals.Refusal.__subclasses__()}
    assert codes | {"internal"} == set(STATUS)


async def test_the_document_is_openapi_and_names_every_operation(service: Service) -> None:
    """Validates the OpenAPI document and finds every /v1/ operation in it once with its refusals."""
    response = await service.nobody().get("/openapi.json")
    openapi_spec_validator.validate(response.body)
    rows = {(row.method.lower(), row.path) for row in OPERATIONS if row.path.startswith("/v1/")}
    rows.add(("post", LOGIN))
    documented = {(method, path) for path, item in response.body["paths"].items() for method in item}
    assert documented == rows
    ids = [
        operation["operationId"] for item in response.body["paths"].values() for operation in item.values()
    ]
    assert len(set(ids)) == len(ids)
    for item in response.body["paths"].values():
        for operation in item.values():
            responses = operation["responses"]
            assert {"401", "414", "422", "429", "431", "500", "503"} <= set(responses)
            assert ("403" in responses) == (operation["operationId"] != "login")
            assert all("example" in str(reply["content"]) for reply in responses.values())


def test_every_example_of_the_document_is_real_and_of_its_schema() -> None:
    """Validates every recorded example against the schema that the document gives for it."""
    document = openapi.document(OPERATIONS, "http://127.0.0.1:8400", version="0")
    whole = Registry().with_resource("urn:document", DRAFT202012.create_resource(document))
    displayed = 0
    for path, item in document["paths"].items():
        for method, operation in item.items():
            contents = [response["content"] for response in operation["responses"].values()]
            contents += [operation["requestBody"]["content"]] if "requestBody" in operation else []
            for content in contents:
                described = content["application/json"]
                schema = _within(described["schema"])
                named = [entry["value"] for entry in described.get("examples", {}).values()]
                for value in [described["example"]] if "example" in described else named:
                    checker = Draft202012Validator(schema, registry=whole, format_checker=FormatChecker())
                    faults = [
                        f"{list(error.absolute_path)}: {error.message}"
                        for error in checker.iter_errors(value)
                    ]
                    assert faults == [], (method, path)
                    displayed += 1
            assert "example" in operation["responses"][next(iter(operation["responses"]))]["content"][JSON]
    assert displayed > 300


def _within(schema: Any) -> Any:
    """Returns the schema with its references pointed at the registered document."""
    if isinstance(schema, dict):
        return {
            name: f"urn:document{value}" if name == "$ref" else _within(value)
            for name, value in schema.items()
        }
    return [_within(item) for item in schema] if isinstance(schema, list) else schema


async def test_the_response_of_the_status_is_as_documented(service: Service, member: Caller) -> None:
    """Answers the status with exactly the fields that the document describes."""
    document = openapi.document(OPERATIONS, "http://127.0.0.1:8400", version="0")
    described = document["components"]["schemas"]["StatusResponse"]["properties"]
    response: httpx.Response = await member.client.get("/v1/automations/status", headers=member.headers)
    assert set(response.json()["data"]) == set(described)
