"""The transitions of a run between queue, workers and its end, each guarded by status, epoch or both."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from steward.database.due_rows import NOT_DEFERRED
from steward.database.engine.base import PerEngine, Row, Tx, from_ms, from_ms_or_none
from steward.model.ids import ApprovalId, AutomationId, OrgId, RunId, WorkerId
from steward.model.json import JsonObject
from steward.model.run import Mode, Queue, RunStatus, kinds


@dataclass(frozen=True, slots=True)
class Lease:
    """A run leased to a worker; the epoch is the fencing token. `is_first_start`: it has not started yet."""

    org: OrgId
    run: RunId
    epoch: int
    attempt: int
    is_first_start: bool = True


@dataclass(frozen=True, slots=True)
class RunState:
    """The run's own row with the fields that workers need."""

    automation: AutomationId
    mode: Mode
    status: RunStatus
    queue: Queue
    last_seq: int
    attempt: int
    plan_version: int | None
    slot_at: datetime | None
    queued_at: datetime
    started_at: datetime | None
    approval: ApprovalId | None
    cancel_at: datetime | None
    cancel_code: str | None
    leased_ms: int
    is_undo: bool


# Losses of a run that are further apart than this are counted separately.
_LOSSES_APART = timedelta(hours=1)
_text = json.JSONEncoder(
    ensure_ascii=False
).encode  # created once: `json.dumps` would create an encoder at every call
_FENCE = " WHERE org_id = :org AND id = :run AND epoch = :epoch AND queue = 'leased'"
_OUTCOME = (
    "code = :code, message = :message, current_step = NULL,"
    " summary = coalesce(CAST(:summary AS text), summary), result = coalesce(CAST(:result AS text), result)"
)


def _fenced(lease: Lease, **more: object) -> dict[str, object]:
    return {"org": lease.org, "run": lease.run, "epoch": lease.epoch, **more}


@dataclass(frozen=True, slots=True)
class Claim:
    """Leases in fair order, the largest stamp among their runs, and the fairness clock before it advances."""

    leases: list[Lease]
    last_vt: int
    clock: int


async def claim(
    tx: Tx, worker: WorkerId, *, free: int, full: Sequence[OrgId], first_vt: int = 0
) -> Claim | None:
    """Leases up to `free` ready runs stamped `first_vt` or more, none of the organizations in `full`.

    Returns None when there is none. On PostgreSQL the claim also advances the fairness clock.
    """
    # SQLite 3.40 answers `IS NULL` after RETURNING with 0 for a table without rowid, even for NULL.
    rows = await tx.all(
        PerEngine(
            "UPDATE runs SET queue = 'leased', worker_id = :worker, epoch = runs.epoch + 1"
            " FROM (SELECT org_id, id FROM runs"
            "  WHERE queue = 'ready' AND vt >= :first_vt AND org_id NOT IN (:full)"
            "  AND EXISTS (SELECT 1 FROM workers WHERE worker_id = :worker AND state = 'alive'"
            "   AND lease_until > {now})"
            "  ORDER BY vt, id LIMIT :free) AS taken"
            " WHERE runs.org_id = taken.org_id AND runs.id = taken.id"
            " RETURNING org_id, id, vt, epoch, attempt, coalesce(started_at, 0) = 0 AS is_fresh,"
            " (SELECT vt FROM fairness_clock) AS clock",
            "SELECT org_id, id, vt, epoch, attempt, is_fresh, clock FROM queue_claim("
            ":worker, :free, :full, :first_vt, :test_now)",
        ),
        {"worker": worker, "free": free, "full": list(full), "first_vt": first_vt, "test_now": tx.test_now},
    )
    if not rows:
        return None
    in_order = sorted(rows, key=lambda row: int(row["vt"]))
    leases = [
        Lease(OrgId(row["org_id"]), RunId(row["id"]), row["epoch"], row["attempt"], bool(row["is_fresh"]))
        for row in in_order
    ]
    return Claim(leases, int(in_order[-1]["vt"]), int(rows[0]["clock"]))


async def full_organizations(tx: Tx, cap: int) -> list[OrgId]:
    """Returns the organizations with `cap` or more leased runs; none if workers have fewer slots."""
    rows = await tx.all(
        PerEngine(
            "SELECT org_id FROM runs WHERE queue = 'leased' GROUP BY org_id HAVING count(*) >= :cap",
            "SELECT org_id FROM queue_full_orgs(:cap)",
        ),
        {"cap": cap},
    )
    return [OrgId(row["org_id"]) for row in rows]


async def read_state(tx: Tx, org: OrgId, run: RunId, *, lock: bool = False) -> RunState | None:
    """Returns the run's own row; `lock` it on PostgreSQL only with its queue locked."""
    row = await tx.first(
        "SELECT automation_id, mode, status, queue, last_seq, attempt, plan_version, slot_at, queued_at,"
        " started_at, approval_id, cancel_at, cancel_code, leased_ms, undo_of FROM runs"
        f" WHERE org_id = :org AND id = :run{' {for_update}' if lock else ''}",
        {"org": org, "run": run},
    )
    return state_of_row(row) if row else None


def state_of_row(row: Row) -> RunState:
    """Returns the state in a run's row."""
    return RunState(
        automation=AutomationId(row["automation_id"]),
        mode=Mode(row["mode"]),
        status=RunStatus(row["status"]),
        queue=Queue(row["queue"]),
        last_seq=row["last_seq"],
        attempt=row["attempt"],
        plan_version=row["plan_version"],
        slot_at=from_ms_or_none(row["slot_at"]),
        queued_at=from_ms(row["queued_at"]),
        started_at=from_ms_or_none(row["started_at"]),
        approval=ApprovalId(row["approval_id"]) if row["approval_id"] else None,
        cancel_at=from_ms_or_none(row["cancel_at"]),
        cancel_code=row["cancel_code"],
        leased_ms=row["leased_ms"],
        is_undo=row["undo_of"] is not None,
    )


async def start(tx: Tx, lease: Lease) -> bool:
    """Begins a checked run; returns False if it was cancelled or lost in the meantime."""
    touched = await tx.execute(
        "UPDATE runs SET status = 'running', started_at = coalesce(started_at, {now})"
        + _FENCE
        + " AND status = 'queued'",
        _fenced(lease),
    )
    return touched == 1


async def advance(tx: Tx, lease: Lease, *, seq: int) -> tuple[bool, str | None]:
    """Advances to step `seq`; returns whether the run is still owned, and a cancel request's code."""
    row = await tx.first(
        "UPDATE runs SET last_seq = :seq" + _FENCE + " AND last_seq = :before RETURNING cancel_code",
        _fenced(lease, seq=seq, before=seq - 1),
    )
    return (True, row["cancel_code"]) if row else (False, None)


async def lock_lease(tx: Tx, lease: Lease) -> tuple[bool, str | None]:
    """Returns whether the run is still owned, locking it on PostgreSQL, and the code of a cancel request."""
    row = await tx.first("SELECT cancel_code FROM runs" + _FENCE + " {for_update}", _fenced(lease))
    return (True, row["cancel_code"]) if row else (False, None)


async def read_lease(tx: Tx, lease: Lease) -> tuple[bool, str | None]:
    """Returns the same as `lock_lease` without locking."""
    row = await tx.first("SELECT cancel_code FROM runs" + _FENCE, _fenced(lease))
    return (True, row["cancel_code"]) if row else (False, None)


async def park(tx: Tx, lease: Lease, *, approval: ApprovalId, expires_at: datetime, leased_ms: int) -> bool:
    """Parks the run for approval; returns False when its lease was lost or it is to be cancelled."""
    touched = await tx.execute(
        "UPDATE runs SET status = 'waiting_approval', queue = 'parked', worker_id = NULL,"
        " approval_id = :approval, expires_at = :expires_at, waiting_since = :now,"
        " leased_ms = leased_ms + :leased_ms" + _FENCE + " AND cancel_at IS NULL",
        _fenced(lease, approval=approval, expires_at=expires_at, leased_ms=leased_ms),
    )
    return touched == 1


async def sleep(
    tx: Tx,
    lease: Lease,
    *,
    until: datetime,
    leased_ms: int,
    settles: bool,
    held: tuple[str, datetime | None] | None = None,
) -> bool:
    """Puts the run to sleep until an instant, still active in its queue; returns False when it was lost.

    A run that is to be cancelled becomes ready at once instead, unless it `settles`: an open write has to
    be looked up at its time in any case. `held` is the closed period that it waits for, by name and end.
    """
    stays = "cancel_at IS NULL OR CAST(:settles AS boolean)"
    touched = await tx.execute(
        f"UPDATE runs SET queue = CASE WHEN {stays} THEN 'sleeping' ELSE 'ready' END,"
        f" vt = CASE WHEN {stays} THEN vt ELSE (SELECT c.vt FROM fairness_clock AS c) END,"
        f" wake_at = CASE WHEN {stays} THEN CAST(:until AS bigint) END, worker_id = NULL,"
        f" held_name = CASE WHEN {stays} THEN CAST(:held AS text) END,"
        " held_until = CAST(:held_until AS bigint),"
        " held_at = CASE WHEN CAST(:held AS text) IS NULL THEN held_at ELSE :now END,"
        " leased_ms = leased_ms + :leased_ms" + _FENCE,
        _fenced(
            lease,
            until=until,
            leased_ms=leased_ms,
            settles=settles,
            held=None if held is None else held[0],
            held_until=None if held is None else held[1],
        ),
    )
    return touched == 1


async def finish(
    tx: Tx,
    lease: Lease,
    status: RunStatus,
    *,
    code: str | None,
    message: str | None,
    summary: JsonObject | None = None,
    result: JsonObject | None = None,
) -> bool:
    """Ends the run with its outcome, as `set_outcome` does; returns False when it was lost."""
    touched = await tx.execute(
        "UPDATE runs SET status = :status, queue = 'done', worker_id = NULL, finished_at = :now,"
        f" expires_at = NULL, {_OUTCOME}" + _FENCE,
        _fenced(
            lease,
            status=status,
            code=code,
            message=message,
            summary=json_text(summary),
            result=json_text(result),
        ),
    )
    return touched == 1


async def end(tx: Tx, org: OrgId, run: RunId, *, status: RunStatus, from_status: RunStatus) -> bool:
    """Ends a run that no worker writes to; returns False when its status is no longer `from_status`.

    A leased but unstarted run may end too: the raised epoch fences its worker. A run that has started and
    is queued again is ended by the worker that claims it, which settles its open writes first.
    """
    touched = await tx.execute(
        "UPDATE runs SET status = :status, queue = 'done', worker_id = NULL, wake_at = NULL,"
        " held_name = NULL, held_until = NULL,"
        " finished_at = :now, epoch = epoch + 1,"
        " expires_at = CASE WHEN :status = 'expired' THEN expires_at END"
        " WHERE org_id = :org AND id = :run AND status = :from_status"
        " AND (status <> 'queued' OR started_at IS NULL)",
        {"org": org, "run": run, "status": status, "from_status": from_status},
    )
    return touched == 1


async def request_cancel(tx: Tx, org: OrgId, run: RunId, *, code: str, vt: int) -> bool:
    """Requests to cancel a run that has started and wakes it; returns False when it has not started."""
    touched = await tx.execute(
        "UPDATE runs SET cancel_at = coalesce(cancel_at, :now), cancel_code = coalesce(cancel_code, :code),"
        " queue = CASE WHEN queue = 'sleeping' THEN 'ready' ELSE queue END,"
        " vt = CASE WHEN queue = 'sleeping' THEN :vt ELSE vt END, wake_at = NULL, held_name = NULL,"
        " held_until = NULL"
        " WHERE org_id = :org AND id = :run"
        " AND (status = 'running' OR (status = 'queued' AND started_at IS NOT NULL))",
        {"org": org, "run": run, "code": code, "vt": vt},
    )
    return touched == 1


async def promote(tx: Tx, org: OrgId, run: RunId, *, vt: int) -> None:
    """Makes a blocked run ready."""
    await tx.execute(
        "UPDATE runs SET queue = 'ready', vt = :vt WHERE org_id = :org AND id = :run AND queue = 'blocked'",
        {"org": org, "run": run, "vt": vt},
    )


async def resume(tx: Tx, org: OrgId, run: RunId, *, approval: ApprovalId, vt: int) -> bool:
    """Makes a decided run ready; returns False when it no longer waits for this approval."""
    touched = await tx.execute(
        "UPDATE runs SET status = 'running', queue = 'ready', expires_at = NULL, vt = :vt"
        " WHERE org_id = :org AND id = :run AND status = 'waiting_approval' AND approval_id = :approval",
        {"org": org, "run": run, "approval": approval, "vt": vt},
    )
    return touched == 1


async def requeue(
    tx: Tx,
    org: OrgId,
    run: RunId,
    *,
    epoch: int,
    worker: WorkerId,
    vt: int,
    lost: bool,
    pause: timedelta | None = None,
) -> bool:
    """Takes a run from the worker that holds it under this epoch, and makes it ready.

    `lost` uses up an attempt; a release does not. Attempts are counted again when the previous loss is more
    than an hour old. With `pause` the run sleeps for that time first.
    """
    touched = await tx.execute(
        "UPDATE runs SET status = 'queued', worker_id = NULL, epoch = epoch + 1,"
        " queue = CASE WHEN CAST(:pause AS bigint) IS NULL THEN 'ready' ELSE 'sleeping' END,"
        " wake_at = {now} + CAST(:pause AS bigint),"
        " attempt = CASE WHEN NOT CAST(:lost AS boolean) THEN attempt"
        " WHEN lost_at < {now} - :apart THEN 2 ELSE attempt + 1 END,"
        " lost_at = CASE WHEN CAST(:lost AS boolean) THEN {now} ELSE lost_at END, vt = :vt"
        " WHERE org_id = :org AND id = :run AND epoch = :epoch AND queue = 'leased' AND worker_id = :worker",
        {
            "org": org,
            "run": run,
            "epoch": epoch,
            "worker": worker,
            "vt": vt,
            "lost": lost,
            "pause": None if pause is None else int(pause.total_seconds() * 1000),
            "apart": int(_LOSSES_APART.total_seconds() * 1000),
        },
    )
    return touched == 1


async def forget_losses(tx: Tx, lease: Lease) -> None:
    """Clears the losses of a run that made progress: the next loss counts as its first."""
    await tx.execute("UPDATE runs SET lost_at = 0" + _FENCE + " AND lost_at > 0", _fenced(lease))


async def to_wake(tx: Tx, limit: int = 500) -> list[tuple[OrgId, RunId]]:
    """Returns sleeping runs that are due, of all organizations, without deferred ones."""
    rows = await tx.all(
        PerEngine(
            "SELECT org_id, id FROM runs WHERE queue = 'sleeping' AND wake_at <= {now}"
            f"{NOT_DEFERRED.format(task='wake', key='runs.id')} ORDER BY wake_at LIMIT :most",
            "SELECT org_id, id FROM queue_to_wake(:most, :test_now)",
        ),
        {"most": limit, "test_now": tx.test_now},
    )
    return [(OrgId(row["org_id"]), RunId(row["id"])) for row in rows]


async def wake(tx: Tx, org: OrgId, run: RunId, *, vt: int) -> None:
    """Makes a sleeping run ready."""
    await tx.execute(
        "UPDATE runs SET queue = 'ready', wake_at = NULL, held_name = NULL, held_until = NULL, vt = :vt"
        " WHERE org_id = :org AND id = :run AND queue = 'sleeping' AND wake_at <= {now}",
        {"org": org, "run": run, "vt": vt},
    )


async def unstarted(tx: Tx, limit: timedelta, row_limit: int = 200) -> list[tuple[OrgId, RunId]]:
    """Returns undeferred runs that no worker has started within `limit`, by the database's clock."""
    rows = await tx.all(
        PerEngine(
            "SELECT org_id, id FROM runs WHERE status = 'queued' AND started_at IS NULL"
            " AND queued_at <= :before AND queue IN ('blocked', 'ready')"
            " AND NOT EXISTS (SELECT 1 FROM schedules AS s WHERE s.org_id = runs.org_id"
            " AND s.automation_id = runs.automation_id AND s.queue_opened_at > :before)"
            f"{NOT_DEFERRED.format(task='queue_limit', key='runs.id')} ORDER BY queued_at LIMIT :most",
            "SELECT org_id, id FROM queue_unstarted(:before, :most)",
        ),
        {"before": tx.now - limit, "most": row_limit},
    )
    return [(OrgId(row["org_id"]), RunId(row["id"])) for row in rows]


async def set_outcome(
    tx: Tx,
    org: OrgId,
    run: RunId,
    *,
    code: str | None,
    message: str | None,
    summary: JsonObject | None = None,
    result: JsonObject | None = None,
) -> None:
    """Stores why and how a run ended or waits; a summary or result of None stays unchanged."""
    await tx.execute(
        f"UPDATE runs SET {_OUTCOME} WHERE org_id = :org AND id = :run",
        {
            "org": org,
            "run": run,
            "code": code,
            "message": message,
            "summary": json_text(summary),
            "result": json_text(result),
        },
    )


def json_text(value: JsonObject | None) -> str | None:
    """Returns a summary or result as stored."""
    return None if value is None else _text(value)


async def ids_of(
    tx: Tx, org: OrgId, automation: AutomationId, status: RunStatus
) -> list[tuple[RunId, str, Queue]]:
    """Returns the automation's runs with this status and their triggers, oldest first.

    Leaves out undo runs: no change of their automation ends them.
    """
    rows = await tx.all(
        "SELECT id, started_by, queue FROM runs"
        " WHERE org_id = :org AND automation_id = :automation AND kind IN (:kinds) AND undo_of IS NULL"
        " ORDER BY queued_at, id",
        {"org": org, "automation": automation, "kinds": kinds([status])},
    )
    return [(RunId(row["id"]), row["started_by"], Queue(row["queue"])) for row in rows]
