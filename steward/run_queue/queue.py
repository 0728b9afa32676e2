"""The queue of an automation: at most one live run is active, others wait (docs/design/runs.md#run-queue)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Tx
from steward.database.notifications import facts
from steward.database.runs import active_run, fairness, transitions
from steward.database.runs import records as runs
from steward.model.account import BY_SERVICE, Creator
from steward.model.automation import Automation
from steward.model.ids import AutomationId, OrgId, RisingIds, RunId, new_id
from steward.model.run import EventRef, Mode, Queue, RunStatus, StartedBy


@dataclass(frozen=True, slots=True)
class LockedQueue:
    """An automation's locked queue, with its active run, if any."""

    active_run: RunId | None
    status: RunStatus | None


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run to enqueue, with its automation and trigger; `refused` ends the run at once."""

    automation: Automation
    mode: Mode
    started_by: StartedBy
    maker: Creator
    slot_at: datetime | None = None
    event: EventRef | None = None
    idempotency_key: str | None = None
    run_id: RunId | None = None
    refused: tuple[str, str] | None = None
    undo_of: RunId | None = None


_TOO_MANY_WAITING = ("too_many_waiting", "Too many runs of this automation were waiting already.")
TOO_LARGE = ("event_too_large", "The store's event was larger than 256 KB.")
# Refusals that count as dropped events.
_DROPPED_CODES = (_TOO_MANY_WAITING[0], TOO_LARGE[0])


@dataclass(frozen=True, slots=True)
class EventRunRequest:
    """A store event that starts a run of an automation; `refused` ends the run at once."""

    event: EventRef
    refused: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class EnqueuedRun:
    """The created run; `code` says why `enqueue_events` refused it."""

    run_id: RunId
    status: RunStatus
    code: str | None = None


async def lock(tx: Tx, org: OrgId, automation: AutomationId) -> LockedQueue:
    """Locks the queue and returns it; the lock serializes requests for one automation."""
    return (await lock_many(tx, org, [automation]))[automation]


async def lock_many(
    tx: Tx, org: OrgId, automations: Collection[AutomationId]
) -> dict[AutomationId, LockedQueue]:
    """Locks the queues of several automations of an organization, ordered by id."""
    await active_run.lock(tx, org, automations)
    return await read_many(tx, org, automations)


async def read_many(
    tx: Tx, org: OrgId, automations: Collection[AutomationId]
) -> dict[AutomationId, LockedQueue]:
    """Reads queues that this transaction has already locked."""
    active = await active_run.active_runs(tx, org, automations)
    return {automation: LockedQueue(*active.get(automation, (None, None))) for automation in automations}


async def enqueue_slots(tx: Tx, org: OrgId, requests: Sequence[RunRequest]) -> None:
    """Creates the runs of slots, each with its `run_id`, as refused or, if the queue is empty, ready.

    Call it with the queues locked by `lock_many`; per automation at most one request may be ready.
    """
    ready = [request for request in requests if not request.refused]
    vt = await fairness.stamp(tx, org, len(ready)) if ready else 0
    new = []
    for request in requests:
        assert request.run_id is not None
        is_ready = not request.refused
        new.append(
            runs.NewRun(
                id=request.run_id,
                automation=request.automation,
                mode=Mode.LIVE,
                started_by=StartedBy.SCHEDULE,
                status=RunStatus.QUEUED if is_ready else RunStatus.REFUSED,
                queue=Queue.READY if is_ready else Queue.DONE,
                vt=vt if is_ready else 0,
                slot_at=request.slot_at,
                event=None,
                idempotency_key=None,
                maker=BY_SERVICE,
                refused=request.refused,
            )
        )
        vt += is_ready
    await runs.insert_many(tx, org, new)


async def enqueue_events(
    tx: Tx,
    automation: Automation,
    queue_before: LockedQueue,
    events: Sequence[EventRunRequest],
    *,
    max_waiting: int,
) -> list[EnqueuedRun]:
    """Creates a run for each event, in order.

    A run is ready or blocked while fewer than `max_waiting` wait, else refused as `too_many_waiting`. Runs
    refused for other reasons do not count as waiting.

    Call it with the queue locked, so that the limit is never exceeded and every dropped event is counted.
    """
    org = automation.org
    free_places = max_waiting - await active_run.waiting(tx, org, automation.id, max_waiting)
    new: list[runs.NewRun] = []
    is_free = queue_before.active_run is None
    dropped: list[RunId] = []
    ids = RisingIds()  # waiting runs start in the order of their events
    for request in events:
        refused = request.refused
        if refused is None and free_places <= 0:
            refused = _TOO_MANY_WAITING
        queue, vt = Queue.DONE, 0
        run = RunId(ids.next(tx.now))
        if refused is None:
            free_places -= 1
            queue = Queue.BLOCKED
            if is_free:
                queue, vt, is_free = Queue.READY, await fairness.stamp(tx, org), False
        elif refused[0] in _DROPPED_CODES:
            dropped.append(run)
        new.append(_event_run(run, automation, request, refused=refused, queue=queue, vt=vt))
    await runs.insert_many(tx, org, new)
    if dropped:
        await active_run.count_dropped(tx, org, automation.id, len(dropped))
        await facts.events_dropped(tx, org, automation.id, dropped)
    return [
        EnqueuedRun(new_run.id, new_run.status, new_run.refused[0] if new_run.refused else None)
        for new_run in new
    ]


def _event_run(
    run: RunId,
    automation: Automation,
    request: EventRunRequest,
    *,
    refused: tuple[str, str] | None,
    queue: Queue,
    vt: int,
) -> runs.NewRun:
    """Returns the run that a store event starts, ready, blocked or refused."""
    return runs.NewRun(
        id=run,
        automation=automation,
        mode=Mode.LIVE,
        started_by=StartedBy.EVENT,
        status=RunStatus.QUEUED if refused is None else RunStatus.REFUSED,
        queue=queue,
        vt=vt,
        slot_at=None,
        event=request.event,
        idempotency_key=None,
        maker=BY_SERVICE,
        refused=refused,
    )


async def waiting(tx: Tx, org: OrgId, automation: AutomationId, limit: int) -> int:
    """Counts runs that are queued or wait for approval, up to `limit` + 1; requires the queue's lock."""
    return await active_run.waiting(tx, org, automation, limit)


async def enqueue(tx: Tx, locked: LockedQueue, request: RunRequest) -> EnqueuedRun:
    """Creates one run as ready, blocked behind the active run, or refused.

    It is ready if it is a test or no run is active. Call it with the queue locked; whether a slot may start
    at all is the caller's decision.
    """
    automation = request.automation
    run = request.run_id or RunId(new_id(tx.now))
    status, queue, vt = RunStatus.QUEUED, Queue.READY, 0
    if request.refused:
        status, queue = RunStatus.REFUSED, Queue.DONE
    elif request.mode is Mode.LIVE and locked.active_run:
        queue = Queue.BLOCKED
    else:
        vt = await fairness.stamp(tx, automation.org)
    await runs.insert(
        tx,
        automation.org,
        runs.NewRun(
            id=run,
            automation=automation,
            mode=request.mode,
            started_by=request.started_by,
            status=status,
            queue=queue,
            vt=vt,
            slot_at=request.slot_at,
            event=request.event,
            idempotency_key=request.idempotency_key,
            maker=request.maker,
            refused=request.refused,
            undo_of=request.undo_of,
        ),
    )
    return EnqueuedRun(run, status)


async def promote_next(tx: Tx, org: OrgId, automation: AutomationId) -> RunId | None:
    """Promotes the oldest blocked run if no run is active any more, and returns it.

    Call it after a run has ended, with the queue locked.
    """
    following = await active_run.oldest_blocked(tx, org, automation)
    if following is None or await active_run.active_runs(tx, org, [automation]):
        return None
    await transitions.promote(tx, org, following, vt=await fairness.stamp(tx, org))
    return following
