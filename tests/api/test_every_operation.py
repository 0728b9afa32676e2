"""What holds for every row of the table, also for one without a test of its own (house 6)."""

import re

import httpx
import openapi_spec_validator
import pytest

from steward.api import openapi
from steward.api.calls import Entry, Operation
from steward.api.operations import OPERATIONS
from steward.api.statuses import STATUS
from steward.model import refusals
from steward.model.account import TOKEN_SCOPES, Scope
from tests.people import Caller
from tests.service import Service

ID = "01JD3Z0QH8N2Y5V7W9X1C4B6A8"
ROWS = [pytest.param(row, id=f"{row.method} {row.path}") for row in OPERATIONS]
API_ROWS = [pytest.param(row, id=f"{row.method} {row.path}") for row in OPERATIONS if row.entry is Entry.API]


def at(row: Operation) -> str:
    """The row's path with values that name nothing."""
    path = re.sub(r"\{(integration_id|user_id)\}", "999999", row.path)
    return re.sub(r"\{[a-z_]+\}", ID, path.replace("{template_id}", "no-such-template"))


@pytest.mark.parametrize("row", API_ROWS)
async def test_without_a_token_it_is_refused(service: Service, row: Operation) -> None:
    """contract 1.4 step 2"""
    heard = await service.nobody().call(row.method, at(row), content=b"{")
    assert (heard.status, heard.code) == (401, "unauthenticated")


@pytest.mark.parametrize("row", API_ROWS)
async def test_a_token_without_its_scope_is_refused(member: Caller, row: Operation) -> None:
    """contract 1.4 step 5: what a credential's token never holds"""
    heard = await member.call(row.method, at(row), content=b"{", headers={"Content-Type": "application/json"})
    assert (heard.status == 403) == (row.scope not in TOKEN_SCOPES)


@pytest.mark.parametrize("row", [row for row in ROWS if "{" in row.values[0].path])  # type: ignore[union-attr]
async def test_what_is_not_there_is_not_found(service: Service, row: Operation) -> None:
    """contract 1.4 step 8: also for the owner, before the shape of the body"""
    web = await service.web("owner")
    heard = await web.call(row.method, at(row).replace(ID, "not-an-id"), content=b"")
    assert heard.status == 404
    assert heard.body["success"] is False


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_whole(row: Operation) -> None:
    """contract 2.1, 5.3, 6.1"""
    inside = row.path.startswith("/v1/automations")
    assert inside == (row.entry is Entry.API)
    assert inside == (row.scope is not None)
    assert row.path.startswith(("/v1/automations", "/app/"))
    assert (row.role is not None) == (row.entry is Entry.APP)
    assert row.method in ("GET", "POST", "PATCH", "DELETE")
    assert not (row.method == "GET" and row.writes)
    assert row.scope is not Scope.READ or not row.writes
    assert row.status == 200 or (row.status, row.method) == (201, "POST")


def test_every_refusal_has_its_status() -> None:
    """house 7"""
    codes = {refusal.code for refusal in refusals.Refusal.__subclasses__()}
    assert codes | {"internal"} == set(STATUS)


async def test_the_document_is_openapi_and_names_every_operation(service: Service) -> None:
    """contract 10: OpenAPI 3.1 of /v1, no token"""
    heard = await service.nobody().get("/openapi.json")
    openapi_spec_validator.validate(heard.body)
    rows = {(row.method.lower(), row.path) for row in OPERATIONS if row.path.startswith("/v1/")}
    found = {(method, path) for path, item in heard.body["paths"].items() for method in item}
    assert found == rows
    ids = [operation["operationId"] for item in heard.body["paths"].values() for operation in item.values()]
    assert len(set(ids)) == len(ids)
    for item in heard.body["paths"].values():
        for operation in item.values():
            answers = operation["responses"]
            assert {"401", "403", "422", "429", "503"} <= set(answers)
            assert all("example" in str(answer["content"]) for answer in answers.values())


async def test_the_answer_of_the_status_is_as_documented(service: Service, member: Caller) -> None:
    """contract 10: what is described is what is answered"""
    document = openapi.document(OPERATIONS, "http://127.0.0.1:8400", version="0")
    described = document["components"]["schemas"]["StatusAnswer"]["properties"]
    answer: httpx.Response = await member.client.get("/v1/automations/status", headers=member.headers)
    assert set(answer.json()["data"]) == set(described)
