"""What becomes of an automation's due slots, and when it is due next; which ones are due is dispatch's."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from steward.automations import readiness
from steward.automations.readiness import Obstacle
from steward.automations.rules import AutomationRules
from steward.database.automations import occurrences, schedules, slot_audits
from steward.database.automations import records as automations
from steward.database.automations.occurrences import Decided, StoredSlot
from steward.database.automations.schedules import Timing
from steward.database.engine.base import Tx
from steward.database.runs import active_run
from steward.model.account import BY_SERVICE
from steward.model.automation import Automation, AutomationState
from steward.model.ids import AutomationId, OrgId, RunId, new_id
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.model.refusals import NotFound
from steward.model.run import Mode, RunStatus, StartedBy
from steward.run_queue import queue as run_queue
from steward.run_queue.queue import LockedQueue, RunRequest
from steward.scheduling import slots
from steward.scheduling.slots import Slot
from steward.scheduling.zones import LAST, zone

_INSTANT = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Locked:
    """An automation as read under the lock of its schedule, which lasts as long as the transaction."""

    automation: Automation
    timing: Timing


@dataclass(frozen=True, slots=True)
class DueSlot:
    """A slot whose time has come: a stored pending row, or one nobody has stored yet."""

    run_at: datetime
    slot_at: datetime
    local_key: str


@dataclass(frozen=True, slots=True)
class Work:
    """The due slots of one pass in the order they are decided, and the timing once they are."""

    due: tuple[DueSlot, ...]
    timing: Timing


async def lock(tx: Tx, org: OrgId, automation: AutomationId) -> Locked:
    """Locks an automation's schedule and reads both. Raises NotFound."""
    timing = await schedules.lock(tx, org, automation)
    if timing is None:
        raise NotFound
    return Locked(await automations.get(tx, org, automation), timing)


async def decide_due(tx: Tx, locked: Locked, *, rules: AutomationRules, most: int | None = None) -> Locked:
    """Decides the automation's slots due until now by D1 to D6; all of them, or the oldest `most`.

    Every change that would drop slots comes after this, in the same transaction (engine 13).
    """
    automation = locked.automation
    timings = await decide_many(tx, {automation.org: {automation.id: locked}}, rules=rules, most=most)
    timing = timings[automation.org][automation.id]
    return Locked(replace(automation, next_run_at=timing.next_run_at), timing)


async def decide_many(
    tx: Tx,
    due: Mapping[OrgId, Mapping[AutomationId, Locked]],
    *,
    rules: AutomationRules,
    most: int | None,
    started: list[timedelta] | None = None,
) -> dict[OrgId, dict[AutomationId, Timing]]:
    """As `decide_due`, for automations of several organisations: kind by kind, sorted (engine 2).

    `started` takes how late each run was made.
    """
    works = {org: await _works(tx, org, due[org], most=most) for org in sorted(due)}
    late = tx.now - rules.late_limit
    startable = {
        org: [
            due[org][automation].automation
            for automation, one in own.items()
            if any(slot.run_at >= late for slot in one.due)
        ]
        for org, own in works.items()
    }
    lanes_of: dict[AutomationId, LockedQueue] = {}
    for org, wanted in startable.items():
        if wanted:
            lanes_of |= await run_queue.lock_many(tx, org, [automation.id for automation in wanted])
    for org, own in works.items():
        obstacles: Mapping[AutomationId, Obstacle] = {}
        if startable[org]:
            obstacles = await readiness.obstacles(tx, org, startable[org], templates=rules.templates)
        decided: list[Decided] = []
        offers: list[RunRequest] = []
        for automation, one in own.items():
            decided += [
                _skip(automation, slot, SkipReason.TOO_LATE)
                for slot in one.due
                if slot.run_at < late  # D2
            ]
            in_time = [slot for slot in one.due if slot.run_at >= late]
            if in_time:
                decided += await _start(
                    tx,
                    due[org][automation].automation,
                    in_time,
                    free=lanes_of[automation],
                    obstacle=obstacles.get(automation),
                    offers=offers,
                )
        if offers:
            await run_queue.enqueue_slots(tx, org, offers)
        if decided:
            await occurrences.decide(tx, org, decided)
        if started is not None:
            started += [tx.now - one.run_at for one in decided if one.run_id is not None]
    timings = {org: {key: one.timing for key, one in own.items()} for org, own in works.items()}
    for org, changed in timings.items():
        await schedules.set_many(tx, org, changed)
    return timings


async def _works(
    tx: Tx, org: OrgId, due: Mapping[AutomationId, Locked], *, most: int | None
) -> dict[AutomationId, Work]:
    since = {
        key: one.timing.next_slot_at
        for key, one in due.items()
        if one.automation.state is AutomationState.ACTIVE
    }
    stored = await occurrences.open_of(tx, org, since) if since else {}
    return {key: work(due[key], stored.get(key, []), now=tx.now, most=most) for key in sorted(due)}


async def _start(
    tx: Tx,
    automation: Automation,
    due: Sequence[DueSlot],
    *,
    free: LockedQueue,
    obstacle: Obstacle | None,
    offers: list[RunRequest],
) -> list[Decided]:
    """Starts the first slot when the lane is free; the others find a live run (D3 to D6).

    What is to be made is put into `offers`, to be made for all automations at once.
    """
    decided: list[Decided] = []
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


def _queued(key: AutomationId, slot: DueSlot, run: RunId) -> Decided:
    return Decided(key, slot.slot_at, slot.run_at, slot.local_key, OccurrenceState.QUEUED, None, run)


async def _why_taken(tx: Tx, automation: Automation, taken: LockedQueue) -> SkipReason:
    """D4 only when nothing but a waiting run is there; a run queued behind it is D3 (engine 8)."""
    if taken.status is not RunStatus.WAITING_APPROVAL:
        return SkipReason.PREVIOUS_RUNNING
    behind = await active_run.oldest_blocked(tx, automation.org, automation.id)
    return SkipReason.WAITING_APPROVAL if behind is None else SkipReason.PREVIOUS_RUNNING


def _skip(key: AutomationId, slot: DueSlot, reason: SkipReason) -> Decided:
    return Decided(key, slot.slot_at, slot.run_at, slot.local_key, OccurrenceState.SKIPPED, reason, None)


def work(locked: Locked, stored: Sequence[StoredSlot], *, now: datetime, most: int | None) -> Work:
    """The automation's slots due at `now`, oldest first, at most `most`, and its timing afterwards.

    `stored` are its pending rows and every row from `next_slot_at` on. A stored row of any state accounts
    for its slot (engine 13, rules 2 and 4).
    """
    timing = locked.timing
    if locked.automation.state is not AutomationState.ACTIVE:
        return Work((), replace(timing, next_run_at=None, next_slot_at=None))
    pending = [row for row in stored if row.state is OccurrenceState.PENDING]
    due = [DueSlot(row.run_at, row.slot_at, row.local_key) for row in pending if row.run_at <= now]
    coming = _unstored(locked.automation, timing, stored)
    ahead: Slot | None = None  # the first slot nobody stored that this pass leaves
    for fresh, slot in enumerate(coming):
        if slot.slot_at > now or (most is not None and fresh == most):
            ahead = slot
            break
        due.append(DueSlot(slot.slot_at, slot.slot_at, slot.local_key))
    due.sort(key=lambda slot: (slot.run_at, slot.slot_at))
    now_due, later = due[:most], due[most:] if most is not None else []
    known = {row.slot_at for row in pending}
    left = [slot.slot_at for slot in later if slot.slot_at not in known]
    ahead_at = min(left) if left else (None if ahead is None else ahead.slot_at)
    decided = {slot.slot_at for slot in now_due}
    waiting = [row.run_at for row in pending if row.slot_at not in decided]
    return Work(
        tuple(now_due),
        replace(
            timing,
            next_slot_at=_next_slot(locked.automation, timing, stored, now=now, left=ahead_at),
            next_run_at=min([*waiting, *([] if ahead_at is None else [ahead_at])], default=None),
        ),
    )


def _next_slot(
    automation: Automation,
    timing: Timing,
    stored: Iterable[StoredSlot],
    *,
    now: datetime,
    left: datetime | None,
) -> datetime | None:
    """The first slot that is still to come or that a bounded pass has left: `next_slot_at` only rises."""
    if timing.next_slot_at is None or (left is not None and left <= now):
        return left
    if not any(row.slot_at > now for row in stored):
        return left
    after = max(now, timing.next_slot_at - _INSTANT)
    first = next(_stream(automation, after=after, slots_after=timing.slots_after), None)
    return None if first is None else first.slot_at


def _unstored(automation: Automation, timing: Timing, stored: Iterable[StoredSlot]) -> Iterator[Slot]:
    """The slots from `next_slot_at` on that have no stored row, rising."""
    if timing.next_slot_at is None:
        return
    known = {row.slot_at for row in stored}
    for slot in _stream(automation, after=timing.next_slot_at - _INSTANT, slots_after=timing.slots_after):
        if slot.slot_at not in known:
            yield slot


def _stream(automation: Automation, *, after: datetime, slots_after: datetime) -> Iterator[Slot]:
    place = zone(automation.timezone)
    if place is None:
        raise LookupError(f"the zone database has no {automation.timezone}")
    return slots.slots(
        automation.schedule,
        place,
        spread_minutes=automation.spread_minutes,
        after=after,
        until=LAST,
        slots_after=slots_after,
    )


def first_timing(automation: Automation, now: datetime) -> Timing:
    """The clockwork of an automation whose slots begin now: at set-up (R15)."""
    first = None
    if automation.state is AutomationState.ACTIVE:
        first = next(_stream(automation, after=now, slots_after=now), None)
    slot_at = None if first is None else first.slot_at
    return Timing(next_run_at=slot_at, next_slot_at=slot_at, slots_after=now, audited_until=now)


async def rewrite_next(tx: Tx, locked: Locked) -> Locked:
    """Writes `next_run_at` anew after an occurrence was edited, moves and skips applied (schedule.md 2).

    Decides nothing: slots that are due stay due.
    """
    timing = locked.timing
    if locked.automation.state is AutomationState.ACTIVE:
        stored = await occurrences.open_rows(
            tx, locked.automation.org, locked.automation.id, since=timing.next_slot_at
        )
        ahead = next(_unstored(locked.automation, timing, stored), None)
        coming = [row.run_at for row in stored if row.state is OccurrenceState.PENDING]
        coming += [] if ahead is None else [ahead.slot_at]
        timing = replace(timing, next_run_at=min(coming, default=None))
    else:
        timing = replace(timing, next_run_at=None, next_slot_at=None)
    await schedules.set_timing(tx, locked.automation.org, locked.automation.id, timing)
    return Locked(replace(locked.automation, next_run_at=timing.next_run_at), timing)


async def begin_slots(tx: Tx, locked: Locked, *, slots_after: datetime) -> Locked:
    """Lets the automation's slots begin anew after `slots_after` (R15): at resume, at a change of schedule,
    zone or trigger, and after `this_and_later`. Call it when the automation as it now is has been saved."""
    first = None
    if locked.automation.state is AutomationState.ACTIVE:
        first = next(_stream(locked.automation, after=tx.now, slots_after=slots_after), None)
    timing = replace(
        locked.timing, slots_after=slots_after, next_slot_at=None if first is None else first.slot_at
    )
    await _leave_to_history(tx, Locked(locked.automation, timing))
    return await rewrite_next(tx, Locked(locked.automation, timing))


async def _leave_to_history(tx: Tx, locked: Locked) -> None:
    """After a clock was set back, slots decided ahead of the present time are of the schedule before.

    The auditor takes up again behind them, for it knows the present schedule alone.
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
