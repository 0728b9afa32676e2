"""Writes the results of a step in one transaction that is fenced by the run's lease."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec

from steward.database.automations import memory
from steward.database.engine.base import Batchable, Engine, Tx
from steward.database.runs import changes, checkpoints, memory_log, search_terms, steps, transitions
from steward.database.runs.checkpoints import END_PLACEHOLDER, StepCheckpoint
from steward.database.runs.steps import StepRow, StepValue
from steward.database.runs.transitions import Lease
from steward.model.change import Change, truncated_value
from steward.model.ids import AutomationId
from steward.model.instants import wire_time
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import PlanStep, StepStatus
from steward.model.run import Counts
from steward.runs.run_context import LeaseLost
from steward.search.words import terms_of
from steward.steps.base import MemoryWrite


class EndedStep(NamedTuple):  # as a checkpoint below
    """A step execution that ended or is held, with the fields of its public row."""

    step: PlanStep
    title: str
    status: StepStatus
    started_at: datetime
    connection: JsonObject | None
    counts: Counts
    attempt: int = 1
    iteration: str = ""
    code: str | None = None
    message: str | None = None
    changes_total: int = 0


class Checkpoint(NamedTuple):  # not frozen, which would double the cost: one is made for each step
    """Everything one checkpoint writes; without `ended` no public row is written (a send being prepared)."""

    lease: Lease
    automation: AutomationId
    seq: int
    ended: EndedStep | None
    value: StepValue
    output: bytes
    changes: Sequence[Change] = ()
    memory: Sequence[MemoryWrite] = ()


async def keep(engine: Engine, now: datetime, new_checkpoint: Checkpoint) -> str | None:
    """Writes the checkpoint durably and returns the code of a cancel request, if any. Raises LeaseLost.

    A checkpoint without changes and memory, the usual case, may share a database call with other runs'.
    """
    lease = new_checkpoint.lease
    if new_checkpoint.ended is None or new_checkpoint.changes or new_checkpoint.memory:
        return await engine.write(now, partial(write, new_checkpoint=new_checkpoint), org=lease.org)
    shared = Batchable(
        step_checkpoint(new_checkpoint, new_checkpoint.ended),
        checkpoints.write_one,
        checkpoints.write_batch,
        on_sqlite=True,
        weight=len(new_checkpoint.output),
        autocommit=True,
    )
    is_owner, cancel = await engine.write(now, shared, org=lease.org)
    if not is_owner:
        raise LeaseLost(lease)
    return cancel


def step_checkpoint(new_checkpoint: Checkpoint, ended: EndedStep) -> StepCheckpoint:
    """Returns the part of a checkpoint that every ended step has, its row and value."""
    return StepCheckpoint(
        new_checkpoint.lease, _row(new_checkpoint.seq, ended), new_checkpoint.value, new_checkpoint.output
    )


async def write(tx: Tx, new_checkpoint: Checkpoint) -> str | None:
    """Writes the checkpoint and returns the code of a cancel request, if any. Raises LeaseLost."""
    lease = new_checkpoint.lease
    if new_checkpoint.ended is not None:
        is_owner, cancel = await checkpoints.write_one(
            tx, step_checkpoint(new_checkpoint, new_checkpoint.ended)
        )
    else:
        is_owner, cancel = await transitions.lock_lease(tx, lease)
    if not is_owner:
        raise LeaseLost(lease)
    if new_checkpoint.ended is None:
        await steps.save_value(
            tx, lease.org, lease.run, value=new_checkpoint.value, output=new_checkpoint.output
        )
    if new_checkpoint.changes:
        await changes.insert(
            tx, lease.org, ((change, change_wire(change)) for change in new_checkpoint.changes)
        )
        terms = ((change, terms_of(change.proposal)) for change in new_checkpoint.changes)
        await search_terms.insert(tx, lease.org, lease.run, terms)
    for write_ in new_checkpoint.memory:
        await _remember(tx, new_checkpoint, write_)
    return cancel


async def _remember(tx: Tx, new_checkpoint: Checkpoint, write_: MemoryWrite) -> None:
    """Writes one value of the memory; if it depends on a change, the former value is kept for an undo."""
    org, run = new_checkpoint.lease.org, new_checkpoint.lease.run
    if write_.is_guarded:
        present = await memory.value(tx, org, new_checkpoint.automation, space=write_.space, key=write_.key)
        if present != write_.over:
            return
    if write_.position is not None and new_checkpoint.ended is not None:
        change = memory_log.ChangePlace(
            run,
            new_checkpoint.ended.step.name,
            new_checkpoint.ended.iteration,
            write_.position,
            new_checkpoint.seq,
        )
        await memory_log.insert(
            tx, org, new_checkpoint.automation, change, space=write_.space, key=write_.key, after=write_.value
        )
    await memory.write(
        tx, org, new_checkpoint.automation, space=write_.space, key=write_.key, value=write_.value, run=run
    )


def _row(seq: int, ended: EndedStep) -> StepRow:
    """Returns the public row of an ended step, without its changes."""
    iteration = int(ended.iteration.rsplit(".", 1)[-1]) if ended.iteration else None
    wire = {
        "seq": seq,
        "name": ended.step.name,
        "title": ended.title[:200],
        "kind": ended.step.kind,
        "status": ended.status,
        "attempt": ended.attempt,
        "iteration": iteration,
        "started_at": wire_time(ended.started_at),
        "finished_at": END_PLACEHOLDER,
        "connection": ended.connection,
        "counts": ended.counts,  # by its fields, which are what `wire` would give
        "code": ended.code,
        "message": ended.message,
    }
    return StepRow(
        seq=seq,
        name=ended.step.name,
        iteration=ended.iteration,
        attempt=ended.attempt,
        status=ended.status,
        changes_total=ended.changes_total,
        wire=msgspec.json.encode(wire).decode(),
    )


def change_wire(change: Change) -> JsonObject:
    """Returns the public record of a change without outcome, message and applied_at."""
    proposal = change.proposal
    fields: list[dict[str, JsonValue]] = []
    for field in proposal.fields:
        before, before_cut = truncated_value(field.before)
        after, after_cut = truncated_value(field.after)
        wire: dict[str, JsonValue] = {
            "field": field.field,
            "label": field.label,
            "before": before,
            "after": after,
            "kind": field.kind,
            "currency": field.currency,
        }
        if before_cut or after_cut:
            wire["truncated"] = True
        fields.append(wire)
    return {
        "id": change.id,
        "seq": change.seq,
        "object": {
            "type": proposal.object.type,
            "id": proposal.object.id,
            "label": proposal.object.label,
            "url": proposal.object.url,
        },
        "action": proposal.action,
        "fields": fields,
        "reversible": change.undoable,
        "undo_words": change.undo_words,
        "undo_of": proposal.undo_of,
    }
