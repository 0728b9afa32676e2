"""A person moves, skips or un-skips one coming run; what moving all later ones does is later.py's."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from steward.automations import due, history
from steward.automations.rules import AutomationRules
from steward.database.automations import occurrences
from steward.database.automations.history import HistoryAction
from steward.database.engine.base import Tx
from steward.model.account import Actor
from steward.model.automation import AutomationState
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.model.refusals import WrongState
from steward.occurrences.later import move_later
from steward.occurrences.slot import Edited, Found, SlotAsk, edited, find, generated, row_edits, write_row
from steward.scheduling.moves import check_this, whole_seconds


class MoveScope(StrEnum):
    """How far a move reaches (interface 4.2)."""

    THIS = "this"
    THIS_AND_LATER = "this_and_later"


@dataclass(frozen=True, slots=True)
class MoveAsk:
    """A move as asked for (interface 4.2)."""

    slot: SlotAsk
    run_at: datetime
    scope: MoveScope


async def move(tx: Tx, actor: Actor, ask: MoveAsk, *, rules: AutomationRules) -> Edited:
    """Moves a coming run, or the schedule with it and every later run (interface 4.2).

    Raises NotFound, StaleVersion, ValidationFailed on `slot_at`, WrongState, ValidationFailed on `scope`
    or `run_at`, in this order (schedule.md 8.1).
    """
    found = await find(tx, actor, ask.slot)
    _need_pending(found)
    if ask.scope is MoveScope.THIS:
        return await _move_this(tx, actor, found, ask)
    if found.row.run_at <= tx.now:  # decided by the change's own transaction (engine 13)
        raise WrongState("This run's time has come. Read it again to see what became of it.")
    return await move_later(tx, actor, found, run_at=ask.run_at, rules=rules)


async def skip(tx: Tx, actor: Actor, ask: SlotAsk) -> Edited:
    """Skips one coming run. Raises NotFound, StaleVersion, ValidationFailed on `slot_at`, WrongState:
    also while it is projected (schedule.md 7)."""
    found = await find(tx, actor, ask)
    _need_pending(found)
    if found.is_projected:
        raise WrongState("This run is too far ahead to be skipped. Skip it once it has come closer.")
    row = replace(
        found.row,
        state=OccurrenceState.SKIPPED,
        reason=SkipReason.BY_MERCHANT,
        version=found.row.version + 1,
    )
    return await _store(tx, actor, found, row=row, action=HistoryAction.SKIPPED)


async def unskip(tx: Tx, actor: Actor, ask: SlotAsk) -> Edited:
    """Takes a person's skip back. Raises NotFound, StaleVersion, ValidationFailed on `slot_at`, WrongState:
    also when the run's time has passed (schedule.md 7)."""
    found = await find(tx, actor, ask)
    row = found.row
    if not row.is_skipped_by_person:
        raise WrongState("Only a run that a person skipped can be taken up again.")
    if row.run_at <= tx.now:
        raise WrongState("The time of this run has passed. It can no longer be taken up again.")
    _need_active(found)
    row = replace(row, state=OccurrenceState.PENDING, reason=None, version=row.version + 1)
    return await _store(tx, actor, found, row=row, action=HistoryAction.UNSKIPPED)


async def _move_this(tx: Tx, actor: Actor, found: Found, ask: MoveAsk) -> Edited:
    """Moves one run alone (schedule.md 8.2)."""
    row = found.row
    wanted = whole_seconds(ask.run_at)
    is_taken = await occurrences.is_taken(tx, actor.org, found.automation.id, run_at=wanted, but=row.slot_at)
    if not is_taken and wanted != row.slot_at and generated(found.locked, wanted, tx.now) is not None:
        is_taken = await occurrences.at_slot(tx, actor.org, found.automation.id, slot_at=wanted) is None
    run_at = check_this(
        ask.run_at, now=tx.now, present_run_at=row.run_at, taken=(wanted,) if is_taken else ()
    )
    if run_at == row.run_at:
        return edited(found.locked, row, is_projected=found.is_projected)
    moved = replace(row, run_at=run_at, moved_from=row.run_at, version=row.version + 1)
    return await _store(tx, actor, found, row=moved, action=HistoryAction.MOVED)


async def _store(
    tx: Tx, actor: Actor, found: Found, *, row: occurrences.StoredSlot, action: HistoryAction
) -> Edited:
    """Writes the edited row, when the automation is due next, and the line of history."""
    await write_row(tx, found, row)
    locked = await due.rewrite_next(tx, found.locked)
    await history.note(tx, actor, locked.automation, action=action, fields=row_edits(found.row, row))
    return edited(locked, row)


def _need_pending(found: Found) -> None:
    """Raises WrongState (schedule.md 8.1, check 5)."""
    if found.row.state is OccurrenceState.QUEUED:
        raise WrongState("This run has been queued already. It can no longer be changed.")
    if found.row.state is OccurrenceState.SKIPPED:
        raise WrongState("This run is skipped. Only a coming run can be changed.")
    _need_active(found)


def _need_active(found: Found) -> None:
    if found.automation.state is not AutomationState.ACTIVE:
        raise WrongState("The automation is not active. Resume it first.")
