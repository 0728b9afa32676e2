"""Decides due slots: which start a run, and which are skipped or left out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from steward.automations import readiness
from steward.automations.due_slots import (
    DueSlot,
    DueSlots,
    LockedAutomation,
    work,
)
from steward.automations.next_runs import applicable_periods, stored_slots
from steward.automations.readiness import Obstacle
from steward.automations.rules import AutomationRules
from steward.database.automations import occurrences, schedules
from steward.database.automations.occurrences import DecidedSlot
from steward.database.automations.schedules import Timing
from steward.database.engine.base import Tx
from steward.database.notifications import facts
from steward.database.runs import active_run
from steward.database.runs import records as runs
from steward.model.account import BY_SERVICE
from steward.model.automation import Automation
from steward.model.ids import AutomationId, OrgId, RunId, new_id
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.model.run import Mode, RunStatus, StartedBy
from steward.run_queue import queue as run_queue
from steward.run_queue.queue import LockedQueue, RunRequest


async def decide_due(
    tx: Tx, locked: LockedAutomation, *, rules: AutomationRules, max_slots: int | None = None
) -> LockedAutomation:
    """Decides the slots due until now by D1 to D6; all of the automation's, or the oldest `max_slots`.

    Every change that would drop slots comes after this, in the same transaction.
    """
    automation = locked.automation
    timings = await decide_many(
        tx, {automation.org: {automation.id: locked}}, rules=rules, max_slots=max_slots
    )
    timing = timings[automation.org][automation.id]
    return LockedAutomation(replace(automation, next_run_at=timing.next_run_at), timing)


async def decide_many(
    tx: Tx,
    due: Mapping[OrgId, Mapping[AutomationId, LockedAutomation]],
    *,
    rules: AutomationRules,
    max_slots: int | None,
    started: list[timedelta] | None = None,
) -> dict[OrgId, dict[AutomationId, Timing]]:
    """Like `decide_due`, for several organizations; takes locks kind by kind, in sorted order.

    `started` takes how late each run was made.
    """
    works = {org: await _works(tx, org, due[org], max_slots=max_slots) for org in sorted(due)}
    late = tx.now - rules.late_limit
    startable = {org: _startable(due[org], org_works, late) for org, org_works in works.items()}
    queues: dict[AutomationId, LockedQueue] = {}  # all are locked before any run is enqueued
    for org, to_lock in startable.items():
        if to_lock:
            queues |= await run_queue.lock_many(tx, org, list(to_lock))
    for org, org_works in works.items():
        decided = await _decide_of_org(tx, org, org_works, startable[org], queues, late=late, rules=rules)
        if started is not None:
            started += [tx.now - decision.run_at for decision in decided if decision.run_id is not None]
    return await _store_timings(tx, works)


async def _store_timings(
    tx: Tx, works: Mapping[OrgId, Mapping[AutomationId, DueSlots]]
) -> dict[OrgId, dict[AutomationId, Timing]]:
    timings = {
        org: {key: due_work.timing for key, due_work in org_works.items()} for org, org_works in works.items()
    }
    for org, changed in timings.items():
        await schedules.set_many(tx, org, changed)
    return timings


def _startable(
    locked: Mapping[AutomationId, LockedAutomation], works: Mapping[AutomationId, DueSlots], late: datetime
) -> dict[AutomationId, Automation]:
    """Returns the automations that have a due slot in time."""
    return {
        key: locked[key].automation
        for key, due_work in works.items()
        if any(slot.run_at >= late for slot in due_work.due)
    }


async def _decide_of_org(
    tx: Tx,
    org: OrgId,
    works: Mapping[AutomationId, DueSlots],
    startable: Mapping[AutomationId, Automation],
    queues: Mapping[AutomationId, LockedQueue],
    *,
    late: datetime,
    rules: AutomationRules,
) -> list[DecidedSlot]:
    """Decides the due slots of one organization's automations and enqueues their runs."""
    obstacles: Mapping[AutomationId, Obstacle] = {}
    if startable:
        obstacles = await readiness.obstacles(tx, org, list(startable.values()), templates=rules.templates)
    decided: list[DecidedSlot] = []
    offers: list[RunRequest] = []
    missed: dict[AutomationId, list[datetime]] = {}
    for key, due_work in works.items():
        decided += [_closed(key, slot, name) for slot, name in due_work.closed]  # D1b
        too_late = [slot for slot in due_work.due if slot.run_at < late]  # D2
        decided += [_skip(key, slot, SkipReason.TOO_LATE) for slot in too_late]
        missed[key] = [slot.slot_at for slot in too_late]
        automation = startable.get(key)
        if automation is not None:
            decided += await _start(
                tx,
                automation,
                [slot for slot in due_work.due if slot.run_at >= late],
                free=queues[key],
                obstacle=obstacles.get(key),
                offers=offers,
            )
    if offers:
        await run_queue.enqueue_slots(tx, org, offers)
        await runs.set_exempt(tx, org, _exempt_runs(works, decided))
    if decided:
        await occurrences.decide(tx, org, decided)
    for key, slots_missed in missed.items():
        await facts.slots_too_late(tx, org, key, slots_missed)
    return decided


async def _works(
    tx: Tx, org: OrgId, due: Mapping[AutomationId, LockedAutomation], *, max_slots: int | None
) -> dict[AutomationId, DueSlots]:
    stored = await stored_slots(tx, org, due)
    periods = await applicable_periods(tx, org, due.values())
    return {
        key: work(
            due[key],
            stored.get(key, []),
            now=tx.now,
            max_slots=max_slots,
            closed=periods.times(key, due[key].automation.integration_id),
        )
        for key in sorted(due)
    }


def _exempt_runs(works: Mapping[AutomationId, DueSlots], decided: Iterable[DecidedSlot]) -> list[RunId]:
    """Returns the runs of slots that a person let through."""
    exempt = {(key, slot.slot_at) for key, due_work in works.items() for slot in due_work.due if slot.exempt}
    return [
        decision.run_id
        for decision in decided
        if decision.run_id is not None and (decision.automation_id, decision.slot_at) in exempt
    ]


async def _start(
    tx: Tx,
    automation: Automation,
    due: Sequence[DueSlot],
    *,
    free: LockedQueue,
    obstacle: Obstacle | None,
    offers: list[RunRequest],
) -> list[DecidedSlot]:
    """Starts the first slot when the lane is free; the others find a live run (D3 to D6).

    What is to be made is put into `offers`, to be made for all automations at once.
    """
    decided: list[DecidedSlot] = []
    for slot in due:
        if free.active_run is not None:
            decided.append(_skip(automation.id, slot, await _why_taken(tx, automation, free)))
            continue
        run = RunId(new_id(tx.now))
        offers.append(
            RunRequest(
                automation=automation,
                mode=Mode.LIVE,
                started_by=StartedBy.SCHEDULE,
                maker=BY_SERVICE,
                slot_at=slot.slot_at,
                run_id=run,
                refused=None if obstacle is None else (obstacle.code, obstacle.message),
            )
        )
        decided.append(_queued(automation.id, slot, run))
        if obstacle is None:
            free = LockedQueue(run, RunStatus.QUEUED)
    return decided


def _queued(key: AutomationId, slot: DueSlot, run: RunId) -> DecidedSlot:
    return DecidedSlot(key, slot.slot_at, slot.run_at, slot.local_key, OccurrenceState.QUEUED, None, run)


async def _why_taken(tx: Tx, automation: Automation, queue: LockedQueue) -> SkipReason:
    """Returns D4 only when a waiting run is the only one; with a run queued behind it, D3."""
    if queue.status is not RunStatus.WAITING_APPROVAL:
        return SkipReason.PREVIOUS_RUNNING
    blocked_run = await active_run.oldest_blocked(tx, automation.org, automation.id)
    return SkipReason.WAITING_APPROVAL if blocked_run is None else SkipReason.PREVIOUS_RUNNING


def _skip(key: AutomationId, slot: DueSlot, reason: SkipReason) -> DecidedSlot:
    return DecidedSlot(key, slot.slot_at, slot.run_at, slot.local_key, OccurrenceState.SKIPPED, reason, None)


def _closed(key: AutomationId, slot: DueSlot, name: str) -> DecidedSlot:
    return replace(_skip(key, slot, SkipReason.BY_MERCHANT), closed_name=name)
