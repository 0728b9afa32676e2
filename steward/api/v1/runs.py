"""Runs over HTTP: run now, list, follow, their changes, cancel."""

import unicodedata
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import BeforeValidator, Field

from steward.api.http import paging
from steward.api.http.operation import MIB, Answer, ApiCall, Operation, replayed
from steward.api.schema.answers import (
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
from steward.api.schema.fields import (
    CommaList,
    FileContent,
    FileName,
    FromJson,
    IdempotencyKey,
    IdText,
    MimeTypeText,
    OpenObject,
    PageQuery,
    QueryInt,
    QueryParameters,
    RequestBody,
    Timestamp,
    wrong,
)
from steward.api.schema.json_passthrough import Change, CurrentStep, RunSummary, Step
from steward.api.v1.undo import UndoBody, UndoRecord, record_of, rules_of
from steward.database.engine.base import Row, Tx, WeightedAct
from steward.database.runs import changes, run_lists, undos
from steward.database.runs import records as runs
from steward.database.runs.run_lists import RunFilter
from steward.model.account import Scope
from steward.model.change import Outcome
from steward.model.ids import AutomationId, ChangeId, IntegrationId, RunId
from steward.model.instants import read_time, wire_time, wire_time_of, wire_time_or_none
from steward.model.refusals import KeyReused, NotConnected, NotReady, Refusal, TooManyWaiting, WrongState
from steward.model.run import Mode, Run, RunStatus, StartedBy
from steward.runs import cancel as cancelling
from steward.runs import start
from steward.runs import undo as undoing
from steward.runs.start import RunNow, StartedRun
from steward.runs.storage.files import StoredRunFiles
from steward.runs.storage.payload import MAX_FILES, StartFile
from steward.runs.undo import UndoCommand
from steward.steps.n8n.item_files import mime_type_of

STEPS_PER_ANSWER = 200
CHANGES_SHOWN = 50


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
    """A run; `undo`, `steps` and `more_steps` on get alone, `held_by` while a closed period holds it."""

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


class RunAnswer(msgspec.Struct):
    """A run."""

    run: RunRecord


class RunsAnswer(msgspec.Struct):
    """A page of runs."""

    runs: list[RunRecord]
    next_cursor: Cursor | None


class ChangesAnswer(msgspec.Struct):
    """A page of a run's changes."""

    changes: list[Change]
    next_cursor: Cursor | None


class StartFileBody(RequestBody):
    """A file that a run starts with; without a MIME type, that of the end of its name."""

    data: FileContent
    file_name: FileName | None = None
    mime_type: MimeTypeText | None = None


def _each_named(value: Any) -> Any:
    """Refuses too many files before any is read, and names that would be one once they are normalized."""
    if type(value) is not dict:
        return value
    if len(value) > MAX_FILES:
        raise wrong(f"A run starts with at most {MAX_FILES} files. Send fewer.")
    names = {unicodedata.normalize("NFC", name) for name in value}
    if len(names) < len(value) or any(name != name.strip() for name in names):
        raise wrong("Give each file a name of its own, without blanks at its ends.")
    return value


class RunNowBody(RequestBody):
    """Run now."""

    idempotency_key: IdempotencyKey
    mode: Annotated[Mode, FromJson] = Mode.LIVE
    payload: OpenObject | None = None
    files: Annotated[dict[FileName, StartFileBody], BeforeValidator(_each_named)] | None = None


class RunsQuery(PageQuery):
    """Query parameters: which runs to list."""

    automation_id: IdText | None = None
    status: Annotated[list[RunStatus], CommaList] | None = None
    mode: Mode | None = None
    started_by: StartedBy | None = None
    since: Timestamp | None = Field(default=None, alias="from")
    until: Timestamp | None = Field(default=None, alias="to")
    undo_of: IdText | None = None


class RunQuery(QueryParameters):
    """Query parameters: which steps of a run to answer."""

    after_seq: Annotated[QueryInt, Field(ge=0)] = 0


class ChangesQuery(PageQuery):
    """Query parameters: which changes of a run to list."""

    seq: Annotated[QueryInt, Field(ge=1)] | None = None
    outcome: Annotated[list[Outcome], CommaList] | None = None


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
    """Builds the answer straight from a row, without the `Run` between: polling reads the same run often."""
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


async def run_now(call: ApiCall) -> Answer:
    """`POST /{automationId}/runs`: starts one run per idempotency key."""
    body: RunNowBody = call.body
    automation = AutomationId(call.ids["automation_id"])
    payload = None if body.payload is None else dict(body.payload)
    files = tuple(_start_file(name, file) for name, file in (body.files or {}).items())
    command = RunNow(automation, body.idempotency_key, body.mode, payload, files)
    context = call.context
    started = await start.start(
        context.engine,
        context.clock.now(),
        call.actor,
        command,
        templates=context.automation_rules.templates,
        max_waiting=context.rules.max_waiting_hand,
        weight=call.size,
        vault=context.vault,
        storage=partial(
            StoredRunFiles, context.engine, context.clock, context.vault, context.files, call.actor.org
        ),
    )
    answer = RunAnswer(record(started.run))
    return replayed(answer) if started.replayed else answer


def _start_file(name: str, body: StartFileBody) -> StartFile:
    mime_type = body.mime_type or mime_type_of(body.file_name)
    return StartFile(name, body.data, mime_type, body.file_name)


async def find(tx: Tx, call: ApiCall) -> Answer:
    """`GET /runs`: newest first; another organization's automation matches nothing."""
    return await page_of(tx, call, filter_of(call.query))


def filter_of(query: RunsQuery, *, store: IntegrationId | None = None) -> RunFilter:
    """Returns the filters of a list of runs."""
    return RunFilter(
        store=store,
        automation=AutomationId(query.automation_id) if query.automation_id else None,
        statuses=query.status or (),
        mode=query.mode,
        started_by=query.started_by,
        since=query.since,
        until=query.until,
        undo_of=RunId(query.undo_of) if query.undo_of else None,
    )


async def page_of(tx: Tx, call: ApiCall, filters: RunFilter) -> RunsAnswer:
    """Answers a page of the runs that the filters let through, newest first."""
    query: RunsQuery = call.query
    key = paging.after(call)
    after = (_instant(key[0]), RunId(str(key[1]))) if key else None
    rows = await run_lists.find(tx, call.actor.org, filters, limit=query.limit + 1, after=after)
    page = rows[: query.limit]
    more = len(rows) > query.limit
    cursor = paging.next_cursor(call, [wire_time_of(page[-1]["queued_at"]), page[-1]["id"]]) if more else None
    return RunsAnswer([record_of_row(row) for row in page], cursor)


async def get(tx: Tx, call: ApiCall) -> Answer:
    """`GET /runs/{runId}`: the run with its steps after `after_seq`, at most 200."""
    query: RunQuery = call.query
    run = RunId(call.ids["run_id"])
    run_row, step_rows = await runs.get_with_steps(
        tx, call.actor.org, run, after_seq=query.after_seq, limit=STEPS_PER_ANSWER + 1
    )
    answer = record_of_row(run_row)
    answer.more_steps = len(step_rows) > STEPS_PER_ANSWER
    log = step_rows[:STEPS_PER_ANSWER]
    names = {row["name"] for row in log if row["changes_total"]}
    first: dict[tuple[str, str], list[str]] = {}
    answer.undo = await record_of(tx, run_row, call.context.rules)
    if names:
        undo_runs = [RunId(undo_run) for undo_run in answer.undo.run_ids] if answer.undo is not None else []
        first = await changes.first_of(
            tx, call.actor.org, run, names=names, undo_runs=undo_runs, limit=CHANGES_SHOWN
        )
    answer.steps = [_step(row, first) for row in log]
    return RunAnswer(answer)


def _step(row: Row, first: Mapping[tuple[str, str], list[str]]) -> msgspec.Raw:
    """Returns the JSON of a log row with the present state of its first changes."""
    total = row["changes_total"]
    listed = ",".join(first.get((row["name"], row["iteration"]), ())) if total else ""
    return msgspec.Raw(f'{row["wire"][:-1]},"changes":[{listed}],"changes_total":{total}}}'.encode())


async def find_changes(tx: Tx, call: ApiCall) -> Answer:
    """`GET /runs/{runId}/changes`: by step `seq`, then id."""
    query: ChangesQuery = call.query
    run = RunId(call.ids["run_id"])
    await runs.automation_of(tx, call.actor.org, run)
    key = paging.after(call)
    rows = await changes.public_changes(
        tx,
        call.actor.org,
        run,
        seq=query.seq,
        outcomes=query.outcome or (),
        after=(int(str(key[0])), int(str(key[1]))) if key else None,
        undo_runs=(await undos.of_run(tx, call.actor.org, run)).runs,
        limit=query.limit + 1,
    )
    page = rows[: query.limit]
    more = len(rows) > query.limit
    cursor = paging.next_cursor(call, [page[-1].seq, page[-1].position]) if more else None
    return ChangesAnswer([msgspec.Raw(change.wire.encode("utf-8")) for change in page], cursor)


async def undo(call: ApiCall) -> Answer:
    """`POST /runs/{runId}/undo`: starts one undo per idempotency key; it waits for approval."""
    body: UndoBody = call.body
    chosen = None if body.changes is None else [ChangeId(change) for change in body.changes]
    run = RunId(call.ids["run_id"])
    command = UndoCommand(run, body.idempotency_key, chosen, body.mode)
    context, org = call.context, call.actor.org

    async def act(tx: Tx) -> StartedRun:
        return await undoing.undo(tx, call.actor, command, rules=rules_of(context.rules))

    try:
        started = await context.engine.write(context.clock.now(), WeightedAct(act, call.size), org=org)
    except Refusal as refusal:
        context.log.info("undo_refused", org=org, undo_of=run, code=refusal.code)
        raise
    answer = RunAnswer(record(started.run))
    if started.replayed:
        return replayed(answer)
    context.log.info("undo_started", org=org, run=started.run.id, undo_of=run)
    return answer


async def cancel(tx: Tx, call: ApiCall) -> Answer:
    """`POST /runs/{runId}/cancel`: a queued run ends now, a running one at its next checkpoint."""
    return RunAnswer(record(await cancelling.cancel(tx, call.actor, RunId(call.ids["run_id"]))))


def _instant(text: object) -> datetime:
    """Parses an instant of a signed cursor."""
    instant = read_time(str(text))
    assert instant is not None
    return instant


OPERATIONS = (
    Operation(
        name="automations.run",
        method="POST",
        path="/v1/automations/{automation_id}/runs",
        scope=Scope.WRITE,
        committing=run_now,
        body=RunNowBody,
        answer=RunAnswer,
        summary="Run now",
        status=201,
        refusals=(KeyReused, WrongState, NotConnected, NotReady, TooManyWaiting),
        writes=True,
        wakes=("ready",),
        body_limit=8 * MIB,
    ),
    Operation(
        name="runs.list",
        method="GET",
        path="/v1/automations/runs",
        scope=Scope.READ,
        function=find,
        query=RunsQuery,
        answer=RunsAnswer,
        summary="List runs",
    ),
    Operation(
        name="runs.get",
        method="GET",
        path="/v1/automations/runs/{run_id}",
        scope=Scope.READ,
        function=get,
        query=RunQuery,
        answer=RunAnswer,
        summary="Get run",
        small=True,
    ),
    Operation(
        name="runs.list_changes",
        method="GET",
        path="/v1/automations/runs/{run_id}/changes",
        scope=Scope.READ,
        function=find_changes,
        query=ChangesQuery,
        answer=ChangesAnswer,
        summary="List a run's changes",
    ),
    Operation(
        name="runs.undo",
        method="POST",
        path="/v1/automations/runs/{run_id}/undo",
        scope=Scope.WRITE,
        committing=undo,
        body=UndoBody,
        answer=RunAnswer,
        summary="Undo run",
        status=201,
        refusals=(KeyReused, WrongState, NotConnected, TooManyWaiting),
        writes=True,
        wakes=("ready",),
    ),
    Operation(
        name="runs.cancel",
        method="POST",
        path="/v1/automations/runs/{run_id}/cancel",
        scope=Scope.WRITE,
        function=cancel,
        answer=RunAnswer,
        summary="Cancel run",
        refusals=(WrongState,),
        writes=True,
        wakes=("ready",),
    ),
)
