"""A step's row and value under its run's lease, alone or with those of other runs in one call."""

from collections.abc import Sequence
from typing import NamedTuple

from steward.database.engine.base import Json, NeedsSlowPath, Tx, ms, to_column
from steward.database.runs import steps
from steward.database.runs import transitions as run_queue
from steward.database.runs.steps import StepRow, StepValue
from steward.database.runs.transitions import Lease
from steward.model.instants import wire_time

# In place of a step's end, which the clock of the transaction tells. No other value of a JSON text can hold
# the member with its quotation marks: inside a value they are escaped.
MARK = "@"
MEMBER = f'"finished_at":"{MARK}"'
Held = tuple[bool, str | None]


class Point(NamedTuple):
    """What an ended step leaves behind, its value named and numbered as `row`, whose `wire` carries MARK."""

    lease: Lease
    row: StepRow
    value: StepValue
    output: bytes


async def keep(tx: Tx, point: Point) -> Held:
    """Writes one; whether the run was still ours, and the code of a wish to cancel it."""
    lease, row = point.lease, point.row
    ours, cancel = await run_queue.advance(tx, lease, seq=row.seq)
    if ours and tx.dialect == "sqlite":
        await _write_rows(tx, [point])
    elif ours:
        wire = row.wire.replace(MEMBER, f'"finished_at":"{wire_time(tx.now)}"')
        ended = StepRow(
            row.seq, row.name, row.iteration, row.attempt, row.status, tx.now, row.changes_total, wire
        )
        await steps.append(tx, lease.org, lease.run, ended)
        await steps.keep_value(tx, lease.org, lease.run, value=point.value, output=point.output)
    return ours, cancel


async def keep_together(tx: Tx, points: Sequence[Point]) -> list[Held]:
    """Writes those of several runs at once; as `keep` for each, in order. Raises NeedsSlowPath on SQLite."""
    if tx.dialect == "sqlite":
        return await _keep_rows(tx, points)
    rows = await tx.all(
        "SELECT n, cancel_code FROM steward_checkpoint_runs(:orgs, :runs, :epochs, :seqs, :names,"
        " :iterations,"
        " :attempts, :statuses, :changes, :wires, :mark, :outputs, :unknowns, :states, :test_now)",
        {
            "orgs": [point.lease.org for point in points],
            "runs": [point.lease.run for point in points],
            "epochs": [point.lease.epoch for point in points],
            "seqs": [point.row.seq for point in points],
            "names": [point.row.name for point in points],
            "iterations": [point.row.iteration for point in points],
            "attempts": [point.row.attempt for point in points],
            "statuses": [point.row.status for point in points],
            "changes": [point.row.changes_total for point in points],
            "wires": [point.row.wire for point in points],
            "mark": MEMBER,
            "outputs": [point.output for point in points],
            "unknowns": [unknown_paths(point.value, tx) for point in points],
            "states": [point.value.state for point in points],
            "test_now": tx.test_now,
        },
    )
    found = {int(row["n"]): row["cancel_code"] for row in rows}
    return [(n in found, found.get(n)) for n in range(1, len(points) + 1)]


_ADVANCE_OURS = (
    "UPDATE runs SET last_seq = :seq WHERE org_id = :org AND id = :run AND epoch = :epoch"
    " AND queue = 'leased' AND last_seq = :before AND cancel_code IS NULL"
)


async def _keep_rows(tx: Tx, points: Sequence[Point]) -> list[Held]:
    """One statement for all. Raises NeedsSlowPath when a run is lost or is to be cancelled."""
    moved = [(one.row.seq, one.lease.org, one.lease.run, one.lease.epoch, one.row.seq - 1) for one in points]
    if await tx.many(_ADVANCE_OURS, moved) < len(moved):
        raise NeedsSlowPath
    await _write_rows(tx, points)
    return [(True, None)] * len(points)


async def _write_rows(tx: Tx, points: Sequence[Point]) -> None:
    """On SQLite: a row for each, with its output when that is short, else beside it."""
    finished, told = ms(tx.now), f'"finished_at":"{wire_time(tx.now)}"'
    rows, values = [], []
    for lease, row, value, output in points:
        org, run = lease.org, lease.run
        seq, name, iteration, attempt, status, _, changes, wire = row
        held: tuple[bytes | None, str | None] = output, str(value.state)
        if len(output) >= steps.LIES_IN_ROW or value.unknown_paths:
            values.append((org, run, name, iteration, seq, output, unknown_paths(value, tx), held[1]))
            held = (None, None)
        wire = wire.replace(MEMBER, told)
        rows.append((org, run, seq, name, iteration, attempt, str(status), finished, changes, wire, *held))
    await tx.many(steps.APPEND_WITH_OUTPUT, rows)
    if values:
        await tx.many(steps.KEEP_VALUE, values)


def unknown_paths(value: StepValue, tx: Tx) -> object:
    """The paths a predicted output cannot know, as they are kept."""
    return to_column(Json(list(value.unknown_paths)), tx.dialect) if value.unknown_paths else None
