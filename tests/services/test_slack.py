"""Slack: calls by a bot token, cards by a webhook, the meaning of responses, and the node slack."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from steward.connectors.base.commands import PostCard
from steward.connectors.base.settings import BadSettings
from steward.connectors.base.writing import WriteState
from steward.connectors.slack.connector import SlackConnector
from steward.connectors.slack.text import TEXT_CHARACTERS, message
from steward.model.change import Outcome
from steward.model.refusals import ValidationFailed
from steward.model.run import Mode, RunStatus
from steward.outbound.response import PlatformResponse
from tests.connectors.conformance.test_every_connector import BUILT
from tests.fake_clock import FakeClock
from tests.imports.exports import automated, chain, code, node
from tests.imports.responses.workflows import output_items
from tests.runs.shop import Shop
from tests.services.fakes import FakeService
from tests.services.running import call_of, findings_of, items_of, shop_beside
from tests.services.slack import TOKEN, WEBHOOK, slack, webhooks

CONNECTOR = BUILT["slack"]
assert isinstance(CONNECTOR, SlackConnector)
GENERAL = {"__rl": True, "mode": "name", "value": "general"}
SAY = {"select": "channel", "channelId": GENERAL, "text": "=Sold {{ $json.id }}", "otherOptions": {}}
NO_LINK = {"otherOptions": {"includeLinkToWorkflow": False}}
on_one_engine = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def api() -> FakeService:
    """Returns the fake of Slack's API."""
    return slack()


@pytest.fixture
async def shop(database_url: str, clock: FakeClock, tmp_path: Path, api: FakeService) -> AsyncIterator[Shop]:
    """Yields a service beside Slack."""
    async with shop_beside(database_url, clock, tmp_path, api, webhooks()) as opened:
        yield opened


def answered(status: int, body: Any) -> PlatformResponse:
    """Returns a response as the HTTP client delivers it."""
    text = body if isinstance(body, str) else json.dumps(body)
    return PlatformResponse(status, {}, text.encode())


@pytest.mark.parametrize(
    ("status", "body", "state"),
    [
        (200, {"ok": True, "ts": "1"}, WriteState.APPLIED),
        (200, "ok", WriteState.APPLIED),
        (200, {"ok": False, "error": "channel_not_found"}, WriteState.REFUSED),
        (200, {"ok": False, "error": "invalid_auth"}, WriteState.REFUSED),
        (200, {"ok": False, "error": "missing_scope"}, WriteState.REFUSED),
        (200, {"ok": False, "error": "some_new_code"}, WriteState.REFUSED),
        (200, {"ok": False, "error": "ratelimited"}, WriteState.NOT_SENT),
        (200, {"ok": False, "error": "fatal_error"}, WriteState.UNKNOWN),
        (200, "<html>", WriteState.UNKNOWN),
        (200, {}, WriteState.UNKNOWN),
        (404, "no_service", WriteState.REFUSED),
        (503, "", WriteState.UNKNOWN),
    ],
)
def test_a_response_is_believed_by_its_body_and_not_by_its_status(
    status: int, body: Any, state: WriteState
) -> None:
    """Reads the outcome from the body: `ok` false is refused in spite of status 200.

    A body that cannot be read is unknown.
    """
    assert CONNECTOR.outcome(answered(status, body)).state is state


@pytest.mark.parametrize(
    ("form", "fields"),
    [
        ({}, {"bot_token"}),
        ({"bot_token": TOKEN, "webhook_url": WEBHOOK}, {"bot_token"}),
        ({"bot_token": "secret"}, {"bot_token"}),
        ({"bot_token": "xoxb-1\n23456789"}, {"bot_token"}),
        ({"webhook_url": "https://elsewhere.example/services/T/B/x"}, {"webhook_url"}),
        ({"webhook_url": "http://hooks.slack.com/services/T/B/x"}, {"webhook_url"}),
        ({"webhook_url": "https://hooks.slack.com/"}, {"webhook_url"}),
        ({"webhook_url": "https://hooks.slack.com.evil.example/services/T/B/x"}, {"webhook_url"}),
    ],
)
def test_a_form_has_a_token_or_a_webhook_of_slack(form: dict[str, Any], fields: set[str]) -> None:
    """Accepts either a token or a webhook at a configured host, and names the wrong field."""
    with pytest.raises(BadSettings) as refused:
        CONNECTOR.settings(form)
    assert set(refused.value.errors) == fields


def test_a_card_calls_nobody_and_is_cut_at_its_end() -> None:
    """Escapes Slack's markup, so that a card mentions nobody, and cuts the card to its limit."""
    card = PostCard("Low <!channel>", text=("a & b",), facts=(("TEA-1", "<@U1>"),))
    assert message(card)["text"] == "*Low &lt;!channel&gt;*\na &amp; b\nTEA-1: &lt;@U1&gt;"
    long = message(PostCard("T", text=("x" * 1000,) * 20))["text"]
    assert isinstance(long, str)
    assert len(long) <= TEXT_CHARACTERS
    assert "x" * 1000 in long


@pytest.mark.parametrize(
    ("version", "parameters", "path", "body"),
    [
        (1, {"channel": "ops", "text": "Hi", "otherOptions": {}, "attachments": []},
         "/chat.postMessage", {"channel": "ops", "text": "Hi"}),
        (1, {"channel": "ops", "text": "Hi", "attachments": [
            {"color": "#f00", "fields": {"item": [{"title": "A", "value": 1, "short": True}]}}]},
         "/chat.postMessage", {"channel": "ops", "text": "Hi", "attachments": [
             {"color": "#f00", "fields": [{"title": "A", "value": 1, "short": True}]}]}),
        (1, {"channel": "ops", "text": "", "jsonParameters": True, "blocksJson": '[{"type":"divider"}]'},
         "/chat.postMessage", {"channel": "ops", "text": "", "blocks": [{"type": "divider"}]}),
        (2.2, {"select": "channel", "channelId": GENERAL, "text": "Hi"},
         "/chat.postMessage", {"channel": "#general", "text": "Hi"}),
        (2.2, {"select": "user", "user": {"__rl": True, "mode": "username", "value": "ann"}, "text": "Hi"},
         "/chat.postMessage", {"channel": "@ann", "text": "Hi"}),
        (2.1, {"select": "channel", "channelId": {"__rl": True, "mode": "id", "value": "C1"}, "text": "",
               "messageType": "block", "blocksUi": '{"blocks": [{"type": "divider"}]}'},
         "/chat.postMessage", {"channel": "C1", "text": "", "blocks": [{"type": "divider"}]}),
        (2.1, {"select": "channel", "channelId": GENERAL, "text": "Hi", "otherOptions": {
            "thread_ts": {"replyValues": {"thread_ts": "17.1", "reply_broadcast": True}},
            "unfurl_links": False,
            "botProfile": {"imageValues": {"profilePhotoType": "emoji", "icon_emoji": ":tea:"}}}},
         "/chat.postMessage", {"channel": "#general", "text": "Hi", "thread_ts": "17.1",
                               "unfurl_links": False, "reply_broadcast": True, "icon_emoji": ":tea:"}),
        (2.3, {"select": "channel", "channelId": GENERAL, "text": "Hi", "otherOptions": {
            "ephemeral": {"ephemeralValues": {"user": {"__rl": True, "mode": "id", "value": "U1"}}}}},
         "/chat.postEphemeral", {"channel": "#general", "text": "Hi", "user": "U1"}),
        (2.4, {"operation": "update", "channelId": GENERAL, "ts": "17.1", "text": "New"},
         "/chat.update", {"channel": "#general", "ts": "17.1", "text": "New"}),
        (2.4, {"resource": "channel", "operation": "create", "channelId": "sale",
               "channelVisibility": "private"},
         "/conversations.create", {"name": "sale", "is_private": True}),
    ],
)  # fmt: skip
def test_a_message_is_sent_as_its_parameters_say(
    version: float, parameters: dict[str, Any], path: str, body: dict[str, Any]
) -> None:
    """Calls the documented path and body for both generations of the node."""
    call = call_of("slack", version, parameters)
    assert (call.method, call.path, call.body) == ("POST", path, body)


def test_a_slack_message_outputs_slacks_response() -> None:
    """Returns Slack's response, with `message_timestamp` in place of `ts` from version 2 on."""
    response = {"ok": True, "channel": "C0", "ts": "17.1", "message": {"text": "Hi"}}
    assert items_of("slack", 1, {}, response) == [response]
    [item] = items_of("slack", 2.2, {}, response)
    assert item == {"ok": True, "channel": "C0", "message": {"text": "Hi"}, "message_timestamp": "17.1"}


@pytest.mark.parametrize(
    ("parameters", "level", "words"),
    [
        ({"operation": "sendAndWait"}, "error", "nobody can give"),
        ({"resource": "file", "operation": "upload"}, "error", "not supported"),
        ({"operation": "=post"}, "error", "An expression chooses"),
        (SAY | {"otherOptions": {"brandNew": 1, "includeLinkToWorkflow": False}}, "error", "“brandNew”"),
        (SAY, "note", "links to the workflow"),
        ({"text": "Hi", **NO_LINK}, "warning", "which channel"),
    ],
)
def test_unsupported_parameters_make_findings_at_import(
    parameters: dict[str, Any], level: str, words: str
) -> None:
    """Reports what is not supported at import with its level and what to do."""
    [(found_level, message_)] = findings_of("slack", 2.2, parameters)
    assert found_level == level
    assert words in message_


def test_an_ordinary_message_has_no_findings() -> None:
    """Finds nothing in an ordinary message of either generation."""
    assert findings_of("slack", 2.2, SAY | NO_LINK) == []
    assert findings_of("slack", 1, {"channel": "ops", "text": "Hi", "attachments": []}) == []


async def test_messages_are_sent_once_each_with_and_without_asking(shop: Shop, api: FakeService) -> None:
    """Sends each message once after approval or at once in the mode `send`, and nothing in a test run."""
    bot = await shop.connect("slack", {"bot_token": TOKEN})
    accounts = {"Say": {"integration_id": bot.integration_id}}
    then = code("Then", "return $input.all().map(i => ({json: {at: i.json.message_timestamp}}))")
    steps = code("Items", "return [{json: {id: 1}}, {json: {id: 2}}]"), node("Say", "slack", 2.2, SAY), then
    asking = await automated(shop, chain(*steps), accounts=accounts)
    tried = await shop.run_and_drain(asking, Mode.TEST)
    assert tried.status is RunStatus.SUCCEEDED, tried
    run = await shop.waiting(asking)
    assert api.sent() == []
    [change, _] = await shop.changes(run)
    assert [(field.label, field.after) for field in change.proposal.fields[:2]] == [
        ("To", "#general"),
        ("Text", "Sold 1"),
    ]
    await shop.approve(run)
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    assert [each_seen_request.body for each_seen_request in api.sent()] == [
        {"channel": "#general", "text": f"Sold {number}"} for number in (1, 2)
    ]
    sending = await automated(shop, chain(*steps), accounts=accounts, send_mode="send")
    ended = await shop.until_settled(await shop.run_and_drain(sending))
    assert ended.status is RunStatus.SUCCEEDED, ended
    assert len(api.sent()) == 4
    assert (await output_items(shop, ended, "Then")) == [{"at": "1700000000.000100"}] * 2


@on_one_engine
async def test_a_refused_message_fails_and_a_lost_response_stays_unknown(
    shop: Shop, api: FakeService
) -> None:
    """Fails a message that Slack refuses with status 200, and never repeats one whose response was lost."""
    bot = await shop.connect("slack", {"bot_token": TOKEN})
    more = {"accounts": {"Say": {"integration_id": bot.integration_id}}, "send_mode": "send"}
    gone = SAY | {"channelId": GENERAL | {"value": "gone"}, "text": "Hi"}
    run = await shop.until_settled(
        await shop.run_and_drain(await automated(shop, chain(node("Say", "slack", 2.2, gone)), **more))
    )
    [change] = await shop.changes(run)
    assert (run.status, change.outcome) == (RunStatus.FAILED, Outcome.FAILED)
    assert "channel_not_found" in str(change.message)
    api.responses.append(httpx.ReadTimeout("lost"))
    automation = await automated(shop, chain(node("Say", "slack", 2.2, SAY | {"text": "Hi"})), **more)
    run = await shop.until_settled(await shop.run_and_drain(automation))
    [change] = await shop.changes(run)
    assert change.outcome is Outcome.UNKNOWN
    assert len(api.sent()) == 2


@on_one_engine
async def test_channels_and_people_are_read_page_by_page(shop: Shop, api: FakeService) -> None:
    """Reads channels page by page, also in a test run."""
    bot = await shop.connect("slack", {"bot_token": TOKEN})
    steps = [
        node("All", "slack", 2.2, {"resource": "channel", "operation": "getAll", "returnAll": True}),
        node(
            "Get", "slack", 2.2, {"resource": "channel", "operation": "get", "channelId": "={{ $json.id }}"}
        ),
    ]
    accounts = {name: {"integration_id": bot.integration_id} for name in ("All", "Get")}
    automation = await automated(shop, chain(*steps), accounts=accounts)
    run = await shop.run_and_drain(automation, Mode.TEST)
    assert run.status is RunStatus.SUCCEEDED, run
    assert [row["counts"]["read"] for row in await shop.steps(run)][-2:] == [2, 2]
    requests = [
        request.query.get("cursor") for request in api.seen if request.path.endswith("conversations.list")
    ]
    assert requests == [None, "page2"]


@on_one_engine
async def test_a_webhook_takes_cards_and_a_token_takes_steps(shop: Shop, api: FakeService) -> None:
    """Posts template cards by a webhook and workflow steps by a token, and refuses the other combinations."""
    bot = await shop.connect("slack", {"bot_token": TOKEN})
    with pytest.raises(ValidationFailed) as refused:
        await shop.set_up(
            "low-stock-alert", {"threshold": 5, "teams": {"integration_id": bot.integration_id}}
        )
    assert "names no channel" in str(refused.value.errors)
    webhook = await shop.connect("slack", {"webhook_url": WEBHOOK})
    with pytest.raises(ValidationFailed) as refused:
        await automated(
            shop,
            chain(node("Say", "slack", 2.2, SAY)),
            accounts={"Say": {"integration_id": webhook.integration_id}},
        )
    assert "with a token" in str(refused.value.errors)
    named = {"integration_id": webhook.integration_id}
    alert = await shop.set_up("low-stock-alert", {"threshold": 5, "teams": named})
    run = await shop.until_settled(await shop.run_and_drain(alert))
    assert run.status is RunStatus.SUCCEEDED, run
    assert run.summary is not None
    assert "handed to Slack" in str(run.summary["text"])
