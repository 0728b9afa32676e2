"""Builds the trace of a finished run from its rows, so that a run of several workers is one trace."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

import msgspec

from steward.database.engine.base import Engine, Tx
from steward.database.runs import approvals, steps
from steward.database.runs import records as runs
from steward.database.runs.approvals import PastApproval
from steward.model.ids import OrgId, RunId
from steward.model.refusals import Refusal
from steward.model.run import TERMINAL, Run, RunStatus
from steward.telemetry.traces import Span, Traces, run_span, span_within

_MAX_APPROVALS = 100
STEPS_AT_ONCE = 100
_FAILED = frozenset({RunStatus.FAILED, RunStatus.EXPIRED})


class _Step(msgspec.Struct):
    """The data of a step for its span, as in its row."""

    seq: int
    kind: str
    status: str
    attempt: int
    code: str | None
    started_at: datetime
    finished_at: datetime


_decode_step = msgspec.json.Decoder(_Step).decode


async def add_finished(
    traces: Traces, engine: Engine, now: datetime, *, org: OrgId, run: RunId, attempt: int
) -> None:
    """Adds the spans of the run if it has ended; of succeeded runs, only the sampled share."""
    if not traces.is_on:
        return
    try:
        row, past_approvals, steps_read = await engine.read(
            now, partial(_rows, org=org, run=run), org=org, small=True
        )
        if row.status not in TERMINAL or row.finished_at is None:
            return
        if row.status is RunStatus.SUCCEEDED and not traces.is_sampled(run_span(run).trace):
            return
        _add_run(traces, row, past_approvals, row.finished_at, attempt)
        _add_steps(traces, run, steps_read)
        while len(steps_read) == STEPS_AT_ONCE:
            following = partial(_steps_after, org=org, run=run, seq=steps_read[-1].seq)
            steps_read = await engine.read(now, following, org=org, small=True)
            _add_steps(traces, run, steps_read)
    except Refusal:
        return  # the run was deleted or the database is away; a missing trace is no failure


def add_sleep(traces: Traces, run: RunId, *, epoch: int, began_at: datetime, wake_at: datetime) -> None:
    """Adds the span of a sleep that a run begins, up to the time it is due to wake.

    A sleep leaves no record of its own, so its span is added when it begins, for runs in the sampled share.
    """
    root = run_span(run)
    if traces.is_sampled(root.trace):
        span_id = span_within(run, "sleep", epoch)  # a run sleeps at most once per claim
        traces.add(Span("wait", span_id, began_at, wake_at, {"steward.kind": "sleep"}, parent=root))


async def _rows(tx: Tx, org: OrgId, run: RunId) -> tuple[Run, list[PastApproval], list[_Step]]:
    return (
        await runs.get(tx, org, run),
        await approvals.decided_of_run(tx, org, run, limit=_MAX_APPROVALS),
        await _steps_after(tx, org, run, seq=0),
    )


async def _steps_after(tx: Tx, org: OrgId, run: RunId, *, seq: int) -> list[_Step]:
    rows = await steps.after(tx, org, run, seq=seq, limit=STEPS_AT_ONCE)
    return [_decode_step(row["wire"]) for row in rows]


def _add_run(
    traces: Traces, run: Run, past_approvals: Sequence[PastApproval], finished_at: datetime, attempt: int
) -> None:
    """Adds the run's root span and a span for each of its approvals."""
    root = run_span(run.id)
    is_error = run.status in _FAILED
    traces.add(
        Span("run", root, run.queued_at, finished_at, _run_attributes(run, attempt), is_error=is_error)
    )
    for past in past_approvals:
        approval = past.approval
        span_id = span_within(run.id, "approval", approval.round)
        attributes = {"steward.kind": "approval", "steward.status": str(approval.status)}
        decided_at = approval.decided_at or finished_at
        traces.add(Span("wait", span_id, approval.created_at, decided_at, attributes, parent=root))


def _add_steps(traces: Traces, run: RunId, steps_read: Sequence[_Step]) -> None:
    """Adds a span for each step."""
    root = run_span(run)
    for step in steps_read:
        attributes: dict[str, str | int] = {
            "steward.seq": step.seq,
            "steward.step_type": step.kind,
            "steward.status": step.status,
            "steward.attempt": step.attempt,
        }
        if step.code:
            attributes["steward.code"] = step.code
        span_id = span_within(run, "step", step.seq, step.attempt)
        is_error = step.status == "failed"
        traces.add(
            Span("step", span_id, step.started_at, step.finished_at, attributes, root, is_error=is_error)
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
