"""Tests another organization's ids in path, body, filter and cursor, on every route."""

import typing
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from steward.api.http.operation import Access, Operation
from steward.api.operations import OPERATIONS
from steward.model.account import TOKEN_SCOPES
from tests.authz.rows import NOT_LOOKED_AT, SPELLED, at, is_list, named, parameters, spelled
from tests.authz.statements_without_org import without_the_first_wall
from tests.authz.two_organizations import ABSENT, OrganizationIds, TwoOrganizations
from tests.people import Caller

# Names of fields that end like an id and hold none.
NO_IDS = {"template_id"}
WITH_IDS = [row for row in OPERATIONS if set(parameters(row)) - NO_IDS]
LISTS = [row for row in OPERATIONS if is_list(row)]


@pytest.fixture(params=["both walls", "the second wall alone"])
def two_walled(
    request: pytest.FixtureRequest, two: TwoOrganizations, monkeypatch: pytest.MonkeyPatch
) -> TwoOrganizations:
    """Provides the service; on PostgreSQL once more with `org_id = :org` removed from every statement."""
    if request.param == "the second wall alone":
        if two.service.context.engine.dialect == "sqlite":
            pytest.skip("SQLite has the first wall only (safety 5)")
        without_the_first_wall(monkeypatch)
    return two


async def callers(two: TwoOrganizations, row: Operation, *, name: str = "owner") -> list[Caller]:
    """Returns who may call the operation: a session, and a token where its scope allows."""
    if name not in two.sessions:
        two.sessions[name] = await two.service.web(name)
    found_callers = [two.sessions[name]]
    if row.access is Access.API and row.scope in TOKEN_SCOPES:
        found_callers.append(await two.service.token(name))
    return found_callers


async def response_to(
    caller: Caller, row: Operation, path: str, *, body: Any = None, query: Mapping[str, Any] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Returns status, headers and bytes of a response, without the request's id."""
    headers = dict(caller.headers)
    if caller.csrf is not None:
        headers["X-CSRF-Token"] = caller.csrf
    response: httpx.Response = await caller.client.request(
        row.method, path, params=dict(query or {}), json=body, headers=headers
    )
    stored = {
        key: value for key, value in response.headers.items() if key not in ("x-request-id", "set-cookie")
    }
    return response.status_code, stored, response.content


async def tried(
    caller: Caller, row: Operation, path: str, body: Any, *, sent: object
) -> tuple[int, dict[str, str], bytes]:
    """Returns the response to a body, without the id that the caller has sent itself."""
    status, headers, raw = await response_to(caller, row, path, body=body)
    headers.pop("content-length")
    return status, headers, raw.replace(f" {sent}.".encode(), b" what was sent.")


def test_every_route_has_its_row() -> None:
    """Fails for a route without its row and for a row without its route."""
    assert {named(row) for row in OPERATIONS} == set(SPELLED)


def _fields(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """Yields the names of a model's fields, with those of nested models."""
    for name, field in model.model_fields.items():
        path = f"{before}{field.alias or name}"
        yield path
        pending = [field.annotation]
        while pending:
            item = pending.pop()
            pending.extend(typing.get_args(item))
            if isinstance(item, type) and issubclass(item, BaseModel):
                yield from _fields(item, f"{path}.")


@pytest.mark.parametrize("row", OPERATIONS, ids=named)
def test_every_field_that_takes_an_id_is_named(row: Operation) -> None:
    """Fails for a field of body or query that takes an id and is not in the row."""

    def ids(names: Iterator[str]) -> set[str]:
        return {name for name in names if name.endswith("_id")} - NO_IDS

    if row.query is not None:
        assert ids(_fields(row.query)) == set(spelled(row).filters)
    field_names = {path.rpartition(".")[0] or path for path in ids(_fields(row.body))}
    assert field_names <= set(spelled(row).bodies), field_names


async def test_in_the_path_foreign_and_absent_are_one_response(two_walled: TwoOrganizations) -> None:
    """Answers the same bytes, 404, to a foreign and to an absent id, whatever the body."""
    two = two_walled
    for row in WITH_IDS:
        for caller in await callers(two, row):
            for body in ({}, spelled(row).body(two.ours), {"surplus": 1}) if row.method != "GET" else (None,):
                foreign = await response_to(caller, row, at(row, two.theirs), body=body)
                assert foreign == await response_to(caller, row, at(row, ABSENT), body=body), named(row)
                assert (foreign[0], two.told(foreign[2])) == (404, []), named(row)
    await unharmed(two)


async def test_in_a_body_foreign_and_absent_are_one_response(two_walled: TwoOrganizations) -> None:
    """Answers the same bytes to a foreign and to an absent id, and others to the caller's own."""
    two = two_walled
    for row in OPERATIONS:
        for location, (name, body) in spelled(row).bodies.items():
            for caller in await callers(two, row):
                path = at(row, two.ours)
                foreign, absent, own_values = [
                    await tried(caller, row, path, body(two.ours, ids.one(name)), sent=ids.one(name))
                    for ids in (two.theirs, ABSENT, two.ours)
                ]
                assert foreign == absent, (named(row), name)
                assert foreign[0] in (404, 422), (named(row), name, foreign)
                assert (own_values == foreign) == ((named(row), location) in NOT_LOOKED_AT), (
                    named(row),
                    location,
                )
                assert two.told(foreign[2]) == [], named(row)
    await unharmed(two)


async def test_as_a_filter_foreign_and_absent_are_one_response(two_walled: TwoOrganizations) -> None:
    """Answers the same bytes to a foreign and to an absent id as a filter."""
    two = two_walled
    for row in OPERATIONS:
        for parameter, name in spelled(row).filters.items():
            for caller in await callers(two, row):
                foreign, absent, own_values = [
                    await response_to(caller, row, at(row, two.ours), query={parameter: ids.one(name)})
                    for ids in (two.theirs, ABSENT, two.ours)
                ]
                assert foreign == absent, (named(row), name)
                assert own_values[0] == 200, (named(row), name, own_values)
                assert own_values != foreign, (named(row), name)
                assert two.told(foreign[2]) == [], named(row)


async def test_a_cursor_of_another_organization_is_refused(two_walled: TwoOrganizations) -> None:
    """Answers 422 to a cursor of another organization, with either organization's ids in the query."""
    two = two_walled
    for row in LISTS:
        for ours, theirs in zip(
            await callers(two, row), await callers(two, row, name="stranger"), strict=True
        ):
            needed, other = spelled(row).needed(two.ours), spelled(row).needed(two.theirs)
            status, _, raw = await response_to(theirs, row, at(row, two.theirs), query={**other, "limit": 1})
            assert status == 200, named(row)
            cursor = httpx.Response(200, content=raw).json()["data"]["next_cursor"]
            assert cursor is not None, f"{named(row)} has but one page"
            for shared in (needed, other):
                query = {**shared, "cursor": cursor}
                status, _, raw = await response_to(ours, row, at(row, two.ours), query=query)
                assert (status, b'"cursor"' in raw, two.told(raw)) == (422, True, []), named(row)


async def test_no_character_of_a_cursor_can_be_altered(two: TwoOrganizations) -> None:
    """Answers 422 on `cursor` whatever character is replaced or removed."""
    owner = await two.service.token("owner")
    cursor = (await owner.get("/v1/automations", limit=1)).data["next_cursor"]
    for index, sign in enumerate(cursor):
        for other in {"A", "B", "=", "-", "", chr(ord(sign) ^ 1)} - {sign}:
            altered = cursor[:index] + other + cursor[index + 1 :]
            response = await owner.get("/v1/automations", limit=1, cursor=altered)
            assert response.status == 422, (index, other)
            assert list(response.errors) == ["cursor"]


async def test_nothing_of_another_organization_is_ever_returned(two_walled: TwoOrganizations) -> None:
    """No list or record contains the other organization's ids or names, for an owner or a token."""
    two = two_walled
    for row in OPERATIONS:
        if row.method != "GET":
            continue
        for caller in await callers(two, row):
            query: dict[str, Any] = {**spelled(row).needed(two.ours)}
            if is_list(row):
                query["limit"] = 200
            status, _, raw = await response_to(caller, row, at(row, two.ours), query=query)
            assert (status, two.told(raw)) == (row.status, []), named(row)


async def unharmed(two: TwoOrganizations) -> None:
    """Checks that the other organization's data are as they were."""
    stranger, ids = await two.service.web("stranger"), two.theirs
    automation = (await stranger.get(f"/v1/automations/{ids.automation_id}")).data["automation"]
    assert (automation["version"], automation["state"]) == (2, "active")
    approval = (await stranger.get(f"/v1/automations/approvals/{ids.approval_id}")).data["approval"]
    assert (approval["version"], approval["status"]) == (1, "pending")
    assert await _states(stranger, ids) == {"waiting_approval", "connected"}


async def _states(stranger: Caller, ids: OrganizationIds) -> set[str]:
    run = (await stranger.get(f"/v1/automations/runs/{ids.run_id}")).data["run"]
    connections = (await stranger.get("/app/connections")).data["connections"]
    return {run["status"], *(item["state"] for item in connections)}
