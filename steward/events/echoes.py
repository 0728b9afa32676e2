"""The guard against own changes: whose echo an event is, and which automations start each other in a loop."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from steward.connectors.base.deliveries import Event
from steward.database.events.own_changes import KEPT, OwnChange
from steward.database.events.records import KeptEvent
from steward.model.ids import AutomationId

SOON = timedelta(seconds=60)
LOOP = 5


class Told(Protocol):
    """An event with its topics, as match.py has it."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The canonical topics."""
        ...

    @property
    def event(self) -> Event | None:
        """What its body says."""
        ...


@dataclass(frozen=True, slots=True)
class Echoes:
    """What automations changed in one store within the last ten minutes."""

    own: Sequence[OwnChange]

    def is_own(self, automation: AutomationId, kept: KeptEvent, event: Event) -> bool:
        """Whether the event tells of the automation's own change (the table of connectors 9.5).

        Judged by its last change of the object, and by when the event arrived, not by when it is matched.
        """
        changes = self._of(automation, event)
        if not changes:
            return False
        last = max(changes, key=lambda one: one.applied_at)
        age = kept.received_at - last.applied_at
        if event.modified_at is None or last.modified_at is None or event.modified_at < last.modified_at:
            return age <= SOON
        if event.modified_at > last.modified_at:
            return False
        return age <= (KEPT if last.moved else SOON)

    def loops(
        self, waiting: Mapping[str, Sequence[AutomationId]], told: Sequence[Told]
    ) -> Iterator[tuple[AutomationId, str]]:
        """Automations that changed the object of a further event in five event-started runs, with why."""
        found: set[AutomationId] = set()
        for one in told:
            event = one.event
            if event is None or event.object_id is None:
                continue
            for automation in {name for topic in one.topics for name in waiting.get(topic, ())} - found:
                runs = {change.run for change in self._of(automation, event) if change.by_event}
                if len(runs) >= LOOP:
                    found.add(automation)
                    yield (
                        automation,
                        f"It was started {LOOP} times within ten minutes by events of {event.object_type}"
                        f" {event.object_id} and changed it each time. Another automation, or another tool,"
                        " seems to change it back: look at what else works on it, then resume.",
                    )

    def _of(self, automation: AutomationId, event: Event) -> list[OwnChange]:
        objects = set(event.objects or ((event.object_type, event.object_id or ""),))
        return [
            one
            for one in self.own
            if one.automation == automation and (one.object_type, one.object_id) in objects
        ]
