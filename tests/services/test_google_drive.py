"""Google Drive: a drive connected by signing in, and the node googleDrive."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from steward.connectors.base.settings import BadSettings
from steward.model.run import Mode, RunStatus
from steward.steps.n8n import drive_fields
from steward.steps.workflow.step_types import ItemFailed
from tests.connectors.conformance.test_every_connector import BUILT
from tests.fake_clock import FakeClock
from tests.imports.exports import automated, chain, code, node
from tests.imports.responses.workflows import output_items
from tests.runs.shop import Shop
from tests.services.fakes import FakeService, SeenRequest, ServiceResponse
from tests.services.gmail import sign_in_settings, signed_in
from tests.services.running import call_of, findings_of, items_of, shop_beside

ADDRESS = "shop@shop.example"
PARENT = {"__rl": True, "mode": "url", "value": "https://drive.google.com/drive/u/0/folders/folder-1_A"}
FILE = {"__rl": True, "mode": "id", "value": "f1"}
SEARCH = {
    "resource": "fileFolder", "queryString": "stock's", "returnAll": True,
    "filter": {"folderId": PARENT, "whatToSearch": "files"}, "options": {},
}  # fmt: skip
DOWNLOAD = {"operation": "download", "fileId": {**FILE, "value": "={{ $json.id }}"}, "options": {}}
UPLOAD = {"name": "=copy of {{ $json.name }}", "driveId": {}, "folderId": PARENT, "options": {}}
ITEM = code("Items", "return [{json: {id: 'f1'}}]")
on_one_engine = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def respond(request: SeenRequest) -> ServiceResponse:
    """Answers as Drive v3 documents: a folder with a CSV file and a Google document."""
    query, path = request.query, request.path.removeprefix("/drive/v3")
    if path == "/about":
        return 200, {"user": {"kind": "drive#user", "emailAddress": ADDRESS}}
    if path == "/files" and request.method == "GET":
        if "pageToken" in query:
            return 200, {"files": [{"id": "doc", "name": "Notes"}]}
        return 200, {"nextPageToken": "2", "files": [{"id": "f1", "name": "stock.csv"}]}
    if path == "/files/f1" and request.method == "GET":
        if query.get("alt") == "media":
            return 200, "sku,stock\nT1,4\n"
        return 200, {"name": "stock.csv", "mimeType": "text/csv", "parents": ["old"]}
    if path == "/files/doc":
        return 200, {"name": "Notes", "mimeType": "application/vnd.google-apps.document"}
    if path == "/files/doc/export":
        return 200, "Notes as " + query["mimeType"]
    if request.path == "/upload/drive/v3/files" or path == "/files/f1":
        return 200, {
            "kind": "drive#file",
            "id": "new",
            "name": "copy",
            "webViewLink": "https://d.example/new",
        }
    error: Any = {"code": 404, "message": "File not found: .", "errors": [{"reason": "notFound"}]}
    return 404, {"error": error}


@pytest.fixture
def api() -> FakeService:
    """Returns the fake of Drive's API."""
    return FakeService("www.googleapis.com", respond)


@pytest.fixture
async def shop(database_url: str, clock: FakeClock, tmp_path: Path, api: FakeService) -> AsyncIterator[Shop]:
    """Yields a service beside Google Drive whose operator configured the sign-in."""
    async with shop_beside(database_url, clock, tmp_path, api, **sign_in_settings(clock)) as opened:
        yield opened


async def accounts(shop: Shop, *steps: str) -> dict[str, Any]:
    """Signs in and returns the drive as the account of these steps."""
    connection, _ = await signed_in(shop, "google_drive")
    assert connection.account_label == ADDRESS
    return {"accounts": {name: {"integration_id": connection.integration_id} for name in steps}}


async def test_a_file_is_found_fetched_read_and_sent_after_approval(shop: Shop, api: FakeService) -> None:
    """Searches all pages, downloads and reads a file, and uploads one after approval."""
    more = await accounts(shop, "Find", "Fetch", "Put")
    only = code("Only", "return items.slice(0, 1)")
    steps = (
        node("Find", "googleDrive", 3, SEARCH),
        only,
        node("Fetch", "googleDrive", 3, DOWNLOAD),
        node("Rows", "extractFromFile", 1, {"options": {"keepSource": "both"}}),
        code("Again", "return [{json: {name: items[0].json.sku}, binary: $('Fetch').first().binary}]"),
        node("Put", "googleDrive", 3, UPLOAD),
        code("Read", "return items"),
    )
    automation = await automated(shop, chain(*steps), **more)
    tried = await shop.run_and_drain(automation, Mode.TEST)
    assert tried.status is RunStatus.SUCCEEDED, tried
    run = await shop.waiting(automation)
    assert api.sent() == []
    searches = [seen.query for seen in api.seen if seen.path == "/drive/v3/files"][-2:]
    assert searches[0]["q"] == (
        "name contains 'stock\\'s' and 'folder-1_A' in parents"
        " and mimeType != 'application/vnd.google-apps.folder' and trashed = false"
    )
    assert [query.get("pageToken") for query in searches] == [None, "2"]
    [change] = await shop.changes(run)
    displayed = {field.label: field.after for field in change.proposal.fields}
    assert displayed["To"] == "copy of T1"
    assert displayed["File"] == "File “copy of T1” (15 B)"
    await shop.approve(run)
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    [sent] = api.sent()
    assert (sent.method, sent.path, sent.query["uploadType"]) == (
        "POST",
        "/upload/drive/v3/files",
        "multipart",
    )
    boundary = sent.headers["content-type"].partition("boundary=")[2]
    _, metadata, content, end = sent.body.split(f"--{boundary}")
    assert json.loads(metadata.partition("\r\n\r\n")[2]) == {
        "name": "copy of T1", "parents": ["folder-1_A"], "mimeType": "text/csv",
    }  # fmt: skip
    assert content == "\r\nContent-Type: text/csv\r\n\r\nsku,stock\nT1,4\n\r\n"
    assert end == "--\r\n"
    [item] = await output_items(shop, run, "Read")
    assert (item["id"], item["webViewLink"]) == ("new", "https://d.example/new")


@on_one_engine
async def test_a_document_of_google_is_fetched_in_the_format_of_the_step(
    shop: Shop, api: FakeService
) -> None:
    """Exports a Google document in the step's format; without one the item fails and names the option."""
    more = await accounts(shop, "Fetch")
    docs = code("Items", "return [{json: {id: 'doc'}}]")
    chosen = {"googleFileConversion": {"conversion": {"docsToFormat": "text/plain"}}}
    text = node("Text", "extractFromFile", 1, {"operation": "text", "options": {}})
    fetched = node("Fetch", "googleDrive", 3, {**DOWNLOAD, "options": chosen})
    run = await shop.run_and_drain(
        await automated(shop, chain(docs, fetched, text, code("Read", "return items")), **more)
    )
    assert run.status is RunStatus.SUCCEEDED, run
    assert await output_items(shop, run, "Read") == [{"data": "Notes as text/plain"}]
    failing = await shop.run_and_drain(
        await automated(shop, chain(docs, node("Fetch", "googleDrive", 3, DOWNLOAD)), **more)
    )
    assert failing.status is RunStatus.FAILED
    assert "Google File Conversion" in str(failing)


@on_one_engine
async def test_a_file_is_moved_out_of_the_folders_it_is_in(shop: Shop, api: FakeService) -> None:
    """Reads the file's folders and moves it out of them."""
    more = await accounts(shop, "Move")
    moved = {"operation": "move", "fileId": FILE, "folderId": PARENT, "driveId": {}}
    automation = await automated(
        shop, chain(ITEM, node("Move", "googleDrive", 3, moved)), send_mode="send", **more
    )
    run = await shop.until_settled(await shop.run_and_drain(automation))
    assert run.status is RunStatus.SUCCEEDED, run
    [sent] = api.sent()
    assert (sent.method, sent.path) == ("PATCH", "/drive/v3/files/f1")
    assert (sent.query["addParents"], sent.query["removeParents"]) == ("folder-1_A", "old")


@pytest.mark.parametrize(
    ("version", "parameters", "request_line", "body"),
    [
        (3, {"operation": "createFromText", "name": "a.txt", "content": "Hi", "folderId": "root",
             "driveId": {"__rl": True, "mode": "list", "value": "My Drive"}, "options": {}},
         "POST /upload/drive/v3/files", {"name": "a.txt", "parents": ["root"]}),
        (3, {"operation": "createFromText", "name": "a", "content": "Hi", "folderId": "", "driveId": "d1",
             "options": {"convertToGoogleDocument": True}},
         "POST /upload/drive/v3/files",
         {"name": "a", "parents": ["d1"], "mimeType": "application/vnd.google-apps.document"}),
        (3, {"operation": "copy", "fileId": FILE, "name": "b", "options": {"description": "c"}},
         "POST /drive/v3/files/f1/copy", {"name": "b", "description": "c"}),
        (3, {"operation": "copy", "fileId": FILE, "name": "b", "sameFolder": False, "folderId": PARENT},
         "POST /drive/v3/files/f1/copy", {"name": "b", "parents": ["folder-1_A"]}),
        (3, {"operation": "update", "fileId": FILE, "newUpdatedFileName": "b", "options": {"trashed": True}},
         "PATCH /drive/v3/files/f1", {"name": "b", "trashed": True}),
        (3, {"operation": "share", "fileId": FILE, "permissionsUi": {"permissionsValues": {
            "role": "reader", "type": "user", "emailAddress": "a@x.example"}}, "options": {}},
         "POST /drive/v3/files/f1/permissions",
         {"role": "reader", "type": "user", "emailAddress": "a@x.example"}),
        (3, {"operation": "deleteFile", "fileId": FILE, "options": {}},
         "PATCH /drive/v3/files/f1", {"trashed": True}),
        (3, {"operation": "deleteFile", "fileId": FILE, "options": {"deletePermanently": True}},
         "DELETE /drive/v3/files/f1", {}),
        (2, {"operation": "delete", "fileId": "f1"}, "DELETE /drive/v3/files/f1", {}),
        (3, {"resource": "folder", "name": "F", "folderId": PARENT,
             "options": {"folderColorRgb": "#FF0000"}},
         "POST /drive/v3/files", {"name": "F", "mimeType": "application/vnd.google-apps.folder",
                                  "parents": ["folder-1_A"], "folderColorRgb": "#FF0000"}),
        (2, {"resource": "folder", "name": "F", "options": {"parents": ["p"]}},
         "POST /drive/v3/files",
         {"name": "F", "mimeType": "application/vnd.google-apps.folder", "parents": ["p"]}),
        (3, {"resource": "folder", "operation": "deleteFolder", "folderNoRootId": PARENT, "options": {}},
         "PATCH /drive/v3/files/folder-1_A", {"trashed": True}),
        (3, {"resource": "drive", "operation": "get", "driveId": "d1", "options": {}},
         "GET /drive/v3/drives/d1", {}),
    ],
)  # fmt: skip
def test_an_operation_calls_what_its_parameters_say(
    version: float, parameters: dict[str, Any], request_line: str, body: dict[str, Any]
) -> None:
    """Calls the method, path and body that Google documents, without findings."""
    call = call_of("googleDrive", version, parameters)
    assert (f"{call.method} {call.path}", call.body) == (request_line, body)
    assert findings_of("googleDrive", version, parameters) == []


def test_a_query_of_the_file_is_the_search_and_is_not_found_in_the_trash() -> None:
    """Searches by the step's query outside the trash, unless the query names it."""
    query = {"resource": "fileFolder", "searchMethod": "query", "queryString": "name = 'a' or name = 'b'"}
    query_values = call_of("googleDrive", 3, query).query
    assert query_values["q"] == "(name = 'a' or name = 'b') and trashed = false"
    assert (query_values["fields"], query_values["pageSize"]) == ("nextPageToken, files(id, name)", "50")
    own_values = {**query, "queryString": "trashed = true", "options": {"fields": ["id", "webViewLink"]}}
    query_values = call_of("googleDrive", 3, own_values).query
    assert query_values["q"] == "(trashed = true)"
    assert query_values["fields"] == "nextPageToken, files(id, webViewLink)"


def test_a_deleted_file_is_output_with_its_id() -> None:
    """Returns the id of a deleted file, since Google answers with an empty body."""
    parameters = {"operation": "deleteFile", "fileId": FILE}
    assert items_of("googleDrive", 3, parameters, {}) == [{"id": "f1", "fileId": "f1", "success": True}]


@pytest.mark.parametrize(
    ("version", "parameters", "level", "words"),
    [
        (3, {"resource": "drive", "operation": "deleteDrive"}, "error", "not supported"),
        (3, {**SEARCH, "options": {"brandNew": 1}}, "error", "“brandNew”"),
        (3, {**SEARCH, "filter": {"brandNew": 1}}, "error", "“brandNew”"),
        (3, {"operation": "download", "options": {}}, "warning", "which file"),
        (2, {"operation": "update", "fileId": "f1"}, "error", "older version"),
        (1, {"operation": "list", "queryFilters": {"name": [{"operation": "is", "value": "a"}]}}, "error",
         "query string"),
        (3, {"operation": "share", "fileId": FILE,
             "permissionsUi": {"permissionsValues": [{"role": "reader"}, {"role": "writer"}]}}, "error",
         "several at once"),
    ],
)  # fmt: skip
def test_unsupported_parameters_make_findings_at_import(
    version: float, parameters: dict[str, Any], level: str, words: str
) -> None:
    """Reports what is not supported at import with its level and what to do."""
    all_findings = findings_of("googleDrive", version, parameters)
    assert [finding_level for finding_level, message in all_findings if words in message] == [level]


def test_a_file_is_sent_up_to_its_limit() -> None:
    """Accepts a file of the limit and fails the item one byte above it."""
    limit = b"x" * drive_fields.UPLOAD_BYTES
    assert drive_fields.call_file("a", limit, "text/plain").content == limit
    with pytest.raises(ItemFailed, match=r"1\.5 MiB"):
        drive_fields.call_file("a", limit + b"x", "text/plain")


def test_a_mime_type_adds_no_lines_to_a_request() -> None:
    """Sends an invalid MIME type as plain bytes, so that it adds no lines to a request."""
    assert drive_fields.call_file("a", b"", "text/plain\r\nx: y").mime_type == "application/octet-stream"


def test_an_address_without_a_file_is_refused() -> None:
    """Fails the item of an address that names no file."""
    with pytest.raises(ItemFailed, match="names no file"):
        call_of("googleDrive", 3, {"operation": "copy", "fileId": "https://drive.google.com/drive/my-drive"})


def test_there_is_no_form_for_a_drive() -> None:
    """Raises BadSettings, since a drive is connected by signing in."""
    with pytest.raises(BadSettings, match="signing in"):
        BUILT["google_drive"].settings({"key": "x"})
