"""A run's journal: public, append-only step rows, and the values from which a resumed run continues."""

import json
import zlib
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import msgspec

from steward.database.engine.base import Json, PerEngine, Row, Tx
from steward.model.ids import OrgId, RunId
from steward.model.json import JsonValue

OUTPUT_BYTES = 8 * 1024 * 1024
RUN_BYTES = 64 * 1024 * 1024


class ValueState(StrEnum):
    """The state of an execution in the journal."""

    DONE = "done"
    HELD = "held"
    SKIPPED = "skipped"
    FAILED = "failed"


class StepRow(NamedTuple):
    """A row of the journal as written; `wire` is the API form of the step, without its changes."""

    seq: int
    name: str
    iteration: str
    attempt: int
    status: str
    changes_total: int
    wire: str


@dataclass(frozen=True, slots=True)
class StepValue:
    """The journal's value of one execution."""

    name: str
    iteration: str
    seq: int
    state: ValueState
    output: JsonValue
    unknown_paths: tuple[str, ...] = ()
    stored_bytes: int = 0

    @property
    def visible_output(self) -> JsonValue:
        """The output for later steps; for a held execution, the one that it has once all changes are made."""
        if self.state is not ValueState.HELD:
            return self.output
        assert isinstance(self.output, dict)
        output_after_changes: JsonValue = self.output["output"]
        return output_after_changes


def execution_key(name: str, iteration: str) -> str:
    """Returns the key of an execution in a run's journal: a step's name and its iteration."""
    return f"{name}\x00{iteration}" if iteration else name


class TooMuchData(Exception):
    """Raised when a step's output is over 8 MiB, or the outputs of a run over 64 MiB."""


# Below this size, compressing costs more than it saves. A plain value is distinguished from a compressed one
# by its first byte: no JSON text begins with 0x78.
_PLAIN_BYTES = 1024
_ZLIB = 0x78


class NotJson(ValueError):
    """Raised for an output that JSON would change, such as a time, a set, a tuple or NaN."""


def packed(value: JsonValue) -> bytes:
    """Returns an output as stored. Raises TooMuchData, and NotJson with the type of a non-JSON value."""
    text = msgspec.json.encode(value)
    if len(text) > OUTPUT_BYTES:
        raise TooMuchData
    # This encoder turns times, sets and the like into texts and lists without an error, but no strict encoder
    # is as fast.
    if msgspec.json.decode(text) != value:
        raise NotJson(
            f"A step's output contains {_not_json(value) or 'a key that is not text'}, which is not JSON."
        )
    return text if len(text) < _PLAIN_BYTES else zlib.compress(text, 1)


def _not_json(value: object) -> str | None:
    """Returns the type of the first value that is not JSON.

    The value itself is the merchant's and never logged.
    """
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return next((type_name for item in items if (type_name := _not_json(item))), None)
    try:
        is_json = msgspec.json.decode(msgspec.json.encode(value)) == value
    except (TypeError, ValueError):
        is_json = False
    return None if is_json else f"a value of type {type(value).__name__}"


def unpacked(packed_output: bytes) -> JsonValue:
    """Returns a stored output as the step returned it."""
    value: JsonValue = json.loads(
        zlib.decompress(packed_output) if packed_output[0] == _ZLIB else packed_output
    )
    return value


KEEP_VALUE = (
    "INSERT INTO step_values (org_id, run_id, name, iteration, seq, output, unknown_paths, state)"
    " VALUES (:org, :run, :name, :iteration, :seq, :output, :unknown, :state)"
    " ON CONFLICT (org_id, run_id, name, iteration) DO UPDATE"
    " SET seq = excluded.seq, output = excluded.output, unknown_paths = excluded.unknown_paths,"
    " state = excluded.state"
)


# Only SQLite: a short output is stored in the row of its step, which is then the only write of a step.
INLINE_BYTES = _PLAIN_BYTES
APPEND_WITH_OUTPUT = (
    "INSERT INTO steps (org_id, run_id, seq, name, iteration, attempt, status, finished_at, changes_total,"
    " wire, output, state) VALUES (:org, :run, :seq, :name, :iteration, :attempt, :status, :finished_at,"
    " :total, :wire, :output, :state)"
)
_VALUES = "SELECT name, iteration, seq, output, unknown_paths, state FROM step_values" + (
    " WHERE org_id = :org AND run_id = :run"
)
_JOURNAL = PerEngine(
    f"SELECT 0 AS in_row, v.* FROM ({_VALUES}) AS v UNION ALL"
    " SELECT 1, name, iteration, seq, output, NULL, state FROM steps"
    " WHERE org_id = :org AND run_id = :run AND output IS NOT NULL ORDER BY seq, name, iteration, in_row",
    f"{_VALUES} ORDER BY seq, name, iteration",
)


async def save_value(tx: Tx, org: OrgId, run: RunId, *, value: StepValue, output: bytes) -> None:
    """Stores the value of an execution, replacing the value that it had while held."""
    await tx.execute(
        KEEP_VALUE,
        {
            "org": org,
            "run": run,
            "name": value.name,
            "iteration": value.iteration,
            "seq": value.seq,
            "output": output,
            "unknown": Json(list(value.unknown_paths)) if value.unknown_paths else None,
            "state": value.state,
        },
    )


async def values(tx: Tx, org: OrgId, run: RunId) -> list[StepValue]:
    """Returns the journal of a run in the order in which its executions ended, with their last values."""
    by_execution: dict[tuple[str, str], StepValue] = {}
    for row in await tx.all(_JOURNAL, {"org": org, "run": run}):
        execution = (row["name"], row["iteration"])
        by_execution.pop(execution, None)
        by_execution[execution] = StepValue(
            name=row["name"],
            iteration=row["iteration"],
            seq=row["seq"],
            state=ValueState(row["state"]),
            output=unpacked(row["output"]),
            unknown_paths=tuple(json.loads(row["unknown_paths"])) if row["unknown_paths"] else (),
            stored_bytes=len(row["output"]),
        )
    return list(by_execution.values())


async def rows_of(tx: Tx, org: OrgId, run: RunId) -> list[tuple[str, str]]:
    """Returns the iteration and API form of every row of a run, in order."""
    rows = await tx.all(
        "SELECT iteration, wire FROM steps WHERE org_id = :org AND run_id = :run ORDER BY seq",
        {"org": org, "run": run},
    )
    return [(row["iteration"], row["wire"]) for row in rows]


async def after(tx: Tx, org: OrgId, run: RunId, *, seq: int, limit: int) -> list[Row]:
    """Returns name, iteration, changes_total and wire of at most `limit` rows after `seq`, ascending."""
    return await tx.all(
        "SELECT name, iteration, changes_total, wire FROM steps"
        " WHERE org_id = :org AND run_id = :run AND seq > :seq ORDER BY seq LIMIT :limit",
        {"org": org, "run": run, "seq": seq, "limit": limit},
    )
