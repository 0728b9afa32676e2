"""Store events as connectors report them: topics, subscriptions, deliveries; events/ stores them."""

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
from steward.security.signatures import BodyVerifier
from steward.telemetry.redact import Secret

# Header names in lower case.
Headers: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """How a platform reports a canonical topic.

    `native`: the topics to subscribe to. `derived`: it is computed from the last-seen state, for which the
    object types `snapshot_types` are read before listening starts.
    """

    native: tuple[str, ...]
    derived: bool = False
    snapshot_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DesiredSubscriptions:
    """The subscriptions that a connection should have; all others of ours are removed.

    `address` is the whole event address, `secret` signs the deliveries, and `known_ids` are the platform's
    ids of existing subscriptions by native topic.
    """

    address: str
    native: tuple[str, ...]
    secret: Secret
    known_ids: Mapping[str, str] = field(default_factory=dict)


class SubscriptionOutcome(StrEnum):
    """The result for one subscription."""

    ACTIVE = "made"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A native topic after synchronization; `reason` says in words why it failed.

    `repaired`: a known subscription was missing or switched off, so deliveries may have been lost.
    """

    native: str
    remote_id: str | None
    outcome: SubscriptionOutcome
    repaired: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RawBody:
    """The body of a delivery as it arrived.

    It holds the first bytes, which are complete unless `size` is greater, and the running HMAC.
    """

    prefix: bytes
    size: int
    sha256: str
    signature: BodyVerifier


@dataclass(frozen=True, slots=True)
class EventSecrets:
    """The values by which deliveries are verified: the shop's domain, and topics by subscription id.

    `RawBody.signature` holds the signing secrets; without one, no delivery is verified.
    """

    domain: str | None
    subscribed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class VerifiedDelivery:
    """A signed delivery of one of our subscriptions; `dedupe_parts` identify it."""

    native: str
    dedupe_parts: tuple[str, ...]

    @property
    def dedupe_key(self) -> str:
        """The SHA-256 in hex of the parts joined by line feeds."""
        return dedupe_key(self.dedupe_parts)


@dataclass(frozen=True, slots=True)
class PingDelivery:
    """The platform's own test of the address: answered 200 and not stored."""


@dataclass(frozen=True, slots=True)
class IgnoredDelivery:
    """A signed delivery of a subscription that is not ours: answered 200 and not stored."""

    reason: str


@dataclass(frozen=True, slots=True)
class UnverifiedDelivery:
    """A delivery that no secret of this connection signed: answered 401 and not stored."""


Verdict: TypeAlias = VerifiedDelivery | PingDelivery | IgnoredDelivery | UnverifiedDelivery


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """A delivery as stored; `body` is null when it exceeded the cap."""

    native: str
    body: bytes | None
    received_at: datetime


@dataclass(frozen=True, slots=True)
class Event:
    """An event with references to its object; ids are as the connector's readers return them.

    `object_type`: order, product, variation, customer, … `objects` are the (type, id) pairs under which a
    change of the same object is recorded (model.change.ObjectRef), to recognize echoes of Steward's own
    writes.
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
class DerivedTopics:
    """The canonical topics of one event, in the order of `docs/design/connectors.md#topics`.

    `seen` is the state to store as the object's last-seen one, null to leave it; `forget` removes it when
    the object is gone; `dropped` says why an event gives no topic.
    """

    topics: tuple[str, ...]
    seen: JsonObject | None = None
    forget: bool = False
    dropped: str | None = None


@dataclass(frozen=True, slots=True)
class ChangedQuery:
    """Objects of a type modified after an instant; null: all of them."""

    object_type: str
    modified_after: datetime | None = None


@dataclass(frozen=True, slots=True)
class IdsQuery:
    """Every id of a type."""

    object_type: str


# Only events/ uses these reads. `changed`: objects modified since an instant, as the events that deliveries
# would report; also the initial last-seen state, through `initial_snapshot`. `ids`: for the daily comparison.
CHANGED = ReadOp("changed", ChangedQuery, Event)
IDS = ReadOp("ids", IdsQuery, str)


class EventSource(Protocol):
    """The part of a connector that reports events; null for a platform without them."""

    @property
    def signing_settings(self) -> tuple[str, ...]:
        """The sealed settings that can sign deliveries, such as an app's secret.

        If empty, deliveries are signed with `DesiredSubscriptions.secret`, which is created for the
        connection.
        """
        ...

    @property
    def revocation_topics(self) -> tuple[str, ...]:
        """Native topics that report that the connection's keys may have been revoked.

        No automation can wait for them; they are subscribed to beside topics that automations wait for.
        """
        ...

    async def subscribe(
        self, http: ManagementClient, secrets: ConnectionSecrets, desired: DesiredSubscriptions
    ) -> list[Subscription]:
        """Creates, repairs and removes subscriptions until the platform has exactly the desired ones.

        Returns one row per native topic. Raises CallError when the platform cannot be called at all.
        """
        ...

    def verify_event(self, headers: Headers, body: RawBody, secrets: EventSecrets) -> Verdict:
        """Verifies a delivery only by its headers and raw bytes; parses nothing."""
        ...

    def read_event(self, event: StoredEvent) -> Event:
        """Returns the event of a stored body; called in the worker. Raises UnusableResponse."""
        ...

    def derive(
        self,
        event: Event,
        seen: JsonObject | None,
        *,
        since: datetime | None,
        seen_at: datetime | None = None,
        awaited_topics: Collection[str] = (),
    ) -> DerivedTopics:
        """Returns the canonical topics of an event; pure.

        `seen` is the last-seen state of (object_type, object_id), `since` when listening began, `seen_at`
        the object's newest known modification time, `awaited_topics` the topics that automations wait for
        now.
        """
        ...

    def initial_snapshot(self, event: Event) -> JsonObject | None:
        """Returns the state to store for an object that `changed` read.

        Returns None for an object whose state is not stored.
        """
        ...


def dedupe_key(parts: Sequence[str]) -> str:
    """Returns the SHA-256 in hex of the parts joined by line feeds."""
    return hashlib.sha256("\n".join(parts).encode("utf-8")).hexdigest()
