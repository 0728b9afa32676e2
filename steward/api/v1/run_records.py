"""Builds the API records of runs, from `Run` records or directly from rows."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from steward.api.schema.json_passthrough import CurrentStep, RunSummary, Step
from steward.api.schema.responses import (
    Count,
    Cursor,
    Instant,
    ModeStr,
    Name,
    PositiveInt,
    RunStatusStr,
    StartedByStr,
    TemplateName,
    UlidStr,
    ViaStr,
)
from steward.api.v1.undo import UndoRecord
from steward.database.engine.base import Row
from steward.model.instants import wire_time, wire_time_of, wire_time_or_none
from steward.model.run import Run, RunStatus


class EventRecord(msgspec.Struct):
    """The store event a run came from."""

    id: UlidStr
    topic: str
    received_at: Instant


class HeldByRecord(msgspec.Struct):
    """The closed period that a run waits for; without an end until a person resumes changes."""

    name: str
    until: Instant | None


class RunRecord(msgspec.Struct):
    """A run; `undo`, `steps` and `more_steps` only on get, `held_by` while a closed period holds it."""

    id: UlidStr
    automation_id: UlidStr
    automation_name: Name
    automation_version: PositiveInt
    template_version: PositiveInt
    plan_version: PositiveInt | None
    template_id: TemplateName
    mode: ModeStr
    started_by: StartedByStr
    status: RunStatusStr
    code: str | None
    message: str | None
    slot_at: Instant | None
    event: EventRecord | None
    idempotency_key: str | None
    queued_at: Instant
    started_at: Instant | None
    waiting_since: Instant | None
    finished_at: Instant | None
    cancel_requested_at: Instant | None
    expires_at: Instant | None
    approval_id: UlidStr | None
    current_step: CurrentStep | None
    last_seq: Count
    summary: RunSummary | None
    result: Mapping[str, Any] | None
    created_by: PositiveInt | None
    created_via: ViaStr | None
    api_client_id: str | None
    undo_of: UlidStr | None
    undo: UndoRecord | UnsetType | None = UNSET
    held_by: HeldByRecord | UnsetType = UNSET
    steps: list[Step] | UnsetType = UNSET
    more_steps: bool | UnsetType = UNSET


class RunResponse(msgspec.Struct):
    """A run."""

    run: RunRecord


class RunsResponse(msgspec.Struct):
    """A page of runs."""

    runs: list[RunRecord]
    next_cursor: Cursor | None


def record(run: Run) -> RunRecord:
    """Returns the API record of the run, without its steps."""
    event = run.event
    return RunRecord(
        id=run.id,
        automation_id=run.automation_id,
        automation_name=run.automation_name,
        automation_version=run.automation_version,
        template_version=run.template_version,
        plan_version=run.plan_version,
        template_id=run.template_id,
        mode=run.mode,
        started_by=run.started_by,
        status=run.status,
        code=run.code,
        message=run.message,
        slot_at=wire_time_or_none(run.slot_at),
        event=EventRecord(event.id, event.topic, wire_time(event.received_at)) if event else None,
        idempotency_key=run.idempotency_key,
        queued_at=wire_time(run.queued_at),
        started_at=wire_time_or_none(run.started_at),
        waiting_since=wire_time_or_none(run.waiting_since),
        finished_at=wire_time_or_none(run.finished_at),
        cancel_requested_at=wire_time_or_none(run.cancel_requested_at),
        expires_at=wire_time_or_none(run.expires_at),
        approval_id=run.approval_id,
        current_step=run.current_step,
        last_seq=run.last_seq,
        summary=run.summary,
        result=run.result,
        created_by=run.maker.created_by,
        created_via=run.maker.created_via,
        api_client_id=run.maker.api_client_id,
        undo_of=run.undo_of,
        held_by=UNSET
        if run.held_name is None
        else HeldByRecord(run.held_name, wire_time_or_none(run.held_until)),
    )


def record_of_row(row: Row) -> RunRecord:
    """Returns the API record directly from a row, without a `Run`: polling reads the same run often."""
    is_running = row["status"] == RunStatus.RUNNING
    event = None
    if row["event_id"] is not None:
        event = EventRecord(row["event_id"], row["event_topic"], wire_time_of(row["event_received_at"]))
    return RunRecord(
        id=row["id"],
        automation_id=row["automation_id"],
        automation_name=row["automation_name"],
        automation_version=row["automation_version"],
        template_version=row["template_version"],
        plan_version=row["plan_version"],
        template_id=row["template_id"],
        mode=row["mode"],
        started_by=row["started_by"],
        status=row["status"],
        code=row["code"],
        message=row["message"],
        slot_at=_wire(row["slot_at"]),
        event=event,
        idempotency_key=row["idempotency_key"],
        queued_at=wire_time_of(row["queued_at"]),
        started_at=_wire(row["started_at"]),
        waiting_since=_wire(row["waiting_since"]),
        finished_at=_wire(row["finished_at"]),
        cancel_requested_at=_wire(row["cancel_at"]),
        expires_at=_wire(row["expires_at"]),
        approval_id=row["approval_id"],
        current_step=_raw_json(row["current_step"]) if is_running else None,
        last_seq=row["last_seq"],
        summary=_raw_json(row["summary"]),
        result=_raw_json(row["result"]),
        created_by=row["created_by"],
        created_via=row["created_via"],
        api_client_id=row["api_client_id"],
        undo_of=row["undo_of"],
        held_by=UNSET
        if row["held_name"] is None
        else HeldByRecord(row["held_name"], _wire(row["held_until"])),
    )


def _wire(stored: int | None) -> str | None:
    return None if stored is None else wire_time_of(stored)


def _raw_json(stored: str | None) -> Any:
    """Returns stored JSON unchanged."""
    return msgspec.Raw(stored.encode("utf-8")) if stored else None
