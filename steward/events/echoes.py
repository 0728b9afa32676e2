"""The echo guard: recognizes events of an automation's own changes, and loops between automations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from steward.connectors.base.deliveries import Event
from steward.database.events.own_changes import RETENTION, OwnChange
from steward.database.events.records import EventRow
from steward.model.ids import AutomationId

_SOON = timedelta(seconds=60)
_LOOP = 5


class _TopicalEvent(Protocol):
    """An event with its topics."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The canonical topics."""
        ...

    @property
    def event(self) -> Event | None:
        """The parsed body."""
        ...


@dataclass(frozen=True, slots=True)
class Echoes:
    """The changes that automations made in one store within the last ten minutes."""

    changes: Sequence[OwnChange]

    def is_own(self, automation: AutomationId, row: EventRow, event: Event) -> bool:
        """Returns whether the event reports the automation's own change.

        It compares the object's last change with the event's arrival, not with the time of matching.
        """
        changes = self._of(automation, event)
        if not changes:
            return False
        last = max(changes, key=lambda change: change.applied_at)
        age = row.received_at - last.applied_at
        if event.modified_at is None or last.modified_at is None or event.modified_at < last.modified_at:
            return age <= _SOON
        if event.modified_at > last.modified_at:
            return False
        return age <= (RETENTION if last.set_modified_at else _SOON)

    def loops(
        self, waiting: Mapping[str, Sequence[AutomationId]], topical: Sequence[_TopicalEvent]
    ) -> Iterator[tuple[AutomationId, str]]:
        """Yields automations caught in a loop, each with the reason.

        An automation is in a loop if five event-started runs of it changed the object of yet another event.
        """
        looping: set[AutomationId] = set()
        for item in topical:
            event = item.event
            if event is None or event.object_id is None:
                continue
            for automation in {name for topic in item.topics for name in waiting.get(topic, ())} - looping:
                runs = {change.run for change in self._of(automation, event) if change.by_event}
                if len(runs) >= _LOOP:
                    looping.add(automation)
                    yield (
                        automation,
                        f"It was started {_LOOP} times within ten minutes by events of {event.object_type}"
                        f" {event.object_id} and changed it each time. Another automation, or another tool,"
                        " seems to change it back. Check what else changes it, then resume.",
                    )

    def _of(self, automation: AutomationId, event: Event) -> list[OwnChange]:
        objects = set(event.objects or ((event.object_type, event.object_id or ""),))
        return [
            change
            for change in self.changes
            if change.automation == automation and (change.object_type, change.object_id) in objects
        ]
