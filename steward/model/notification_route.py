"""Routes: where an organization's notices are sent besides its people."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from steward.model.ids import AutomationId, IntegrationId, MessageId, OrgId, PersonId, RouteId
from steward.model.notice import ChannelName, MessageState, Topic

MAX_ROUTES: Final = 20
MAX_FILTERED: Final = 200


class RouteState(StrEnum):
    """Whether a route accepts messages; a broken one accepts none until a person tries it again."""

    OK = "ok"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteFilter:
    """The filter of a route's notices; null means all automations or connections."""

    topics: frozenset[Topic]
    automations: frozenset[AutomationId] | None = None
    integrations: frozenset[IntegrationId] | None = None


@dataclass(frozen=True, slots=True)
class SealedWebhook:
    """The address of a webhook and its signing secrets, sealed under the data key `key_no`."""

    key_no: int
    url: bytes
    secret: bytes
    old_secret: bytes | None = None
    old_secret_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRoute:
    """A route; only `webhook` holds secrets. `failures` counts refused messages since the last success."""

    org: OrgId
    id: RouteId
    name: str
    channel: ChannelName
    filter: RouteFilter
    integration: IntegrationId | None = None
    target: str | None = None
    webhook: SealedWebhook | None = None
    state: RouteState = RouteState.OK
    reason: str | None = None
    failures: int = 0
    failing_since: datetime | None = None
    last_accepted_at: datetime | None = None
    created_at: datetime
    created_by: PersonId | None = None


@dataclass(frozen=True, slots=True)
class RouteDelivery:
    """A message of a route as its owners see it; `topic` is null for several topics or a test."""

    id: MessageId
    topic: Topic | None
    is_test: bool
    count: int
    state: MessageState
    attempts: int
    last_status: int | None
    error: str | None
    at: datetime
