"""The Gmail connector: sends mail and changes labels on behalf of a person who has signed in."""

import base64
from collections.abc import Mapping

from steward.connectors.base.google_service import GoogleServiceConnector
from steward.connectors.base.mail import SEND_MAIL, is_draft, mail_content
from steward.connectors.base.options import Options
from steward.connectors.base.queries import PathQuery
from steward.connectors.base.service_calls import SendCallOperation
from steward.connectors.base.service_connector import (
    Account,
    ServiceWriter,
    text_of,
)
from steward.connectors.base.settings import IDENTITY, ConnectionSecrets
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.model.change import Batch
from steward.model.json import JsonObject
from steward.outbound.client import WriteClient
from steward.outbound.errors import Invalid, UnusableResponse, WriteFailed
from steward.outbound.mail_message import InvalidMail, Mailbox, compose
from steward.outbound.response import Decoded

# Reading for replies, labels and sending; not deleting permanently.
_SCOPES = "https://www.googleapis.com/auth/gmail.modify"
_SEND = "/gmail/v1/users/me/messages/send"
_DRAFTS = "/gmail/v1/users/me/drafts"
_RAW_BYTES = 28 * 1024 * 1024  # the size of a message with files of 20 MiB, in Base64


class GmailConnector(GoogleServiceConnector):
    """Connects a mailbox by signing in to Google; messages are sent on behalf of the person who signed in."""

    id = "gmail"
    title = "Gmail"
    scopes = _SCOPES
    check_path = "/gmail/v1/users/me/profile"
    operation = SendCallOperation("gmail.call")

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.writes = {self.operation.name: self.operation, SEND_MAIL.name: SEND_MAIL}

    def api_url(self, options: Options) -> str:
        """Returns the address of the API from the operator's settings."""
        return options.gmail_url

    def file_bytes(self, query: PathQuery) -> int:
        """Returns the size limit of the response when the path is a file's; 0 for any other path."""
        return _RAW_BYTES if ("format", "raw") in query.query else 0

    def writer(self, http: WriteClient, secrets: ConnectionSecrets) -> "GmailWriter":
        """Returns a writer that sends on behalf of the person who signed in."""
        return GmailWriter(self, http, secrets)

    def account(self, body: Mapping[str, Decoded], secrets: ConnectionSecrets) -> Account:
        """Returns the mailbox's address. Raises UnusableResponse."""
        address = text_of(body, "emailAddress")
        if not address:
            raise UnusableResponse("it names no mailbox")
        return Account(address, address.lower())


def _own_address(secrets: ConnectionSecrets) -> str:
    """Returns the address of the mailbox as recorded by the check."""
    return str(secrets.facts.get(IDENTITY, "")).removeprefix(f"{GmailConnector.id} ")


class GmailWriter(ServiceWriter):
    """Writes to a mailbox: sends one message, or makes one call."""

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Makes the one request of a batch. Never raises a call's error."""
        [part] = batch.parts
        if part.operation != SEND_MAIL.name:
            return await super().apply(batch)
        try:
            content = mail_content(
                part.arguments,
                Mailbox(_own_address(self._secrets)),
                message_id=batch.write_keys[0],
                date=self._http.mail.now(),
            )
            raw = base64.urlsafe_b64encode(compose(content).content).decode("ascii")
            thread = part.arguments.get("thread")
            message: JsonObject = {"raw": raw, "threadId": thread} if thread else {"raw": raw}
            as_draft = is_draft(part.arguments)
            response = await self._http.send(
                "POST",
                _DRAFTS if as_draft else _SEND,
                {"message": message} if as_draft else message,
                write_keys=batch.write_keys,
                key=batch.key,
                operation=part.operation,
            )
        except InvalidMail as error:
            return [WriteOutcome.of_error(WriteState.REFUSED, Invalid([error.field], str(error)))]
        except WriteFailed as failure:
            return [WriteOutcome.of_failure(failure)]
        return [self._connector.outcome(response)]


CONNECTOR = GmailConnector
