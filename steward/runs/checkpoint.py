"""Writes the results of a step in one transaction that is fenced by the run's lease."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec

from steward.database.automations import memory
from steward.database.automations.memory import MemoryKey
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
from steward.model.undo import RememberedValue
from steward.runs.lease import LeaseLost
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


async def commit(engine: Engine, now: datetime, new_checkpoint: Checkpoint) -> str | None:
    """Writes the checkpoint durably and returns the code of a cancel request, if any. Raises LeaseLost.

    A checkpoint without changes and memory, the usual case, may share a database call with other runs'.
    """
    lease = new_checkpoint.lease
    if new_checkpoint.ended is None or new_checkpoint.changes or new_checkpoint.memory:
        return await engine.write(now, partial(write, new_checkpoint=new_checkpoint), org=lease.org)
    batchable = Batchable(
        step_checkpoint(new_checkpoint, new_checkpoint.ended),
        checkpoints.write_one,
        checkpoints.write_batch,
        on_sqlite=True,
        weight=len(new_checkpoint.output),
        autocommit=True,
    )
    is_owner, cancel = await engine.write(now, batchable, org=lease.org)
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
    if new_checkpoint.memory:
        await _remember(tx, new_checkpoint)
    return cancel


async def _remember(tx: Tx, new_checkpoint: Checkpoint) -> None:
    """Writes what the step makes its automation remember; keeps what its changes replace for an undo."""
    lease, automation, ended = new_checkpoint.lease, new_checkpoint.automation, new_checkpoint.ended
    keys = {
        _key(write_) for write_ in new_checkpoint.memory if write_.is_guarded or write_.position is not None
    }
    present = await memory.values(tx, lease.org, automation, keys)
    values, replaced = _remembered(new_checkpoint.memory, present)
    if replaced and ended is not None:
        step = memory_log.StepPlace(lease.run, ended.step.name, ended.iteration, new_checkpoint.seq)
        await memory_log.insert(tx, lease.org, step, replaced)
    await memory.write(tx, lease.org, automation, values, run=lease.run)


def _remembered(
    writes: Sequence[MemoryWrite], present: Mapping[MemoryKey, JsonValue]
) -> tuple[dict[MemoryKey, JsonValue], list[tuple[int, RememberedValue]]]:
    """Returns the values that `writes` leave, and what changes replace, by the position of the change.

    `present` holds the values under the keys of guarded writes and of those with a position.
    """
    values: dict[MemoryKey, JsonValue] = {}
    replaced: dict[tuple[int, MemoryKey], RememberedValue] = {}
    for write_ in writes:
        key = _key(write_)
        before = values.get(key, present.get(key))
        if write_.is_guarded and before != write_.over:
            continue
        if write_.position is not None:
            earlier_value = replaced.get((write_.position, key))
            original = before if earlier_value is None else earlier_value.before
            replaced[write_.position, key] = RememberedValue(*key, original, write_.value)
        values[key] = write_.value
    return values, [(position, value) for (position, _), value in replaced.items()]


def _key(write_: MemoryWrite) -> MemoryKey:
    return MemoryKey(write_.space, write_.key)


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
