"""A fake of Gmail's API: a mailbox that stores what was sent, in the shapes that Google documents."""

import base64
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from functools import partial
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import httpx

from steward.connections import connect, sign_in
from steward.connections.sign_in import SignInExchange
from steward.fake_platforms.application import create
from steward.model.connection import Connection
from tests.fake_clock import FakeClock
from tests.runs.shop import HOST, Shop
from tests.services.fakes import FakeService, SeenRequest, ServiceResponse

ADDRESS = "shop@shop.example"
SESSION = "5" * 64
ORIGINAL: dict[str, Any] = {
    "id": "m1",
    "threadId": "t1",
    "labelIds": ["L1"],
    "snippet": "I wait",
    "payload": {
        "mimeType": "text/plain",
        "headers": [
            {"name": "From", "value": "Jane <jane@customer.example>"},
            {"name": "To", "value": f"Shop <{ADDRESS}>, bob@customer.example"},
            {"name": "Subject", "value": "Where is it?"},
            {"name": "Message-ID", "value": "<abc@customer.example>"},
            {"name": "References", "value": "<first@customer.example>"},
        ],
    },
}

RAW = b"""\
From: =?utf-8?q?Jan=C3=A9?= <jane@customer.example>\r
To: shop@shop.example\r
Subject: =?utf-8?q?Wo_ist_es=3F?=\r
Date: Fri, 1 May 2026 10:00:00 +0200\r
Message-ID: <abc@customer.example>\r
MIME-Version: 1.0\r
Content-Type: multipart/mixed; boundary=b1\r
\r
--b1\r
Content-Type: text/plain; charset=iso-8859-1\r
\r
I wait\r
--b1\r
Content-Type: image/png\r
Content-Disposition: attachment; filename=photo.png\r
Content-Transfer-Encoding: base64\r
\r
iVBORw0KGgo=\r
--b1--\r
"""


@dataclass
class Mailbox:
    """A mailbox; `sent` has the messages in order with the thread of each."""

    sent: list[tuple[EmailMessage, str | None]] = field(default_factory=list)
    drafts: list[tuple[EmailMessage, str | None]] = field(default_factory=list)

    def respond(self, request: SeenRequest) -> ServiceResponse:
        """Answers one request as Gmail does."""
        path = request.path.removeprefix("/gmail/v1/users/me")
        if path == "/profile":
            return 200, {"emailAddress": ADDRESS, "messagesTotal": 1}
        if path == "/messages/send":
            thread = request.body.get("threadId")
            self.sent.append((_parsed(request.body), thread))
            return 200, {"id": f"s{len(self.sent)}", "threadId": thread or "t9", "labelIds": ["SENT"]}
        if path == "/drafts" and request.method == "POST":
            message = request.body["message"]
            self.drafts.append((_parsed(message), message.get("threadId")))
            return 200, {"id": "d1", "message": {"id": "m9", "threadId": "t9", "labelIds": ["DRAFT"]}}
        if path == "/messages":
            return 200, {"messages": [{"id": "m1", "threadId": "t1"}], "resultSizeEstimate": 1}
        if path == "/messages/m1" and request.query.get("format") == "raw":
            raw = base64.urlsafe_b64encode(RAW).decode().rstrip("=")
            return 200, {"id": "m1", "threadId": "t1", "labelIds": ["L1"], "raw": raw}
        if path == "/messages/m1":
            return 200, ORIGINAL
        if path == "/messages/m1/modify":
            return 200, {"id": "m1", "threadId": "t1", "labelIds": request.body.get("addLabelIds", [])}
        if path == "/labels":
            return 200, {"labels": [{"id": "INBOX", "name": "INBOX"}, {"id": "L1", "name": "Orders"}]}
        error: Any = {"code": 404, "message": "Requested entity was not found.", "status": "NOT_FOUND"}
        return 404, {"error": error}


def _parsed(body: Any) -> EmailMessage:
    raw = base64.urlsafe_b64decode(body["raw"])
    return cast("EmailMessage", BytesParser(policy=default).parsebytes(raw))


def gmail(mailbox: Mailbox) -> FakeService:
    """Returns the fake API."""
    return FakeService("gmail.googleapis.com", mailbox.respond)


def sign_in_settings(clock: FakeClock) -> dict[str, str]:
    """Returns the operator's app at the fake Google."""
    described = create(1, f"http://{HOST}", clock.now).described()["spreadsheet"]
    return {
        "STEWARD_GOOGLE_CLIENT_ID": described["client_id"],
        "STEWARD_GOOGLE_CLIENT_SECRET": described["client_secret"],
        "STEWARD_GOOGLE_AUTHORIZE_URL": described["authorize_url"],
    }


async def signed_in(shop: Shop, kind: str = "gmail") -> tuple[Connection, str]:
    """Signs the owner in as in a browser; returns the connection and the requested scopes."""
    context = shop.service.context
    apps = context.rules.sign_in
    address = await shop.write(
        partial(
            sign_in.start_sign_in, actor=shop.owner, session_hash=SESSION, kind=kind, name="Mailbox",
            integration=None, apps=apps, vault=context.vault,
        )
    )  # fmt: skip
    async with httpx.AsyncClient(transport=shop.world.transport()) as browser:
        response = await browser.get(address)
    query = urlsplit(response.headers["location"]).query
    back = {name: values[0] for name, values in parse_qs(query).items()}
    exchange = SignInExchange(context.engine, context.clock, context.vault, apps)
    signed = await exchange.finish(shop.owner, SESSION, state=back["state"], code=back.get("code"))
    connected = await shop.write(
        partial(
            connect.connect, actor=shop.owner, name=signed.name, checked=signed.checked, vault=context.vault
        )
    )
    return connected.connection, parse_qs(urlsplit(address).query)["scope"][0]
