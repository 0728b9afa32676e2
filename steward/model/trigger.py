"""The triggers that start automations."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from steward.model.instants import wire_time_or_none
from steward.model.json import JsonValue


class TriggerKind(StrEnum):
    """The kinds of triggers."""

    SCHEDULE = "schedule"
    EVENT = "event"


class Listening(StrEnum):
    """Whether the store's subscriptions for all topics are in place."""

    YES = "yes"
    NOT_YET = "not_yet"
    FAILED = "failed"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ScheduleTrigger:
    """Starts on its schedule."""

    kind: ClassVar[TriggerKind] = TriggerKind.SCHEDULE

    def to_wire(self) -> dict[str, JsonValue]:
        """Returns the trigger in its API form: only `kind`."""
        return {"kind": self.kind.value}

    def to_json(self) -> dict[str, JsonValue]:
        """Returns the trigger in its stored form."""
        return {"kind": self.kind.value}


@dataclass(frozen=True, slots=True)
class EventTrigger:
    """Starts when its store sends one of `topics`; only the topics are stored, the rest is looked up."""

    topics: tuple[str, ...]
    words: str = ""
    listening: Listening = Listening.OFF
    reason: str | None = None
    events_dropped: int = 0
    events_dropped_at: datetime | None = None
    kind: ClassVar[TriggerKind] = TriggerKind.EVENT

    def to_wire(self) -> dict[str, JsonValue]:
        """Returns all seven fields of the API form; `reason` only while listening has failed."""
        return {
            "kind": self.kind.value,
            "topics": list(self.topics),
            "words": self.words,
            "listening": self.listening.value,
            "reason": self.reason if self.listening is Listening.FAILED else None,
            "events_dropped": self.events_dropped,
            "events_dropped_at": wire_time_or_none(self.events_dropped_at),
        }

    def to_json(self) -> dict[str, JsonValue]:
        """Returns the trigger in its stored form: only what a person set."""
        return {"kind": self.kind.value, "topics": list(self.topics)}


Trigger = ScheduleTrigger | EventTrigger


def trigger_from_json(stored: Mapping[str, object]) -> Trigger:
    """Returns the trigger from its stored form. Raises ValueError for another shape."""
    if TriggerKind(str(stored["kind"])) is TriggerKind.SCHEDULE:
        return ScheduleTrigger()
    topics = stored["topics"]
    if not isinstance(topics, list | tuple):
        raise ValueError(f"a kept trigger holds {topics!r} where topics belong")
    return EventTrigger(tuple(str(topic) for topic in topics))
