"""Gmail: a mailbox connected by signing in, and the node gmail."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from steward.connectors.base.settings import BadSettings
from steward.model.change import Outcome
from steward.model.refusals import ValidationFailed
from steward.model.run import Mode, RunStatus
from steward.steps.n8n.nodes.gmail import mail_command
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.step_types import Params
from tests.connectors.conformance.test_every_connector import BUILT
from tests.fake_clock import FakeClock
from tests.imports.exports import automated, chain, code, node
from tests.imports.responses.workflows import output_items
from tests.runs.shop import Shop
from tests.services.fakes import FakeService
from tests.services.gmail import ADDRESS, ORIGINAL, Mailbox, gmail, sign_in_settings, signed_in
from tests.services.running import findings_of, shop_beside

QUIET = {"appendAttribution": False}
SEND = {
    "sendTo": "=jane{{ $json.id }}@customer.example",
    "subject": "=Order {{ $json.id }}",
    "message": "=<p>Thank you for {{ $json.id }}</p>",
    "options": {**QUIET, "senderName": "Tea Shop", "ccList": "c@shop.example", "bccList": "b@shop.example"},
}
ITEM = code("Items", "return [{json: {id: 1}}]")
on_one_engine = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def mailbox() -> Mailbox:
    """Returns the mailbox at Google."""
    return Mailbox()


@pytest.fixture
def api(mailbox: Mailbox) -> FakeService:
    """Returns the fake of Gmail's API."""
    return gmail(mailbox)


@pytest.fixture
async def shop(database_url: str, clock: FakeClock, tmp_path: Path, api: FakeService) -> AsyncIterator[Shop]:
    """Yields a service beside Gmail whose operator configured the sign-in."""
    async with shop_beside(database_url, clock, tmp_path, api, **sign_in_settings(clock)) as opened:
        yield opened


def read(*names: str) -> dict[str, Any]:
    """Returns a step that keeps these fields of its items."""
    rows = [
        {"id": name, "name": name, "type": "string", "value": f"={{{{ $json.{name} }}}}"} for name in names
    ]
    return node("Read", "set", 3.4, {"assignments": {"assignments": rows}, "options": {}})


async def test_a_message_is_sent_after_approval_and_its_ids_are_passed_on(
    shop: Shop, mailbox: Mailbox
) -> None:
    """Sends a message once after approval as the signed-in person, and passes on its ids."""
    connection, scopes = await signed_in(shop)
    assert connection.account_label == ADDRESS
    assert scopes.split() == ["openid", "email", "https://www.googleapis.com/auth/gmail.modify"]
    more = {"accounts": {"Mail": {"integration_id": connection.integration_id}}}
    steps = ITEM, node("Mail", "gmail", 2.1, SEND), read("id", "threadId")
    automation = await automated(shop, chain(*steps), **more)
    tried = await shop.run_and_drain(automation, Mode.TEST)
    assert tried.status is RunStatus.SUCCEEDED, tried
    run = await shop.waiting(automation)
    assert mailbox.sent == []
    [change] = await shop.changes(run)
    assert [(field.label, field.after) for field in change.proposal.fields] == [
        ("To", "jane1@customer.example"),
        ("Cc", "c@shop.example"),
        ("Bcc", "b@shop.example"),
        ("Subject", "Order 1"),
        ("HTML", "<p>Thank you for 1</p>"),
    ]
    await shop.approve(run)
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    [(message, thread)] = mailbox.sent
    assert (message["From"], message["To"]) == (f"Tea Shop <{ADDRESS}>", "jane1@customer.example")
    assert (message["Subject"], thread) == ("Order 1", None)
    assert message.get_content_type() == "text/html"
    assert await output_items(shop, run, "Read") == [{"id": "s1", "threadId": "t9"}]


@on_one_engine
async def test_a_reply_stays_in_its_thread_and_goes_to_the_others(
    shop: Shop, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replies in the thread with its references, to everybody but the mailbox or only to the sender.

    The sender is reached where they want replies sent.
    """
    connection, _ = await signed_in(shop)
    more = {"accounts": {"Mail": {"integration_id": connection.integration_id}}, "send_mode": "send"}
    reply = {
        "operation": "reply",
        "messageId": "m1",
        "emailType": "text",
        "message": "Soon",
        "options": QUIET,
    }
    run = await shop.until_settled(
        await shop.run_and_drain(
            await automated(shop, chain(ITEM, node("Mail", "gmail", 2.1, reply)), **more)
        )
    )
    assert run.status is RunStatus.SUCCEEDED, run
    only = {**reply, "options": {**QUIET, "replyToSenderOnly": True}}
    await shop.run_and_drain(await automated(shop, chain(ITEM, node("Mail", "gmail", 2.1, only)), **more))
    asked = {"name": "Reply-To", "value": "help@customer.example"}
    monkeypatch.setitem(ORIGINAL["payload"], "headers", [asked, *ORIGINAL["payload"]["headers"]])
    await shop.run_and_drain(await automated(shop, chain(ITEM, node("Mail", "gmail", 2.1, only)), **more))
    (message, thread), (second, _), (third, _) = mailbox.sent
    assert (message["Subject"], thread) == ("Re: Where is it?", "t1")
    assert message["In-Reply-To"] == "<abc@customer.example>"
    assert message["References"] == "<first@customer.example> <abc@customer.example>"
    assert message["To"] == "Jane <jane@customer.example>, bob@customer.example"
    assert second["To"] == "Jane <jane@customer.example>"
    assert third["To"] == "help@customer.example"


@on_one_engine
async def test_labels_are_changed_and_read(shop: Shop, api: FakeService) -> None:
    """Changes labels as a send, and reads the list of labels."""
    connection, _ = await signed_in(shop)
    named = {"integration_id": connection.integration_id}
    label = {"operation": "addLabels", "messageId": "m1", "labelIds": ["L1"]}
    listed = {"resource": "label", "operation": "getAll", "returnAll": True}
    steps = node("All", "gmail", 2.1, listed), ITEM, node("Label", "gmail", 2.1, label)
    automation = await automated(
        shop, chain(*steps), accounts={"All": named, "Label": named}, send_mode="send"
    )
    run = await shop.until_settled(await shop.run_and_drain(automation))
    assert run.status is RunStatus.SUCCEEDED, run
    [sent] = api.sent()
    assert (sent.path, sent.body) == ("/gmail/v1/users/me/messages/m1/modify", {"addLabelIds": ["L1"]})


@on_one_engine
async def test_a_lost_response_is_never_sent_again_and_a_mailbox_is_connected_once(
    shop: Shop, api: FakeService, mailbox: Mailbox
) -> None:
    """Never repeats a message whose response was lost, and refuses to connect the same mailbox twice."""
    connection, _ = await signed_in(shop)
    with pytest.raises(ValidationFailed):
        await signed_in(shop)
    api.responses.append(httpx.ReadTimeout("lost"))
    more = {"accounts": {"Mail": {"integration_id": connection.integration_id}}, "send_mode": "send"}
    automation = await automated(shop, chain(ITEM, node("Mail", "gmail", 2.1, SEND)), **more)
    run = await shop.until_settled(await shop.run_and_drain(automation))
    [change] = await shop.changes(run)
    assert change.outcome is Outcome.UNKNOWN
    assert len(api.sent()) == 1
    assert mailbox.sent == []


FILE = "sku,stock\nT1,4\n"
CSV = code(
    "Files",
    "return [{json: {id: 1}, binary: {data: {mimeType: 'text/csv', fileName: 'stock.csv', data: '"
    + base64.b64encode(FILE.encode()).decode()
    + "'}}}]",
)


@on_one_engine
async def test_files_of_the_item_go_with_a_message_and_a_draft(shop: Shop, mailbox: Mailbox) -> None:
    """Attaches the item's files to a message and to a draft without recipients; the approval names them."""
    connection, _ = await signed_in(shop)
    named = {"integration_id": connection.integration_id}
    files = {"attachmentsUi": {"attachmentsBinary": [{"property": "data"}]}}
    send = node("Mail", "gmail", 2.1, {**SEND, "options": {**SEND["options"], **files}})
    steps = CSV, send, code("Back", "return $('Files').all()"), node("Draft", "gmail", 2.1, {
        "resource": "draft", "subject": "Later", "message": "Hi", "options": files,
    })  # fmt: skip
    automation = await automated(shop, chain(*steps), accounts={"Mail": named, "Draft": named})
    run = await shop.waiting(automation)
    [change] = await shop.changes(run)
    assert ("Files", "stock.csv (15 bytes)") in [
        (field.label, field.after) for field in change.proposal.fields
    ]
    await shop.approve(run)
    await shop.until_settled(run)
    await shop.approve(run)
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    (message, _), (draft, _) = mailbox.sent[0], mailbox.drafts[0]
    for mail in (message, draft):
        [file] = mail.iter_attachments()
        assert (file.get_filename(), file.get_content_type()) == ("stock.csv", "text/csv")
        assert file.get_content() == FILE
    assert (draft["To"], draft["Subject"]) == (None, "Later")


@on_one_engine
async def test_messages_are_read_short_or_in_parts_with_their_files(shop: Shop, api: FakeService) -> None:
    """Reads messages in short form with label names, or whole with their parsed parts and files."""
    connection, _ = await signed_in(shop)
    named = {"integration_id": connection.integration_id}
    filters = {"labelIds": ["INBOX", "L1"], "readStatus": "unread", "receivedAfter": "2026-05-01T00:00:00Z"}
    whole = {"operation": "get", "messageId": "m1", "simple": False, "options": {"downloadAttachments": True}}
    steps = (
        node("List", "gmail", 2.1, {"operation": "getAll", "limit": 1, "filters": filters}),
        node("Whole", "gmail", 2.1, whole),
        code("Told", "return [{json: {...items[0].json, file: items[0].binary.attachment_0.fileName}}]"),
    )
    run = await shop.run_and_drain(
        await automated(shop, chain(*steps), accounts={"List": named, "Whole": named})
    )
    assert run.status is RunStatus.SUCCEEDED, (run.code, run.message, await shop.steps(run))
    [asked_seen_request] = [seen for seen in api.seen if seen.path.endswith("/messages")]
    assert asked_seen_request.query == {
        "q": "is:unread after:1777593600",
        "maxResults": "1",
        "labelIds": "INBOX,L1",
    }
    assert await output_items(shop, run, "List") == [
        {
            "id": "m1", "threadId": "t1", "snippet": "I wait", "payload": {"mimeType": "text/plain"},
            "labels": [{"id": "L1", "name": "Orders"}], "From": "Jane <jane@customer.example>",
            "To": f"Shop <{ADDRESS}>, bob@customer.example", "Subject": "Where is it?",
        }
    ]  # fmt: skip
    [item] = await output_items(shop, run, "Told")
    jane = {"address": "jane@customer.example", "name": "Jané"}
    assert (item["id"], item["threadId"], item["labelIds"]) == ("m1", "t1", ["L1"])
    assert (item["subject"], item["from"]["value"], item["from"]["text"]) == (
        "Wo ist es?", [jane], '"Jané" <jane@customer.example>',
    )  # fmt: skip
    assert (item["text"], item["html"], item["textAsHtml"]) == ("I wait", False, "<p>I wait</p>")
    assert (item["date"], item["messageId"]) == ("2026-05-01T08:00:00.000Z", "<abc@customer.example>")
    assert item["headers"]["subject"] == "Subject: =?utf-8?q?Wo_ist_es=3F?="
    assert item["file"] == "photo.png"


def test_there_is_no_form_for_a_mailbox() -> None:
    """Raises BadSettings, since a mailbox is connected by signing in."""
    with pytest.raises(BadSettings, match="signing in"):
        BUILT["gmail"].settings({"password": "x"})


@pytest.mark.parametrize(
    ("version", "parameters", "level", "words"),
    [
        (2.1, {**SEND, "operation": "sendAndWait"}, "error", "waits for an answer"),
        (2.1, {"operation": "delete", "messageId": "m1"}, "error", "not supported"),
        (2.1, {"operation": "getAll", "options": {"brandNew": 1}}, "error", "“brandNew”"),
        (1, {"subject": "x", "additionalFields": {"brandNew": 1}}, "error", "“brandNew”"),
        (2.1, {**SEND, "options": {**QUIET, "brandNew": 1}}, "error", "“brandNew”"),
        (2, {**SEND, "options": {}}, "note", "line about itself"),
        (2.1, {**SEND, "sendTo": ""}, "warning", "whom it writes to"),
        (2.1, {"operation": "reply", "message": "x", "options": QUIET}, "warning", "which message"),
    ],
)  # fmt: skip
def test_unsupported_parameters_make_findings_at_import(
    version: float, parameters: dict[str, Any], level: str, words: str
) -> None:
    """Reports what is not supported at import with its level and what to do."""
    assert [
        finding_level
        for finding_level, message in findings_of("gmail", version, parameters)
        if words in message
    ] == [level]


def test_an_ordinary_message_has_no_findings() -> None:
    """Finds nothing in an ordinary message, nor in n8n's empty list of attachments."""
    assert findings_of("gmail", 2.1, SEND) == []
    empty = {"attachmentsUi": {"attachmentsBinary": [{}]}}
    assert findings_of("gmail", 2.1, {**SEND, "options": {**QUIET, **empty}}) == []


@pytest.mark.parametrize(
    ("version", "parameters", "receivers", "bodies"),
    [
        (1, {"toList": ["a@x.example", "b@x.example"], "message": "Hi"}, ["a@x.example", "b@x.example"],
         ("Hi", None)),
        (1, {"toList": ["a@x.example"], "message": "Hi", "includeHtml": True, "htmlMessage": "<p>Hi</p>"},
         ["a@x.example"], ("Hi", "<p>Hi</p>")),
        (2, {"sendTo": "a@x.example, b@x.example", "message": "Hi"}, ["a@x.example", "b@x.example"],
         (None, "Hi")),
        (2.1, {"sendTo": "a@x.example", "message": "Hi", "emailType": "text"}, ["a@x.example"],
         ("Hi", None)),
    ],
)  # fmt: skip
def test_each_version_is_read_in_its_own_way(
    version: float, parameters: dict[str, Any], receivers: list[str], bodies: tuple[str | None, str | None]
) -> None:
    """Reads version 1 with lists of addresses, and version 2 with HTML by default."""
    command = mail_command(ServiceFields(Params(parameters), version, {}))
    assert [mailbox.address for mailbox in command.to] == receivers
    assert (command.text, command.html) == bodies
