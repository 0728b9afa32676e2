"""Every service connected by a key: connecting, one message and its response, and refusals in words."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from steward.connectors.base.service_connector import ServiceConnector
from steward.connectors.base.settings import BadSettings
from steward.connectors.base.writing import WriteState
from steward.model.refusals import ValidationFailed
from steward.model.run import RunStatus
from steward.outbound.response import PlatformResponse
from steward.steps.n8n.drive_fields import UPLOAD_BYTES, call_file
from steward.steps.workflow.step_types import ItemFailed
from tests.connectors.conformance.test_every_connector import BUILT
from tests.fake_clock import FakeClock
from tests.imports.exports import automated, chain, code, node
from tests.imports.responses.workflows import output_items
from tests.runs.shop import Shop
from tests.services.accounts import PAGE_ID, REFUSED, SETTINGS, SID, WEBHOOK, fake, signed_in
from tests.services.fakes import FakeService
from tests.services.running import shop_beside

on_one_engine = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
every_kind = pytest.mark.parametrize("kind", SETTINGS)
# By kind: a step, its request's path and body, its authentication, and a field of the response.
STEPS: dict[str, tuple[dict[str, Any], str, Any, str, str]] = {
    "telegram": (
        node("Say", "telegram", 1.2, {"chatId": "42", "text": "Hi", "additionalFields": {}}),
        "/sendMessage",
        {"chat_id": "42", "text": "Hi", "parse_mode": "Markdown"},
        f"bot{SETTINGS['telegram']['bot_token']}",
        "result.message_id",
    ),
    "discord": (
        node("Say", "discord", 2, {
            "resource": "message", "guildId": {"__rl": True, "mode": "id", "value": "1"}, "content": "Hi",
            "channelId": {"__rl": True, "mode": "list", "value": "290926798626357999"}, "options": {}}),
        "/messages", {"content": "Hi"}, f"Bot {SETTINGS['discord']['bot_token']}", "id",
    ),
    "mattermost": (
        node("Say", "mattermost", 1, {
            "channelId": "c1", "message": "Hi", "attachments": [], "otherOptions": {}}),
        "/posts", {"channel_id": "c1", "message": "Hi"},
        f"Bearer {SETTINGS['mattermost']['access_token']}", "id",
    ),
    "twilio": (
        node("Say", "twilio", 1, {"from": "+1555", "to": "+4915100000001", "message": "Hi", "options": {}}),
        "/Messages.json", {"From": "+1555", "To": "+4915100000001", "Body": "Hi"}, "Basic ", "sid",
    ),
    "whatsapp": (
        node("Say", "whatsApp", 1, {
            "operation": "send", "phoneNumberId": "106540352242922", "textBody": "Hi",
            "recipientPhoneNumber": "+49 151 00000001", "additionalFields": {}}),
        "/messages",
        {"messaging_product": "whatsapp", "to": "4915100000001", "type": "text", "text": {"body": "Hi"}},
        f"Bearer {SETTINGS['whatsapp']['access_token']}", "messages[0].id",
    ),
    "airtable": (
        node("Say", "airtable", 2.1, {
            "operation": "create", "base": {"__rl": True, "mode": "id", "value": "appA"}, "options": {},
            "table": {"__rl": True, "mode": "name", "value": "Stock"},
            "columns": {"mappingMode": "defineBelow", "value": {"Name": "Tea", "Stock": 3}, "schema": []}}),
        "/v0/appA/Stock", {"fields": {"Name": "Tea", "Stock": 3}},
        f"Bearer {SETTINGS['airtable']['access_token']}", "fields.Stock",
    ),
    "notion": (
        node("Say", "notion", 2.2, {
            "resource": "databasePage", "operation": "update", "options": {},
            "pageId": {"__rl": True, "mode": "id", "value": PAGE_ID},
            "propertiesUi": {"propertyValues": [{"key": "In stock|number", "numberValue": 3}]}}),
        f"/v1/pages/{PAGE_ID}", {"properties": {"In stock": {"number": 3}}},
        f"Bearer {SETTINGS['notion']['access_token']}", "property_in_stock",
    ),
}  # fmt: skip


def connector_of(kind: str) -> ServiceConnector:
    """Returns the connector of a kind."""
    connector = BUILT[kind]
    assert isinstance(connector, ServiceConnector)
    return connector


@pytest.fixture
def service(kind: str) -> FakeService:
    """Returns the fake of the kind's service."""
    return fake(kind)


@pytest.fixture
async def shop(
    database_url: str, clock: FakeClock, tmp_path: Path, service: FakeService
) -> AsyncIterator[Shop]:
    """Yields our service beside the fake."""
    async with shop_beside(database_url, clock, tmp_path, service) as opened:
        yield opened


@every_kind
async def test_a_message_is_sent_and_its_response_read_by_the_next_step(
    shop: Shop, service: FakeService, kind: str
) -> None:
    """Connects, binds, approves and sends with the connection's key; the next step reads the response."""
    step, path, body, key, answered = STEPS[kind]
    account = await shop.connect(kind, SETTINGS[kind])
    then = code("Then", f"return [{{json: {{is: $input.first().json.{answered}}}}}]")
    accounts = {"Say": {"integration_id": account.integration_id}}
    automation = await automated(shop, chain(step, then), accounts=accounts)
    run = await shop.waiting(automation)
    assert service.sent() == []
    await shop.approve(run)
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    [request] = service.sent()
    assert request.path.endswith(path)
    assert request.body == body
    assert signed_in(kind, request).startswith(key)
    [item] = await output_items(shop, ended, "Then")
    assert item["is"]


@on_one_engine
@every_kind
async def test_a_wrong_key_is_refused_at_its_field(shop: Shop, service: FakeService, kind: str) -> None:
    """Refuses a wrong key at its field without showing it."""
    service.responses.append(REFUSED[kind])
    with pytest.raises(ValidationFailed) as refused:
        await shop.connect(kind, SETTINGS[kind])
    assert list(refused.value.errors) == [f"settings.{connector_of(kind).key_field}"]
    secrets = [text for text in SETTINGS[kind].values() if len(text) > 20 and text != SID]
    assert not any(secret in str(refused.value.errors) for secret in secrets)


@every_kind
@pytest.mark.parametrize(
    ("status", "state"),
    [
        (200, WriteState.APPLIED),
        (400, WriteState.REFUSED),
        (401, WriteState.REFUSED),
        (403, WriteState.REFUSED),
        (404, WriteState.REFUSED),
        (408, WriteState.UNKNOWN),
        (429, WriteState.NOT_SENT),
        (500, WriteState.UNKNOWN),
        (503, WriteState.UNKNOWN),
        (302, WriteState.UNKNOWN),
    ],
)
def test_a_responses_status_decides_its_outcome(kind: str, status: int, state: WriteState) -> None:
    """Maps statuses to outcomes: only a worded refusal is refused, and 408, 3xx and 5xx are unknown."""
    outcome = connector_of(kind).outcome(PlatformResponse(status, {}, b'{"message": "because"}'))
    assert outcome.state is state


@every_kind
def test_an_empty_form_and_a_wrong_value_name_their_fields(kind: str) -> None:
    """Names each invalid field of the settings."""
    connector, good = connector_of(kind), SETTINGS[kind]
    for name in good:
        with pytest.raises(BadSettings) as refused:
            connector.settings({**good, name: "no value\x00"})
        assert set(refused.value.errors) == {name}
    assert connector.settings(dict(good)).sealed


def test_a_servers_own_address_is_held_to_the_guard() -> None:
    """Requires a public https address without user and password for a Mattermost server."""
    for address in (
        "http://chat.example",
        "https://10.0.0.1",
        "https://a:b@chat.example",
        "https://c.example/../x",
    ):
        with pytest.raises(BadSettings) as refused:
            connector_of("mattermost").settings({**SETTINGS["mattermost"], "base_url": address})
        assert set(refused.value.errors) == {"base_url"}
    connection_settings = connector_of("mattermost").settings(
        {**SETTINGS["mattermost"], "base_url": "https://c.example/chat/"}
    )
    assert connection_settings.plain["base_url"] == "https://c.example/chat"


@pytest.mark.parametrize("kind", ["discord"])
@on_one_engine
async def test_a_discord_webhook_takes_webhook_steps_alone(
    shop: Shop, service: FakeService, kind: str
) -> None:
    """Accepts steps of its own form by a Discord webhook and fails the others without sending."""
    with pytest.raises(BadSettings):
        connector_of("discord").settings({"webhook_url": "https://evil.example/api/webhooks/1/x"})
    webhook = await shop.connect("discord", {"webhook_url": WEBHOOK})
    legacy = {"authentication": "webhook", "content": "Hi", "options": {}}
    then = code("Then", "return $input.all()")
    more = {"accounts": {"Say": {"integration_id": webhook.integration_id}}, "send_mode": "send"}
    for step, status in (
        (node("Say", "discord", 2, legacy), RunStatus.SUCCEEDED),
        (node("Say", "discord", 1, {"webhookUri": "", "text": "Hi", "options": {}}), RunStatus.SUCCEEDED),
        (STEPS["discord"][0], RunStatus.FAILED),
    ):
        run = await shop.until_settled(
            await shop.run_and_drain(await automated(shop, chain(step, then), **more))
        )
        assert run.status is status, run
        if status is RunStatus.SUCCEEDED:
            assert await output_items(shop, run, "Then") == [{"success": True}]
    assert [request.body for request in service.sent()] == [{"content": "Hi"}] * 2


@on_one_engine
async def test_a_file_of_the_item_goes_to_telegram_with_its_caption(
    database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Uploads an item's file to Telegram with its caption after an approval that names it."""
    api = fake("telegram")
    real = api.respond
    api.respond = lambda request: (
        (200, {"ok": True, "result": {"message_id": 8}})
        if request.path.endswith("/sendDocument")
        else real(request)
    )
    send = node("Say", "telegram", 1.2, {
        "operation": "sendDocument", "chatId": "42", "binaryData": True, "binaryPropertyName": "data",
        "additionalFields": {"caption": "Stock", "fileName": "today.csv"},
    })  # fmt: skip
    file = "{data: 'c2t1CnRlYQo=', mimeType: 'text/csv', fileName: 'stock.csv'}"
    steps = code("Files", f"return [{{json: {{}}, binary: {{data: {file}}}}}]"), send
    async with shop_beside(database_url, clock, tmp_path, api) as shop:
        account = await shop.connect("telegram", SETTINGS["telegram"])
        named = {"accounts": {"Say": {"integration_id": account.integration_id}}}
        run = await shop.waiting(await automated(shop, chain(*steps), **named))
        [change] = await shop.changes(run)
        displayed = {field.label: field.after for field in change.proposal.fields}
        await shop.approve(run)
        ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    assert (displayed["To"], displayed["Text"], displayed["File"]) == (
        "42",
        "Stock",
        "File “today.csv” (8 B)",
    )
    [sent] = api.sent()
    head = 'name="document"; filename="today.csv"\r\nContent-Type: text/csv\r\n\r\nsku\ntea\n'
    assert head in sent.body
    for field in ('name="chat_id"\r\n\r\n42', 'name="caption"\r\n\r\nStock'):
        assert field in sent.body


@on_one_engine
async def test_a_list_in_one_response_ends_at_the_limit(
    database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Passes on as many objects as the step asks for where a service gives all of them at once."""
    api = fake("discord")
    lists = node("Channels", "discord", 2, {
        "resource": "channel", "operation": "getAll", "limit": 2, "options": {},
        "guildId": {"__rl": True, "mode": "id", "value": "1"},
    })  # fmt: skip
    async with shop_beside(database_url, clock, tmp_path, api) as shop:
        account = await shop.connect("discord", SETTINGS["discord"])
        named = {"accounts": {"Channels": {"integration_id": account.integration_id}}}
        automation = await automated(shop, chain(lists), **named)
        api.responses.append((200, [{"id": "1"}, {"id": "2"}, {"id": "3"}]))
        run = await shop.run_and_drain(automation)
        assert run.status is RunStatus.SUCCEEDED, run
        assert await output_items(shop, run, "Channels") == [{"id": "1"}, {"id": "2"}]
        for limit in (-1, "all"):
            parameters = lists["parameters"] | {"limit": limit}
            automation = await automated(shop, chain(lists | {"parameters": parameters}), **named)
            api.responses.append((200, [{"id": "1"}, {"id": "2"}]))
            run = await shop.run_and_drain(automation)
            assert run.status is RunStatus.FAILED
            assert "“limit” of this step is not a number from 1 on." in str(run.message)


@on_one_engine
@pytest.mark.parametrize(("name", "file_name"), [("stock.csv", "stock.csv"), ("", "list")])
async def test_a_message_goes_to_discord_with_its_file(
    database_url: str, clock: FakeClock, tmp_path: Path, name: str, file_name: str
) -> None:
    """Sends a message to a webhook together with the item's file, and to a channel without one."""
    api = fake("discord")
    say = node("Say", "discord", 2, {
        "authentication": "webhook", "content": "Stock", "options": {"wait": True},
        "files": {"values": [{"inputFieldName": "list"}]},
    })  # fmt: skip
    file = f"{{data: 'c2t1CnRlYQo=', mimeType: 'text/csv', fileName: '{name}'}}"
    steps = code("Files", f"return [{{json: {{}}, binary: {{list: {file}}}}}]"), say
    async with shop_beside(database_url, clock, tmp_path, api) as shop:
        account = await shop.connect("discord", {"webhook_url": WEBHOOK})
        named = {"accounts": {"Say": {"integration_id": account.integration_id}}}
        run = await shop.waiting(await automated(shop, chain(*steps), **named))
        [change] = await shop.changes(run)
        displayed = {field.label: field.after for field in change.proposal.fields}
        await shop.approve(run)
        ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    assert (displayed["Text"], displayed["File"]) == ("Stock", f"File “{file_name}” (8 B)")
    assert json.loads(str(displayed["Body"])) == {"payload_json": {"content": "Stock"}}
    [sent] = api.sent()
    assert sent.query == {"wait": "true"}
    assert 'name="payload_json"\r\n\r\n{"content":"Stock"}\r\n' in sent.body
    head = f'name="files[0]"; filename="{file_name}"\r\nContent-Type: text/csv'
    assert f"{head}\r\n\r\nsku\ntea\n" in sent.body


@on_one_engine
async def test_a_file_that_a_bot_was_sent_is_fetched(
    database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Asks Telegram where a file is and puts its content beside the response, without approval."""
    api = fake("telegram")
    real, found = api.respond, {"ok": True, "result": {"file_id": "f1", "file_path": "documents/stock.csv"}}
    api.respond = lambda request: (
        (200, found)
        if request.path.endswith("/getFile")
        else (200, "sku\ntea\n")
        if request.path.startswith("/file/")
        else real(request)
    )
    fetch = node("Fetch", "telegram", 1.2, {"resource": "file", "fileId": "f1"})
    text = node("Text", "extractFromFile", 1, {"operation": "text", "options": {}})
    async with shop_beside(database_url, clock, tmp_path, api) as shop:
        account = await shop.connect("telegram", SETTINGS["telegram"])
        named = {"accounts": {"Fetch": {"integration_id": account.integration_id}}}
        run = await shop.run_and_drain(await automated(shop, chain(fetch, text), **named))
        assert run.status is RunStatus.SUCCEEDED, run
        assert await output_items(shop, run, "Fetch") == [found]
        assert await output_items(shop, run, "Text") == [{"data": "sku\ntea\n"}]
    assert api.seen[-1].path == f"/file/bot{SETTINGS['telegram']['bot_token']}/documents/stock.csv"


def test_a_file_over_its_limit_is_not_sent() -> None:
    """Accepts a file of 1.5 MiB and fails the item one byte above it."""
    assert call_file("a.csv", b"x" * UPLOAD_BYTES, "text/csv").content
    with pytest.raises(ItemFailed, match=r"1\.5 MiB"):
        call_file("a.csv", b"x" * (UPLOAD_BYTES + 1), "text/csv")
