"""Writes the last row of a step whose changes have ended, and what the step remembers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

from steward.database.engine.base import Tx
from steward.database.runs import changes
from steward.database.runs.steps import ValueState, execution_key
from steward.model.change import Change, Outcome
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import PlanStep, StepKind, StepStatus
from steward.model.run import Counts
from steward.run_queue.summaries import change_counts
from steward.runs.checkpoint import EndedStep
from steward.runs.walk.held_step import DONE_OUTCOMES, ComputeOutput, HeldStep
from steward.runs.walk.state import Walk
from steward.runs.writes import write_responses
from steward.steps.base import MemoryWrite
from steward.steps.workflow.items import encode_outputs
from steward.steps.workflow.output_after_changes import ChangeResult, OutputAfterChanges


def connection_row(walk: Walk, items: Sequence[Change]) -> JsonObject | None:
    """Returns the connection that the changes write to, as the step's row names it."""
    if not items or items[0].proposal.integration_id is None:
        return None
    integration = items[0].proposal.integration_id
    connection = walk.opened.connections.get(integration)
    return {"integration_id": integration, "kind": connection.kind} if connection else None


async def changes_of_step(tx: Tx, *, walk: Walk, step: PlanStep, iteration: str = "") -> list[Change]:
    """Returns the changes a step proposed, in order."""
    org, run = walk.lease.org, walk.run.id
    return await changes.of_execution(tx, org, run, name=step.name, iteration=iteration)


async def write_last_row(
    walk: Walk,
    step: PlanStep,
    started_at: datetime,
    iteration: str,
    compute_output: ComputeOutput | None = None,
) -> None:
    """Writes the step's last row: the outcomes of its changes, and the memory that they cause."""
    items = await walk.read(partial(changes_of_step, walk=walk, step=step, iteration=iteration))
    held_step = HeldStep.from_json(walk.journal[execution_key(step.name, iteration)].output)
    tally = Counter(item.outcome for item in items)
    counts = change_counts(tally, sends=step.kind is StepKind.SEND)
    status, code, message = _step_result(counts, len(items), tally[Outcome.CANCELLED])
    if code == "some_changes_failed":
        code, message = _sheet_verdict(items, message) or (code, message)
    outcomes = {item.position: item.outcome for item in items}
    output, state = held_step.output_after(outcomes), _value_state(counts, items)
    step_output = (
        None if compute_output is None else compute_output(held_step, await _done_changes(walk, items))
    )
    if step_output is not None:
        output, state = _encoded_output(held_step, step_output), _state_of_output(step_output, state)
        if step_output.outputs is None and status is not StepStatus.FAILED:
            status, code, message = StepStatus.FAILED, step_output.code, step_output.message
    ended = EndedStep(
        step=step,
        title=held_step.title,
        status=status,
        started_at=started_at,
        connection=connection_row(walk, items),
        counts=held_step.counts.plus(counts),
        attempt=walk.lease.attempt,
        iteration=iteration,
        code=code,
        message=message or held_step.message,
        changes_total=len(items),
    )
    memory = _due_memory(held_step, outcomes, status)
    await walk.checkpoint(ended, output, state=state, memory=memory)
    walk.outcomes[execution_key(step.name, iteration)] = [item.outcome for item in items]


async def _done_changes(walk: Walk, items: Sequence[Change]) -> list[ChangeResult]:
    load = partial(write_responses.recorded_responses, vault=walk.ctx.vault, lease=walk.lease, items=items)
    responses = await walk.read(load)
    return [ChangeResult(item.outcome, item.message, responses.get(item.id)) for item in items]


def _encoded_output(held_step: HeldStep, step_output: OutputAfterChanges) -> JsonValue:
    """Returns the data that the journal stores for a workflow's completed step."""
    assert isinstance(held_step.output, dict)
    stored = {name: value for name, value in held_step.output.items() if name != "answers"}
    return {**stored, "out": encode_outputs(step_output.outputs or [])}


def _state_of_output(step_output: OutputAfterChanges, state: ValueState) -> ValueState:
    """Returns the state of a workflow's step: one whose failure is tolerated is done."""
    if step_output.outputs is None:
        return ValueState.FAILED
    return ValueState.DONE if state is ValueState.FAILED else state


def _value_state(counts: Counts, items: Sequence[Change]) -> ValueState:
    """Returns the state of a held step's value after its changes ended."""
    done = any(item.outcome in DONE_OUTCOMES for item in items)
    if counts.unknown:
        return ValueState.FAILED
    if done:
        return ValueState.DONE
    return ValueState.FAILED if counts.failed else ValueState.SKIPPED


def _due_memory(
    held_step: HeldStep, outcomes: Mapping[int, Outcome], status: StepStatus
) -> list[MemoryWrite]:
    """Returns the memory to write: with a position, by its change's outcome; the rest after a success."""
    is_success = status is StepStatus.SUCCEEDED
    return [
        write
        for write in held_step.memory
        if write.is_due(outcomes) and (write.position is not None or is_success)
    ]


def _step_result(counts: Counts, total: int, cancelled: int) -> tuple[StepStatus, str | None, str | None]:
    """Returns status, code and message of a step by the outcomes of its `total` changes."""
    done = counts.applied + counts.sent + counts.unchanged
    numbers = (
        (counts.unchanged, "already up to date"),
        (counts.declined, "left out"),
        (counts.conflicts, "changed in the meantime and left unchanged"),
        (counts.failed, "failed"),
        (counts.unknown, "unknown"),
        (cancelled, "cancelled"),
    )
    phrases = [f"{number} {phrase}" for number, phrase in numbers if number]
    message = ", ".join([f"{counts.applied + counts.sent} of {total} done", *phrases]) + "."
    if counts.unknown:
        return StepStatus.FAILED, "outcome_unknown", message
    if counts.failed:
        return StepStatus.FAILED, "some_changes_failed", message
    if cancelled:
        return StepStatus.FAILED, "cancelled", message
    if done:
        return StepStatus.SUCCEEDED, None, message if done < total else None
    if counts.declined == total:
        return StepStatus.REFUSED, "not_approved", message
    return StepStatus.FAILED, "nothing_applied", message


def _sheet_verdict(items: Sequence[Change], words: str | None) -> tuple[str, str] | None:
    """Returns the code of a step that failed only because of a sheet, naming its tab."""
    failed = [item for item in items if item.outcome is Outcome.FAILED]
    if any(not part.operation.startswith("sheet.") for item in failed for part in item.proposal.parts):
        return None
    first = failed[0]
    return (
        "sheet_not_writable",
        f"{first.proposal.object.label} not written: {first.message} {words or ''}".strip(),
    )
