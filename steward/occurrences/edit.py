"""Moves, skips or un-skips one coming run for a person; `move_later.py` also moves all later runs."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from steward.automations import history, next_runs
from steward.automations.rules import AutomationRules
from steward.database.automations import occurrences
from steward.database.automations.history import HistoryAction
from steward.database.engine.base import Tx
from steward.model.account import Actor, CreatedVia
from steward.model.automation import AutomationState
from steward.model.closed_period import Closing
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.model.refusals import WrongState
from steward.occurrences.move_later import move_later
from steward.occurrences.slot import (
    EditedOccurrence,
    LockedSlot,
    SlotReference,
    edited_occurrence,
    is_exempt_at,
    lock_slot,
    row_edits,
    undecided_slot,
    write_row,
)
from steward.scheduling.moves import check_this, whole_seconds


class MoveScope(StrEnum):
    """Whether to move one run, or that run and all later ones."""

    THIS = "this"
    THIS_AND_LATER = "this_and_later"


@dataclass(frozen=True, slots=True)
class MoveCommand:
    """Moves a coming run."""

    slot: SlotReference
    run_at: datetime
    scope: MoveScope


async def move(tx: Tx, actor: Actor, command: MoveCommand, *, rules: AutomationRules) -> EditedOccurrence:
    """Moves a coming run, or the schedule together with it and every later run.

    Raises NotFound, StaleVersion, ValidationFailed on `slot_at`, WrongState, ValidationFailed on `scope` or
    `run_at`, in this order (docs/design/schedule.md#order-of-checks-of-an-edit).
    """
    slot = await lock_slot(tx, actor, command.slot)
    _require_pending(slot, tx.now)
    if command.scope is MoveScope.THIS:
        return await _move_this(tx, actor, slot, command)
    if slot.row.run_at <= tx.now:  # this transaction has just decided the slot
        raise WrongState("This run's time has come. Reload it to see what happened.")
    return await move_later(tx, actor, slot, run_at=command.run_at, rules=rules)


async def skip(tx: Tx, actor: Actor, command: SlotReference) -> EditedOccurrence:
    """Skips one coming run.

    Raises NotFound, StaleVersion, ValidationFailed on `slot_at`, and WrongState, also if the run is
    projected.
    """
    slot = await lock_slot(tx, actor, command)
    _require_pending(slot, tx.now)
    if slot.is_projected:
        raise WrongState("This run is too far ahead to be skipped. Skip it when its date is closer.")
    row = replace(
        slot.row,
        state=OccurrenceState.SKIPPED,
        reason=SkipReason.BY_MERCHANT,
        version=slot.row.version + 1,
        exempt=False,
    )
    return await _store(tx, actor, slot, row=row, action=HistoryAction.SKIPPED)


async def unskip(tx: Tx, actor: Actor, command: SlotReference) -> EditedOccurrence:
    """Reverts a skip made by a person.

    Raises NotFound, StaleVersion, ValidationFailed on `slot_at`, and WrongState, also if the run's time has
    passed.
    """
    slot = await lock_slot(tx, actor, command)
    row, closing = slot.row, slot.closing
    if not row.is_skipped_by_person and (closing is None or row.state is OccurrenceState.SKIPPED):
        raise WrongState("Only a run that a person skipped can be restored.")
    if row.run_at <= tx.now:
        raise WrongState("The time of this run has passed. It can no longer be restored.")
    _require_active(slot)
    if closing is not None:
        _require_person(slot, actor, closing)
    row = replace(
        row,
        state=OccurrenceState.PENDING,
        reason=None,
        version=row.version + 1,
        exempt=closing is not None,
    )
    return await _store(tx, actor, slot, row=row, action=HistoryAction.UNSKIPPED)


async def _move_this(tx: Tx, actor: Actor, slot: LockedSlot, command: MoveCommand) -> EditedOccurrence:
    """Moves only this run (docs/design/schedule.md#moving-one-run)."""
    row = slot.row
    new_run_at = whole_seconds(command.run_at)
    is_taken = await occurrences.is_taken(
        tx, actor.org, slot.automation.id, run_at=new_run_at, other_than=row.slot_at
    )
    if (
        not is_taken
        and new_run_at != row.slot_at
        and undecided_slot(slot.locked, new_run_at, tx.now) is not None
    ):
        is_taken = await occurrences.at_slot(tx, actor.org, slot.automation.id, slot_at=new_run_at) is None
    run_at = check_this(
        command.run_at, now=tx.now, present_run_at=row.run_at, occupied=(new_run_at,) if is_taken else ()
    )
    if run_at == row.run_at:
        return edited_occurrence(slot.locked, row, is_projected=slot.is_projected)
    moved = replace(
        row,
        run_at=run_at,
        moved_from=row.run_at,
        version=row.version + 1,
        exempt=is_exempt_at(slot, run_at),
    )
    return await _store(tx, actor, slot, row=moved, action=HistoryAction.MOVED)


async def _store(
    tx: Tx, actor: Actor, slot: LockedSlot, *, row: occurrences.StoredSlot, action: HistoryAction
) -> EditedOccurrence:
    """Stores the edited row, the automation's next due time, and an entry of its history."""
    await write_row(tx, slot, row)
    locked = await next_runs.rewrite_next(tx, slot.locked)
    await history.add_entry(tx, actor, locked.automation, action=action, fields=row_edits(slot.row, row))
    return edited_occurrence(locked, row, closed=slot.closed)


def _require_person(slot: LockedSlot, actor: Actor, closing: Closing) -> None:
    """Raises WrongState unless a signed-in person moves a run that is near enough to exempt."""
    if slot.is_projected:
        raise WrongState(
            "This run is too far ahead to be exempted from the closed period."
            " Exempt it when its date is closer."
        )
    if actor.via is not CreatedVia.UI:
        raise WrongState(
            f"This run is left out by the closed period {closing.period.name}. Exempt it in the web app"
            " (“Run it anyway”)."
        )


def _require_pending(slot: LockedSlot, now: datetime) -> None:
    """Raises WrongState unless the run is pending."""
    if slot.row.state is OccurrenceState.QUEUED:
        raise WrongState("This run has been queued already. It can no longer be changed.")
    if slot.closing is not None and slot.row.state is OccurrenceState.PENDING:
        name = slot.closing.period.name
        if slot.row.run_at <= now:
            raise WrongState(f"The time of this run has passed, within the closed period {name}.")
        raise WrongState(f"This run is left out by the closed period {name}. Exempt it first.")
    if slot.row.state is OccurrenceState.SKIPPED:
        raise WrongState("This run is skipped. Only a coming run can be changed.")
    _require_active(slot)


def _require_active(slot: LockedSlot) -> None:
    """Raises WrongState unless the automation is active."""
    if slot.automation.state is not AutomationState.ACTIVE:
        raise WrongState("The automation is not active. Resume it first.")
