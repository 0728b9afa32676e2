"""Ends runs that no worker writes to: with approval, open changes and lane (engine 12, 15)."""

from collections.abc import Collection
from dataclasses import dataclass

from steward.database.engine.base import Tx
from steward.database.runs import active_run as lanes
from steward.database.runs import approvals, changes
from steward.database.runs import fairness as fair
from steward.database.runs import transitions as run_queue
from steward.model.approval import ApprovalStatus
from steward.model.change import Outcome
from steward.model.ids import ApprovalId, AutomationId, OrgId, RunId
from steward.model.json import JsonObject
from steward.model.run import Queue, RunStatus, StartedBy
from steward.run_queue import queue as lane
from steward.run_queue import summaries


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ends: its last status with code and words, and what becomes of what was asked."""

    status: RunStatus
    code: str
    message: str
    approval: ApprovalStatus = ApprovalStatus.CANCELLED
    change: Outcome = Outcome.CANCELLED


BY_PERSON = Ending(RunStatus.CANCELLED, "by_person", "A person cancelled this run.")
PAUSED = Ending(RunStatus.CANCELLED, "paused", "The automation was paused before this run started.")
ARCHIVED = Ending(RunStatus.CANCELLED, "archived", "The automation was archived.")
NOT_STARTED = Ending(
    RunStatus.EXPIRED, "not_started", "No worker was free for this run in time. Check that the service runs."
)
APPROVAL_EXPIRED = Ending(
    RunStatus.EXPIRED,
    "approval_expired",
    "Nobody approved the changes in time. Nothing more was changed; run it again to ask anew.",
    ApprovalStatus.EXPIRED,
    Outcome.EXPIRED,
)
SUPERSEDED = Ending(
    RunStatus.REFUSED,
    "superseded",
    "The automation's steps were changed meanwhile. Run it again.",
    ApprovalStatus.SUPERSEDED,
)


async def end(
    tx: Tx, org: OrgId, run: RunId, *, automation: AutomationId, since: RunStatus, how: Ending
) -> bool:
    """Ends a queued or waiting run under its lane's lock; False when its status is no longer `since`."""
    await lanes.lock(tx, org, [automation])
    hot = await run_queue.read_state(tx, org, run, lock=True)
    if hot is None or not await run_queue.end(tx, org, run, status=how.status, since=since):
        return False
    summary: JsonObject | None = None
    if since is RunStatus.WAITING_APPROVAL and hot.approval is not None:
        await end_approval(tx, org, hot.approval, status=how.approval)
        await changes.drop_open(tx, org, run, to=how.change)
        record = await summaries.of_run(tx, org, run)
        summary = record.summary(how.status, how.code, how.message)
    await run_queue.set_outcome(tx, org, run, code=how.code, message=how.message, summary=summary)
    await lane.promote_next(tx, org, automation)
    return True


async def end_approval(tx: Tx, org: OrgId, approval: ApprovalId, *, status: ApprovalStatus) -> None:
    """The service ends a pending approval."""
    current = await approvals.get(tx, org, approval)
    await approvals.decide(
        tx, org, approval, version=current.version, decision=approvals.Decision(status=status)
    )


async def end_queued(
    tx: Tx,
    org: OrgId,
    automation: AutomationId,
    *,
    how: Ending,
    started_by: Collection[StartedBy] = tuple(StartedBy),
) -> int:
    """Ends the automation's runs that have not begun and were started by one of `started_by`; how many."""
    ended = 0
    for run, cause, _ in reversed(await run_queue.ids_of(tx, org, automation, RunStatus.QUEUED)):
        hot = await run_queue.read_state(tx, org, run)
        if hot is None or hot.started_at is not None or StartedBy(cause) not in started_by:
            continue
        ended += await end(tx, org, run, automation=automation, since=RunStatus.QUEUED, how=how)
    return ended


async def end_waiting(tx: Tx, org: OrgId, automation: AutomationId, *, how: Ending) -> int:
    """Ends the automation's runs that wait for approval; how many."""
    ended = 0
    for run, _, _ in await run_queue.ids_of(tx, org, automation, RunStatus.WAITING_APPROVAL):
        ended += await end(tx, org, run, automation=automation, since=RunStatus.WAITING_APPROVAL, how=how)
    return ended


async def stop_running(tx: Tx, org: OrgId, automation: AutomationId, *, code: str) -> int:
    """Asks the automation's running runs to stop at their next border; how many."""
    asked = 0
    vt = await fair.present(tx)
    for run, _, _ in await run_queue.ids_of(tx, org, automation, RunStatus.RUNNING):
        asked += await run_queue.request_cancel(tx, org, run, code=code, vt=vt)
    for run, _, queue in await run_queue.ids_of(tx, org, automation, RunStatus.QUEUED):
        if queue in (Queue.READY, Queue.LEASED):  # a lost run that is to be continued
            asked += await run_queue.request_cancel(tx, org, run, code=code, vt=vt)
    return asked


async def end_for_archive(tx: Tx, org: OrgId, automation: AutomationId) -> None:
    """Queued and waiting runs end `archived`; running ones are asked to stop (contract 4.1)."""
    await end_queued(tx, org, automation, how=ARCHIVED)
    await end_waiting(tx, org, automation, how=ARCHIVED)
    await stop_running(tx, org, automation, code="archived")


async def end_for_pause(tx: Tx, org: OrgId, automation: AutomationId) -> None:
    """Queued runs of slots and events end `paused`; the rest goes on (engine 15)."""
    await end_queued(tx, org, automation, how=PAUSED, started_by=(StartedBy.SCHEDULE, StartedBy.EVENT))
