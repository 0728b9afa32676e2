"""A fake of Slack's Web API: a workspace with channels, people and messages."""

from typing import Any

from tests.services.fakes import FakeService, SeenRequest, ServiceResponse

TOKEN = "xoxb-1-2-abcdefghijkl"
WEBHOOK = "https://hooks.slack.com/services/T1/B1/x1y2z3"
CHANNELS = [
    {"id": f"C{number}", "name": name, "is_channel": True} for number, name in enumerate(("general", "ops"))
]
_AUTH = {
    "ok": True, "url": "https://shop.slack.com/", "team": "Shop", "user": "steward", "team_id": "T1",
    "user_id": "U9", "bot_id": "B1",
}  # fmt: skip


def respond(request: SeenRequest) -> ServiceResponse:
    """Answers as Slack does, which refuses with status 200 and `ok` false."""
    if request.headers.get("authorization") != f"Bearer {TOKEN}":
        return 200, {"ok": False, "error": "invalid_auth"}
    match request.path.removeprefix("/api/"):
        case "auth.test":
            return 200, _AUTH
        case "chat.postMessage" | "chat.update" | "chat.postEphemeral":
            return 200, _posted(request.body)
        case "conversations.info":
            channel = next((record for record in CHANNELS if record["id"] == request.query["channel"]), None)
            if channel is None:
                return 200, {"ok": False, "error": "channel_not_found"}
            return 200, {"ok": True, "channel": channel}
        case "conversations.list":
            if request.query["limit"] == "1000":
                return 200, {"ok": True, "channels": CHANNELS, "response_metadata": {"next_cursor": ""}}
            first = "cursor" not in request.query
            more = {"next_cursor": "page2" if first else ""}
            return 200, {
                "ok": True,
                "channels": CHANNELS[:1] if first else CHANNELS[1:],
                "response_metadata": more,
            }
        case "users.info":
            return 200, {"ok": True, "user": {"id": request.query["user"], "name": "ann"}}
    return 200, {"ok": True}


def _posted(body: dict[str, Any]) -> dict[str, Any]:
    if body["channel"] in ("#gone", "C404"):
        return {"ok": False, "error": "channel_not_found"}
    message = {"type": "message", "user": "U9", "text": body.get("text", ""), "ts": "1700000000.000100"}
    return {"ok": True, "channel": "C0", "ts": "1700000000.000100", "message": message}


def slack() -> FakeService:
    """Returns the fake API."""
    return FakeService("slack.com", respond)


def webhooks() -> FakeService:
    """Returns the fake host of webhooks, which answers in plain text."""
    return FakeService("hooks.slack.com", lambda request: (200, "ok"))
