"""One live run per automation at a time: offering, holding, releasing and promoting (engine 8)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Tx
from steward.database.runs import active_run as lanes
from steward.database.runs import fairness as fair
from steward.database.runs import records as runs
from steward.database.runs import transitions as run_queue
from steward.model.account import BY_SERVICE, Maker
from steward.model.automation import Automation
from steward.model.ids import AutomationId, OrgId, RisingIds, RunId, new_id
from steward.model.run import EventRef, Mode, Queue, RunStatus, StartedBy


@dataclass(frozen=True, slots=True)
class LockedQueue:
    """An automation's locked lane: the live run that holds it, if any."""

    active_run: RunId | None
    status: RunStatus | None


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run to be made: of which automation, why, by whom; `refused` makes it final at once."""

    automation: Automation
    mode: Mode
    started_by: StartedBy
    maker: Maker
    slot_at: datetime | None = None
    event: EventRef | None = None
    idempotency_key: str | None = None
    run_id: RunId | None = None
    refused: tuple[str, str] | None = None


TOO_MANY_WAITING = ("too_many_waiting", "Too many runs of this automation were waiting already.")
TOO_LARGE = ("event_too_large", "The store's event was larger than 256 KB.")
# Refusals that count as dropped events (interface 2.5).
DROPPED_CODES = (TOO_MANY_WAITING[0], TOO_LARGE[0])


@dataclass(frozen=True, slots=True)
class EventRunRequest:
    """A store event that starts a run of an automation; `refused` makes the run final at once."""

    event: EventRef
    refused: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class EnqueuedRun:
    """The run that was made; its code when it was refused at once."""

    run_id: RunId
    status: RunStatus
    code: str | None = None


async def lock(tx: Tx, org: OrgId, automation: AutomationId) -> LockedQueue:
    """Locks the lane and tells which live run holds it; offers of one automation exclude each other."""
    return (await lock_many(tx, org, [automation]))[automation]


async def lock_many(
    tx: Tx, org: OrgId, automations: Collection[AutomationId]
) -> dict[AutomationId, LockedQueue]:
    """As `lock`, for several automations of an organisation, in order of their ids."""
    await lanes.lock(tx, org, automations)
    return await read_many(tx, org, automations)


async def read_many(
    tx: Tx, org: OrgId, automations: Collection[AutomationId]
) -> dict[AutomationId, LockedQueue]:
    """Which live runs hold lanes that this transaction has locked already."""
    held = await lanes.active_runs(tx, org, automations)
    return {automation: LockedQueue(*held.get(automation, (None, None))) for automation in automations}


async def enqueue_slots(tx: Tx, org: OrgId, offers: Sequence[RunRequest]) -> None:
    """Makes the runs of slots, each with its `run_id`: refused, or ready on a lane that is free.

    Call it with the lanes locked by `lock_many`; at most one offer of an automation may be ready.
    """
    ready = [offer for offer in offers if not offer.refused]
    vt = await fair.stamp(tx, org, len(ready)) if ready else 0
    new = []
    for wanted in offers:
        assert wanted.run_id is not None
        is_ready = not wanted.refused
        new.append(
            runs.NewRun(
                id=wanted.run_id,
                automation=wanted.automation,
                mode=Mode.LIVE,
                started_by=StartedBy.SCHEDULE,
                status=RunStatus.QUEUED if is_ready else RunStatus.REFUSED,
                queue=Queue.READY if is_ready else Queue.DONE,
                vt=vt if is_ready else 0,
                slot_at=wanted.slot_at,
                event=None,
                idempotency_key=None,
                maker=BY_SERVICE,
                refused=wanted.refused,
            )
        )
        vt += is_ready
    await runs.insert_many(tx, org, new)


async def enqueue_events(
    tx: Tx, automation: Automation, lane: LockedQueue, events: Sequence[EventRunRequest], *, most_waiting: int
) -> list[EnqueuedRun]:
    """Makes a run of each event, in order: ready or blocked while fewer than `most_waiting` wait, the others
    refused `too_many_waiting`; what is refused for other reasons waits for nothing (engine 8).

    Call it with the lane locked, so that the limit is never passed and every dropped event is counted.
    """
    org = automation.org
    room = most_waiting - await lanes.waiting(tx, org, automation.id, most_waiting)
    new: list[runs.NewRun] = []
    is_free = lane.active_run is None
    dropped, ids = 0, RisingIds()  # what waits starts in the order of the events
    for wanted in events:
        refused = wanted.refused
        if refused is None and room <= 0:
            refused = TOO_MANY_WAITING
        queue, vt = Queue.DONE, 0
        run = RunId(ids.next(tx.now))
        if refused is None:
            room -= 1
            queue = Queue.BLOCKED
            if is_free:
                queue, vt, is_free = Queue.READY, await fair.stamp(tx, org), False
        elif refused[0] in DROPPED_CODES:
            dropped += 1
        new.append(
            runs.NewRun(
                id=run,
                automation=automation,
                mode=Mode.LIVE,
                started_by=StartedBy.EVENT,
                status=RunStatus.QUEUED if refused is None else RunStatus.REFUSED,
                queue=queue,
                vt=vt,
                slot_at=None,
                event=wanted.event,
                idempotency_key=None,
                maker=BY_SERVICE,
                refused=refused,
            )
        )
    await runs.insert_many(tx, org, new)
    if dropped:
        await lanes.count_dropped(tx, org, automation.id, dropped)
    return [EnqueuedRun(one.id, one.status, one.refused[0] if one.refused else None) for one in new]


async def waiting(tx: Tx, org: OrgId, automation: AutomationId, most: int) -> int:
    """Runs queued or waiting for approval, counted up to `most` + 1; call it under the lane's lock."""
    return await lanes.waiting(tx, org, automation, most)


async def enqueue(tx: Tx, lane: LockedQueue, wanted: RunRequest) -> EnqueuedRun:
    """Makes one run: ready when the lane is free or it is a test, blocked behind the holder, or refused.

    Call it with the lane locked; whether a slot may start at all is the caller's to judge (schedule 5).
    """
    automation = wanted.automation
    run = wanted.run_id or RunId(new_id(tx.now))
    status, queue, vt = RunStatus.QUEUED, Queue.READY, 0
    if wanted.refused:
        status, queue = RunStatus.REFUSED, Queue.DONE
    elif wanted.mode is Mode.LIVE and lane.active_run:
        queue = Queue.BLOCKED
    else:
        vt = await fair.stamp(tx, automation.org)
    await runs.insert(
        tx,
        automation.org,
        runs.NewRun(
            id=run,
            automation=automation,
            mode=wanted.mode,
            started_by=wanted.started_by,
            status=status,
            queue=queue,
            vt=vt,
            slot_at=wanted.slot_at,
            event=wanted.event,
            idempotency_key=wanted.idempotency_key,
            maker=wanted.maker,
            refused=wanted.refused,
        ),
    )
    return EnqueuedRun(run, status)


async def promote_next(tx: Tx, org: OrgId, automation: AutomationId) -> RunId | None:
    """Promotes the oldest blocked run when nothing holds the lane any more; the promoted one.

    Call it after a run has ended, under the lane's lock.
    """
    following = await lanes.oldest_blocked(tx, org, automation)
    if following is None or await lanes.active_runs(tx, org, [automation]):
        return None
    await run_queue.promote(tx, org, following, vt=await fair.stamp(tx, org))
    return following
