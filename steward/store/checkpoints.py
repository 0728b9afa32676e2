"""A step's row and value under its run's lease, alone or with those of other runs in one call."""

from collections.abc import Sequence
from dataclasses import dataclass

from steward.model.instants import wire_time
from steward.store import run_queue, steps
from steward.store.engine import Json, Tx, plain
from steward.store.run_queue import Lease
from steward.store.steps import StepRow, StepValue

# In place of a step's end, which the clock of the transaction tells. No other value of a JSON text can hold
# the member with its quotation marks: inside a value they are escaped.
MARK = "@"
_MEMBER = f'"finished_at":"{MARK}"'
Held = tuple[bool, str | None]


@dataclass(frozen=True, slots=True)
class Point:
    """What an ended step leaves behind; `row.wire` carries MARK."""

    lease: Lease
    row: StepRow
    value: StepValue
    output: bytes


async def keep(tx: Tx, point: Point) -> Held:
    """Writes one; whether the run was still ours, and the code of a wish to cancel it."""
    lease, row = point.lease, point.row
    ours, cancel = await run_queue.advance(tx, lease, seq=row.seq)
    if ours:
        wire = row.wire.replace(_MEMBER, f'"finished_at":"{wire_time(tx.now)}"')
        ended = StepRow(
            row.seq, row.name, row.iteration, row.attempt, row.status, tx.now, row.changes_total, wire
        )
        await steps.append(tx, lease.org, lease.run, ended)
        await steps.keep_value(tx, lease.org, lease.run, value=point.value, output=point.output)
    return ours, cancel


async def keep_together(tx: Tx, points: Sequence[Point]) -> list[Held]:
    """Writes those of several runs in one round trip, on PostgreSQL alone; as `keep` for each, in order."""
    rows = await tx.all(
        "SELECT n, cancel_code FROM steward_checkpoints(:orgs, :runs, :epochs, :seqs, :names, :iterations,"
        " :attempts, :statuses, :changes, :wires, :mark, :outputs, :unknowns, :states)",
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
            "mark": _MEMBER,
            "outputs": [point.output for point in points],
            "unknowns": [_unknown(point.value, tx) for point in points],
            "states": [point.value.state for point in points],
        },
    )
    found = {int(row["n"]): row["cancel_code"] for row in rows}
    return [(n in found, found.get(n)) for n in range(1, len(points) + 1)]


def _unknown(value: StepValue, tx: Tx) -> object:
    return plain(Json(list(value.unknown_paths)), tx.dialect) if value.unknown_paths else None
