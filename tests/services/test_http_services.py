"""Nodes of services that an HTTP API account authenticates: their calls and the items they return."""

import base64
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from steward.fake_platforms.application import FakePlatforms
from steward.model.run import RunStatus
from tests.fake_clock import FakeClock
from tests.imports.exports import automated, chain, code, node
from tests.imports.responses.workflows import output_items
from tests.runs.shop import Shop, connect_all, open_shop

TOKEN = "token-of-the-account-5d1e"
REPOSITORY = {
    "owner": {"__rl": True, "mode": "name", "value": "acme"},
    "repository": {"__rl": True, "mode": "list", "value": "shop"},
}


@dataclass
class Api:
    """Answers the requests of one host by `respond`; others go to the fake platforms."""

    host: str = ""
    seen: list[httpx.Request] = field(default_factory=list)
    respond: Callable[[httpx.Request], Any] = lambda request: {}

    def beside(self, world: FakePlatforms) -> None:
        """Lets the fake platforms answer for every other host."""
        platforms = world.transport()

        async def handle(request: httpx.Request) -> httpx.Response:
            if request.url.host != self.host:
                return await platforms.handle_async_request(request)
            await request.aread()
            self.seen.append(request)
            stream = httpx.ByteStream(json.dumps(self.respond(request)).encode())
            return httpx.Response(200, headers={"content-type": "application/json"}, stream=stream)

        world.transport = lambda: httpx.MockTransport(handle)  # type: ignore[method-assign]


@pytest.fixture
def api() -> Api:
    """Returns the fake API."""
    return Api()


@pytest.fixture
async def shop(database_url: str, clock: FakeClock, tmp_path: Path, api: Api) -> AsyncIterator[Shop]:
    """Yields the service beside the API."""
    opened = await open_shop(database_url, clock, tmp_path, around=api.beside)
    await connect_all(opened)
    yield opened
    await opened.service.close()


async def signed_in(shop: Shop, api: Api, host: str) -> dict[str, Any]:
    """Connects the account and returns it as `accounts` names it."""
    api.host = host
    connection = await shop.connect("http_api", {"hosts": host, "token": TOKEN})
    return {"integration_id": connection.integration_id}


async def test_a_send_waits_and_its_response_is_passed_on(shop: Shop, api: Api) -> None:
    """Sends the service's own request once after approval with the account's key and returns its response."""
    account = await signed_in(shop, api, "api.github.com")
    api.respond = lambda request: {"number": 7, "title": json.loads(request.content)["title"]}
    parameters = {**REPOSITORY, "title": "Sold out", "body": "Tea", "labels": [{"label": "shop"}]}
    export = chain(node("Open", "github", 1.1, parameters), code("Read", "return items"))
    automation = await automated(shop, export, accounts={"Open": account})
    run = await shop.waiting(automation)
    assert api.seen == []
    await shop.approve(run)
    await shop.restart()
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    [request] = api.seen
    assert str(request.url) == "https://api.github.com/repos/acme/shop/issues"
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert json.loads(request.content) == {
        "title": "Sold out",
        "body": "Tea",
        "labels": ["shop"],
        "assignees": [],
    }
    assert await output_items(shop, run, "Read") == [{"number": 7, "title": "Sold out"}]


async def test_a_list_is_read_page_by_page(shop: Shop, api: Api) -> None:
    """Reads all pages of a list in order."""
    account = await signed_in(shop, api, "api.github.com")

    def page(request: httpx.Request) -> list[dict[str, int]]:
        number = int(request.url.params.get("page", "1"))
        return [{"id": number * 1000 + index} for index in range(100 if number < 3 else 5)]

    api.respond = page
    parameters = {"resource": "repository", "operation": "getIssues", **REPOSITORY, "returnAll": True}
    automation = await automated(
        shop, chain(node("List", "github", 1.1, parameters)), accounts={"List": account}
    )
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.SUCCEEDED, run
    assert [request.url.params.get("page") for request in api.seen] == [None, "2", "3"]
    assert len(await output_items(shop, run, "List")) == 205


async def test_a_search_is_read_page_by_page_without_approval(shop: Shop, api: Api) -> None:
    """Sends a POST that only reads without approval, and the next page's cursor in its body."""
    account = await signed_in(shop, api, "api.hubapi.com")

    def page(request: httpx.Request) -> dict[str, Any]:
        question = json.loads(request.content)
        if "after" in question:
            return {"results": [{"id": "3"}]}
        return {"results": [{"id": "1"}, {"id": "2"}], "paging": {"next": {"after": "2"}}}

    api.respond = page
    parameters = {"operation": "search", "returnAll": True, "additionalFields": {"query": "tea"}}
    automation = await automated(
        shop, chain(node("Search", "hubspot", 2.1, parameters)), accounts={"Search": account}
    )
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.SUCCEEDED, run
    assert [request.method for request in api.seen] == ["POST", "POST"]
    request_body = {"filterGroups": [], "limit": 100, "query": "tea"}
    assert [json.loads(request.content) for request in api.seen] == [
        request_body,
        {**request_body, "after": "2"},
    ]
    assert await output_items(shop, run, "Search") == [{"id": "1"}, {"id": "2"}, {"id": "3"}]


async def test_pages_continue_by_what_each_service_says(shop: Shop, api: Api) -> None:
    """Pages Jira by position at the account's host until the total is reached."""
    account = await signed_in(shop, api, "shop.atlassian.net")

    def page(request: httpx.Request) -> dict[str, Any]:
        position = int(request.url.params.get("startAt", "0"))
        return {"values": [{"id": str(position + 1)}, {"id": str(position + 2)}][: 3 - position], "total": 3}

    api.respond = page
    parameters = {"operation": "changelog", "issueKey": "SHOP-1", "returnAll": True}
    automation = await automated(
        shop, chain(node("Changes", "jira", 1, parameters)), accounts={"Changes": account}
    )
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.SUCCEEDED, run
    addresses = [str(request.url) for request in api.seen]
    first = "https://shop.atlassian.net/rest/api/2/issue/SHOP-1/changelog?maxResults=100"
    assert addresses == [first, f"{first}&startAt=2"]
    assert await output_items(shop, run, "Changes") == [{"id": "1"}, {"id": "2"}, {"id": "3"}]


async def test_a_form_is_sent_as_the_service_takes_it(shop: Shop, api: Api) -> None:
    """Sends nested fields to Stripe as a form, and pages its lists after the last record."""
    account = await signed_in(shop, api, "api.stripe.com")

    def respond(request: httpx.Request) -> dict[str, Any]:
        if request.method == "POST":
            return {"id": "cus_3", "object": "customer"}
        if request.url.params.get("starting_after") == "cus_1":
            return {"data": [{"id": "cus_2"}], "has_more": False}
        return {"data": [{"id": "cus_1"}], "has_more": True}

    api.respond = respond
    listed = {"resource": "customer", "operation": "getAll", "returnAll": True}
    address = {"address": {"details": {"city": "Riga & Co"}}}
    new_customer = {
        "resource": "customer",
        "operation": "create",
        "name": "Ann",
        "additionalFields": address,
    }
    automation = await automated(
        shop,
        chain(
            node("List", "stripe", 1, listed),
            node("Last", "limit", 1, {"keep": "lastItems"}),
            node("Create", "stripe", 1, new_customer),
            code("Read", "return items"),
        ),
        accounts={"List": account, "Create": account},
    )
    run = await shop.waiting(automation)
    assert await output_items(shop, run, "List") == [{"id": "cus_1"}, {"id": "cus_2"}]
    await shop.approve(run)
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    request = api.seen[-1]
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    assert request.content == b"name=Ann&address%5Bcity%5D=Riga+%26+Co"
    assert await output_items(shop, run, "Read") == [{"id": "cus_3", "object": "customer"}]


async def test_files_of_a_repository_are_read_and_changed(shop: Shop, api: Api) -> None:
    """Reads, edits, creates and deletes repository files with their current sha and encoded path."""
    account = await signed_in(shop, api, "api.github.com")
    content = base64.b64encode(b"sku,stock\nT1,4\n").decode()

    def respond(request: httpx.Request) -> Any:
        if request.method == "GET":
            return {
                "name": "stock.csv",
                "sha": "s1",
                "encoding": "base64",
                "content": content[:8] + "\n" + content[8:],
            }
        return {"content": {"path": "data/stock.csv"}, "commit": {"sha": "c1"}}

    api.respond = respond
    file = {"resource": "file", **REPOSITORY, "filePath": "data/stock #1.csv"}
    committed = {**file, "commitMessage": "Stock", "additionalParameters": {"branch": {"branch": "main"}}}
    steps = (
        node("Get", "github", 1.1, {**file, "operation": "get", "additionalParameters": {}}),
        node("Rows", "extractFromFile", 1, {"options": {}}),
        node("Edit", "github", 1.1, {**committed, "operation": "edit", "fileContent": "={{ $json.sku }}"}),
        code("Back", "return $('Get').all()"),
        node("New", "github", 1.1, {**committed, "binaryData": True, "binaryPropertyName": "data"}),
        node("Gone", "github", 1.1, {**committed, "operation": "delete"}),
    )
    named = {name: account for name in ("Get", "Edit", "New", "Gone")}
    automation = await automated(shop, chain(*steps), accounts=named, send_mode="send")
    run = await shop.until_settled(await shop.run_and_drain(automation))
    assert run.status is RunStatus.SUCCEEDED, run
    assert {request.url.raw_path.partition(b"?")[0] for request in api.seen} == {
        b"/repos/acme/shop/contents/data/stock%20%231.csv"
    }
    edit, new, gone = [request for request in api.seen if request.method != "GET"]
    about = {"message": "Stock", "branch": "main"}
    assert (edit.method, json.loads(edit.content)) == (
        "PUT",
        {**about, "content": base64.b64encode(b"T1").decode(), "sha": "s1"},
    )
    assert (new.method, json.loads(new.content)) == ("PUT", {**about, "content": content})
    assert (gone.method, json.loads(gone.content)) == ("DELETE", {**about, "sha": "s1"})
