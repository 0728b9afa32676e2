"""Decides due slots: which start a run, and which are skipped or left out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from steward.automations import readiness
from steward.automations.due_slots import (
    DueSlot,
    DueSlots,
    LockedAutomation,
    compute_due_slots,
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
    """Decides the automation's slots that are due now, oldest first, at most `max_slots`.

    See docs/design/schedule.md#what-a-due-slot-becomes. A change that drops slots calls this first, in its
    own transaction.
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
    delays: list[timedelta] | None = None,
) -> dict[OrgId, dict[AutomationId, Timing]]:
    """Decides like `decide_due` for several organizations; takes locks kind by kind, in sorted order.

    Appends to `delays` how late each run was created.
    """
    slots_by_org = {org: await _due_slots(tx, org, due[org], max_slots=max_slots) for org in sorted(due)}
    late = tx.now - rules.late_limit
    startable = {
        org: _startable(due[org], slots_by_automation, late)
        for org, slots_by_automation in slots_by_org.items()
    }
    queues: dict[AutomationId, LockedQueue] = {}  # all are locked before any run is enqueued
    for org, to_lock in startable.items():
        if to_lock:
            queues |= await run_queue.lock_many(tx, org, list(to_lock))
    for org, slots_by_automation in slots_by_org.items():
        decided = await _decide_of_org(
            tx, org, slots_by_automation, startable[org], queues, late=late, rules=rules
        )
        if delays is not None:
            delays += [tx.now - decision.run_at for decision in decided if decision.run_id is not None]
    return await _store_timings(tx, slots_by_org)


async def _store_timings(
    tx: Tx, slots_by_org: Mapping[OrgId, Mapping[AutomationId, DueSlots]]
) -> dict[OrgId, dict[AutomationId, Timing]]:
    timings = {
        org: {key: due_slots.timing for key, due_slots in slots_by_automation.items()}
        for org, slots_by_automation in slots_by_org.items()
    }
    for org, changed in timings.items():
        await schedules.set_many(tx, org, changed)
    return timings


def _startable(
    locked: Mapping[AutomationId, LockedAutomation],
    slots_by_automation: Mapping[AutomationId, DueSlots],
    late: datetime,
) -> dict[AutomationId, Automation]:
    """Returns the automations that have a due slot in time."""
    return {
        key: locked[key].automation
        for key, due_slots in slots_by_automation.items()
        if any(slot.run_at >= late for slot in due_slots.due)
    }


async def _decide_of_org(
    tx: Tx,
    org: OrgId,
    slots_by_automation: Mapping[AutomationId, DueSlots],
    startable: Mapping[AutomationId, Automation],
    queues: Mapping[AutomationId, LockedQueue],
    *,
    late: datetime,
    rules: AutomationRules,
) -> list[DecidedSlot]:
    """Decides the due slots of one organization's automations and enqueues their runs.

    See docs/design/schedule.md#what-a-due-slot-becomes and, for D1b, docs/design/closed-periods.md#slots.
    """
    obstacles: Mapping[AutomationId, Obstacle] = {}
    if startable:
        obstacles = await readiness.obstacles(tx, org, list(startable.values()), templates=rules.templates)
    decided: list[DecidedSlot] = []
    run_requests: list[RunRequest] = []
    missed: dict[AutomationId, list[datetime]] = {}
    for key, due_slots in slots_by_automation.items():
        decided += [_closed(key, slot, name) for slot, name in due_slots.closed]  # D1b
        too_late = [slot for slot in due_slots.due if slot.run_at < late]  # D2
        decided += [_skip(key, slot, SkipReason.TOO_LATE) for slot in too_late]
        missed[key] = [slot.slot_at for slot in too_late]
        automation = startable.get(key)
        if automation is not None:
            decided += await _decide_slots(
                tx,
                automation,
                [slot for slot in due_slots.due if slot.run_at >= late],
                queue=queues[key],
                obstacle=obstacles.get(key),
                run_requests=run_requests,
            )
    if run_requests:
        await run_queue.enqueue_slots(tx, org, run_requests)
        await runs.set_exempt(tx, org, _exempt_runs(slots_by_automation, decided))
    if decided:
        await occurrences.decide(tx, org, decided)
    for key, slots_missed in missed.items():
        await facts.slots_too_late(tx, org, key, slots_missed)
    return decided


async def _due_slots(
    tx: Tx, org: OrgId, due: Mapping[AutomationId, LockedAutomation], *, max_slots: int | None
) -> dict[AutomationId, DueSlots]:
    stored = await stored_slots(tx, org, due)
    periods = await applicable_periods(tx, org, due.values())
    return {
        key: compute_due_slots(
            due[key],
            stored.get(key, []),
            now=tx.now,
            max_slots=max_slots,
            closed=periods.times(key, due[key].automation.integration_id),
        )
        for key in sorted(due)
    }


def _exempt_runs(
    slots_by_automation: Mapping[AutomationId, DueSlots], decided: Iterable[DecidedSlot]
) -> list[RunId]:
    """Returns the runs of slots that a person exempted from a closed period."""
    exempt = {
        (key, slot.slot_at)
        for key, due_slots in slots_by_automation.items()
        for slot in due_slots.due
        if slot.exempt
    }
    return [
        decision.run_id
        for decision in decided
        if decision.run_id is not None and (decision.automation_id, decision.slot_at) in exempt
    ]


async def _decide_slots(
    tx: Tx,
    automation: Automation,
    due: Sequence[DueSlot],
    *,
    queue: LockedQueue,
    obstacle: Obstacle | None,
    run_requests: list[RunRequest],
) -> list[DecidedSlot]:
    """Decides an automation's due slots in order.

    A slot gets a run if no live run is active, else it is skipped; with `obstacle` its run is refused at once
    (docs/design/schedule.md#what-a-due-slot-becomes, D3 to D6). Appends the runs to create to `run_requests`;
    the caller creates them for all automations at once.
    """
    decided: list[DecidedSlot] = []
    for slot in due:
        if queue.active_run is not None:
            decided.append(_skip(automation.id, slot, await _skip_reason(tx, automation, queue)))
            continue
        run = RunId(new_id(tx.now))
        run_requests.append(
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
            queue = LockedQueue(run, RunStatus.QUEUED)
    return decided


def _queued(key: AutomationId, slot: DueSlot, run: RunId) -> DecidedSlot:
    return DecidedSlot(key, slot.slot_at, slot.run_at, slot.local_key, OccurrenceState.QUEUED, None, run)


async def _skip_reason(tx: Tx, automation: Automation, queue: LockedQueue) -> SkipReason:
    """Returns WAITING_APPROVAL if the active run waits for approval and no run is blocked behind it.

    Returns PREVIOUS_RUNNING otherwise.
    """
    if queue.status is not RunStatus.WAITING_APPROVAL:
        return SkipReason.PREVIOUS_RUNNING
    blocked_run = await active_run.oldest_blocked(tx, automation.org, automation.id)
    return SkipReason.WAITING_APPROVAL if blocked_run is None else SkipReason.PREVIOUS_RUNNING


def _skip(key: AutomationId, slot: DueSlot, reason: SkipReason) -> DecidedSlot:
    return DecidedSlot(key, slot.slot_at, slot.run_at, slot.local_key, OccurrenceState.SKIPPED, reason, None)


def _closed(key: AutomationId, slot: DueSlot, name: str) -> DecidedSlot:
    return replace(_skip(key, slot, SkipReason.BY_MERCHANT), closed_name=name)
