"""Computes an automation's due slots and when it is due next; pure, no I/O."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter

from steward.database.automations.occurrences import StoredSlot
from steward.database.automations.schedules import Timing
from steward.model.automation import Automation, AutomationState
from steward.model.occurrence import OccurrenceState
from steward.scheduling import slots
from steward.scheduling.closings import ClosedTimes, first_open
from steward.scheduling.slots import Slot
from steward.scheduling.zones import LAST, zone

INSTANT = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class LockedAutomation:
    """An automation as read under the lock of its schedule, which lasts as long as the transaction."""

    automation: Automation
    timing: Timing


@dataclass(frozen=True, slots=True)
class DueSlot:
    """A slot that is due: of a stored pending row, or without a row."""

    run_at: datetime
    slot_at: datetime
    local_key: str
    exempt: bool = False


@dataclass(frozen=True, slots=True)
class DueSlots:
    """The due slots of one pass, in the order they are decided, and the timing afterwards.

    `closed` are slots that a closed period leaves out, each with the name of the period.
    """

    due: tuple[DueSlot, ...]
    timing: Timing
    closed: tuple[tuple[DueSlot, str], ...] = ()


def compute_due_slots(
    locked: LockedAutomation,
    stored: Sequence[StoredSlot],
    *,
    now: datetime,
    max_slots: int | None,
    closed: ClosedTimes | None = None,
) -> DueSlots:
    """Returns the automation's due slots, oldest first, at most `max_slots`, and its timing afterwards.

    `stored` are its pending rows and every row from `next_slot_at` on. A slot with a stored row of any state
    is not decided again. `closed` are the times at which its slots are left out.
    """
    timing = locked.timing
    if locked.automation.state is not AutomationState.ACTIVE:
        return DueSlots((), nothing_due(timing))
    pending = [row for row in stored if row.state is OccurrenceState.PENDING]
    due = [
        DueSlot(row.run_at, row.slot_at, row.local_key, row.exempt) for row in pending if row.run_at <= now
    ]
    fresh, ahead_at = _fresh_slots(unstored(locked.automation, timing, stored), now=now, max_slots=max_slots)
    due += fresh
    due.sort(key=attrgetter("run_at", "slot_at"))
    now_due = due[:max_slots]
    pending_slots = {row.slot_at for row in pending}
    deferred = [slot.slot_at for slot in due[len(now_due) :] if slot.slot_at not in pending_slots]
    remaining_at = min(deferred, default=ahead_at)
    decided = {slot.slot_at for slot in now_due}
    ahead = replace(
        timing,
        next_slot_at=_next_slot(locked.automation, timing, stored, now=now, remaining_at=remaining_at),
    )
    waiting = [row for row in pending if row.slot_at not in decided]
    names = {slot: _closing_name(closed, slot) for slot in now_due}
    return DueSlots(
        tuple(slot for slot in now_due if names[slot] is None),
        with_next(locked.automation, ahead, stored, waiting, remaining_at=remaining_at, closed=closed),
        tuple((slot, name) for slot, name in names.items() if name is not None),
    )


def _closing_name(closed: ClosedTimes | None, slot: DueSlot) -> str | None:
    """Returns the name of the closed period that leaves the slot out, or None."""
    closing = None if slot.exempt or closed is None else closed.closing_at(slot.run_at)
    return None if closing is None else closing.period.name


def with_next(
    automation: Automation,
    timing: Timing,
    stored: Iterable[StoredSlot],
    waiting: Sequence[StoredSlot],
    *,
    remaining_at: datetime | None,
    closed: ClosedTimes | None,
) -> Timing:
    """Returns the timing with the first undecided slot, and the first one outside closed periods.

    `waiting` are the pending rows, `remaining_at` is the first slot without a row.
    """
    fresh = [] if remaining_at is None else [remaining_at]
    due_at = min([*(row.run_at for row in waiting), *fresh], default=None)
    if closed is None:
        return replace(timing, due_at=due_at, next_run_at=due_at)
    stored_slots = {row.slot_at for row in stored}

    def slots_from(instant: datetime) -> Iterator[datetime]:
        stream = slot_stream(automation, after=instant - INSTANT, slots_after=timing.slots_after)
        return (slot.slot_at for slot in stream if slot.slot_at not in stored_slots)

    coming = [row.run_at for row in waiting if row.exempt or closed.stretch_at(row.run_at) is None]
    if remaining_at is not None:
        if stored_slots:
            first = first_open(slots_from, closed, remaining_at)
        else:  # equal for all automations of the schedule, and costly if none of its slots is open again
            stream = automation.schedule, automation.timezone, automation.spread_minutes
            first = closed.first_open_of(stream, slots_from, remaining_at)
        coming += [] if first is None else [first]
    return replace(timing, due_at=due_at, next_run_at=min(coming, default=None))


def _fresh_slots(
    unstored: Iterable[Slot], *, now: datetime, max_slots: int | None
) -> tuple[list[DueSlot], datetime | None]:
    """Returns the due slots without a stored row, and the first slot that this pass does not decide."""
    fresh: list[DueSlot] = []
    for slot in unstored:
        if slot.slot_at > now or len(fresh) == max_slots:
            return fresh, slot.slot_at
        fresh.append(DueSlot(slot.slot_at, slot.slot_at, slot.local_key))
    return fresh, None


def _next_slot(
    automation: Automation,
    timing: Timing,
    stored: Iterable[StoredSlot],
    *,
    now: datetime,
    remaining_at: datetime | None,
) -> datetime | None:
    """Returns the first slot that is still to be decided; it is never earlier than before."""
    if timing.next_slot_at is None or (remaining_at is not None and remaining_at <= now):
        return remaining_at
    if not any(row.slot_at > now for row in stored):
        return remaining_at
    after = max(now, timing.next_slot_at - INSTANT)
    first = next(slot_stream(automation, after=after, slots_after=timing.slots_after), None)
    return None if first is None else first.slot_at


def unstored(automation: Automation, timing: Timing, stored: Iterable[StoredSlot]) -> Iterator[Slot]:
    """Yields the slots from `next_slot_at` on that have no stored row, in ascending order."""
    if timing.next_slot_at is None:
        return
    stored_slots = {row.slot_at for row in stored}
    for slot in slot_stream(automation, after=timing.next_slot_at - INSTANT, slots_after=timing.slots_after):
        if slot.slot_at not in stored_slots:
            yield slot


def slot_stream(automation: Automation, *, after: datetime, slots_after: datetime) -> Iterator[Slot]:
    """Yields the slots after `after`, in ascending order. Raises LookupError for an unknown timezone."""
    tz = zone(automation.timezone)
    if tz is None:
        raise LookupError(f"the zone database has no {automation.timezone}")
    return slots.slots(
        automation.schedule,
        tz,
        spread_minutes=automation.spread_minutes,
        after=after,
        until=LAST,
        slots_after=slots_after,
    )


def nothing_due(timing: Timing) -> Timing:
    """Returns the timing of an automation that is not active."""
    return replace(timing, next_run_at=None, next_slot_at=None, due_at=None)
