"""Updates the stored rows of coming slots when an automation changes, resumes or is archived."""

from collections.abc import Sequence

from steward.automations.due_slots import LockedAutomation
from steward.database.automations import occurrences
from steward.database.automations.occurrences import StoredSlot
from steward.database.engine.base import Tx
from steward.database.notifications import facts
from steward.model.automation import Automation
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.scheduling.skips import skips_after_change
from steward.scheduling.zones import zone


async def drop_for_change(tx: Tx, locked: LockedAutomation, after: Automation) -> None:
    """Deletes moves and coming rows; a person's skip or exemption passes to a new slot of the same date.

    Requires that the slots that are due now have been decided.
    """
    before = locked.automation
    tz = zone(after.timezone)
    rows = await _rows(tx, locked)
    decided = {row.slot_at: row for row in rows if row.is_persons and row.slot_at > tx.now}
    carried = {}
    if tz is not None and decided:
        carried = skips_after_change(
            before.schedule,
            after.schedule,
            tz,
            spread_minutes=before.spread_minutes,
            now=tx.now,
            skipped={slot_at: row.local_key for slot_at, row in decided.items()},
        )
    await _skip_past(tx, locked, rows)
    await occurrences.delete_coming(
        tx,
        before.org,
        before.id,
        slots=[row.slot_at for row in rows if row.slot_at > tx.now],
    )
    await occurrences.insert_many(
        tx,
        before.org,
        before.id,
        [decided[slot_at].carried_to(slot.slot_at, slot.local_key) for slot_at, slot in carried.items()],
    )


async def drop_for_archive(tx: Tx, locked: LockedAutomation) -> None:
    """Deletes the coming rows; keeps those whose slot has passed, pending ones as skipped."""
    rows = await _rows(tx, locked)
    await _skip_past(tx, locked, rows)
    coming = [
        row.slot_at
        for row in rows
        if row.slot_at > tx.now and (row.state is OccurrenceState.PENDING or row.run_at > tx.now)
    ]
    await occurrences.delete_coming(tx, locked.automation.org, locked.automation.id, slots=coming)


async def skip_missed(tx: Tx, locked: LockedAutomation) -> None:
    """Marks pending rows whose time passed during the pause as skipped (`too_late`); adds a notice.

    Later rows stay pending, so that moved runs take place after the resume.
    """
    missed = [
        row.slot_at
        for row in await _rows(tx, locked)
        if row.state is OccurrenceState.PENDING and row.run_at <= tx.now
    ]
    await occurrences.skip_pending(
        tx, locked.automation.org, locked.automation.id, slots=missed, reason=SkipReason.TOO_LATE
    )
    await facts.slots_too_late(tx, locked.automation.org, locked.automation.id, missed)


async def _rows(tx: Tx, locked: LockedAutomation) -> list[StoredSlot]:
    return await occurrences.open_rows(tx, locked.automation.org, locked.automation.id, since=tx.now)


async def _skip_past(tx: Tx, locked: LockedAutomation, rows: Sequence[StoredSlot]) -> None:
    """Marks pending rows whose slot has passed as skipped by the merchant, so that the slot keeps a row."""
    past = [row.slot_at for row in rows if row.state is OccurrenceState.PENDING and row.slot_at <= tx.now]
    await occurrences.skip_pending(
        tx, locked.automation.org, locked.automation.id, slots=past, reason=SkipReason.BY_MERCHANT
    )
