"""A fake of Microsoft Graph's mail: one mailbox, in the shapes that Microsoft documents."""

import base64
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from steward.connections import connect, sign_in
from steward.connections.sign_in import SignInExchange
from steward.model.connection import Connection
from tests.runs.shop import Shop
from tests.services.fakes import FakeService, SeenRequest, ServiceResponse
from tests.services.oauth_server import CLIENT_ID, CLIENT_SECRET, OAuthServer

ADDRESS = "shop@shop.example"
SESSION = "5" * 64
FILE = b"%PDF-1.7 an invoice"
_ATTACHMENT = {"id": "a1", "name": "invoice.pdf", "contentType": "application/pdf", "size": len(FILE)}


def person(address: str, name: str = "") -> dict[str, Any]:
    """Returns an address as Graph writes it."""
    return {"emailAddress": {"name": name or address, "address": address}}


MESSAGE = {
    "@odata.etag": 'W/"CQAAABYAAAB"',
    "id": "m1",
    "conversationId": "c1",
    "subject": "Where is it?",
    "bodyPreview": "I wait",
    "hasAttachments": True,
    "categories": ["Orders"],
    "from": person("jane@customer.example", "Jane"),
    "toRecipients": [person(ADDRESS), person("bob@customer.example")],
    "ccRecipients": [person("carl@customer.example")],
    "replyTo": [],
    "isRead": False,
}


@dataclass
class OutlookMailbox:
    """A mailbox; `lists` has the queries of its message lists."""

    lists: list[dict[str, str]] = field(default_factory=list)

    def respond(self, request: SeenRequest) -> ServiceResponse | tuple[int, str]:
        """Answers one request as Graph does."""
        path = request.path.removeprefix("/v1.0/me")
        match (request.method, path):
            case ("GET", ""):
                return 200, {"id": "u1", "mail": None, "userPrincipalName": ADDRESS}
            case ("POST", "/sendMail") | ("POST", "/messages/m1/reply") | ("POST", "/messages/m1/replyAll"):
                return 202, None
            case ("GET", "/messages"):
                return self._listed(request)
            case ("GET", "/messages/m1"):
                return 200, MESSAGE
            case ("GET", "/messages/m1/attachments"):
                return 200, {"value": [_ATTACHMENT]}
            case ("GET", "/messages/m1/attachments/a1"):
                return 200, _ATTACHMENT
            case ("GET", "/messages/m1/attachments/a1/$value"):
                return 200, FILE.decode()
            case ("POST", "/messages"):
                return 201, {**request.body, "id": "d1", "isDraft": True}
            case ("POST", "/messages/m1/move"):
                return 201, {**MESSAGE, "id": "m2"}
        words = {"code": "ErrorItemNotFound", "message": "The specified object was not found in the store."}
        return 404, {"error": words}

    def _listed(self, request: SeenRequest) -> ServiceResponse:
        query = dict(request.query)
        self.lists.append(query)
        if "$skip" in query:
            return 200, {"value": [{**MESSAGE, "id": "m3", "hasAttachments": False}]}
        following = "https://graph.microsoft.com/v1.0/me/messages?%24skip=1&%24top=100"
        return 200, {"value": [MESSAGE], "@odata.nextLink": following}


def graph(mailbox: OutlookMailbox) -> FakeService:
    """Returns the fake API."""
    return FakeService("graph.microsoft.com", mailbox.respond)


def outlook_settings(server: OAuthServer) -> dict[str, str]:
    """Returns the operator's app at the fake sign-in."""
    return {
        "STEWARD_MICROSOFT_CLIENT_ID": CLIENT_ID,
        "STEWARD_MICROSOFT_CLIENT_SECRET": CLIENT_SECRET,
        "STEWARD_MICROSOFT_AUTHORIZE_URL": server.authorize_url,
        "STEWARD_MICROSOFT_TOKEN_URL": server.token_url,
    }


async def signed_in_at(shop: Shop, server: OAuthServer, kind: str = "microsoft_outlook") -> Connection:
    """Signs the owner in as in a browser; returns the connection."""
    context = shop.service.context
    address = await shop.write(
        partial(
            sign_in.start_sign_in, actor=shop.owner, session_hash=SESSION, kind=kind, name="Mailbox",
            integration=None, apps=context.rules.sign_in, vault=context.vault,
        )
    )  # fmt: skip
    back = server.consent(address)
    exchange = SignInExchange(context.engine, context.clock, context.vault, context.rules.sign_in)
    signed = await exchange.finish(shop.owner, SESSION, state=back["state"], code=back["code"])
    connected = await shop.write(
        partial(
            connect.connect, actor=shop.owner, name=signed.name, checked=signed.checked, vault=context.vault
        )
    )
    return connected.connection


def content_of(attachment: dict[str, Any]) -> bytes:
    """Returns the content of a file in a message."""
    return base64.b64decode(attachment["contentBytes"])
