"""Fakes of services whose responses are a table by method and path, in the documented shapes."""

from collections.abc import Mapping
from typing import Any

from tests.services.fakes import FakeService, SeenRequest, ServiceResponse

SID = "AC" + "0a" * 16
# By kind: the host, the settings of a connection, and the responses by method and path.
SETTINGS: Mapping[str, dict[str, str]] = {
    "telegram": {"bot_token": "123456:AAEhBP0av28VRA3gyw1XzFGMBtZQk3_abcd"},
    "discord": {"bot_token": "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"},
    "mattermost": {"base_url": "https://chat.example", "access_token": "q1w2e3r4t5y6u7i8o9p0aaaaaa"},
    "twilio": {"account_sid": SID, "auth_token": "0123456789abcdef0123456789abcdef"},
    "whatsapp": {"access_token": "EAAB" + "x" * 40, "phone_number_id": "106540352242922"},
    "airtable": {"access_token": "patAbcDefGhiJkl12." + "0a" * 32},
    "notion": {"access_token": "ntn_" + "A1b2" * 11},
}
WEBHOOK = "https://discord.com/api/webhooks/197911778886025216/" + "a1-B_" * 12
_BOT = "/bot" + SETTINGS["telegram"]["bot_token"]
_TELEGRAM_MESSAGE = {
    "message_id": 7, "date": 1700000000, "chat": {"id": 42, "type": "private", "first_name": "Ann"},
    "from": {"id": 123456, "is_bot": True, "first_name": "Steward", "username": "steward_bot"}, "text": "Hi",
}  # fmt: skip
PAGE_ID = "59833787-2cf9-4fdf-8782-e53db20768a5"
PAGE = {
    "object": "page", "id": PAGE_ID, "url": "https://www.notion.so/Tea-598337872cf94fdf8782e53db20768a5",
    "parent": {"type": "database_id", "database_id": "d9824bdc-8445-4327-be8b-5b47500af6ce"},
    "properties": {
        "Name": {"id": "title", "type": "title", "title": [{"type": "text", "plain_text": "Tea"}]},
        "In stock": {"id": "a", "type": "number", "number": 3},
        "Tags": {"id": "b", "type": "multi_select", "multi_select": [{"id": "1", "name": "green"}]},
    },
}  # fmt: skip
RECORD = {"id": "recA", "createdTime": "2026-05-01T00:00:00.000Z", "fields": {"Name": "Tea", "Stock": 3}}
_TABLES: Mapping[str, tuple[str, Mapping[tuple[str, str], ServiceResponse]]] = {
    "telegram": ("api.telegram.org", {
        ("GET", f"{_BOT}/getMe"): (200, {"ok": True, "result": _TELEGRAM_MESSAGE["from"]}),
        ("POST", f"{_BOT}/sendMessage"): (200, {"ok": True, "result": _TELEGRAM_MESSAGE}),
        ("GET", f"{_BOT}/getChatAdministrators"): (200, {"ok": True, "result": [
            {"status": "creator", "user": {"id": 1}, "is_anonymous": False}]}),
    }),
    "discord": ("discord.com", {
        ("GET", "/api/v10/users/@me"): (200, {"id": "80351110224678912", "username": "steward", "bot": True}),
        ("POST", "/api/v10/channels/290926798626357999/messages"): (200, {
            "id": "334385199974967042", "channel_id": "290926798626357999", "content": "Hi", "type": 0}),
        ("GET", WEBHOOK.removeprefix("https://discord.com")): (200, {
            "id": "197911778886025216", "name": "Sales", "type": 1, "channel_id": "1"}),
        ("POST", WEBHOOK.removeprefix("https://discord.com")): (204, None),
    }),
    "mattermost": ("chat.example", {
        ("GET", "/api/v4/users/me"): (200, {"id": "u1", "username": "steward"}),
        ("POST", "/api/v4/posts"): (201, {"id": "p1", "channel_id": "c1", "message": "Hi", "create_at": 1}),
    }),
    "twilio": ("api.twilio.com", {
        ("GET", f"/2010-04-01/Accounts/{SID}.json"): (200, {"sid": SID, "friendly_name": "Shop"}),
        ("POST", f"/2010-04-01/Accounts/{SID}/Messages.json"): (201, {
            "sid": "SM1", "status": "queued", "body": "Hi", "to": "+4915100000001", "error_code": None}),
    }),
    "whatsapp": ("graph.facebook.com", {
        ("GET", "/v23.0/106540352242922"): (200, {
            "id": "106540352242922", "display_phone_number": "+1 555", "verified_name": "Shop"}),
        ("POST", "/v23.0/106540352242922/messages"): (200, {
            "messaging_product": "whatsapp", "messages": [{"id": "wamid.HBg"}]}),
    }),
    "airtable": ("api.airtable.com", {
        ("GET", "/v0/meta/whoami"): (200, {"id": "usrA", "scopes": ["data.records:write"]}),
        ("POST", "/v0/appA/Stock"): (200, RECORD),
    }),
    "notion": ("api.notion.com", {
        ("GET", "/v1/users/me"): (200, {
            "object": "user", "id": "b1", "name": "Steward", "bot": {"workspace_name": "Shop"}}),
        ("PATCH", f"/v1/pages/{PAGE_ID}"): (200, PAGE),
    }),
}  # fmt: skip
# What a service answers to a wrong key.
REFUSED: Mapping[str, ServiceResponse] = {
    "telegram": (401, {"ok": False, "error_code": 401, "description": "Unauthorized"}),
    "discord": (401, {"message": "401: Unauthorized", "code": 0}),
    "mattermost": (
        401,
        {"id": "api.context.session_expired", "message": "Invalid session", "status_code": 401},
    ),
    "twilio": (401, {"code": 20003, "message": "Authenticate", "status": 401}),
    "airtable": (401, {"error": {"type": "AUTHENTICATION_REQUIRED", "message": "Authentication required"}}),
    "notion": (401, {"object": "error", "status": 401, "code": "unauthorized", "message": "Invalid token."}),
    "whatsapp": (
        401,
        {"error": {"message": "Invalid OAuth access token", "type": "OAuthException", "code": 190}},
    ),
}


def fake(kind: str) -> FakeService:
    """Returns the fake of a service; an unknown path is refused as a wrong key is."""
    host, responses = _TABLES[kind]

    def respond(request: SeenRequest) -> ServiceResponse:
        return responses.get((request.method, request.path), REFUSED[kind])

    return FakeService(host, respond)


def signed_in(kind: str, request: SeenRequest) -> Any:
    """Returns the part of a request that authenticates it."""
    return request.path.split("/")[1] if kind == "telegram" else request.headers.get("authorization")
