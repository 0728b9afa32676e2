"""The Outlook connector: reads, changes and sends a signed-in person's mail through Microsoft Graph."""

from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from steward.connectors.base.mail import SEND_MAIL, mail_content
from steward.connectors.base.options import Options, SignInClient
from steward.connectors.base.queries import PathQuery
from steward.connectors.base.service_calls import SendCallOperation
from steward.connectors.base.service_connector import Account, ServiceWriter, text_of
from steward.connectors.base.settings import ConnectionSecrets
from steward.connectors.base.signed_in_service import SignedInServiceConnector
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.connectors.microsoft_outlook.messages import message_of
from steward.model.change import Batch
from steward.model.json import JsonObject
from steward.model.limits import MAX_FILE_BYTES
from steward.outbound.client import WriteClient
from steward.outbound.errors import Invalid, UnusableResponse, WriteFailed
from steward.outbound.mail_message import InvalidMail, Mailbox, MailContent
from steward.outbound.response import Decoded

_GRAPH = "https://graph.microsoft.com"
_SCOPES = f"offline_access {_GRAPH}/Mail.ReadWrite {_GRAPH}/Mail.Send {_GRAPH}/User.Read"
# The options of a message that say how it is sent; all others are properties of the message.
_SAVES, _QUOTES = "saveToSentItems", "quotes"


class OutlookConnector(SignedInServiceConnector):
    """Connects a mailbox by signing in to Microsoft; messages are sent on behalf of the person."""

    id = "microsoft_outlook"
    title = "Microsoft Outlook"
    provider = "microsoft"
    scopes = _SCOPES
    check_path = "/v1.0/me?$select=id,mail,userPrincipalName"
    operation = SendCallOperation("microsoft_outlook.call")

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.writes = {self.operation.name: self.operation, SEND_MAIL.name: SEND_MAIL}

    def client(self, options: Options) -> SignInClient:
        """Returns the operator's app at Microsoft."""
        return options.microsoft

    def api_url(self, options: Options) -> str:
        """Returns the address of the API from the operator's settings."""
        return options.graph_url

    def reason(self, body: Mapping[str, Decoded]) -> str:
        """Returns Microsoft's reason for a refusal."""
        error = body.get("error")
        return text_of(error, "message") if isinstance(error, dict) else ""

    def file_bytes(self, query: PathQuery) -> int:
        """Returns the size limit of the response when the path is a file's; 0 for any other path."""
        return MAX_FILE_BYTES if query.path.endswith("/$value") else 0

    def writer(self, http: WriteClient, secrets: ConnectionSecrets) -> "OutlookWriter":
        """Returns a writer that sends on behalf of the person who signed in."""
        return OutlookWriter(self, http, secrets)

    def account(self, body: Mapping[str, Decoded], secrets: ConnectionSecrets) -> Account:
        """Returns the person's address; the identity is their id, which stays when the address changes."""
        identity = text_of(body, "id")
        address = text_of(body, "mail") or text_of(body, "userPrincipalName")
        if not identity or not address:
            raise UnusableResponse("it names no mailbox")
        return Account(address, identity)


class OutlookWriter(ServiceWriter):
    """Writes to a mailbox: sends one message, or makes one call."""

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Makes the one request of a batch. Never raises a call's error."""
        [part] = batch.parts
        if part.operation != SEND_MAIL.name:
            return await super().apply(batch)
        try:
            anybody = Mailbox("sender@mail.invalid")  # Microsoft fills in the mailbox's own address
            content = mail_content(
                part.arguments, anybody, message_id=batch.write_keys[0], date=self._http.mail.now()
            )
            path, body = _request_of(content, part.arguments)
            base = urlsplit(self._connector.address(self._secrets)).path
            response = await self._http.send(
                "POST",
                f"{base}{path}",
                body,
                write_keys=batch.write_keys,
                key=batch.key,
                operation=part.operation,
            )
        except InvalidMail as error:
            return [WriteOutcome.of_error(WriteState.REFUSED, Invalid([error.field], str(error)))]
        except WriteFailed as failure:
            return [WriteOutcome.of_failure(failure)]
        return [self._connector.outcome(response)]


def _request_of(content: MailContent, arguments: JsonObject) -> tuple[str, JsonObject]:
    """Returns path and body of the call that sends a message, or replies to the message of its thread."""
    options = arguments.get("options")
    options = dict(options) if isinstance(options, Mapping) else {}
    saves, quotes = options.pop(_SAVES, True), options.pop(_QUOTES, False)
    replied_to = str(arguments.get("thread") or "")
    if not replied_to:
        return "/v1.0/me/sendMail", {"message": message_of(content, options), "saveToSentItems": saves}
    path = f"/v1.0/me/messages/{quote(replied_to, safe='')}"
    message = message_of(content, options)
    if quotes:  # A comment is put above the message that is replied to, which stays below it.
        del message["body"]
        return f"{path}/replyAll", {"comment": content.text or content.html or "", "message": message}
    return f"{path}/reply", {"message": message}


CONNECTOR = OutlookConnector
