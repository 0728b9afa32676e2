"""The next runs of a schedule before it is saved; without an automation there is no spread yet."""

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from steward.model.instants import wire_time
from steward.model.json import JsonValue
from steward.model.schedule import Schedule, SlotNote
from steward.scheduling.slots import next_slots
from steward.scheduling.zones import local_time

_RUNS = 3


@dataclass(frozen=True, slots=True)
class _PreviewRun:
    """One of `next` in the answer of Preview schedule."""

    slot_at: datetime
    local: str
    note: SlotNote | None

    def to_wire(self) -> dict[str, JsonValue]:
        """The three fields as answered."""
        return {
            "slot_at": wire_time(self.slot_at),
            "local": self.local,
            "note": None if self.note is None else self.note.value,
        }


def preview(schedule: Schedule, zone: ZoneInfo, *, after: datetime) -> list[_PreviewRun]:
    """The next three runs after `after`, with spread 0; none for `manual`."""
    return [
        _PreviewRun(slot.slot_at, local_time(slot.slot_at, zone), slot.note)
        for slot in next_slots(schedule, zone, spread_minutes=0, after=after, count=_RUNS)
    ]
