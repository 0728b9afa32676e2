"""Airtable and Notion: how records and pages are queried, written and returned."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from steward.connectors.base.queries import PATH, PathQuery
from steward.connectors.base.settings import ConnectionSecrets
from steward.model.run import Mode, RunStatus
from steward.outbound.errors import CallRefused
from steward.steps.n8n.notion_values import notion_id, simple_value, snake_case
from steward.telemetry.redact import Secret
from tests.connectors.conformance.test_every_connector import BUILT
from tests.fake_clock import FakeClock
from tests.imports.exports import automated, chain, node
from tests.runs.shop import Shop
from tests.services.accounts import PAGE, PAGE_ID, RECORD, SETTINGS, fake
from tests.services.fakes import FakeService
from tests.services.running import call_of, findings_of, items_of, shop_beside

BASE = {
    "base": {"__rl": True, "mode": "url", "value": "https://airtable.com/appAbcDefGhiJkl1/tblAbcDefGhiJkl1"},
    "table": {"__rl": True, "mode": "url", "value": "https://airtable.com/appAbcDefGhiJkl1/tblAbcDefGhiJkl1"},
}
TABLE = "/v0/appAbcDefGhiJkl1/tblAbcDefGhiJkl1"
ROW = {"id": "recA", "Stock": 4, "Note": "x"}
AUTO = {"mappingMode": "autoMapInputData", "value": None, "matchingColumns": ["id"]}
ADDRESS = "https://www.notion.so/My-blog-4587b66cd67045b593f069ba1b0f3924?pvs=4"
DATABASE = {"resource": "databasePage", "databaseId": {"__rl": True, "mode": "url", "value": ADDRESS}}
KNOWN_ID = "4587b66cd67045b593f069ba1b0f3924"


def text(words: str) -> list[dict[str, Any]]:
    """Returns a text as Notion's API accepts it."""
    return [{"text": {"content": words}}]


MENTION = {
    "blockUi": {"blockValues": [{"richText": True, "text": {"text": [{"textType": "mention"}]}}]},
}  # fmt: skip


def filtered(key: str) -> dict[str, Any]:
    """Returns the parameters of a filter on a property."""
    return {"filterType": "manual", "filters": {"conditions": [{"key": key, "condition": "equals"}]}}


@pytest.mark.parametrize(
    ("version", "parameters", "method", "path", "body"),
    [
        (
            2.1,
            BASE | {"operation": "create", "columns": AUTO, "options": {"typecast": True}},
            "POST",
            TABLE,
            {"fields": {"Stock": 4, "Note": "x"}, "typecast": True},
        ),
        (
            2.1,
            BASE | {"operation": "update", "columns": AUTO, "options": {"ignoreFields": "Note"}},
            "PATCH",
            TABLE,
            {"records": [{"id": "recA", "fields": {"Stock": 4}}]},
        ),
        (
            2,
            BASE
            | {
                "operation": "upsert",
                "columns": {
                    "mappingMode": "defineBelow",
                    "matchingColumns": ["Name"],
                    "value": {"Name": "Tea", "Stock": 1},
                },
            },
            "PATCH",
            TABLE,
            {
                "records": [{"fields": {"Name": "Tea", "Stock": 1}}],
                "performUpsert": {"fieldsToMergeOn": ["Name"]},
            },
        ),
        (
            2,
            BASE | {"operation": "upsert", "columns": AUTO},
            "PATCH",
            TABLE,
            {"records": [{"id": "recA", "fields": {"Stock": 4, "Note": "x"}}]},
        ),
        (2, BASE | {"operation": "deleteRecord", "id": "recA"}, "DELETE", f"{TABLE}/recA", {}),
        (
            1,
            {"operation": "append", "application": "appA", "table": "In stock", "options": {}},
            "POST",
            "/v0/appA/In%20stock",
            {"records": [{"fields": {"Stock": 4, "Note": "x"}}]},
        ),
        (
            1,
            {
                "operation": "update",
                "application": "appA",
                "table": "S",
                "id": "recB",
                "updateAllFields": False,
                "fields": ["Stock"],
                "options": {},
            },
            "PATCH",
            "/v0/appA/S",
            {"records": [{"id": "recB", "fields": {"Stock": 4}}]},
        ),
    ],
)
def test_a_record_is_written_as_the_step_maps_it(
    version: float, parameters: dict[str, Any], method: str, path: str, body: dict[str, Any]
) -> None:
    """Writes the item's fields or the defined columns, in either generation of the node."""
    call = call_of("airtable", version, parameters, item=ROW)
    assert (call.method, call.path, call.body) == (method, path, body)


def test_a_list_of_records_is_asked_for_with_its_formula_and_order() -> None:
    """Queries with formula, fields and order; version 2 returns flat records, version 1 whole ones."""
    request_body = BASE | {
        "operation": "search", "filterByFormula": "{Stock} < 5", "options": {"fields": ["Name", "Stock"]},
        "sort": {"property": [{"field": "Name", "direction": "desc"}]},
    }  # fmt: skip
    assert call_of("airtable", 2.1, request_body).query == {
        "pageSize": "100", "filterByFormula": "{Stock} < 5", "fields[0]": "Name", "fields[1]": "Stock",
        "sort[0][field]": "Name", "sort[0][direction]": "desc",
    }  # fmt: skip
    flat = {"id": "recA", "createdTime": RECORD["createdTime"], "Name": "Tea", "Stock": 3}
    assert items_of("airtable", 2.1, request_body, {"records": [RECORD]}) == [flat]
    assert items_of("airtable", 1, {"operation": "list"}, {"records": [RECORD]}) == [RECORD]
    assert items_of("airtable", 2, {"operation": "get"}, RECORD) == [flat]


def test_unsupported_parameters_make_findings_at_import() -> None:
    """Reports as errors at import: attachments, nested blocks, and properties of no known kind."""
    files = BASE | {"operation": "search", "options": {"downloadFields": ["A"]}}
    for kind, version, parameters in (
        ("airtable", 2.1, files),
        ("notion", 2.2, DATABASE | {"propertiesUi": {"propertyValues": [{"key": "Status"}]}}),
        ("notion", 2.2, DATABASE | {"blockUi": {"blockValues": [{"type": "child_page"}]}}),
        ("notion", 2.2, DATABASE | MENTION),
        ("notion", 2.2, DATABASE | {"operation": "getAll", "options": {"filter": {"multipleCondition": {}}}}),
        ("notion", 2.2, DATABASE | {"operation": "getAll", **filtered("Name")}),
        ("notion", 2.2, DATABASE | {"operation": "getAll", **filtered("Sum|formula")}),
        (
            "notion",
            2.2,
            {"resource": "block", "operation": "getAll", "blockId": "b", "fetchNestedBlocks": True},
        ),
    ):
        [(level, _)] = findings_of(kind, version, parameters)
        assert level == "error"


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ({"key": "Name|title", "title": "Tea"}, {"title": text("Tea")}),
        ({"key": "Note|rich_text", "textContent": "x"}, {"rich_text": text("x")}),
        (
            {
                "key": "Note|rich_text",
                "richText": True,
                "text": {
                    "text": [
                        {
                            "text": "x",
                            "isLink": True,
                            "textLink": "https://a.example",
                            "annotationUi": {"bold": True},
                        }
                    ]
                },
            },
            {
                "rich_text": [
                    {
                        "type": "text",
                        "text": {"content": "x", "link": {"url": "https://a.example"}},
                        "annotations": {"bold": True},
                    }
                ]
            },
        ),
        ({"key": "Stock|number", "numberValue": 3}, {"number": 3}),
        ({"key": "A|B|checkbox", "checkboxValue": True}, {"checkbox": True}),
        ({"key": "State|status", "statusValue": "Done"}, {"status": {"name": "Done"}}),
        ({"key": "State|select", "selectValue": "Done"}, {"select": {"name": "Done"}}),
        (
            {"key": "Tags|multi_select", "multiSelectValue": "a, b"},
            {"multi_select": [{"name": "a"}, {"name": "b"}]},
        ),
        ({"key": "Of|relation", "relationValue": ["p1"]}, {"relation": [{"id": "p1"}]}),
        (
            {"key": "Day|date", "date": "2026-05-01T10:00:00+02:00", "includeTime": False},
            {"date": {"start": "2026-05-01", "end": None}},
        ),
        (
            {"key": "Day|date", "date": "2026-05-01T10:00:00", "timezone": "Europe/Berlin"},
            {"date": {"start": "2026-05-01T10:00:00", "end": None, "time_zone": "Europe/Berlin"}},
        ),
        ({"key": "Site|url", "urlValue": ""}, {"url": None}),
        (
            {"key": "File|files", "fileUrls": {"fileUrl": [{"name": "a", "url": "https://a.example/f"}]}},
            {"files": [{"name": "a", "type": "external", "external": {"url": "https://a.example/f"}}]},
        ),
    ],
)
def test_a_property_is_written_as_notion_takes_it(row: dict[str, Any], value: dict[str, Any]) -> None:
    """Writes each property by the type that the step stores beside its name."""
    request_body = DATABASE | {
        "operation": "create",
        "title": "New",
        "propertiesUi": {"propertyValues": [row]},
    }
    call = call_of("notion", 2.2, request_body)
    name = row["key"].rpartition("|")[0]
    assert call.path == "/pages"
    assert call.body["parent"] == {"database_id": KNOWN_ID}
    assert call.body["properties"] == {name: value, "title": {"title": text("New")}}


def test_an_empty_address_is_left_out_if_the_step_says_so() -> None:
    """Keeps the address that a page has if a step ignores an empty one."""
    row = {"key": "Site|url", "urlValue": "", "ignoreIfEmpty": True}
    given = {"operation": "update", "pageId": KNOWN_ID, "propertiesUi": {"propertyValues": [row]}}
    assert call_of("notion", 2.2, DATABASE | given).body["properties"] == {}
    given["propertiesUi"] = {"propertyValues": [row | {"urlValue": "https://a.example"}]}
    filled = call_of("notion", 2.2, DATABASE | given).body["properties"]
    assert filled == {"Site": {"url": "https://a.example"}}


def test_blocks_are_appended_and_read() -> None:
    """Appends blocks, and reads them simplified with their text or whole."""
    rows = {
        "blockValues": [
            {"type": "paragraph", "textContent": "Hi"},
            {"type": "to_do", "textContent": "Do", "checked": True},
        ]
    }
    call = call_of("notion", 2.2, {"resource": "block", "blockId": PAGE_ID, "blockUi": rows})
    assert call.path == f"/blocks/{PAGE_ID}/children"
    assert call.body["children"] == [
        {"object": "block", "type": "paragraph", "paragraph": {"rich_text": text("Hi")}},
        {"object": "block", "type": "to_do", "to_do": {"rich_text": text("Do"), "checked": True}},
    ]
    block = {"object": "block", "id": "b", "type": "quote", "quote": {"rich_text": [{"plain_text": "Hi"}]}}
    request_body = {"resource": "block", "operation": "getAll"}
    [item] = items_of("notion", 2.2, request_body, {"results": [block]})
    assert (item["id"], item["content"]) == ("b", "Hi")
    assert items_of("notion", 2.2, request_body | {"simplifyOutput": False}, {"results": [block]}) == [block]


def test_pages_are_simplified_as_n8n_does() -> None:
    """Simplifies a page to a field for each property as n8n does, or returns it whole."""
    request_body = {"resource": "databasePage", "operation": "get"}
    [item] = items_of("notion", 2.2, request_body, PAGE)
    assert item == {
        "id": PAGE_ID, "name": "Tea", "url": PAGE["url"], "property_name": "Tea", "property_in_stock": 3,
        "property_tags": ["green"],
    }  # fmt: skip
    assert items_of("notion", 2.2, request_body | {"simple": False}, PAGE) == [PAGE]
    assert [snake_case(name) for name in ("E-mail (work)", "orderID", "Due Date")] == [
        "e_mail_work",
        "order_id",
        "due_date",
    ]
    assert simple_value({"type": "formula", "formula": {"type": "number", "number": 2}}) == 2
    assert simple_value({"type": "unique_id", "unique_id": {"prefix": "T", "number": 7}}) == "T-7"
    assert simple_value({"type": "select", "select": None}) is None
    assert notion_id(ADDRESS) == KNOWN_ID
    assert notion_id(PAGE_ID) == PAGE_ID


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("options", "found", "updated"),
    [
        ({}, ["recA", "recB"], ["recA"]),
        ({"updateAllMatches": True}, ["recA", "recB"], ["recA", "recB"]),
        ({}, [], None),
        ({"updateAllMatches": True}, [f"rec{number}" for number in range(11)], None),
    ],
)
async def test_a_record_is_found_by_its_columns_and_updated(
    database_url: str, clock: FakeClock, tmp_path: Path, options: Any, found: list[str], updated: Any
) -> None:
    """Asks for the records with the values to match and updates the first, or all if the step says so."""
    api = fake("airtable")
    value = {"Name": "Ann's } tea", "Kind": 3, "Stock": 4}
    columns = {"mappingMode": "defineBelow", "matchingColumns": ["Name", "Kind"], "value": value}
    step = node(
        "Say", "airtable", 2.1, BASE | {"operation": "update", "columns": columns, "options": options}
    )
    async with shop_beside(database_url, clock, tmp_path, api) as shop:
        account = await shop.connect("airtable", SETTINGS["airtable"])
        named = {"accounts": {"Say": {"integration_id": account.integration_id}}, "send_mode": "send"}
        automation = await automated(shop, chain(step), **named)
        api.seen.clear()
        records = [{"id": identity} for identity in found]
        api.responses += [(200, {"records": records}), (200, {"records": []})]
        run = await shop.until_settled(await shop.run_and_drain(automation))
    assert run.status is (RunStatus.SUCCEEDED if updated else RunStatus.FAILED), run
    asked, *sent = api.seen
    assert asked.query["filterByFormula"] == "AND({Name} = 'Ann\\'s } tea', {Kind} = 3)"
    bodies = [{"records": [{"id": identity, "fields": value} for identity in updated]}] if updated else []
    assert [request.body for request in sent] == bodies


@pytest.fixture
def service() -> FakeService:
    """Returns the fake of Notion."""
    return fake("notion")


@pytest.fixture
async def shop(
    database_url: str, clock: FakeClock, tmp_path: Path, service: FakeService
) -> AsyncIterator[Shop]:
    """Yields a service beside Notion."""
    async with shop_beside(database_url, clock, tmp_path, service) as opened:
        yield opened


async def test_a_database_is_asked_by_posts_that_only_read(shop: Shop, service: FakeService) -> None:
    """Queries a database page by page by POST in test and live runs without approval."""
    notion = await shop.connect("notion", SETTINGS["notion"])
    rows = [{"key": "In stock|number", "condition": "less_than", "numberValue": 5}]
    order = {"sort": {"sortValue": [{"key": "Name|title", "direction": "descending"}]}}
    request_body = DATABASE | {
        "operation": "getAll", "returnAll": True, "filterType": "manual", "matchType": "allFilters",
        "filters": {"conditions": rows}, "options": order,
    }  # fmt: skip
    step = node("Pages", "notion", 2.2, request_body)
    accounts = {"Pages": {"integration_id": notion.integration_id}}
    automation = await automated(shop, chain(step), accounts=accounts)
    for mode in (Mode.TEST, Mode.LIVE):
        service.seen.clear()
        service.responses += [
            (200, {"object": "list", "results": [PAGE], "next_cursor": "c2", "has_more": True}),
            (200, {"object": "list", "results": [PAGE], "next_cursor": None, "has_more": False}),
        ]
        run = await shop.run_and_drain(automation, mode)
        assert run.status is RunStatus.SUCCEEDED, run
        assert [row["counts"]["read"] for row in await shop.steps(run)][-1] == 2
        first, second = service.seen
        assert first.path == f"/v1/databases/{KNOWN_ID}/query"
        assert first.headers["notion-version"] == "2022-06-28"
        assert first.body["filter"] == {"and": [{"property": "In stock", "number": {"less_than": 5}}]}
        assert first.body["sorts"] == [{"property": "Name", "direction": "descending"}]
        assert second.body == {**first.body, "start_cursor": "c2"}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_post_that_is_no_query_is_no_read(shop: Shop, service: FakeService) -> None:
    """Refuses a read by POST to any path that is not a query."""
    notion = await shop.connect("notion", SETTINGS["notion"])
    connector = BUILT["notion"]
    secrets = ConnectionSecrets(
        notion.integration_id, {}, {"access_token": Secret(SETTINGS["notion"]["access_token"])}
    )
    outbound = shop.service.context.vault.outbound
    http = outbound.read_client(shop.owner.org, notion.integration_id, connector.endpoint(secrets))
    before = len(service.seen)
    for path in ("/pages", "/databases/x/query/../../pages", "/databases/query"):
        with pytest.raises(CallRefused):
            async for _ in connector.reader(http, secrets).read(PATH, PathQuery(path, body={"a": 1})):
                pass
    assert len(service.seen) == before
