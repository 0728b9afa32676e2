"""A batch of events of one store while it is matched."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from steward.connectors.base.deliveries import Event, EventSource, TopicSpec
from steward.database.events.records import EventRow
from steward.events.echoes import Echoes
from steward.model.connection import Connection
from steward.model.ids import AutomationId, IntegrationId
from steward.model.json import JsonObject

ObjectKey = tuple[str, str]
AutomationsByTopic = Mapping[str, Sequence[AutomationId]]


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """A stored event with its parsed body; None if it is invalid or was too large to store."""

    row: EventRow
    event: Event | None


@dataclass(frozen=True, slots=True)
class EventTopics:
    """The canonical topics of an event."""

    read: ReadEvent
    topics: tuple[str, ...]

    @property
    def event(self) -> Event | None:
        """The parsed body."""
        return self.read.event


@dataclass(frozen=True, slots=True)
class StoreBatch:
    """The locked events of one store, the topics it can send, and the automations each topic starts."""

    store: Connection
    source: EventSource
    offered: Mapping[str, TopicSpec]
    events: Sequence[ReadEvent]
    automations: AutomationsByTopic


@dataclass(frozen=True, slots=True)
class StoreEvents:
    """The topics of one store's events, the automations they start, and those automations' changes."""

    store: Connection
    topical: Sequence[EventTopics]
    automations: AutomationsByTopic
    echoes: Echoes


@dataclass(slots=True)
class MatchOutcome:
    """The result of one transaction: matched events with their pointers, and postponed events."""

    matched: dict[str, JsonObject] = field(default_factory=dict)
    postponed: list[str] = field(default_factory=list)
    runs_not_started: Counter[str] = field(default_factory=Counter)  # by reason
    stores_to_check: list[IntegrationId] = field(default_factory=list)  # stores that reported revoked keys
