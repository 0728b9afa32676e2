"""Reads one slot under its automation's lock, checks the caller's versions, and writes it back."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from steward.automations import next_runs
from steward.automations.due_slots import LockedAutomation
from steward.closed_periods import applicable
from steward.database.automations import occurrences
from steward.database.automations.history import FieldEdit
from steward.database.automations.occurrences import StoredSlot
from steward.database.engine.base import Tx
from steward.database.runs import records as runs
from steward.model.account import Actor
from steward.model.automation import Automation, AutomationState
from steward.model.closed_period import ClosedPeriod, Closing
from steward.model.ids import AutomationId
from steward.model.instants import wire_time
from steward.model.occurrence import Occurrence, OccurrenceState, SkipReason
from steward.model.refusals import StaleVersion, ValidationFailed, WrongState
from steward.occurrences.projection import Nearness
from steward.scheduling.closings import closing_at
from steward.scheduling.moves import DAYS_AHEAD
from steward.scheduling.slots import Slot, find_slot
from steward.scheduling.zones import zone

_FAR = timedelta(days=DAYS_AHEAD)


@dataclass(frozen=True, slots=True)
class SlotReference:
    """The coming run to change, with the versions that the caller read."""

    automation: AutomationId
    slot_at: datetime
    occurrence_version: int
    automation_version: int


@dataclass(frozen=True, slots=True)
class EditedOccurrence:
    """The coming run after the edit, and its automation."""

    occurrence: Occurrence
    automation: Automation


@dataclass(frozen=True, slots=True)
class LockedSlot:
    """A slot as stored; if it is not stored, `row` is the row it would get."""

    locked: LockedAutomation
    row: StoredSlot
    is_stored: bool
    is_projected: bool
    closed: tuple[ClosedPeriod, ...] = ()  # the closed periods that apply to the automation's runs

    @property
    def closing(self) -> Closing | None:
        """The closing that excludes this coming run, or None."""
        if self.row.exempt or self.row.state is OccurrenceState.QUEUED or self.row.closed_name is not None:
            return None
        return closing_at(self.closed, self.row.run_at)

    @property
    def automation(self) -> Automation:
        """The automation as stored in the database."""
        return self.locked.automation


async def lock_slot(tx: Tx, actor: Actor, reference: SlotReference) -> LockedSlot:
    """Returns the referenced slot with its automation's schedule locked.

    Raises NotFound, StaleVersion (`data` holds both records), ValidationFailed on `slot_at`
    (docs/design/schedule.md#order-of-checks-of-an-edit).
    """
    locked = await next_runs.lock(tx, actor.org, reference.automation)
    current_slot = await _read_slot(tx, locked, reference.slot_at)
    is_stale = locked.automation.version != reference.automation_version
    if is_stale or (current_slot is not None and current_slot.row.version != reference.occurrence_version):
        raise StaleVersion(
            data={
                "occurrence": None if current_slot is None else await _current(tx, current_slot),
                "automation": locked.automation,
            }
        )
    if current_slot is None:
        message = "This automation has no run planned at that time. Reload the calendar."
        raise ValidationFailed(errors={"slot_at": [message]})
    return current_slot


def undecided_slot(locked: LockedAutomation, slot_at: datetime, now: datetime) -> Slot | None:
    """Returns the undecided slot that the schedule has at `slot_at`, stored or not.

    For an inactive automation it returns future slots, as if it were active.
    """
    automation, timing = locked.automation, locked.timing
    if automation.state is AutomationState.ACTIVE:
        is_open = timing.next_slot_at is not None and slot_at >= timing.next_slot_at
    else:
        is_open = slot_at > now
    if not is_open or slot_at > now + _FAR:
        return None
    return find_slot(
        automation.schedule,
        zone_of(automation),
        slot_at,
        spread_minutes=automation.spread_minutes,
        slots_after=timing.slots_after,
    )


def zone_of(automation: Automation) -> ZoneInfo:
    """Returns the automation's zone. Raises LookupError if the zone package no longer has it."""
    automation_zone = zone(automation.timezone)
    if automation_zone is None:
        raise LookupError(f"the zone database has no {automation.timezone}")
    return automation_zone


async def write_row(tx: Tx, current_slot: LockedSlot, row: StoredSlot) -> None:
    """Updates the row that was read, or inserts a new one."""
    org, automation = current_slot.automation.org, current_slot.automation.id
    if not current_slot.is_stored:
        await occurrences.insert_many(tx, org, automation, [row])
    elif await occurrences.update(tx, org, automation, row=row, was=current_slot.row) == 0:
        raise WrongState("Somebody else changed this run at the same moment. Reload it.")


def edited_occurrence(
    locked: LockedAutomation,
    row: StoredSlot,
    *,
    is_projected: bool = False,
    closed: Sequence[ClosedPeriod] = (),
) -> EditedOccurrence:
    """Returns the response to an edit; a row that was written is no longer projected."""
    automation = locked.automation
    occurrence = Occurrence(
        automation_id=automation.id,
        automation_name=automation.name,
        automation_version=automation.version,
        timezone=automation.timezone,
        slot_at=row.slot_at,
        run_at=row.run_at,
        state=row.state,
        reason=row.reason,
        run_id=row.run_id,
        run_status=None,
        moved_from=row.moved_from,
        version=row.version,
        is_projected=is_projected,
        closed_name=row.closed_name,
    )
    if row.state is OccurrenceState.PENDING and not row.exempt:
        occurrence = skipped_if_closed(occurrence, closed)
    return EditedOccurrence(occurrence, automation)


def is_exempt_at(slot: LockedSlot, run_at: datetime) -> bool:
    """Returns whether a run moved there is exempt from closed periods; False at an open time.

    An exempt run stays exempt within the closings of its present time. Raises ValidationFailed on `run_at` if
    any other closing would exclude the run.
    """
    if slot.row.exempt and _closings_at(slot, run_at) <= _closings_at(slot, slot.row.run_at):
        return bool(_closings_at(slot, run_at))
    closing = closing_at(slot.closed, run_at)
    if closing is None:
        return False
    until = "until somebody ends it"
    if closing.end is not None:
        until = f"until {closing.end.astimezone(zone_of(slot.automation)):%a %d %b %H:%M}"
    message = f"This time is in the closed period {closing.period.name}, {until}. Choose another time."
    raise ValidationFailed(errors={"run_at": [message]})


def _closings_at(slot: LockedSlot, instant: datetime) -> set[tuple[str, datetime]]:
    """Returns every closing at an instant, by its period and its start."""
    closings = (closing_at([period], instant) for period in slot.closed)
    return {(closing.period.id, closing.start) for closing in closings if closing is not None}


def skipped_if_closed(occurrence: Occurrence, closed: Sequence[ClosedPeriod]) -> Occurrence:
    """Returns a pending occurrence as skipped if one of the periods excludes it."""
    closing = closing_at(closed, occurrence.run_at) if closed else None
    if closing is None:
        return occurrence
    return replace(
        occurrence,
        state=OccurrenceState.SKIPPED,
        reason=SkipReason.BY_MERCHANT,
        closed_id=closing.period.id,
        closed_name=closing.period.name,
    )


def row_edits(before: StoredSlot, after: StoredSlot) -> list[FieldEdit]:
    """Returns the changes of an edit for the history; `slot_at` identifies the run."""
    slot_at = wire_time(before.slot_at)
    edits = [FieldEdit("slot_at", slot_at, slot_at)]
    if before.run_at != after.run_at:
        edits.append(FieldEdit("run_at", wire_time(before.run_at), wire_time(after.run_at)))
    if before.state is not after.state:
        edits.append(FieldEdit("state", before.state.value, after.state.value))
    return edits


async def _read_slot(tx: Tx, locked: LockedAutomation, slot_at: datetime) -> LockedSlot | None:
    automation = locked.automation
    row = await occurrences.at_slot(tx, automation.org, automation.id, slot_at=slot_at)
    # The version of a period that closed an overdue, undecided slot may have ended since.
    since = min(tx.now, slot_at if row is None else row.run_at)
    closed = (await applicable.read(tx, automation.org, since=since)).on_runs(automation)
    if row is not None:
        return LockedSlot(locked, row, is_stored=True, is_projected=False, closed=closed)
    slot = undecided_slot(locked, slot_at, tx.now)
    if slot is None:
        return None
    projected = Nearness(tx.now).is_projected(
        slot_at,
        automation.schedule,
        zone_of(automation),
        spread_minutes=automation.spread_minutes,
        slots_after=locked.timing.slots_after,
    )
    row = StoredSlot(slot_at=slot_at, run_at=slot_at, local_key=slot.local_key)
    return LockedSlot(locked, row, is_stored=False, is_projected=projected, closed=closed)


async def _current(tx: Tx, current_slot: LockedSlot) -> Occurrence:
    run = current_slot.row.run_id
    status = None if run is None else await runs.status(tx, current_slot.automation.org, run)
    edited = edited_occurrence(
        current_slot.locked,
        current_slot.row,
        is_projected=current_slot.is_projected,
        closed=current_slot.closed,
    )
    return replace(edited.occurrence, run_status=status)
