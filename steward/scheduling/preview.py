"""The next runs of a schedule before it is saved; as there is no automation yet, spread is 0."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from steward.model.closed_period import ClosedPeriod
from steward.model.instants import wire_time
from steward.model.json import JsonValue
from steward.model.schedule import Schedule, SlotNote
from steward.scheduling.closings import ClosedTimes
from steward.scheduling.slots import next_slots, slots
from steward.scheduling.zones import LAST, local_time

_RUNS = 3
_MAX_CLOSED = 5_000


@dataclass(frozen=True, slots=True)
class PreviewRun:
    """An entry of `next` in the response of Preview schedule."""

    slot_at: datetime
    local: str
    note: SlotNote | None

    def to_wire(self) -> dict[str, JsonValue]:
        """Returns the three fields of the API."""
        return {
            "slot_at": wire_time(self.slot_at),
            "local": self.local,
            "note": None if self.note is None else self.note.value,
        }


@dataclass(frozen=True, slots=True)
class ClosedPreview:
    """The next open runs, and the runs before the last of them that closed periods skip.

    `closed` holds the first three skipped runs with the names of their periods, `closed_more` counts the
    others.
    """

    next: list[PreviewRun]
    closed: list[tuple[PreviewRun, str]]
    closed_more: int


def preview_open(
    schedule: Schedule, zone: ZoneInfo, periods: Collection[ClosedPeriod], *, after: datetime
) -> ClosedPreview:
    """Returns the next three runs after `after` outside all closed periods, with spread 0.

    The search ends after `_MAX_CLOSED` skipped runs.
    """
    runs: list[PreviewRun] = []
    closed: list[tuple[PreviewRun, str]] = []
    closed_more = 0
    times = ClosedTimes(periods, after)
    for slot in slots(schedule, zone, spread_minutes=0, after=after, until=LAST):
        run = PreviewRun(slot.slot_at, local_time(slot.slot_at, zone), slot.note)
        if times.stretch_at(slot.slot_at) is None:
            runs.append(run)
        elif len(closed) < _RUNS and (closing := times.closing_at(slot.slot_at)) is not None:
            closed.append((run, closing.period.name))
        else:
            closed_more += 1
        if len(runs) == _RUNS or closed_more == _MAX_CLOSED:
            break
    return ClosedPreview(runs, closed, closed_more)


def preview(schedule: Schedule, zone: ZoneInfo, *, after: datetime) -> list[PreviewRun]:
    """Returns the next three runs after `after`, with spread 0; none for `manual`."""
    return [
        PreviewRun(slot.slot_at, local_time(slot.slot_at, zone), slot.note)
        for slot in next_slots(schedule, zone, spread_minutes=0, after=after, count=_RUNS)
    ]
