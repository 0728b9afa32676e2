"""Computes and stores when automations are due next, under the lock of their schedules."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from steward.automations.due_slots import (
    INSTANT,
    LockedAutomation,
    nothing_due,
    slot_stream,
    unstored,
    with_next,
)
from steward.closed_periods import applicable
from steward.closed_periods.applicable import ApplicablePeriods
from steward.database.automations import occurrences, schedules, slot_audits
from steward.database.automations import records as automations
from steward.database.automations.occurrences import StoredSlot
from steward.database.automations.schedules import Timing
from steward.database.engine.base import Tx
from steward.model.automation import Automation, AutomationState
from steward.model.ids import AutomationId, OrgId
from steward.model.occurrence import OccurrenceState
from steward.model.refusals import NotFound


async def lock(tx: Tx, org: OrgId, automation: AutomationId) -> LockedAutomation:
    """Locks an automation's schedule and reads both. Raises NotFound."""
    timing = await schedules.lock(tx, org, automation)
    if timing is None:
        raise NotFound
    return LockedAutomation(await automations.get(tx, org, automation), timing)


async def stored_slots(
    tx: Tx, org: OrgId, locked: Mapping[AutomationId, LockedAutomation]
) -> Mapping[AutomationId, list[StoredSlot]]:
    """Returns the stored slots by which the timings of active automations are computed."""
    since = {
        key: row.timing.next_slot_at
        for key, row in locked.items()
        if row.automation.state is AutomationState.ACTIVE
    }
    return await occurrences.open_of(tx, org, since) if since else {}


async def applicable_periods(tx: Tx, org: OrgId, due: Iterable[LockedAutomation]) -> ApplicablePeriods:
    """Reads, after the locks, the closed periods by which due and coming slots are judged."""
    due_at = [locked.timing.due_at for locked in due if locked.timing.due_at is not None]
    return await applicable.read(tx, org, since=min([tx.now, *due_at]))


async def first_timing(tx: Tx, automation: Automation) -> Timing:
    """Returns the timing of a new automation, whose slots begin now.

    See docs/design/schedule.md#slot-rules, R15.
    """
    first, now = None, tx.now
    if automation.state is AutomationState.ACTIVE:
        first = next(slot_stream(automation, after=now, slots_after=now), None)
    slot_at = None if first is None else first.slot_at
    timing = Timing(next_run_at=slot_at, next_slot_at=slot_at, slots_after=now, audited_until=now)
    periods = await applicable.read(tx, automation.org, since=now)
    closed = periods.times(automation.id, automation.integration_id)
    return with_next(automation, timing, (), (), remaining_at=slot_at, closed=closed)


async def rewrite_next(tx: Tx, locked: LockedAutomation) -> LockedAutomation:
    """Recomputes `next_run_at` after an occurrence was edited, with moves and skips applied.

    Decides nothing: slots that are due stay due.
    """
    org, automation = locked.automation.org, locked.automation
    timing = (await _rewrite(tx, org, {automation.id: locked}))[automation.id]
    return LockedAutomation(replace(automation, next_run_at=timing.next_run_at), timing)


async def rewrite_many(tx: Tx, org: OrgId, automations_to_lock: Collection[AutomationId]) -> None:
    """Recomputes like `rewrite_next` for automations that exist, in a fixed number of statements."""
    timings = await schedules.lock_many(tx, org, automations_to_lock)
    if not timings:
        return
    rows = await automations.own_rows(tx, org, timings)
    await _rewrite(
        tx, org, {key: LockedAutomation(automation, timings[key]) for key, automation in rows.items()}
    )


async def _rewrite(
    tx: Tx, org: OrgId, locked: Mapping[AutomationId, LockedAutomation]
) -> dict[AutomationId, Timing]:
    """Reads slots and closed periods after the locks, and stores the timings that result."""
    stored = await stored_slots(tx, org, locked)
    periods = await applicable_periods(tx, org, locked.values())
    timings = {key: _rewritten(row, stored.get(key, []), periods) for key, row in locked.items()}
    await schedules.set_many(tx, org, timings)
    return timings


def _rewritten(locked: LockedAutomation, stored: Sequence[StoredSlot], periods: ApplicablePeriods) -> Timing:
    automation, timing = locked.automation, locked.timing
    if automation.state is not AutomationState.ACTIVE:
        return nothing_due(timing)
    ahead = next(unstored(automation, timing, stored), None)
    return with_next(
        automation,
        timing,
        stored,
        [row for row in stored if row.state is OccurrenceState.PENDING],
        remaining_at=None if ahead is None else ahead.slot_at,
        closed=periods.times(automation.id, automation.integration_id),
    )


async def begin_slots(tx: Tx, locked: LockedAutomation, *, slots_after: datetime) -> LockedAutomation:
    """Restarts the automation's slots after `slots_after` (docs/design/schedule.md#slot-rules, R15).

    Used at resume, at a change of schedule, zone or trigger, and after `this_and_later`. Requires
    that the automation has been saved in its new state.
    """
    first = None
    if locked.automation.state is AutomationState.ACTIVE:
        first = next(slot_stream(locked.automation, after=tx.now, slots_after=slots_after), None)
    timing = replace(
        locked.timing, slots_after=slots_after, next_slot_at=None if first is None else first.slot_at
    )
    await _advance_audit_past_decided(tx, LockedAutomation(locked.automation, timing))
    return await rewrite_next(tx, LockedAutomation(locked.automation, timing))


async def _advance_audit_past_decided(tx: Tx, locked: LockedAutomation) -> None:
    """Moves `audited_until` past slots that an earlier schedule decided and that lie after `slots_after`.

    The auditor knows only the current schedule. Such slots exist after a clock was set back.
    """
    org, automation, timing = locked.automation.org, locked.automation.id, locked.timing
    rows = await occurrences.open_rows(tx, org, automation, since=timing.slots_after + INSTANT)
    decided = [
        row.slot_at
        for row in rows
        if row.slot_at > timing.slots_after
        and row.state is not OccurrenceState.PENDING
        and row.moved_from is None
        and not row.is_skipped_by_person
    ]
    if decided:
        audited = max(timing.audited_until, max(decided) + INSTANT)
        await slot_audits.set_audited(tx, org, {automation: audited})
