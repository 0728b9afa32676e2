"""The Gmail connector: sends mail and changes labels as a person who has signed in."""

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from steward.connectors.base.connector import Capabilities, WriteOperation
from steward.connectors.base.mail import SEND_MAIL, mail_content
from steward.connectors.base.options import Options
from steward.connectors.base.service_calls import SendCallOperation
from steward.connectors.base.service_connector import (
    Account,
    ServiceConnector,
    ServiceWriter,
    SettingField,
    text_of,
)
from steward.connectors.base.settings import IDENTITY, BadSettings, ConnectionSecrets, ConnectionSettings
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.model.change import Batch
from steward.model.connection import Auth
from steward.model.json import JsonObject
from steward.outbound.client import WriteClient
from steward.outbound.endpoint import Credentials, RateLimit, UserSignIn
from steward.outbound.errors import Invalid, UnusableResponse, WriteFailed
from steward.outbound.mail_message import InvalidMail, Mailbox, compose
from steward.outbound.response import Decoded
from steward.telemetry.redact import Secret

# Reading for replies, labels and sending; not deleting for good.
SCOPES = "https://www.googleapis.com/auth/gmail.modify"
_SEND = "/gmail/v1/users/me/messages/send"


class GmailConnector(ServiceConnector):
    """Connects a mailbox by the sign-in to Google; messages are sent as the person who signed in."""

    id = "gmail"
    title = "Gmail"
    fields: ClassVar[tuple[SettingField, ...]] = ()
    key_field = ""
    check_path = "/gmail/v1/users/me/profile"
    rate_limit = RateLimit(max_concurrency=2)
    operation = SendCallOperation("gmail.call")
    capabilities = Capabilities(reads=True, writes=True, sign_in=True)

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.facts = replace(self.facts, auth=(Auth.USER_SIGN_IN,), sign_in_scopes=SCOPES)
        self._url = options.gmail_url.rstrip("/")
        self._token_url = options.token_url
        self._client_id = options.google_client_id
        self._client_secret = options.google_client_secret
        self.writes: Mapping[str, WriteOperation[Any]] = {
            self.operation.name: self.operation,
            SEND_MAIL.name: SEND_MAIL,
        }

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Raises BadSettings: a mailbox is connected by signing in."""
        words = "Connect Gmail by signing in to Google."
        raise BadSettings({name: [words] for name in form} or {"": [words]})

    def address(self, secrets: ConnectionSecrets) -> str:
        """Returns the address of the API."""
        return self._url

    def credentials(self, secrets: ConnectionSecrets) -> Credentials:
        """Returns the person's sign-in. Raises BadSettings without the operator's app."""
        refresh = secrets.sealed.get("refresh_token")
        if self._client_id is None or self._client_secret is None or refresh is None:
            raise BadSettings({"": ["The operator has taken the sign-in to Google out of use."]})
        return UserSignIn(self._client_id, Secret(self._client_secret), refresh, self._token_url)

    def writer(self, http: WriteClient, secrets: ConnectionSecrets) -> "GmailWriter":
        """Returns a writer that sends as the person who signed in."""
        return GmailWriter(self, http, secrets)

    def reason(self, answer: Mapping[str, Decoded]) -> str:
        """Returns Google's own words."""
        error = answer.get("error")
        return text_of(error, "message") if isinstance(error, dict) else ""

    def account(self, answer: Mapping[str, Decoded], secrets: ConnectionSecrets) -> Account:
        """Returns the mailbox's address. Raises UnusableResponse."""
        address = text_of(answer, "emailAddress")
        if not address:
            raise UnusableResponse("it names no mailbox")
        return Account(address, address.lower())


def own_address(secrets: ConnectionSecrets) -> str:
    """Returns the address of the mailbox, as the check found it."""
    return str(secrets.facts.get(IDENTITY, "")).removeprefix(f"{GmailConnector.id} ")


class GmailWriter(ServiceWriter):
    """Sends one message, or makes one call."""

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Makes the one request of a batch. Never raises a call's error."""
        [part] = batch.parts
        if part.operation != SEND_MAIL.name:
            return await super().apply(batch)
        try:
            content = mail_content(
                part.arguments,
                Mailbox(own_address(self._secrets)),
                message_id=batch.effect_keys[0],
                date=self._http.mail.now(),
            )
            raw = base64.urlsafe_b64encode(compose(content).content).decode("ascii")
            thread = part.arguments.get("thread")
            response = await self._http.send(
                "POST",
                _SEND,
                {"raw": raw, "threadId": thread} if thread else {"raw": raw},
                effect_keys=batch.effect_keys,
                key=batch.key,
                operation=part.operation,
            )
        except InvalidMail as error:
            return [WriteOutcome.of_error(WriteState.REFUSED, Invalid([error.field], str(error)))]
        except WriteFailed as failure:
            return [WriteOutcome.of_failure(failure)]
        return [self._connector.outcome(response)]


CONNECTOR = GmailConnector
