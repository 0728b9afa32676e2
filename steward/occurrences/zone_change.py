"""Adapts coming runs to a newer time zone package, so that none is lost or duplicated."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from steward.automations import next_runs
from steward.automations.due_slots import LockedAutomation
from steward.database.automations import occurrences, slot_audits
from steward.database.automations.occurrences import StoredSlot
from steward.database.engine.base import Engine, Tx
from steward.model.automation import AutomationState
from steward.model.occurrence import OccurrenceState
from steward.occurrences.slot import zone_of
from steward.scheduling.slots import key_instant, slot_of_key, slots
from steward.scheduling.zones import LAST, tzdata_version

BATCH = 100
# How far a rule change can move a slot, and how far back the slot before the next one can be.
_SHIFT = timedelta(days=3)
_LOOK_BACK = timedelta(days=40)


async def adapt_to_zone_package(engine: Engine, now: datetime) -> int:
    """Adapts all automations to a changed zone package; call it before periodic tasks start.

    Returns the number of automations, or 0 if the package is known or the database is new. The next start
    repeats an interrupted pass.
    """
    version = tzdata_version()
    known_version = await engine.read(now, slot_audits.time_zone_data)
    if known_version == version:
        return 0
    adapted, last = 0, slot_audits.FIRST
    while known_version is not None:
        keys = await engine.read(now, partial(slot_audits.after, key=last, max_rows=BATCH))
        if not keys:
            break
        await engine.write(now, partial(_adapt_batch, keys=keys), org=sorted({org for org, _ in keys}))
        adapted, last = adapted + len(keys), keys[-1]
    await engine.write(now, partial(slot_audits.store_time_zone_data, version=version))
    return adapted


async def _adapt_batch(tx: Tx, keys: Sequence[slot_audits.Key]) -> None:
    for org, automation in keys:
        await _adapt_automation(tx, await next_runs.lock(tx, org, automation))


async def _adapt_automation(tx: Tx, locked: LockedAutomation) -> LockedAutomation:
    """Adapts an automation's rows and next slot to the installed zone package.

    See docs/design/schedule.md#zones. A moved run keeps its instant; a skip moves to the new slot of the same
    local key. The slot auditor starts again from now. Idempotent.
    """
    automation, timing = locked.automation, locked.timing
    await _adapt_rows(tx, locked)
    next_slot_at = timing.next_slot_at
    if automation.state is AutomationState.ACTIVE and next_slot_at is not None:
        next_slot_at = await _next_slot(tx, locked, next_slot_at)
    locked = await next_runs.rewrite_next(
        tx, LockedAutomation(automation, replace(timing, next_slot_at=next_slot_at))
    )
    audited = tx.now if next_slot_at is None else max(tx.now, next_slot_at)
    await slot_audits.set_audited(tx, automation.org, {automation.id: audited})
    return LockedAutomation(locked.automation, replace(locked.timing, audited_until=audited))


async def _adapt_rows(tx: Tx, locked: LockedAutomation) -> None:
    """Moves the stored rows of coming slots to the slots' instants in the installed zone package."""
    org, automation = locked.automation.org, locked.automation.id
    rows = await occurrences.open_rows(tx, org, automation, since=tx.now)
    adapted: dict[datetime, StoredSlot] = {}
    for row in rows:
        is_open = row.state is OccurrenceState.PENDING or row.is_skipped_by_person
        slot_at = _current_instant(locked, row) if is_open and row.slot_at > tx.now else None
        if slot_at is not None and slot_at != row.slot_at and slot_at > tx.now:
            run_at = slot_at if row.moved_from is None else row.run_at
            adapted[row.slot_at] = replace(row, slot_at=slot_at, run_at=run_at)
    await occurrences.delete_coming(tx, org, automation, slots=list(adapted))
    await occurrences.insert_many(tx, org, automation, list(adapted.values()))


def _current_instant(locked: LockedAutomation, row: StoredSlot) -> datetime | None:
    """Returns the current instant of a row's slot, or None if the schedule no longer has it."""
    automation = locked.automation
    automation_zone, spread = zone_of(automation), timedelta(minutes=automation.spread_minutes)
    if row.is_from_move and row.moved_from is None:  # from an earlier schedule
        return key_instant(automation.schedule.cadence, automation_zone, row.local_key) + spread
    slot = slot_of_key(
        automation.schedule,
        automation_zone,
        row.local_key,
        spread_minutes=automation.spread_minutes,
        slots_after=locked.timing.slots_after,
    )
    return None if slot is None else slot.slot_at


async def _next_slot(tx: Tx, locked: LockedAutomation, old_next_at: datetime) -> datetime | None:
    """Returns the first slot with a local key after that of the last decided one."""
    automation, slots_after = locked.automation, locked.timing.slots_after
    decided = await occurrences.of_automation(
        tx, automation.org, automation.id, since=max(slots_after, old_next_at - _LOOK_BACK), until=old_next_at
    )
    last_key = max((row.local_key for row in decided if not row.is_from_move), default="")
    for slot in slots(
        automation.schedule,
        zone_of(automation),
        spread_minutes=automation.spread_minutes,
        after=old_next_at - _SHIFT,
        until=LAST,
        slots_after=slots_after,
    ):
        if slot.local_key > last_key:
            return slot.slot_at
    return None
