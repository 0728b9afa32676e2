"""Outlook: a mailbox connected by signing in at Microsoft, and the node microsoftOutlook."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from steward.connectors.base.settings import BadSettings
from steward.model.change import Outcome
from steward.model.run import Mode, RunStatus
from tests.connectors.conformance.test_every_connector import BUILT
from tests.fake_clock import FakeClock
from tests.imports.exports import automated, chain, code, node
from tests.imports.responses.workflows import output_items
from tests.runs.shop import Shop
from tests.services.fakes import FakeService, SeenRequest, ServiceResponse
from tests.services.oauth_server import OAuthServer
from tests.services.outlook import (
    ADDRESS,
    FILE,
    OutlookMailbox,
    content_of,
    graph,
    outlook_settings,
    person,
    signed_in_at,
)
from tests.services.running import call_of, findings_of, items_of, shop_beside

ONE_ITEM = code("Items", "return [{json: {id: 1}}]")
LIST = {
    "operation": "getAll", "returnAll": True,
    "filtersUI": {"values": {"filters": {"readStatus": "unread", "sender": "jane@customer.example"}}},
    "options": {"downloadAttachments": True},
}  # fmt: skip
SEND = {
    "toRecipients": "={{ $json.from }}",
    "subject": "=Re {{ $json.subject }}",
    "bodyContent": "<p>Thank you</p>",
    "additionalFields": {
        "bodyContentType": "html", "ccRecipients": "c@shop.example", "importance": "High",
        "attachments": {"attachments": [{"binaryPropertyName": "attachment_0"}]},
    },
}  # fmt: skip
REPLY = {"operation": "reply", "messageId": "m1", "message": "Soon", "additionalFields": {}, "options": {}}
ID = {"__rl": True, "mode": "id", "value": "m1"}
on_one_engine = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def mailbox() -> OutlookMailbox:
    """Returns the mailbox at Microsoft."""
    return OutlookMailbox()


@pytest.fixture
def api(mailbox: OutlookMailbox) -> FakeService:
    """Returns the fake of Microsoft Graph."""
    return graph(mailbox)


@pytest.fixture
def server() -> OAuthServer:
    """Returns the server at which people sign in."""
    return OAuthServer("login.microsoftonline.com")


@pytest.fixture
async def shop(
    database_url: str, clock: FakeClock, tmp_path: Path, api: FakeService, server: OAuthServer
) -> AsyncIterator[Shop]:
    """Yields a service beside Microsoft whose operator configured the sign-in."""
    services = api, server.service()
    async with shop_beside(database_url, clock, tmp_path, *services, **outlook_settings(server)) as opened:
        yield opened


async def accounts(shop: Shop, server: OAuthServer, *steps: str) -> dict[str, Any]:
    """Signs in and returns the mailbox as the account of these steps."""
    connection = await signed_in_at(shop, server)
    assert connection.account_label == ADDRESS
    return {"accounts": {name: {"integration_id": connection.integration_id} for name in steps}}


async def test_messages_are_read_with_files_and_replied_to_after_approval(
    shop: Shop, api: FakeService, server: OAuthServer, mailbox: OutlookMailbox
) -> None:
    """Reads all pages with files, and sends the approved message with the file that was read."""
    more = await accounts(shop, server, "Read", "Mail")
    only = code("Only", "return items.filter(item => item.binary && Object.keys(item.binary).length)")
    steps = (
        node("Read", "microsoftOutlook", 2, LIST),
        only,
        node("Mail", "microsoftOutlook", 2, SEND),
        code("After", "return items"),
    )
    automation = await automated(shop, chain(*steps), **more)
    tried = await shop.run_and_drain(automation, Mode.TEST)
    assert tried.status is RunStatus.SUCCEEDED, tried
    run = await shop.waiting(automation)
    assert api.sent() == []
    assert mailbox.lists[-2]["$filter"] == (
        "from/emailAddress/address eq 'jane@customer.example' and isRead eq false"
    )
    assert mailbox.lists[-1]["$skip"] == "1"
    assert await output_items(shop, run, "Read") == [
        {
            "id": name, "conversationId": "c1", "subject": "Where is it?", "bodyPreview": "I wait",
            "from": "jane@customer.example", "to": [ADDRESS, "bob@customer.example"],
            "categories": ["Orders"], "hasAttachments": name == "m1",
        }
        for name in ("m1", "m3")
    ]  # fmt: skip
    [change] = await shop.changes(run)
    assert [(field.label, field.after) for field in change.proposal.fields] == [
        ("To", "jane@customer.example"),
        ("Cc", "c@shop.example"),
        ("Subject", "Re Where is it?"),
        ("HTML", "<p>Thank you</p>"),
        ("Files", f"invoice.pdf ({len(FILE)} bytes)"),
        ("Options", '{"importance": "high"}'),
    ]
    await shop.approve(run)
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    [sent] = api.sent()
    [file] = sent.body["message"].pop("attachments")
    assert (file["name"], file["contentType"], content_of(file)) == ("invoice.pdf", "application/pdf", FILE)
    assert (sent.path, sent.body) == (
        "/v1.0/me/sendMail",
        {
            "saveToSentItems": True,
            "message": {
                "importance": "high",
                "subject": "Re Where is it?",
                "body": {"contentType": "html", "content": "<p>Thank you</p>"},
                "toRecipients": [{"emailAddress": {"address": "jane@customer.example"}}],
                "ccRecipients": [{"emailAddress": {"address": "c@shop.example"}}],
            },
        },
    )
    assert await output_items(shop, run, "After") == [{"success": True}]


@on_one_engine
async def test_a_reply_goes_to_the_sender_or_to_all_but_the_mailbox(
    shop: Shop, api: FakeService, server: OAuthServer
) -> None:
    """Replies to the sender, or to all but the mailbox as a comment with the approved recipients."""
    more = await accounts(shop, server, "Mail")
    for to_sender in (True, False):
        step = node("Mail", "microsoftOutlook", 2, {**REPLY, "replyToSenderOnly": to_sender})
        automation = await automated(shop, chain(ONE_ITEM, step), send_mode="send", **more)
        run = await shop.until_settled(await shop.run_and_drain(automation))
        assert run.status is RunStatus.SUCCEEDED, run
    first, second = api.sent()
    jane = person("jane@customer.example", "Jane")
    bob = {"emailAddress": {"address": "bob@customer.example", "name": "bob@customer.example"}}
    assert (first.path, first.body["message"]) == (
        "/v1.0/me/messages/m1/reply",
        {
            "subject": "RE: Where is it?",
            "body": {"contentType": "text", "content": "Soon"},
            "toRecipients": [jane],
        },
    )
    assert (second.path, second.body["comment"]) == ("/v1.0/me/messages/m1/replyAll", "Soon")
    assert second.body["message"]["toRecipients"] == [jane, bob]
    assert second.body["message"]["ccRecipients"] == [person("carl@customer.example")]
    assert "body" not in second.body["message"]


@on_one_engine
async def test_an_attachment_is_fetched_as_a_file_of_its_item(shop: Shop, server: OAuthServer) -> None:
    """Downloads an attachment as a file of its item and keeps the item's fields."""
    more = await accounts(shop, server, "Fetch")
    fetch = {
        "resource": "messageAttachment", "operation": "download", "messageId": "m1", "attachmentId": "a1",
        "binaryPropertyName": "data",
    }  # fmt: skip
    actual = code(
        "Told", "return items.map(item => ({json: {...item.json, file: item.binary.data.fileName}}))"
    )
    automation = await automated(
        shop, chain(ONE_ITEM, node("Fetch", "microsoftOutlook", 2, fetch), actual), **more
    )
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.SUCCEEDED, run
    assert await output_items(shop, run, "Told") == [{"id": 1, "file": "invoice.pdf"}]


@on_one_engine
async def test_a_lost_response_is_never_sent_again(shop: Shop, api: FakeService, server: OAuthServer) -> None:
    """Leaves a message unknown when its response is lost, and never sends it again."""
    more = await accounts(shop, server, "Mail")
    plain = {"toRecipients": "jane@customer.example", "subject": "Hi", "bodyContent": "Hi"}
    step = node("Mail", "microsoftOutlook", 2, {**plain, "additionalFields": {}})
    automation = await automated(shop, chain(ONE_ITEM, step), send_mode="send", **more)
    real = api.respond

    def cut(request: SeenRequest) -> ServiceResponse:
        if request.method == "POST":
            raise httpx.ReadError("cut")
        return real(request)

    api.respond = cut
    run = await shop.run_and_drain(automation)
    await shop.until_settled(run)
    [change] = await shop.changes(run)
    assert change.outcome is Outcome.UNKNOWN
    assert len(api.sent()) == 1


@pytest.mark.parametrize(
    ("version", "parameters", "method", "path", "body"),
    [
        (
            2,
            {"operation": "move", "messageId": ID, "folderId": {**ID, "value": "f/1="}},
            "POST",
            "/v1.0/me/messages/m1/move",
            {"destinationId": "f/1="},
        ),
        (
            1,
            {"operation": "update", "messageId": "m1", "updateFields": {"isRead": True}},
            "PATCH",
            "/v1.0/me/messages/m1",
            {"isRead": True},
        ),
        (2, {"operation": "delete", "messageId": ID}, "DELETE", "/v1.0/me/messages/m1", {}),
        (
            2,
            {
                "resource": "draft",
                "subject": "New",
                "bodyContent": "Text",
                "additionalFields": {
                    "toRecipients": "a@b.example, Bo <b@b.example>",
                    "categories": ["Orders"],
                    "importance": "Normal",
                    "isReadReceiptRequested": True,
                    "internetMessageHeaders": {"headers": [{"name": "x-shop", "value": "1"}]},
                },
            },
            "POST",
            "/v1.0/me/messages",
            {
                "subject": "New",
                "body": {"contentType": "text", "content": "Text"},
                "toRecipients": [
                    {"emailAddress": {"address": "a@b.example"}},
                    {"emailAddress": {"address": "b@b.example", "name": "Bo"}},
                ],
                "categories": ["Orders"],
                "importance": "normal",
                "isReadReceiptRequested": True,
                "internetMessageHeaders": [{"name": "x-shop", "value": "1"}],
            },
        ),
        (
            2,
            {
                "toRecipients": "a@b.example",
                "subject": "New",
                "bodyContent": "Text",
                "additionalFields": {"saveAsDraft": True},
            },
            "POST",
            "/v1.0/me/messages",
            {
                "subject": "New",
                "body": {"contentType": "text", "content": "Text"},
                "toRecipients": [{"emailAddress": {"address": "a@b.example"}}],
            },
        ),
        (
            1,
            {"operation": "reply", "messageId": "m1", "comment": "Soon", "additionalFields": {}},
            "POST",
            "/v1.0/me/messages/m1/createReply",
            {"comment": "Soon", "message": {}},
        ),
        (
            2,
            {**REPLY, "options": {"saveAsDraft": True}},
            "POST",
            "/v1.0/me/messages/m1/createReplyAll",
            {"comment": "Soon"},
        ),
        (
            2,
            {"resource": "folder", "displayName": "Done", "options": {"folderId": ID}},
            "POST",
            "/v1.0/me/mailFolders/m1/childFolders",
            {"displayName": "Done"},
        ),
        (
            2,
            {"resource": "folder", "operation": "update", "folderId": ID, "displayName": "Done"},
            "PATCH",
            "/v1.0/me/mailFolders/m1",
            {"displayName": "Done"},
        ),
    ],
)
def test_an_operation_calls_what_its_parameters_say(
    version: float, parameters: dict[str, Any], method: str, path: str, body: dict[str, Any]
) -> None:
    """Calls the method, path and body that Microsoft documents."""
    call = call_of("microsoftOutlook", version, parameters)
    assert (call.method, call.path, call.body) == (method, path, body)


@pytest.mark.parametrize(
    ("version", "parameters", "path", "query"),
    [
        (
            1,
            {"operation": "getAll", "additionalFields": {"filter": "isRead eq false", "fields": "subject"}},
            "/v1.0/me/messages",
            {"$select": "subject", "$top": "100", "$filter": "isRead eq false"},
        ),
        (
            2,
            {
                "resource": "folderMessage",
                "folderId": ID,
                "output": "fields",
                "fields": ["bodyPreview", "subject"],
                "limit": 7,
                "filtersUI": {"values": {"filterBy": "search", "search": "tea"}},
            },
            "/v1.0/me/mailFolders/m1/messages",
            {"$select": "bodyPreview,subject", "$top": "7", "$search": '"tea"'},
        ),
        (
            2,
            {
                "operation": "getAll",
                "output": "raw",
                "filtersUI": {
                    "values": {
                        "filters": {
                            "foldersToInclude": ["a", "b'c"],
                            "foldersToExclude": ["d"],
                            "hasAttachments": True,
                            "receivedAfter": "2026-05-01T00:00:00",
                            "custom": "importance eq 'high'",
                        }
                    }
                },
            },
            "/v1.0/me/messages",
            {
                "$top": "100",
                "$filter": "(parentFolderId eq 'a' or parentFolderId eq 'b''c') and parentFolderId ne 'd'"
                " and hasAttachments eq true and receivedDateTime ge 2026-05-01T00:00:00Z"
                " and importance eq 'high'",
            },
        ),
        (
            2,
            {"resource": "messageAttachment", "operation": "getAll", "messageId": ID},
            "/v1.0/me/messages/m1/attachments",
            {"$select": "id,lastModifiedDateTime,name,contentType,size,isInline"},
        ),
        (
            1,
            {"resource": "folder", "operation": "getChildren", "folderId": "f", "limit": 5},
            "/v1.0/me/mailFolders/f/childFolders",
            {"$top": "5"},
        ),
    ],
)
def test_a_read_asks_for_what_its_parameters_say(
    version: float, parameters: dict[str, Any], path: str, query: dict[str, str]
) -> None:
    """Reads with the fields, filters, search and limit of the parameters."""
    call = call_of("microsoftOutlook", version, parameters)
    assert (call.path, call.query) == (path, query)


def test_a_message_of_version_1_and_a_raw_one_are_whole() -> None:
    """Shortens a message only in version 2, unless the step asks for raw output."""
    whole = {"id": "m", "from": person("a@b.example"), "toRecipients": []}
    assert items_of("microsoftOutlook", 1, {"operation": "get", "messageId": "m"}, whole) == [whole]
    raw = {"operation": "get", "messageId": "m", "output": "raw"}
    assert items_of("microsoftOutlook", 2, raw, whole) == [whole]
    short = items_of("microsoftOutlook", 2, {"operation": "get", "messageId": "m"}, whole)
    assert short == [{"id": "m", "from": "a@b.example", "to": []}]


@pytest.mark.parametrize(
    ("version", "parameters", "level", "words"),
    [
        (2, {"resource": "event"}, "error", "not supported"),
        (2, {"operation": "sendAndWait"}, "error", "nobody can give"),
        (2, {"subject": "x", "bodyContent": "y"}, "warning", "whom it writes to"),
        (
            2,
            {"toRecipients": "a@b.example", "additionalFields": {"from": "x@b.example"}},
            "warning",
            "another person",
        ),
        (
            2,
            {"toRecipients": "a@b.example", "additionalFields": {"saveAsDraft": "={{ true }}"}},
            "error",
            "whether it sends",
        ),
        (2, {"operation": "update", "messageId": "m", "updateFields": {"folderId": "f"}}, "error", "moves"),
        (
            2,
            {"resource": "draft", "operation": "send", "draftId": "d", "to": "a@b.example"},
            "error",
            "sets recipients",
        ),
        (2, {"toRecipients": "a@b.example", "additionalFields": {"colour": 1}}, "error", "colour"),
    ],
)
def test_unsupported_parameters_of_the_node_make_findings(
    version: float, parameters: dict[str, Any], level: str, words: str
) -> None:
    """Reports one finding with its level and what to do."""
    [(found_level, message)] = findings_of("microsoftOutlook", version, parameters)
    assert found_level == level
    assert words in message


def test_the_mailbox_has_no_form() -> None:
    """Raises BadSettings, since a mailbox is connected by signing in."""
    with pytest.raises(BadSettings, match="signing in to Microsoft"):
        BUILT["microsoft_outlook"].settings({})
