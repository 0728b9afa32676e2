"""Runs as records: created, read and listed; `transitions.py` moves them between states."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from steward.database.engine.base import Json, PerEngine, Row, Tx, from_ms, from_ms_or_none, ms
from steward.database.runs import steps
from steward.model.account import CreatedVia, Creator
from steward.model.automation import Automation
from steward.model.ids import ApprovalId, AutomationId, OrgId, PersonId, RunId
from steward.model.json import JsonObject
from steward.model.refusals import NotFound
from steward.model.run import EventRef, Mode, Queue, Run, RunStatus, StartedBy

COLUMNS = """
    runs.org_id, runs.id, runs.automation_id, runs.mode, runs.status, runs.last_seq, runs.plan_version,
    runs.slot_at, runs.approval_id, runs.cancel_at, runs.queued_at, runs.started_at, runs.waiting_since,
    runs.expires_at, runs.finished_at, runs.automation_name, runs.automation_version, runs.template_id,
    runs.template_version, runs.started_by, runs.event_id, runs.event_topic, runs.event_received_at,
    runs.idempotency_key, runs.created_by, runs.created_via, runs.api_client_id, runs.code, runs.message,
    runs.current_step, runs.summary, runs.result, runs.undo_of, runs.held_name, runs.held_until
"""


# Calling an enumeration costs as much as ten dictionary look-ups.
_STATUSES = {status.value: status for status in RunStatus}
_MODES = {mode.value: mode for mode in Mode}
_STARTERS = {starter.value: starter for starter in StartedBy}
_VIAS = {via.value: via for via in CreatedVia}
_decoded = msgspec.json.Decoder().decode
_GET = f"SELECT {COLUMNS} FROM runs WHERE runs.org_id = :org AND runs.id = :run"


# With this column, a run without changes, as most are, needs no further statement for its undo.
_HAS_CHANGES = "EXISTS (SELECT 1 FROM changes AS c WHERE c.org_id = :org AND c.run_id = :run) AS has_changes"
# One round trip on PostgreSQL; SQLite, which has none, only reads the steps if there are any.
_GET_WITH_STEPS = PerEngine(
    sqlite=f"SELECT {COLUMNS}, {_HAS_CHANGES} FROM runs WHERE runs.org_id = :org AND runs.id = :run",
    postgresql=f"SELECT {COLUMNS}, {_HAS_CHANGES},"
    " (SELECT json_agg(s.*) FROM (SELECT name, iteration, changes_total, wire"
    " FROM steps WHERE org_id = :org AND run_id = :run AND seq > :seq ORDER BY seq LIMIT :limit) AS s"
    ") AS steps"
    " FROM runs WHERE runs.org_id = :org AND runs.id = :run",
)

_MANY_INTO = (
    "INSERT INTO runs (org_id, id, automation_id, mode, status, queue, vt, epoch, attempt, last_seq,"
    " plan_version, slot_at, leased_ms, queued_at, finished_at, automation_name, automation_version,"
    " template_id, template_version, started_by, code, message, event_id, event_topic, event_received_at,"
    " integration_id)"
    " SELECT :org, r.value ->> 0, r.value ->> 1, 'live', r.value ->> 2, r.value ->> 3,"
)
_MANY = PerEngine(
    _MANY_INTO + " r.value ->> 4, 0, 1, 0, r.value ->> 5, r.value ->> 6, 0, :now, r.value ->> 7,"
    " r.value ->> 8, r.value ->> 9, r.value ->> 10, r.value ->> 11, r.value ->> 12, r.value ->> 13,"
    " r.value ->> 14, r.value ->> 15, r.value ->> 16, r.value ->> 17, r.value ->> 18"
    " FROM json_each(:rows) AS r",
    _MANY_INTO + " (r.value ->> 4)::bigint, 0, 1, 0, (r.value ->> 5)::bigint, (r.value ->> 6)::bigint, 0,"
    " :now, (r.value ->> 7)::bigint, r.value ->> 8, (r.value ->> 9)::bigint, r.value ->> 10,"
    " (r.value ->> 11)::bigint, r.value ->> 12, r.value ->> 13, r.value ->> 14, r.value ->> 15,"
    " r.value ->> 16, (r.value ->> 17)::bigint, (r.value ->> 18)::bigint"
    " FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r",
)


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to store."""

    id: RunId
    automation: Automation
    mode: Mode
    started_by: StartedBy
    status: RunStatus
    queue: Queue
    vt: int
    slot_at: datetime | None
    event: EventRef | None
    idempotency_key: str | None
    maker: Creator
    refused: tuple[str, str] | None
    undo_of: RunId | None = None


async def insert(tx: Tx, org: OrgId, run: NewRun) -> None:
    """Stores a run."""
    automation, event = run.automation, run.event
    code, message = run.refused or (None, None)
    await tx.execute(
        "INSERT INTO runs (org_id, id, automation_id, integration_id, mode, status, queue, vt, epoch,"
        " attempt, last_seq, plan_version, slot_at, leased_ms, queued_at, finished_at, automation_name,"
        " automation_version, template_id, template_version, started_by, event_id, event_topic,"
        " event_received_at, idempotency_key, created_by, created_via, api_client_id, code, message, undo_of)"
        " VALUES (:org, :id, :automation, :store, :mode, :status, :queue, :vt, 0, 1, 0, :plan, :slot_at, 0,"
        " :now, :finished, :name, :version, :template, :template_version, :started_by, :event_id, :topic,"
        " :received_at, :key, :person, :via, :client, :code, :message, :undo_of)",
        {
            "org": org,
            "id": run.id,
            "automation": automation.id,
            "store": automation.integration_id,
            "mode": run.mode,
            "status": run.status,
            "queue": run.queue,
            "vt": run.vt,
            "plan": automation.plan_version,
            "slot_at": run.slot_at,
            "finished": tx.now if run.queue is Queue.DONE else None,
            "name": automation.name,
            "version": automation.version,
            "template": automation.template_id,
            "template_version": automation.template_version,
            "started_by": run.started_by,
            "event_id": event.id if event else None,
            "topic": event.topic if event else None,
            "received_at": event.received_at if event else None,
            "key": run.idempotency_key,
            "person": run.maker.created_by,
            "via": run.maker.created_via,
            "client": run.maker.api_client_id,
            "code": code,
            "message": message,
            "undo_of": run.undo_of,
        },
    )


async def insert_many(tx: Tx, org: OrgId, new: Sequence[NewRun]) -> None:
    """Stores live runs of slots or events in one statement."""
    rows = [
        [
            run.id,
            run.automation.id,
            run.status,
            run.queue,
            run.vt,
            run.automation.plan_version,
            None if run.slot_at is None else ms(run.slot_at),
            ms(tx.now) if run.refused else None,
            run.automation.name,
            run.automation.version,
            run.automation.template_id,
            run.automation.template_version,
            run.started_by,
            *(run.refused or (None, None)),
            *(_event(run.event) if run.event else (None, None, None)),
            run.automation.integration_id,
        ]
        for run in new
    ]
    await tx.execute(_MANY, {"org": org, "rows": Json(rows)})


async def set_exempt(tx: Tx, org: OrgId, exempt: Collection[RunId]) -> None:
    """Marks runs that a person exempted from closed periods."""
    if exempt:
        await tx.execute(
            "UPDATE runs SET exempt = TRUE WHERE org_id = :org AND id IN (:exempt)",
            {"org": org, "exempt": list(exempt)},
        )


async def is_exempt(tx: Tx, org: OrgId, run: RunId) -> bool:
    """Returns whether a person exempted the run from closed periods."""
    row = await tx.first(
        "SELECT exempt FROM runs WHERE org_id = :org AND id = :run", {"org": org, "run": run}
    )
    return row is not None and bool(row["exempt"])


def _event(event: EventRef) -> tuple[str, str, int]:
    return event.id, event.topic, ms(event.received_at)


async def status(tx: Tx, org: OrgId, run: RunId) -> RunStatus | None:
    """Returns the run's status, or None when there is no such run."""
    row = await tx.first(
        "SELECT status FROM runs WHERE org_id = :org AND id = :run", {"org": org, "run": run}
    )
    return RunStatus(row["status"]) if row else None


async def automation_of(tx: Tx, org: OrgId, run: RunId) -> AutomationId:
    """Returns the automation of a run. Raises NotFound."""
    row = await tx.first(
        "SELECT automation_id FROM runs WHERE org_id = :org AND id = :run", {"org": org, "run": run}
    )
    if row is None:
        raise NotFound
    return AutomationId(row["automation_id"])


async def get(tx: Tx, org: OrgId, run: RunId) -> Run:
    """Returns the run. Raises NotFound, also for a run of another organization."""
    row = await tx.first(_GET, {"org": org, "run": run})
    if row is None:
        raise NotFound
    return record(row)


async def get_with_steps(
    tx: Tx, org: OrgId, run: RunId, *, after_seq: int, limit: int
) -> tuple[Row, Sequence[Row]]:
    """Returns the run's row of `COLUMNS` with `has_changes`, and its steps' rows as `steps.after` does.

    Raises NotFound.
    """
    row = await tx.first(_GET_WITH_STEPS, {"org": org, "run": run, "seq": after_seq, "limit": limit})
    if row is None:
        raise NotFound
    if tx.dialect == "postgresql":
        return row, _decoded(row["steps"]) if row["steps"] else ()
    if row["last_seq"] <= after_seq:
        return row, ()
    return row, await steps.after(tx, org, run, seq=after_seq, limit=limit)


async def set_current_step(tx: Tx, org: OrgId, run: RunId, *, epoch: int, step: JsonObject) -> None:
    """Stores the current activity of a running run; for display only, and may be lost."""
    await tx.execute(
        "UPDATE runs SET current_step = :step"
        " WHERE org_id = :org AND id = :run AND epoch = :epoch AND queue = 'leased'",
        {"org": org, "run": run, "epoch": epoch, "step": json.dumps(step)},
    )


def record(row: Row) -> Run:
    """Returns the run in a row of `COLUMNS`."""
    status = _STATUSES[row["status"]]
    event = (
        EventRef(row["event_id"], row["event_topic"], from_ms(row["event_received_at"]))
        if row["event_id"] is not None
        else None
    )
    has_current_step = status is RunStatus.RUNNING and row["current_step"] is not None
    return Run(
        org=OrgId(row["org_id"]),
        id=RunId(row["id"]),
        automation_id=AutomationId(row["automation_id"]),
        automation_name=row["automation_name"],
        automation_version=row["automation_version"],
        template_id=row["template_id"],
        template_version=row["template_version"],
        plan_version=row["plan_version"],
        mode=_MODES[row["mode"]],
        started_by=_STARTERS[row["started_by"]],
        status=status,
        code=row["code"],
        message=row["message"],
        slot_at=from_ms_or_none(row["slot_at"]),
        event=event,
        idempotency_key=row["idempotency_key"],
        queued_at=from_ms(row["queued_at"]),
        started_at=from_ms_or_none(row["started_at"]),
        waiting_since=from_ms_or_none(row["waiting_since"]),
        finished_at=from_ms_or_none(row["finished_at"]),
        cancel_requested_at=from_ms_or_none(row["cancel_at"]),
        expires_at=from_ms_or_none(row["expires_at"]),
        approval_id=ApprovalId(row["approval_id"]) if row["approval_id"] else None,
        current_step=_decoded(row["current_step"]) if has_current_step else None,
        last_seq=row["last_seq"],
        summary=_decoded(row["summary"]) if row["summary"] else None,
        result=_decoded(row["result"]) if row["result"] else None,
        held_name=row["held_name"],
        held_until=from_ms_or_none(row["held_until"]),
        maker=Creator(
            PersonId(row["created_by"]) if row["created_by"] is not None else None,
            _VIAS[row["created_via"]] if row["created_via"] else None,
            row["api_client_id"],
        ),
        undo_of=RunId(row["undo_of"]) if row["undo_of"] else None,
    )


async def set_payload(tx: Tx, org: OrgId, run: RunId, *, key_no: int, sealed: bytes) -> None:
    """Stores the sealed payload of a manually started run."""
    await tx.execute(
        "UPDATE runs SET payload = :payload, payload_key = :key WHERE org_id = :org AND id = :run",
        {"org": org, "run": run, "payload": sealed, "key": key_no},
    )


async def payload(tx: Tx, org: OrgId, run: RunId) -> tuple[int, bytes] | None:
    """Returns the data key's number and the sealed payload of a run; None for a run without payload."""
    row = await tx.first(
        "SELECT payload, payload_key FROM runs WHERE org_id = :org AND id = :run AND payload IS NOT NULL",
        {"org": org, "run": run},
    )
    return None if row is None else (row["payload_key"], bytes(row["payload"]))


async def set_versions(tx: Tx, org: OrgId, run: RunId, *, automation: int, template: int) -> None:
    """Sets the versions that a run starts with."""
    await tx.execute(
        "UPDATE runs SET automation_version = :automation, template_version = :template"
        " WHERE org_id = :org AND id = :run",
        {"org": org, "run": run, "automation": automation, "template": template},
    )
