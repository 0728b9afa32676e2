"""Runs over HTTP: run now, list, follow, their changes, cancel."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from steward.api.http.operation import MIB, ApiCall, Operation, Response, replayed
from steward.api.schema.fields import (
    CommaList,
    PageQuery,
    QueryNotNegative,
    QueryParameters,
    QueryPositive,
)
from steward.api.schema.json_passthrough import Change
from steward.api.schema.responses import (
    Cursor,
)
from steward.api.v1.run_list import RunsQuery, find
from steward.api.v1.run_records import RunResponse, RunsResponse, record, record_of_row
from steward.api.v1.run_start import RunNowBody, run_now
from steward.api.v1.undo import UndoBody, record_of, rules_of
from steward.database.engine.base import Row, Tx, WeightedAct
from steward.database.runs import changes, undos
from steward.database.runs import records as runs
from steward.model.account import Scope
from steward.model.change import Outcome
from steward.model.ids import ChangeId, RunId
from steward.model.refusals import KeyReused, NotConnected, NotReady, Refusal, TooManyWaiting, WrongState
from steward.runs import cancel as cancelling
from steward.runs import undo as undoing
from steward.runs.start import StartedRun
from steward.runs.undo import UndoCommand

STEPS_PER_RESPONSE = 200
CHANGES_SHOWN = 50


class ChangesResponse(msgspec.Struct):
    """A page of a run's changes."""

    changes: list[Change]
    next_cursor: Cursor | None


class RunQuery(QueryParameters):
    """Query parameters: which steps of a run to return."""

    after_seq: QueryNotNegative = 0


class ChangesQuery(PageQuery):
    """Query parameters: which changes of a run to list."""

    seq: QueryPositive | None = None
    outcome: Annotated[list[Outcome], CommaList] | None = None


async def get(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /v1/automations/runs/{runId}` with the run and at most 200 steps after `after_seq`."""
    query: RunQuery = call.query
    run = RunId(call.ids["run_id"])
    run_row, step_rows = await runs.get_with_steps(
        tx, call.actor.org, run, after_seq=query.after_seq, limit=STEPS_PER_RESPONSE + 1
    )
    response = record_of_row(run_row)
    response.more_steps = len(step_rows) > STEPS_PER_RESPONSE
    log = step_rows[:STEPS_PER_RESPONSE]
    names = {row["name"] for row in log if row["changes_total"]}
    first: dict[tuple[str, str], list[str]] = {}
    response.undo = await record_of(tx, run_row, call.context.rules)
    if names:
        undo_runs = (
            [RunId(undo_run) for undo_run in response.undo.run_ids] if response.undo is not None else []
        )
        first = await changes.first_of(
            tx, call.actor.org, run, names=names, undo_runs=undo_runs, limit=CHANGES_SHOWN
        )
    response.steps = [_step(row, first) for row in log]
    return RunResponse(response)


def _step(row: Row, first: Mapping[tuple[str, str], list[str]]) -> msgspec.Raw:
    """Returns the JSON of a log row with the current state of its first changes."""
    total = row["changes_total"]
    listed = ",".join(first.get((row["name"], row["iteration"]), ())) if total else ""
    return msgspec.Raw(f'{row["wire"][:-1]},"changes":[{listed}],"changes_total":{total}}}'.encode())


async def find_changes(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /v1/automations/runs/{runId}/changes` with the changes by step `seq`, then by id."""
    query: ChangesQuery = call.query
    run = RunId(call.ids["run_id"])
    await runs.automation_of(tx, call.actor.org, run)
    key = call.page_start()
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
    cursor = call.next_cursor([page[-1].seq, page[-1].position]) if more else None
    return ChangesResponse([msgspec.Raw(change.wire.encode("utf-8")) for change in page], cursor)


async def undo(call: ApiCall) -> Response:
    """Handles `POST /v1/automations/runs/{runId}/undo`.

    Starts one undo per idempotency key, which waits for approval.
    """
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
    response = RunResponse(record(started.run))
    if started.replayed:
        return replayed(response)
    context.log.info("undo_started", org=org, run=started.run.id, undo_of=run)
    return response


async def cancel(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /v1/automations/runs/{runId}/cancel`.

    A queued run ends now, a running one at its next checkpoint.
    """
    return RunResponse(record(await cancelling.cancel(tx, call.actor, RunId(call.ids["run_id"]))))


OPERATIONS = (
    Operation(
        name="automations.run",
        method="POST",
        path="/v1/automations/{automation_id}/runs",
        scope=Scope.WRITE,
        committing=run_now,
        body=RunNowBody,
        response=RunResponse,
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
        response=RunsResponse,
        summary="List runs",
    ),
    Operation(
        name="runs.get",
        method="GET",
        path="/v1/automations/runs/{run_id}",
        scope=Scope.READ,
        function=get,
        query=RunQuery,
        response=RunResponse,
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
        response=ChangesResponse,
        summary="List a run's changes",
    ),
    Operation(
        name="runs.undo",
        method="POST",
        path="/v1/automations/runs/{run_id}/undo",
        scope=Scope.WRITE,
        committing=undo,
        body=UndoBody,
        response=RunResponse,
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
        response=RunResponse,
        summary="Cancel run",
        refusals=(WrongState,),
        writes=True,
        wakes=("ready",),
    ),
)
