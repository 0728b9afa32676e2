"""The interface for sending notices to people: turns a card into one request, without a run's writer."""

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

    `more` says how many lines are left out; empty when none are.
    """

    title: str
    lines: tuple[str, ...]
    url: str
    more: str = ""
    link_title: str = "Open in Steward"


@runtime_checkable
class NoticePoster(Protocol):
    """A connector whose connections can receive notices."""

    def endpoint(self, secrets: ConnectionSecrets) -> PlatformEndpoint:
        """Returns the connection's endpoint. Raises BadSettings."""
        ...

    def notice_path(self, secrets: ConnectionSecrets) -> str:
        """Returns the path that notices are posted to; empty when the address itself is the secret."""
        ...

    def notice_target_fault(self, secrets: ConnectionSecrets, target: str | None) -> str | None:
        """Returns the fault of a route's channel in words; null when notices can be posted to it."""
        ...

    def notice_body(self, card: NoticeCard, target: str | None) -> JsonObject:
        """Returns the body of the request, within the platform's limits."""
        ...

    def outcome(self, response: PlatformResponse) -> WriteOutcome:
        """Returns the outcome that a response reports."""
        ...
