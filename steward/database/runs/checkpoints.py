"""Writes a step's row and value under its run's lease, for one run or a batch of runs in one call."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from steward.database.engine.base import Json, NeedsSlowPath, Tx, ms, to_column
from steward.database.runs import steps, transitions
from steward.database.runs.steps import StepRow, StepValue
from steward.database.runs.transitions import Lease
from steward.model.instants import wire_time

# Placeholder for a step's end, which the transaction's clock supplies. The member cannot occur elsewhere in
# the JSON text, because quotation marks inside a value are escaped.
END_PLACEHOLDER = "@"
_END_MEMBER = f'"finished_at":"{END_PLACEHOLDER}"'
_LeaseStatus = tuple[bool, str | None]


class StepCheckpoint(NamedTuple):
    """The stored result of an ended step.

    The value has the name and number of `row`, whose `wire` contains END_PLACEHOLDER.
    """

    lease: Lease
    row: StepRow
    value: StepValue
    output: bytes


async def write_one(tx: Tx, checkpoint: StepCheckpoint) -> _LeaseStatus:
    """Writes one checkpoint. Returns whether the run is still owned, and the code of a cancel request."""
    if tx.dialect == "postgresql":
        [status] = await write_batch(tx, [checkpoint])
        return status
    is_owner, cancel = await transitions.advance(tx, checkpoint.lease, seq=checkpoint.row.seq)
    if is_owner:
        await _write_rows(tx, [checkpoint])
    return is_owner, cancel


_LEASE_COLUMNS: Mapping[str, Callable[[Any], object]] = {
    "orgs": attrgetter("lease.org"),
    "runs": attrgetter("lease.run"),
    "epochs": attrgetter("lease.epoch"),
}
_CHECKPOINT_COLUMNS: Mapping[str, Callable[[Any], object]] = {
    "seqs": attrgetter("row.seq"),
    "names": attrgetter("row.name"),
    "iterations": attrgetter("row.iteration"),
    "attempts": attrgetter("row.attempt"),
    "statuses": attrgetter("row.status"),
    "changes": attrgetter("row.changes_total"),
    "wires": attrgetter("row.wire"),
    "outputs": attrgetter("output"),
    "states": attrgetter("value.state"),
}


def columns(getters: Mapping[str, Callable[[Any], object]], records: Sequence[object]) -> dict[str, object]:
    """Returns one array for each column, in the form in which PostgreSQL functions take a batch."""
    return {name: [value_of(record) for record in records] for name, value_of in getters.items()}


def checkpoint_columns(checkpoints: Sequence[StepCheckpoint | None], tx: Tx) -> dict[str, object]:
    """Returns the arrays of the checkpoints, with NULL for a run without one."""
    arrays: dict[str, object] = {
        name: [None if checkpoint is None else value_of(checkpoint) for checkpoint in checkpoints]
        for name, value_of in _CHECKPOINT_COLUMNS.items()
    }
    arrays["unknowns"] = [
        None if checkpoint is None else unknown_paths(checkpoint.value, tx) for checkpoint in checkpoints
    ]
    arrays["mark"] = _END_MEMBER
    return arrays


async def write_batch(tx: Tx, checkpoints: Sequence[StepCheckpoint]) -> list[_LeaseStatus]:
    """Writes the checkpoints of several runs at once.

    Returns the results of `write_one`, in order. Raises NeedsSlowPath on SQLite.
    """
    if tx.dialect == "sqlite":
        return await _write_batch_sqlite(tx, checkpoints)
    rows = await tx.all(
        "SELECT n, cancel_code FROM steward_checkpoint_runs(:orgs, :runs, :epochs, :seqs, :names,"
        " :iterations,"
        " :attempts, :statuses, :changes, :wires, :mark, :outputs, :unknowns, :states, :test_now)",
        {
            **columns(_LEASE_COLUMNS, checkpoints),
            **checkpoint_columns(checkpoints, tx),
            "test_now": tx.test_now,
        },
    )
    cancel_codes = {int(row["n"]): row["cancel_code"] for row in rows}
    return [(n in cancel_codes, cancel_codes.get(n)) for n in range(1, len(checkpoints) + 1)]


_ADVANCE_OWNED = (
    "UPDATE runs SET last_seq = :seq WHERE org_id = :org AND id = :run AND epoch = :epoch"
    " AND queue = 'leased' AND last_seq = :before AND cancel_code IS NULL"
)


async def _write_batch_sqlite(tx: Tx, checkpoints: Sequence[StepCheckpoint]) -> list[_LeaseStatus]:
    """Writes all checkpoints in one statement. Raises NeedsSlowPath when a run is lost or to be cancelled."""
    moved = [
        (
            checkpoint.row.seq,
            checkpoint.lease.org,
            checkpoint.lease.run,
            checkpoint.lease.epoch,
            checkpoint.row.seq - 1,
        )
        for checkpoint in checkpoints
    ]
    if await tx.many(_ADVANCE_OWNED, moved) < len(moved):
        raise NeedsSlowPath
    await _write_rows(tx, checkpoints)
    return [(True, None)] * len(checkpoints)


async def _write_rows(tx: Tx, checkpoints: Sequence[StepCheckpoint]) -> None:
    """Writes a row per checkpoint (SQLite), with a short output inline and a long one in step_values."""
    finished, finished_member = ms(tx.now), f'"finished_at":"{wire_time(tx.now)}"'
    rows, values = [], []
    for lease, row, value, output in checkpoints:
        org, run = lease.org, lease.run
        seq, name, iteration, attempt, status, changes, wire = row
        output_columns: tuple[bytes | None, str | None] = output, str(value.state)
        if len(output) >= steps.INLINE_BYTES or value.unknown_paths:
            values.append(
                (org, run, name, iteration, seq, output, unknown_paths(value, tx), output_columns[1])
            )
            output_columns = (None, None)
        wire = wire.replace(_END_MEMBER, finished_member)
        rows.append(
            (org, run, seq, name, iteration, attempt, str(status), finished, changes, wire, *output_columns)
        )
    await tx.many(steps.APPEND_WITH_OUTPUT, rows)
    if values:
        await tx.many(steps.KEEP_VALUE, values)


def unknown_paths(value: StepValue, tx: Tx) -> object:
    """Returns the stored form of the paths that a predicted output does not know."""
    return to_column(Json(list(value.unknown_paths)), tx.dialect) if value.unknown_paths else None
