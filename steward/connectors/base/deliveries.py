"""Store events as connectors tell them: topics, subscriptions, deliveries.

Lleaves keeping them to events/.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol, TypeAlias

from steward.connectors.base.queries import ReadOp
from steward.connectors.base.settings import ConnectionSecrets
from steward.model.json import JsonObject
from steward.outbound.client import ManagementClient
from steward.security.signatures import Signed
from steward.telemetry.redact import Secret

# Header names in lower case.
Headers: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """How a platform tells a canonical topic (connectors 8).

    `native`: what to subscribe. `derived`: it is worked out from what was last seen, which has to be filled
    for the object types `fills` before the topic is listened to.
    """

    native: tuple[str, ...]
    derived: bool = False
    snapshot_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DesiredSubscriptions:
    """The subscriptions a connection should have, and no others of ours: none removes all.

    `address` is the whole event address, `secret` what deliveries are signed with, `known` the platform's
    ids of those made before, by native topic.
    """

    address: str
    native: tuple[str, ...]
    secret: Secret
    known_ids: Mapping[str, str] = field(default_factory=dict)


class SubscriptionOutcome(StrEnum):
    """What became of one subscription."""

    ACTIVE = "made"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Subscription:
    """One native topic after upkeep; `mended` when one known before was missing or switched off, so that
    deliveries may be lost; `reason` in words when it failed."""

    native: str
    remote_id: str | None
    outcome: SubscriptionOutcome
    repaired: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RawBody:
    """A delivery's body as it came: its first bytes, whole when `size` is no more, and its running HMAC."""

    prefix: bytes
    size: int
    sha256: str
    signature: Signed


@dataclass(frozen=True, slots=True)
class EventSecrets:
    """What a delivery is held against: the shop's own name, and native topics by the platform's id of the
    subscription. The signing secrets are in `RawBody.signed`; without one nothing is verified."""

    domain: str | None
    subscribed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class VerifiedDelivery:
    """A signed delivery of ours; `dedupe_parts` tell it apart from others (connectors 9.1)."""

    native: str
    dedupe_parts: tuple[str, ...]

    @property
    def dedupe_key(self) -> str:
        """SHA-256 in hex of the parts joined by line feeds."""
        return dedupe_key(self.dedupe_parts)


@dataclass(frozen=True, slots=True)
class PingDelivery:
    """The platform's own test of the address: answered 200, nothing stored."""


@dataclass(frozen=True, slots=True)
class IgnoredDelivery:
    """Signed, but not of a subscription of ours: answered 200, not stored (connectors 9.2)."""

    reason: str


@dataclass(frozen=True, slots=True)
class UnverifiedDelivery:
    """Not signed with a secret of this connection: answered 401, not stored."""


Verdict: TypeAlias = VerifiedDelivery | PingDelivery | IgnoredDelivery | UnverifiedDelivery


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """A delivery as it was kept; `body` null when it was over the cap."""

    native: str
    body: bytes | None
    received_at: datetime


@dataclass(frozen=True, slots=True)
class Event:
    """A pointer to what happened (connectors 1 rule 6); ids as the connector's readers give them.

    `object_type`: order, product, variation, customer, … `objects` are the (type, id) pairs under which a
    change of the same object is known (model.change.ObjectRef), for the guard against own changes.
    """

    native: str
    object_type: str
    object_id: str | None
    parent_id: str | None = None
    modified_at: datetime | None = None
    occurred_at: datetime | None = None
    created_at: datetime | None = None
    objects: tuple[tuple[str, str], ...] = ()
    payload: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Derived:
    """The canonical topics of one event, in the order of connectors 8.

    `seen` is what to keep as last seen of the object, null to leave it; `forget` when the object is gone;
    `dropped` why an event gives no topic.
    """

    topics: tuple[str, ...]
    seen: JsonObject | None = None
    forget: bool = False
    dropped: str | None = None


@dataclass(frozen=True, slots=True)
class ChangedQuery:
    """Objects of a type modified after an instant; null: all there are."""

    object_type: str
    modified_after: datetime | None = None


@dataclass(frozen=True, slots=True)
class IdsQuery:
    """Every id of a type."""

    object_type: str


# Reads of events/ alone. `changed`: what was modified since, as events a delivery would have told; also the
# first fill of what was last seen, through `remembered`. `ids`: for the daily comparison (connectors 9.4).
CHANGED = ReadOp("changed", ChangedQuery, Event)
IDS = ReadOp("ids", IdsQuery, str)


class EventSource(Protocol):
    """The part of a connector that tells of events; null for a platform without them."""

    @property
    def signing_settings(self) -> tuple[str, ...]:
        """The sealed settings of the connection that deliveries may be signed with, as an app's secret is;
        empty: they are signed with `Wanted.secret`, which is made for the connection."""
        ...

    @property
    def revocation_topics(self) -> tuple[str, ...]:
        """Native topics that no automation can wait for: asked for beside those some do, they tell that the
        connection's keys may have been taken away."""
        ...

    async def subscribe(
        self, http: ManagementClient, secrets: ConnectionSecrets, desired: DesiredSubscriptions
    ) -> list[Subscription]:
        """Makes, mends and removes until the platform has exactly what is wanted; one row a native topic.

        Raises CallError when the platform cannot be asked at all.
        """
        ...

    def verify_event(self, headers: Headers, body: RawBody, secrets: EventSecrets) -> Verdict:
        """Judges a delivery by its headers and raw bytes alone; parses nothing."""
        ...

    def read_event(self, event: StoredEvent) -> Event:
        """The pointer in a stored body, in the worker. Raises UnusableResponse."""
        ...

    def derive(
        self,
        event: Event,
        seen: JsonObject | None,
        *,
        since: datetime | None,
        seen_at: datetime | None = None,
        awaited_topics: Collection[str] = (),
    ) -> Derived:
        """The canonical topics of an event (connectors 8); pure.

        `seen` is what was last seen of (object_type, object_id), `since` when listening began, `seen_at`
        the newest modified time that is known of it, `heard` the topics that automations wait for now.
        """
        ...

    def initial_snapshot(self, event: Event) -> JsonObject | None:
        """What the first fill keeps of an object read by `changed`; null for one that is not kept."""
        ...


def dedupe_key(parts: Sequence[str]) -> str:
    """SHA-256 in hex of the parts joined by line feeds (connectors 9.1)."""
    return hashlib.sha256("\n".join(parts).encode("utf-8")).hexdigest()
