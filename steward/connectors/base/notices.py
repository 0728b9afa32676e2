"""The interface for showing notices to people: a card in, one request out, without a run's writer."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from steward.connectors.base.settings import ConnectionSecrets
from steward.connectors.base.writing import WriteOutcome
from steward.model.json import JsonObject
from steward.outbound.endpoint import PlatformEndpoint
from steward.outbound.response import PlatformResponse


@dataclass(frozen=True, slots=True)
class NoticeCard:
    """A notice as a chat shows it: plain text that the connector escapes, and one page of the web app.

    `more` says what the lines leave out; an empty text when they leave out nothing.
    """

    title: str
    lines: tuple[str, ...]
    url: str
    more: str = ""
    link_title: str = "Open in Steward"


@runtime_checkable
class NoticePoster(Protocol):
    """A connector whose connections may be routes of notices."""

    def endpoint(self, secrets: ConnectionSecrets) -> PlatformEndpoint:
        """Returns the connection's endpoint. Raises BadSettings."""
        ...

    def notice_path(self, secrets: ConnectionSecrets) -> str:
        """Returns the one path that notices are posted to; empty where the address itself is the secret."""
        ...

    def notice_target_fault(self, secrets: ConnectionSecrets, target: str | None) -> str | None:
        """Returns what is wrong with the channel that a route names; null when it can be posted to."""
        ...

    def notice_body(self, card: NoticeCard, target: str | None) -> JsonObject:
        """Returns the body of the request within the platform's limits."""
        ...

    def outcome(self, response: PlatformResponse) -> WriteOutcome:
        """Returns what an answer means."""
        ...
