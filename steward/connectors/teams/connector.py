"""The Microsoft Teams connector: posts one card per message to a workflow address, at most once."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs, urlsplit

from steward.connectors.base.messages import MessageConnector, PostMessage
from steward.connectors.base.notices import NoticeCard
from steward.connectors.base.options import Options
from steward.connectors.base.settings import BadSettings, ConnectionSecrets
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.connectors.teams.card import message
from steward.connectors.teams.notice import notice_message
from steward.model.json import JsonObject, JsonValue
from steward.outbound.address import UrlOrigin
from steward.outbound.errors import Throttled
from steward.outbound.response import PlatformResponse

_RETIRED = (".webhook.office.com", "webhook.office.com", "outlook.office.com")
_HIDDEN = re.compile(rb"HTTP error (\d{3})")


class TeamsConnector(MessageConnector):
    """Connects Teams workflows.

    The operator's `teams_hosts` are suffixes such as `.logic.azure.com`, or exact `host:port` entries.
    """

    id = "teams"
    title = "Microsoft Teams"
    setting_title = "Address of the workflow"
    address_source = "the workflow"
    operation = PostMessage("teams.post", "Teams", message)

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.hosts = options.teams_hosts

    def check_host(self, origin: UrlOrigin) -> None:
        """Checks that the host can be a workflow's. Raises BadSettings."""
        if origin.host.endswith(_RETIRED):
            message = (
                "Addresses of the old connectors are retired. Make a workflow in Teams and give its address."
            )
            raise BadSettings({"webhook_url": [message]})
        super().check_host(origin)

    def check_address(self, url: str) -> None:
        """Checks that the address has its path and its signature. Raises BadSettings."""
        parts = urlsplit(url)
        if len(parts.path) < 2 or "sig" not in parse_qs(parts.query):
            raise BadSettings({"webhook_url": ["The address is not complete: copy it whole."]})

    def marked(self, arguments: JsonObject, write_key: str) -> JsonValue:
        """Returns the message with the write key as the card's id."""
        attachments = arguments["attachments"]
        if not isinstance(attachments, Sequence) or isinstance(attachments, str):
            return arguments
        marked: list[JsonValue] = []
        for attachment in attachments:
            content = attachment.get("content") if isinstance(attachment, Mapping) else None
            if isinstance(attachment, Mapping) and isinstance(content, Mapping):
                marked.append({**attachment, "content": {**content, "id": write_key}})
        return {**arguments, "attachments": marked}

    def notice_path(self, secrets: ConnectionSecrets) -> str:
        """Returns an empty path: the address of the workflow is called unchanged."""
        return ""

    def notice_target_fault(self, secrets: ConnectionSecrets, target: str | None) -> str | None:
        """Returns why a target is refused: the workflow posts to its own channel."""
        return None if target is None else "A Teams workflow has its own channel: leave this empty."

    def notice_body(self, card: NoticeCard, target: str | None) -> JsonObject:
        """Returns the card of a notice."""
        return notice_message(card)

    def outcome(self, response: PlatformResponse) -> WriteOutcome:
        """Returns the outcome that a response reports; Teams hides channel errors in status 200."""
        hidden = _HIDDEN.search(response.body[:4000])
        if response.ok and hidden is not None:
            if hidden[1] == b"429":
                return WriteOutcome.of_error(WriteState.NOT_SENT, Throttled(30.0))
            return WriteOutcome(WriteState.UNKNOWN, reason="Teams answered with an error.")
        return super().outcome(response)


CONNECTOR = TeamsConnector
