"""Ends runs that no worker writes to, together with their approval, open changes and queue entry."""

from collections.abc import Collection
from dataclasses import dataclass

from steward.database.engine.base import Tx
from steward.database.notifications import facts
from steward.database.runs import active_run, approvals, changes, fairness, transitions
from steward.model.approval import ApprovalStatus
from steward.model.change import Outcome
from steward.model.ids import ApprovalId, AutomationId, OrgId, RunId
from steward.model.json import JsonObject
from steward.model.run import Mode, Queue, RunStatus, StartedBy
from steward.run_queue import ended_traces, summaries
from steward.run_queue import queue as run_queue


@dataclass(frozen=True, slots=True)
class WorkerlessEnd:
    """The end of a run that no worker executes, and the final states of its approval and changes."""

    status: RunStatus
    code: str
    message: str
    approval: ApprovalStatus = ApprovalStatus.CANCELLED
    change: Outcome = Outcome.CANCELLED


BY_PERSON = WorkerlessEnd(RunStatus.CANCELLED, "by_person", "A person cancelled this run.")
_PAUSED = WorkerlessEnd(RunStatus.CANCELLED, "paused", "The automation was paused before this run started.")
ARCHIVED = WorkerlessEnd(RunStatus.CANCELLED, "archived", "The automation was archived.")
NOT_STARTED = WorkerlessEnd(
    RunStatus.EXPIRED, "not_started", "No worker was free for this run in time. Check that the service runs."
)
APPROVAL_EXPIRED = WorkerlessEnd(
    RunStatus.EXPIRED,
    "approval_expired",
    "Nobody approved the changes in time. Nothing more was changed; run it again to ask again.",
    ApprovalStatus.EXPIRED,
    Outcome.EXPIRED,
)
SUPERSEDED = WorkerlessEnd(
    RunStatus.REFUSED,
    "superseded",
    "The automation's steps were changed in the meantime. Run it again.",
    ApprovalStatus.SUPERSEDED,
)


async def end(
    tx: Tx, org: OrgId, run: RunId, *, automation: AutomationId, from_status: RunStatus, ending: WorkerlessEnd
) -> bool:
    """Ends a queued or waiting run under its queue's lock.

    Returns False if its status is no longer `from_status`.
    """
    await active_run.lock(tx, org, [automation])
    state = await transitions.read_state(tx, org, run, lock=True)
    if state is None or not await transitions.end(
        tx, org, run, status=ending.status, from_status=from_status
    ):
        return False
    summary: JsonObject | None = None
    if from_status is RunStatus.WAITING_APPROVAL and state.approval is not None:
        await _end_approval(tx, org, state.approval, status=ending.approval)
        await changes.close_unapplied(tx, org, run, outcome=ending.change)
        record = await summaries.of_run(tx, org, run)
        summary = record.summary(ending.status, ending.code, ending.message)
    await transitions.set_outcome(tx, org, run, code=ending.code, message=ending.message, summary=summary)
    await run_queue.promote_next(tx, org, automation)
    ended_traces.note_end(org, run, attempt=0 if state.started_at is None else state.attempt)
    if state.mode is Mode.LIVE:
        if ending is APPROVAL_EXPIRED and state.approval is not None:
            await facts.approval_expired(tx, org, state.approval, run=run, automation=automation)
        await facts.run_ended(tx, org, run, automation=automation, status=ending.status, code=ending.code)
    return True


async def _end_approval(tx: Tx, org: OrgId, approval: ApprovalId, *, status: ApprovalStatus) -> None:
    """Ends a pending approval on behalf of the service."""
    current = await approvals.get(tx, org, approval)
    await approvals.decide(
        tx, org, approval, version=current.version, decision=approvals.Decision(status=status)
    )


async def end_queued(
    tx: Tx,
    org: OrgId,
    automation: AutomationId,
    *,
    ending: WorkerlessEnd,
    started_by: Collection[StartedBy] = tuple(StartedBy),
) -> int:
    """Ends an automation's unstarted runs whose starter is in `started_by`; returns how many."""
    ended = 0
    # Newest first: ending the active run first would promote each of the others in turn.
    for run, starter, _ in reversed(await transitions.ids_of(tx, org, automation, RunStatus.QUEUED)):
        state = await transitions.read_state(tx, org, run)
        if state is None or state.started_at is not None or StartedBy(starter) not in started_by:
            continue
        ended += await end(tx, org, run, automation=automation, from_status=RunStatus.QUEUED, ending=ending)
    return ended


async def end_waiting(tx: Tx, org: OrgId, automation: AutomationId, *, ending: WorkerlessEnd) -> int:
    """Ends an automation's runs that wait for approval; returns how many."""
    ended = 0
    for run, _, _ in await transitions.ids_of(tx, org, automation, RunStatus.WAITING_APPROVAL):
        ended += await end(
            tx, org, run, automation=automation, from_status=RunStatus.WAITING_APPROVAL, ending=ending
        )
    return ended


async def _stop_running(tx: Tx, org: OrgId, automation: AutomationId, *, code: str) -> int:
    """Requests an automation's running runs to stop at their next checkpoint; returns how many."""
    requested = 0
    vt = await fairness.current_stamp(tx)
    for run, _, _ in await transitions.ids_of(tx, org, automation, RunStatus.RUNNING):
        requested += await transitions.request_cancel(tx, org, run, code=code, vt=vt)
    for run, _, queue in await transitions.ids_of(tx, org, automation, RunStatus.QUEUED):
        if queue in (Queue.READY, Queue.LEASED):  # a recovered run that will be continued
            requested += await transitions.request_cancel(tx, org, run, code=code, vt=vt)
    return requested


async def end_for_archive(tx: Tx, org: OrgId, automation: AutomationId) -> None:
    """Ends queued and waiting runs as `archived` and requests running ones to stop."""
    await end_queued(tx, org, automation, ending=ARCHIVED)
    await end_waiting(tx, org, automation, ending=ARCHIVED)
    await _stop_running(tx, org, automation, code="archived")


async def end_for_pause(tx: Tx, org: OrgId, automation: AutomationId) -> None:
    """Ends queued runs of slots and events as `paused`; all others continue."""
    await end_queued(tx, org, automation, ending=_PAUSED, started_by=(StartedBy.SCHEDULE, StartedBy.EVENT))
