"""The Slack connector: calls of a bot token's API, and cards posted to an incoming webhook."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from steward.connectors.base.connector import (
    AnyWriteOperation,
    Capabilities,
    Destination,
    Health,
    Receivable,
)
from steward.connectors.base.messages import MessageWriter, PostMessage
from steward.connectors.base.notices import NoticeCard
from steward.connectors.base.options import Options
from steward.connectors.base.service_calls import SendCallOperation
from steward.connectors.base.service_connector import (
    Account,
    ServiceConnector,
    ServiceWriter,
    SettingField,
    body_of,
    text_of,
)
from steward.connectors.base.settings import TAKES_CALLS, BadSettings, ConnectionSecrets, ConnectionSettings
from steward.connectors.base.statuses import failure_of_status
from steward.connectors.base.writing import WriteOutcome, Writer, WriteState
from steward.connectors.slack.notice import notice_message
from steward.connectors.slack.text import message
from steward.model.change import Batch
from steward.model.json import JsonObject
from steward.outbound.address import origin_of
from steward.outbound.client import ManagementClient, ReadClient, WriteClient
from steward.outbound.endpoint import Credentials, SecretUrl
from steward.outbound.errors import (
    CallError,
    CallRefused,
    Invalid,
    MissingRight,
    PlatformUnavailable,
    RemoteNotFound,
    Throttled,
    Unauthorized,
    UnusableResponse,
)
from steward.outbound.response import Decoded, PlatformResponse

_WEBHOOK = "webhook_url"
_BOT = "bot_token"
_MAX_CHANNELS = 2000
_CHANNEL = re.compile(r"[CGD][A-Z0-9]{1,30}")
_BAD_KEYS = frozenset(("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"))
_MISSING_RIGHTS = frozenset(("missing_scope", "no_permission", "not_allowed_token_type", "ekm_access_denied"))
_SERVER_ERRORS = frozenset(
    ("internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org")
)
_NOT_FOUND = frozenset(("channel_not_found", "user_not_found", "message_not_found", "users_not_found"))
_NO_CHANNEL = "This Slack connection has a bot token and names no channel. Connect the webhook of one."

_NO_CALLS = "This Slack connection is a webhook. Steps of workflows need one with a bot token."


class SlackConnector(ServiceConnector):
    """Connects Slack by either a bot token, for workflow steps, or a webhook, for cards.

    The operator's `slack_hosts` are the allowed hosts; the API is called at the first that is not for
    webhooks.
    """

    id = "slack"
    title = "Slack"
    key_field = _BOT
    alternatives = (_BOT, _WEBHOOK)
    check_path = "/auth.test"
    fields = (
        SettingField(
            _BOT, "Bot token", "Give the token of the app, which begins with xoxb-.", r"xox[a-z]-\S{8,400}",
            needed=False,
        ),
        SettingField(
            _WEBHOOK, "Address of the webhook", "Give the https address that Slack shows.", r"\S{1,2000}",
            needed=False,
        ),
    )  # fmt: skip
    operation = SendCallOperation("slack.call")
    posting = PostMessage("slack.post", "Slack", message)
    capabilities = Capabilities(reads=True, writes=True, receives=frozenset((Receivable.MESSAGE,)))

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._hosts = options.slack_hosts
        self.writes: Mapping[str, AnyWriteOperation] = {
            self.operation.name: self.operation,
            self.posting.name: self.posting,
        }

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Validates the form, which has a bot token or a webhook and not both. Raises BadSettings."""
        webhook = self.texts(form).get(_WEBHOOK)
        if webhook is not None:
            self._webhook_origin(webhook)
            if len(urlsplit(webhook).path) < 2:
                raise BadSettings({_WEBHOOK: ["The address is not complete: copy it whole."]})
        return super().settings(form)

    def address(self, secrets: ConnectionSecrets) -> str:
        """Returns the address of the webhook or of the API. Raises BadSettings."""
        if _WEBHOOK in secrets.sealed:
            return self._webhook_origin(secrets.sealed[_WEBHOOK].reveal())
        host = next((host for host in self._hosts if not host.startswith(("hooks.", "."))), None)
        if host is None:
            raise BadSettings({_BOT: ["The operator allows no address of Slack's API."]})
        return f"https://{host}/api"

    def credentials(self, secrets: ConnectionSecrets) -> Credentials:
        """Returns the webhook as a secret URL, else the token."""
        if _WEBHOOK in secrets.sealed:
            return SecretUrl(secrets.sealed[_WEBHOOK])
        return super().credentials(secrets)

    def refusal(self, path: str, secrets: ConnectionSecrets) -> str | None:
        """Returns why a webhook cannot make calls; null for a token."""
        return _NO_CALLS if _WEBHOOK in secrets.sealed else None

    def writer(self, http: WriteClient, secrets: ConnectionSecrets) -> Writer:  # type: ignore[override]
        """Returns a writer for the webhook's channel, or for the API."""
        if _WEBHOOK in secrets.sealed:
            return _WebhookWriter(self, http)
        return _ApiWriter(self, http, secrets)

    def marked(self, arguments: JsonObject, write_key: str) -> JsonObject:
        """Returns the message unchanged: Slack stores no id of the sender."""
        return arguments

    def notice_path(self, secrets: ConnectionSecrets) -> str:
        """Returns the path for notices: the webhook itself, or the API's method for messages."""
        if _WEBHOOK in secrets.sealed:
            return ""
        return f"{urlsplit(self.address(secrets)).path}/chat.postMessage"

    def notice_target_fault(self, secrets: ConnectionSecrets, target: str | None) -> str | None:
        """Returns the fault of a route's channel: a bot token needs one, a webhook has its own."""
        if _WEBHOOK in secrets.sealed:
            return None if target is None else "This webhook has its own channel: leave this empty."
        if target is None or not _CHANNEL.fullmatch(target):
            return "Choose the channel: this connection has a bot token."
        return None

    def notice_body(self, card: NoticeCard, target: str | None) -> JsonObject:
        """Returns the blocks of a notice."""
        return notice_message(card, target)

    def failure(self, response: PlatformResponse) -> CallError | None:
        """Returns the error of a response; Slack also reports errors with status 200."""
        if response.body.strip() == b"ok":
            return failure_of_status(self.title, response)
        try:
            body = body_of(response)
        except UnusableResponse as error:
            return failure_of_status(self.title, response) or error
        if response.ok and body.get("ok") is True:
            return None
        failure = _error(text_of(body, "error"), response) or failure_of_status(self.title, response)
        return failure or UnusableResponse("it says neither yes nor no")

    async def check(self, http: ManagementClient, secrets: ConnectionSecrets) -> Health:
        """Asks Slack which workspace the token belongs to; only checks the form of a webhook's address."""
        if _WEBHOOK not in secrets.sealed:
            return await super().check(http, secrets)
        try:
            host = urlsplit(self.address(secrets)).hostname or ""
        except BadSettings as bad_settings:
            words = " ".join(bad_settings.errors[_WEBHOOK])
            return Health(ok=False, error=CallRefused(words, words), error_field=_WEBHOOK)
        facts: JsonObject = {TAKES_CALLS: False}
        return Health(ok=True, account_label=host, name=host, rights=("write",), facts=facts)

    def account(self, body: Mapping[str, Decoded], secrets: ConnectionSecrets) -> Account:
        """Returns the workspace and the app's user."""
        team, user = text_of(body, "team"), text_of(body, "user")
        identity = f"{text_of(body, 'team_id')} {text_of(body, 'user_id')}"
        return Account(f"{team} ({user})", identity)

    async def destinations(
        self, http: ReadClient, secrets: ConnectionSecrets, parent: str | None
    ) -> list[Destination]:
        """Returns the channels a bot token can see, or a webhook's one channel. Raises CallError."""
        if parent is not None:
            return []
        if _WEBHOOK in secrets.sealed:
            host = urlsplit(self.address(secrets)).hostname or ""
            return [Destination(host, "channel", host)]
        destinations: list[Destination] = []
        query = {"types": "public_channel,private_channel", "exclude_archived": "true", "limit": "1000"}
        while len(destinations) < _MAX_CHANNELS:
            response = await http.fetch("GET", self.url(secrets, "/conversations.list", query), {})
            failure = self.failure(response)
            if failure is not None:
                raise failure
            body = body_of(response)
            channels = body.get("channels")
            for channel in channels if isinstance(channels, list) else ():
                if isinstance(channel, dict):
                    name = f"#{text_of(channel, 'name')}"
                    destinations.append(Destination(text_of(channel, "id"), "channel", name))
            cursor = next_cursor(body)
            if not cursor or cursor == query.get("cursor"):
                break
            query["cursor"] = cursor
        return destinations

    def _webhook_origin(self, url: str) -> str:
        """Returns the origin of an address that can be a webhook's. Raises BadSettings."""
        try:
            origin = origin_of(url, self.private_hosts)
        except CallRefused:
            raise BadSettings({_WEBHOOK: ["Give the https address that Slack shows."]}) from None
        if not origin.is_named_by(self._hosts):
            raise BadSettings({_WEBHOOK: ["This is not the address of a Slack webhook."]})
        return f"{origin.scheme}://{origin.entry}"


class _ApiWriter(ServiceWriter):
    """A writer for calls with a bot token, which has no channel for cards."""

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Makes the one call of a batch; a card is refused. Never raises a call's error."""
        if batch.parts[0].operation == SlackConnector.posting.name:
            return [WriteOutcome.of_error(WriteState.REFUSED, Invalid([], _NO_CHANNEL))]
        return await super().apply(batch)


class _WebhookWriter(MessageWriter):
    """A writer for cards to a webhook, which takes no calls."""

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Posts the one card of a batch; a call is refused. Never raises a call's error."""
        if batch.parts[0].operation != SlackConnector.posting.name:
            return [WriteOutcome.of_error(WriteState.REFUSED, Invalid([], _NO_CALLS))]
        return await super().apply(batch)


def next_cursor(body: Mapping[str, Decoded]) -> str:
    """Returns the cursor of the next page; empty on the last page."""
    metadata = body.get("response_metadata")
    return text_of(metadata, "next_cursor") if isinstance(metadata, dict) else ""


def _error(code: str, response: PlatformResponse) -> CallError | None:
    """Returns the error for one of Slack's codes, or None without a code."""
    named = response.quote(code)
    if code in _BAD_KEYS:
        return Unauthorized(f"Slack did not accept the token ({named}). Reconnect it.", platform_text=named)
    if code in _MISSING_RIGHTS:
        return MissingRight(
            "do this", f"The app of the token may not do this ({named}).", platform_text=named
        )
    if code in ("ratelimited", "rate_limited"):
        return Throttled(30.0, platform_text=named)
    if code in _SERVER_ERRORS:
        return PlatformUnavailable(f"Slack failed to respond ({named}).", platform_text=named)
    if code in _NOT_FOUND:
        return RemoteNotFound(
            f"Slack knows no such channel, person or message ({named}). Invite the app to the channel.",
            platform_text=named,
        )
    return Invalid([], f"Slack refused it: {named}.", platform_text=named) if code else None


CONNECTOR = SlackConnector
