"""Decides an automation's due slots and computes when it is due next."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter

from steward.automations import readiness
from steward.automations.readiness import Obstacle
from steward.automations.rules import AutomationRules
from steward.closed_periods import acting
from steward.closed_periods.acting import ActingPeriods
from steward.database.automations import occurrences, schedules, slot_audits
from steward.database.automations import records as automations
from steward.database.automations.occurrences import DecidedSlot, StoredSlot
from steward.database.automations.schedules import Timing
from steward.database.engine.base import Tx
from steward.database.notifications import facts
from steward.database.runs import active_run
from steward.database.runs import records as runs
from steward.model.account import BY_SERVICE
from steward.model.automation import Automation, AutomationState
from steward.model.ids import AutomationId, OrgId, RunId, new_id
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.model.refusals import NotFound
from steward.model.run import Mode, RunStatus, StartedBy
from steward.run_queue import queue as run_queue
from steward.run_queue.queue import LockedQueue, RunRequest
from steward.scheduling import slots
from steward.scheduling.closings import ClosedTimes, first_open
from steward.scheduling.slots import Slot
from steward.scheduling.zones import LAST, zone

_INSTANT = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class LockedAutomation:
    """An automation as read under the lock of its schedule, which lasts as long as the transaction."""

    automation: Automation
    timing: Timing


@dataclass(frozen=True, slots=True)
class DueSlot:
    """A slot whose time has come: a stored pending row, or one nobody has stored yet."""

    run_at: datetime
    slot_at: datetime
    local_key: str
    exempt: bool = False


@dataclass(frozen=True, slots=True)
class DueSlots:
    """The due slots of one pass, in the order they are decided, and the timing afterwards.

    `closed` are those that a closed period omits, each with the name of the period.
    """

    due: tuple[DueSlot, ...]
    timing: Timing
    closed: tuple[tuple[DueSlot, str], ...] = ()


async def lock(tx: Tx, org: OrgId, automation: AutomationId) -> LockedAutomation:
    """Locks an automation's schedule and reads both. Raises NotFound."""
    timing = await schedules.lock(tx, org, automation)
    if timing is None:
        raise NotFound
    return LockedAutomation(await automations.get(tx, org, automation), timing)


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
    stored = await _stored_slots(tx, org, due)
    periods = await _periods(tx, org, due.values())
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


async def _stored_slots(
    tx: Tx, org: OrgId, locked: Mapping[AutomationId, LockedAutomation]
) -> Mapping[AutomationId, list[StoredSlot]]:
    """Returns the stored slots by which the timings of active automations are computed."""
    since = {
        key: row.timing.next_slot_at
        for key, row in locked.items()
        if row.automation.state is AutomationState.ACTIVE
    }
    return await occurrences.open_of(tx, org, since) if since else {}


async def _periods(tx: Tx, org: OrgId, due: Iterable[LockedAutomation]) -> ActingPeriods:
    """Reads, after the locks, the closed periods by which due and coming slots are judged."""
    due_at = [locked.timing.due_at for locked in due if locked.timing.due_at is not None]
    return await acting.read(tx, org, since=min([tx.now, *due_at]))


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


def work(
    locked: LockedAutomation,
    stored: Sequence[StoredSlot],
    *,
    now: datetime,
    max_slots: int | None,
    closed: ClosedTimes | None = None,
) -> DueSlots:
    """Returns the automation's due slots, oldest first, at most `max_slots`, and its timing afterwards.

    `stored` are its pending rows and every row from `next_slot_at` on. A stored row of any state accounts
    for its slot. `closed` says when its slots are left out.
    """
    timing = locked.timing
    if locked.automation.state is not AutomationState.ACTIVE:
        return DueSlots((), _nothing_due(timing))
    pending = [row for row in stored if row.state is OccurrenceState.PENDING]
    due = [
        DueSlot(row.run_at, row.slot_at, row.local_key, row.exempt) for row in pending if row.run_at <= now
    ]
    fresh, ahead_at = _fresh_slots(_unstored(locked.automation, timing, stored), now=now, max_slots=max_slots)
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
        _with_next(locked.automation, ahead, stored, waiting, remaining_at=remaining_at, closed=closed),
        tuple((slot, name) for slot, name in names.items() if name is not None),
    )


def _closing_name(closed: ClosedTimes | None, slot: DueSlot) -> str | None:
    """Returns the name of the closed period that leaves the slot out, or None."""
    closing = None if slot.exempt or closed is None else closed.closing_at(slot.run_at)
    return None if closing is None else closing.period.name


def _with_next(
    automation: Automation,
    timing: Timing,
    stored: Iterable[StoredSlot],
    waiting: Sequence[StoredSlot],
    *,
    remaining_at: datetime | None,
    closed: ClosedTimes | None,
) -> Timing:
    """Returns the timing with the first slot that is not decided, and the first of these that is open.

    `waiting` are the pending rows, `remaining_at` is the first slot without a row.
    """
    fresh = [] if remaining_at is None else [remaining_at]
    due_at = min([*(row.run_at for row in waiting), *fresh], default=None)
    if closed is None:
        return replace(timing, due_at=due_at, next_run_at=due_at)
    stored_slots = {row.slot_at for row in stored}

    def slots_from(instant: datetime) -> Iterator[datetime]:
        stream = _stream(automation, after=instant - _INSTANT, slots_after=timing.slots_after)
        return (slot.slot_at for slot in stream if slot.slot_at not in stored_slots)

    coming = [row.run_at for row in waiting if row.exempt or closed.stretch_at(row.run_at) is None]
    if remaining_at is not None:
        if stored_slots:
            first = first_open(slots_from, closed, remaining_at)
        else:  # alike for all automations of the schedule, and costly where it never opens again
            stream = automation.schedule, automation.timezone, automation.spread_minutes
            first = closed.first_open_of(stream, slots_from, remaining_at)
        coming += [] if first is None else [first]
    return replace(timing, due_at=due_at, next_run_at=min(coming, default=None))


def _fresh_slots(
    unstored: Iterable[Slot], *, now: datetime, max_slots: int | None
) -> tuple[list[DueSlot], datetime | None]:
    """Returns the due slots nobody has stored, and the first one that this pass leaves."""
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
    """Returns the first slot that is to come or that a bounded pass has left; it never moves back."""
    if timing.next_slot_at is None or (remaining_at is not None and remaining_at <= now):
        return remaining_at
    if not any(row.slot_at > now for row in stored):
        return remaining_at
    after = max(now, timing.next_slot_at - _INSTANT)
    first = next(_stream(automation, after=after, slots_after=timing.slots_after), None)
    return None if first is None else first.slot_at


def _unstored(automation: Automation, timing: Timing, stored: Iterable[StoredSlot]) -> Iterator[Slot]:
    """Yields the slots from `next_slot_at` on that have no stored row, in ascending order."""
    if timing.next_slot_at is None:
        return
    stored_slots = {row.slot_at for row in stored}
    for slot in _stream(automation, after=timing.next_slot_at - _INSTANT, slots_after=timing.slots_after):
        if slot.slot_at not in stored_slots:
            yield slot


def _stream(automation: Automation, *, after: datetime, slots_after: datetime) -> Iterator[Slot]:
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


async def first_timing(tx: Tx, automation: Automation) -> Timing:
    """Returns the timing of an automation whose slots begin now, at its set-up (R15)."""
    first, now = None, tx.now
    if automation.state is AutomationState.ACTIVE:
        first = next(_stream(automation, after=now, slots_after=now), None)
    slot_at = None if first is None else first.slot_at
    timing = Timing(next_run_at=slot_at, next_slot_at=slot_at, slots_after=now, audited_until=now)
    periods = await acting.read(tx, automation.org, since=now)
    closed = periods.times(automation.id, automation.integration_id)
    return _with_next(automation, timing, (), (), remaining_at=slot_at, closed=closed)


async def rewrite_next(tx: Tx, locked: LockedAutomation) -> LockedAutomation:
    """Rewrites `next_run_at` after an occurrence was edited, moves and skips applied.

    Decides nothing: slots that are due stay due.
    """
    org, automation = locked.automation.org, locked.automation
    timing = (await _rewrite(tx, org, {automation.id: locked}))[automation.id]
    return LockedAutomation(replace(automation, next_run_at=timing.next_run_at), timing)


async def rewrite_many(tx: Tx, org: OrgId, automations_to_lock: Collection[AutomationId]) -> None:
    """Like `rewrite_next`, for the given automations that exist, in a fixed number of statements."""
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
    """Reads slots and periods after the locks, and writes the timings they give."""
    stored = await _stored_slots(tx, org, locked)
    periods = await _periods(tx, org, locked.values())
    timings = {key: _rewritten(row, stored.get(key, []), periods) for key, row in locked.items()}
    await schedules.set_many(tx, org, timings)
    return timings


def _rewritten(locked: LockedAutomation, stored: Sequence[StoredSlot], periods: ActingPeriods) -> Timing:
    automation, timing = locked.automation, locked.timing
    if automation.state is not AutomationState.ACTIVE:
        return _nothing_due(timing)
    ahead = next(_unstored(automation, timing, stored), None)
    return _with_next(
        automation,
        timing,
        stored,
        [row for row in stored if row.state is OccurrenceState.PENDING],
        remaining_at=None if ahead is None else ahead.slot_at,
        closed=periods.times(automation.id, automation.integration_id),
    )


def _nothing_due(timing: Timing) -> Timing:
    return replace(timing, next_run_at=None, next_slot_at=None, due_at=None)


async def begin_slots(tx: Tx, locked: LockedAutomation, *, slots_after: datetime) -> LockedAutomation:
    """Restarts the automation's slots after `slots_after` (R15).

    This happens at resume, at a change of schedule, zone or trigger, and after `this_and_later`. Requires
    that the automation has been saved in its new state.
    """
    first = None
    if locked.automation.state is AutomationState.ACTIVE:
        first = next(_stream(locked.automation, after=tx.now, slots_after=slots_after), None)
    timing = replace(
        locked.timing, slots_after=slots_after, next_slot_at=None if first is None else first.slot_at
    )
    await _leave_to_history(tx, LockedAutomation(locked.automation, timing))
    return await rewrite_next(tx, LockedAutomation(locked.automation, timing))


async def _leave_to_history(tx: Tx, locked: LockedAutomation) -> None:
    """Moves the auditor past slots that an earlier schedule decided before a clock was set back.

    The auditor continues after them, since it knows only the present schedule.
    """
    org, automation, timing = locked.automation.org, locked.automation.id, locked.timing
    rows = await occurrences.open_rows(tx, org, automation, since=timing.slots_after + _INSTANT)
    decided = [
        row.slot_at
        for row in rows
        if row.slot_at > timing.slots_after
        and row.state is not OccurrenceState.PENDING
        and row.moved_from is None
        and not row.is_skipped_by_person
    ]
    if decided:
        audited = max(timing.audited_until, max(decided) + _INSTANT)
        await slot_audits.set_audited(tx, org, {automation: audited})
