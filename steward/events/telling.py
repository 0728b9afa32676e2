"""What of a store's objects was told by deliveries: what is read again later is compared with it; pure."""

from collections.abc import Collection

from steward.connectors.base import Connector
from steward.connectors.listening import Event
from steward.store.last_seen import Seen


def creations(connector: Connector) -> frozenset[str]:
    """The native topics that tell of new objects: each object is told so once, however often it changes."""
    return frozenset(
        native
        for topic, spec in connector.topics.items()
        if topic.endswith("/create") and not spec.derived
        for native in spec.native
    )


def was_told(event: Event, known: Seen | None, made: Collection[str]) -> bool:
    """Whether what was read again had been delivered (connectors 9.4)."""
    told = None if known is None else known.modified_at
    if told is None:
        return False
    return event.native in made or (event.modified_at is not None and event.modified_at <= told)
