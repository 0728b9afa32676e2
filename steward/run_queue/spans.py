"""Makes the trace of a finished run from its rows, so that a run of several workers is one trace."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from steward.database.engine.base import Engine, Tx
from steward.database.runs import approvals, steps
from steward.database.runs import records as runs
from steward.database.runs.approvals import PastApproval
from steward.model.ids import OrgId, RunId
from steward.model.refusals import Refusal
from steward.model.run import TERMINAL, Run, RunStatus
from steward.telemetry.traces import Span, Traces, run_span, span_within

_MOST_APPROVALS = 100
_FAILED = frozenset({RunStatus.FAILED, RunStatus.EXPIRED})


async def add_finished(
    traces: Traces, engine: Engine, now: datetime, *, org: OrgId, run: RunId, attempt: int
) -> None:
    """Adds the spans of the run if it has ended. Of runs that succeeded, only the sampled share is added."""
    if not traces.is_on:
        return
    try:
        row, wires, past_approvals = await engine.read(now, partial(_rows, org=org, run=run), org=org)
    except Refusal:
        return  # the run was removed or the database is away; a missing trace is no failure
    if row.status not in TERMINAL or row.finished_at is None:
        return
    if row.status is RunStatus.SUCCEEDED and not traces.is_sampled(run_span(run).trace):
        return
    for span in _spans(row, wires, past_approvals, row.finished_at, attempt):
        traces.add(span)


def add_sleep(traces: Traces, run: RunId, *, epoch: int, began_at: datetime, wake_at: datetime) -> None:
    """Adds the span of a sleep that a run begins, up to when it is due to wake.

    Nothing tells of a sleep afterwards, so it is added at its beginning, for runs of the sampled share.
    """
    root = run_span(run)
    if traces.is_sampled(root.trace):
        span_id = span_within(run, "sleep", epoch)  # a run sleeps once for each time that a worker takes it
        traces.add(Span("wait", span_id, began_at, wake_at, {"steward.kind": "sleep"}, parent=root))


async def _rows(tx: Tx, org: OrgId, run: RunId) -> tuple[Run, list[str], list[PastApproval]]:
    return (
        await runs.get(tx, org, run),
        [wire for _, wire in await steps.rows_of(tx, org, run)],
        await approvals.decided_of_run(tx, org, run, limit=_MOST_APPROVALS),
    )


def _spans(
    run: Run,
    wires: Sequence[str],
    past_approvals: Sequence[PastApproval],
    finished_at: datetime,
    attempt: int,
) -> Iterator[Span]:
    root = run_span(run.id)
    is_error = run.status in _FAILED
    yield Span("run", root, run.queued_at, finished_at, _run_attributes(run, attempt), is_error=is_error)
    for wire in wires:
        step: Mapping[str, Any] = msgspec.json.decode(wire)
        attributes: dict[str, str | int] = {
            "steward.seq": step["seq"],
            "steward.step_type": step["kind"],
            "steward.status": step["status"],
            "steward.attempt": step["attempt"],
        }
        if step["code"]:
            attributes["steward.code"] = step["code"]
        yield Span(
            "step",
            span_within(run.id, "step", step["seq"], step["attempt"]),
            datetime.fromisoformat(step["started_at"]),
            datetime.fromisoformat(step["finished_at"]),
            attributes,
            parent=root,
            is_error=step["status"] == "failed",
        )
    for past in past_approvals:
        approval = past.approval
        yield Span(
            "wait",
            span_within(run.id, "approval", approval.round),
            approval.created_at,
            approval.decided_at or finished_at,
            {"steward.kind": "approval", "steward.status": str(approval.status)},
            parent=root,
        )


def _run_attributes(run: Run, attempt: int) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "steward.org": run.org,
        "steward.automation": run.automation_id,
        "steward.run": run.id,
        "steward.template": run.template_id,
        "steward.mode": str(run.mode),
        "steward.started_by": str(run.started_by),
        "steward.status": str(run.status),
        "steward.attempts": attempt,
    }
    if run.code is not None:
        attributes["steward.code"] = run.code
    counts = run.summary.get("counts") if run.summary is not None else None
    if isinstance(counts, dict):
        for outcome, count in counts.items():
            if isinstance(count, int) and count:
                attributes[f"steward.changes.{outcome}"] = count
    return attributes
