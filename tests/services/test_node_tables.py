"""Nodes of message services: the call of each operation and what import refuses."""

from typing import Any

import pytest

from steward.steps.workflow.step_types import ItemFailed
from tests.services.running import call_of, findings_of, items_of

CHAT = {"chatId": "42", "additionalFields": {}}
CHANNEL = {"__rl": True, "mode": "list", "value": "290"}
BOT = {"resource": "message", "guildId": {"__rl": True, "mode": "id", "value": "1"}, "channelId": CHANNEL}
WHATSAPP = {"phoneNumberId": "100", "recipientPhoneNumber": "+49 (151) 1", "additionalFields": {}}
BUTTONS = {"rows": [{"row": {"buttons": [{"text": "Yes", "additionalFields": {"callback_data": "y"}}]}}]}


@pytest.mark.parametrize(
    ("kind", "version", "parameters", "path", "body"),
    [
        (
            "telegram",
            1,
            CHAT
            | {
                "text": "Hi",
                "additionalFields": {
                    "parse_mode": "HTML",
                    "appendAttribution": True,
                    "reply_to_message_id": 7,
                },
            },
            "/sendMessage",
            {"chat_id": "42", "text": "Hi", "parse_mode": "HTML", "reply_to_message_id": 7},
        ),
        (
            "telegram",
            1.2,
            CHAT | {"text": "Hi", "replyMarkup": "inlineKeyboard", "inlineKeyboard": BUTTONS},
            "/sendMessage",
            {
                "chat_id": "42",
                "text": "Hi",
                "parse_mode": "Markdown",
                "reply_markup": {"inline_keyboard": [[{"text": "Yes", "callback_data": "y"}]]},
            },
        ),
        (
            "telegram",
            1.2,
            CHAT
            | {
                "text": "Hi",
                "replyMarkup": "replyKeyboard",
                "replyKeyboard": {"rows": [{"row": {"buttons": [{"text": "A"}]}}]},
                "replyKeyboardOptions": {"one_time_keyboard": True},
            },
            "/sendMessage",
            {
                "chat_id": "42",
                "text": "Hi",
                "parse_mode": "Markdown",
                "reply_markup": {"keyboard": [[{"text": "A"}]], "one_time_keyboard": True},
            },
        ),
        (
            "telegram",
            1.2,
            CHAT
            | {
                "operation": "sendPhoto",
                "file": "https://a.example/p.png",
                "additionalFields": {"caption": "New"},
            },
            "/sendPhoto",
            {"chat_id": "42", "photo": "https://a.example/p.png", "caption": "New"},
        ),
        (
            "telegram",
            1.2,
            CHAT
            | {
                "operation": "sendMediaGroup",
                "media": {
                    "media": [
                        {
                            "type": "photo",
                            "media": "https://a.example/1",
                            "additionalFields": {"caption": "1"},
                        }
                    ]
                },
            },
            "/sendMediaGroup",
            {"chat_id": "42", "media": [{"type": "photo", "media": "https://a.example/1", "caption": "1"}]},
        ),
        (
            "telegram",
            1.2,
            {
                "operation": "editMessageText",
                "messageType": "inlineMessage",
                "inlineMessageId": "i1",
                "text": "New",
                "additionalFields": {},
            },
            "/editMessageText",
            {"text": "New", "inline_message_id": "i1"},
        ),
        (
            "telegram",
            1.2,
            {"resource": "callback", "queryId": "q", "additionalFields": {"text": "Done"}},
            "/answerCallbackQuery",
            {"callback_query_id": "q", "text": "Done"},
        ),
        (
            "discord",
            1,
            {
                "text": "Hi",
                "options": {
                    "username": "Shop",
                    "avatarUrl": "https://a.example/a",
                    "embeds": '[{"title": "T"}]',
                },
            },
            "",
            {
                "username": "Shop",
                "content": "Hi",
                "avatar_url": "https://a.example/a",
                "embeds": [{"title": "T"}],
            },
        ),
        (
            "discord",
            2,
            BOT
            | {
                "content": "Hi",
                "options": {"flags": ["SUPPRESS_EMBEDS"], "message_reference": "9"},
                "embeds": {
                    "values": [
                        {"title": "T", "color": "#ff0000", "author": "Shop", "image": "https://a.example/i"},
                        {"inputMethod": "json", "json": '{"title": "J"}'},
                    ]
                },
            },
            "/channels/290/messages",
            {
                "content": "Hi",
                "flags": 4,
                "message_reference": {"message_id": "9", "guild_id": "1"},
                "embeds": [
                    {
                        "title": "T",
                        "color": 0xFF0000,
                        "author": {"name": "Shop"},
                        "image": {"url": "https://a.example/i"},
                    },
                    {"title": "J"},
                ],
            },
        ),
        (
            "discord",
            2,
            BOT | {"operation": "react", "messageId": "5", "emoji": "🍵"},
            "/channels/290/messages/5/reactions/%F0%9F%8D%B5/@me",
            {},
        ),
        (
            "mattermost",
            1,
            {
                "channelId": "c",
                "message": "Hi",
                "otherOptions": {"make_comment": "p0"},
                "attachments": [{"title": "A", "fields": {"item": [{"title": "B", "value": "1"}]}}],
            },
            "/api/v4/posts",
            {
                "channel_id": "c",
                "message": "Hi",
                "root_id": "p0",
                "props": {"attachments": [{"title": "A", "fields": [{"title": "B", "value": "1"}]}]},
            },
        ),
        (
            "mattermost",
            1,
            {"resource": "channel", "operation": "addUser", "channelId": "c", "userId": "u"},
            "/api/v4/channels/c/members",
            {"user_id": "u"},
        ),
        (
            "twilio",
            1,
            {
                "from": "+1",
                "to": "+2",
                "toWhatsapp": True,
                "message": "Hi",
                "options": {"statusCallback": "https://a.example/s"},
            },
            "/2010-04-01/Accounts/AC1/Messages.json",
            {
                "From": "whatsapp:+1",
                "To": "whatsapp:+2",
                "Body": "Hi",
                "StatusCallback": "https://a.example/s",
            },
        ),
        (
            "twilio",
            1,
            {"resource": "call", "from": "+1", "to": "+2", "message": "A & B"},
            "/2010-04-01/Accounts/AC1/Calls.json",
            {"From": "+1", "To": "+2", "Twiml": "<Response><Say>A &amp; B</Say></Response>"},
        ),
        (
            "whatsApp",
            1,
            WHATSAPP
            | {
                "operation": "send",
                "messageType": "image",
                "mediaLink": "https://a.example/i",
                "additionalFields": {"mediaCaption": "New"},
            },
            "/100/messages",
            {
                "messaging_product": "whatsapp",
                "to": "491511",
                "type": "image",
                "image": {"link": "https://a.example/i", "caption": "New"},
            },
        ),
        (
            "whatsApp",
            1,
            WHATSAPP
            | {
                "operation": "sendTemplate",
                "template": "hello_world|de",
                "components": {
                    "component": [
                        {"type": "body", "bodyParameters": {"parameter": [{"type": "text", "text": "Ann"}]}}
                    ]
                },
            },
            "/100/messages",
            {
                "messaging_product": "whatsapp",
                "to": "491511",
                "type": "template",
                "template": {
                    "name": "hello_world",
                    "language": {"code": "de"},
                    "components": [{"type": "body", "parameters": [{"type": "text", "text": "Ann"}]}],
                },
            },
        ),
    ],
)
def test_an_operation_calls_what_its_parameters_say(
    kind: str, version: float, parameters: dict[str, Any], path: str, body: dict[str, Any]
) -> None:
    """Calls the path with the body that the service documents."""
    call = call_of(kind, version, parameters, {"account_sid": "AC1"})
    assert (call.path, call.body) == (path, body)


@pytest.mark.parametrize(
    ("kind", "version", "parameters", "level", "words"),
    [
        ("telegram", 1.2, CHAT | {"text": "Hi"}, "note", "who sent the message"),
        ("telegram", 1.2, CHAT | {"operation": "sendAndWait"}, "error", "nobody can give"),
        ("telegram", 1, {"text": "Hi"}, "warning", "which chat"),
        (
            "discord",
            1,
            {"webhookUri": "https://discord.com/x", "text": "Hi"},
            "note",
            "not to the one in the file",
        ),
        ("discord", 2, BOT | {"files": {"values": [{}, {}]}}, "error", "several files"),
        ("discord", 2, BOT | {"sendTo": "user"}, "error", "Write to a channel"),
        ("discord", 2, {"resource": "member", "operation": "roleAdd"}, "error", "not supported"),
        ("discord", 2, BOT | {"operation": "getAll", "options": {"simplify": True}}, "note", "the whole"),
        ("mattermost", 1, {"message": "Hi"}, "warning", "which channel"),
        ("mattermost", 1, {"resource": "channel", "operation": "members"}, "error", "only ids"),
        ("twilio", 1, {"from": "+1", "message": "Hi"}, "warning", "which number it sends to"),
        ("whatsApp", 1, WHATSAPP | {"operation": "send", "messageType": "contacts"}, "error", "contacts"),
        (
            "whatsApp",
            1,
            WHATSAPP | {"operation": "send", "messageType": "video", "mediaPath": "useMedian8n"},
            "error",
            "a file of the run",
        ),
        ("whatsApp", 1, {"resource": "media"}, "error", "not supported"),
    ],
)
def test_unsupported_node_parameters_make_findings(
    kind: str, version: float, parameters: dict[str, Any], level: str, words: str
) -> None:
    """Reports one finding with its level and what to do."""
    [(found_level, message)] = findings_of(kind, version, parameters)
    assert found_level == level
    assert words in message


def test_a_webhook_in_the_file_is_replaced_by_the_account() -> None:
    """Removes a webhook's address from the file as a secret; the step's account replaces it."""
    address = "https://discord.com/api/webhooks/197911778886025216/" + "a1-B_" * 12
    all_findings = findings_of("discord", 1, {"webhookUri": address, "text": "Hi", "options": {}})
    assert {level for level, _ in all_findings} == {"note"}
    assert any("The account you choose for this step replaces it" in words for _, words in all_findings)
    assert not any("a1-B_" in words for _, words in all_findings)


def test_lists_within_responses_are_items() -> None:
    """Returns each of Telegram's administrators as an item, and success for a deleted message."""
    request_body = {"resource": "chat", "operation": "administrators", "chatId": "1"}
    assert items_of("telegram", 1.2, request_body, {"ok": True, "result": [{"a": 1}, {"a": 2}]}) == [
        {"a": 1},
        {"a": 2},
    ]
    assert items_of("telegram", 1.2, CHAT, {"ok": True, "result": {"a": 1}}) == [
        {"ok": True, "result": {"a": 1}}
    ]
    assert items_of("discord", 2, BOT | {"operation": "deleteMessage"}, {}) == [{"success": True}]


def test_a_list_is_narrowed_as_the_step_says() -> None:
    """Asks Mattermost for the users of a channel, and takes the channels and bases that the step names."""
    chosen = {"inChannel": "c", "notInTeam": "t"}
    request_body = {"resource": "user", "operation": "getAll", "additionalFields": chosen}
    assert call_of("mattermost", 1, request_body).query == {
        "per_page": "60",
        "in_channel": "c",
        "not_in_team": "t",
    }
    all_channels = BOT | {"resource": "channel", "operation": "getAll"}
    assert items_of("discord", 2, all_channels, [None, {"type": 2}]) == [{"type": 2}]
    channels = all_channels | {"options": {"filter": [0]}}
    assert items_of("discord", 2, channels, [{"type": 0}, {"type": 2}]) == [{"type": 0}]
    bases = {"resource": "base", "options": {"permissionLevel": ["create"]}}
    response = {"bases": [{"permissionLevel": "read"}, {"permissionLevel": "create"}, None]}
    assert items_of("airtable", 2.1, bases, response) == [{"permissionLevel": "create"}]
    assert items_of("airtable", 2.1, {"resource": "base"}, response) == response["bases"][:2]


def test_a_parameter_that_is_part_of_a_path_stays_one_segment() -> None:
    """Encodes a parameter in a path as one segment, and fails items whose value is empty or dots."""
    request_body = {"resource": "channel", "operation": "statistics"}
    call = call_of("mattermost", 1, request_body | {"channelId": "../users?x=1#y"})
    assert call.path == "/api/v4/channels/..%2Fusers%3Fx%3D1%23y/stats"
    call = call_of("mattermost", 1, request_body | {"channelId": "a b\t\r\n"})
    assert call.path == "/api/v4/channels/a%20b/stats"
    for value in ("", ".", "..", "\n", ".\n."):
        with pytest.raises(ItemFailed):
            call_of("mattermost", 1, request_body | {"channelId": value})
