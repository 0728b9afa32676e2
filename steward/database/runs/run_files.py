"""Stores the files of runs: a row for each, and on PostgreSQL their sealed content in chunks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import PerEngine, Tx
from steward.model.ids import OrgId, RunId

_PART_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a run: its size in bytes and the number of the data key that seals it."""

    sha256: str
    size: int
    key_no: int


async def of_run(tx: Tx, org: OrgId, run: RunId) -> list[StoredFile]:
    """Returns all files of a run."""
    rows = await tx.all(
        "SELECT sha256, size, key_no FROM run_files WHERE org_id = :org AND run_id = :run ORDER BY sha256",
        {"org": org, "run": run},
    )
    return [StoredFile(row["sha256"], row["size"], row["key_no"]) for row in rows]


async def insert(tx: Tx, org: OrgId, run: RunId, *, file: StoredFile, sealed: bytes) -> None:
    """Inserts a file; `sealed` is its content if the database stores it, else empty.

    Existing equal content stays unchanged.
    """
    args = {"org": org, "run": run, "sha256": file.sha256, "size": file.size, "key_no": file.key_no}
    stored = await tx.execute(
        "INSERT INTO run_files (org_id, run_id, sha256, size, key_no, created_at, is_test)"
        " VALUES (:org, :run, :sha256, :size, :key_no, :now,"
        " (SELECT mode = 'test' FROM runs WHERE org_id = :org AND id = :run))"
        " ON CONFLICT (org_id, run_id, sha256) DO NOTHING",
        args,
    )
    if not stored or not sealed:
        return
    await tx.many(
        "INSERT INTO run_file_parts (org_id, run_id, sha256, part, sealed)"
        " VALUES (:org, :run, :sha256, :part, :sealed)",
        [
            (org, run, file.sha256, number, sealed[start : start + _PART_BYTES])
            for number, start in enumerate(range(0, len(sealed), _PART_BYTES))
        ],
    )


async def sealed_content(tx: Tx, org: OrgId, run: RunId, *, sha256: str) -> bytes:
    """Returns the sealed content of a file that is stored in rows."""
    rows = await tx.all(
        "SELECT sealed FROM run_file_parts WHERE org_id = :org AND run_id = :run AND sha256 = :sha256"
        " ORDER BY part",
        {"org": org, "run": run, "sha256": sha256},
    )
    return b"".join(row["sealed"] for row in rows)


async def expired(
    tx: Tx, *, before: datetime, test_before: datetime, max_rows: int
) -> list[tuple[OrgId, RunId]]:
    """Returns runs that finished before an instant and still have files; test runs have another limit."""
    rows = await tx.all(
        PerEngine(
            "SELECT DISTINCT f.org_id, f.run_id AS id FROM run_files AS f"
            " CROSS JOIN runs AS r ON r.org_id = f.org_id AND r.id = f.run_id"  # the oldest files first
            " WHERE (f.is_test = TRUE AND f.created_at < :test_before AND r.finished_at < :test_before)"
            " OR (f.is_test = FALSE AND f.created_at < :before AND r.finished_at < :before) LIMIT :most",
            "SELECT org_id, id FROM queue_retain_files(:before, :test_before, :most)",
        ),
        {"before": before, "test_before": test_before, "most": max_rows},
    )
    return [(OrgId(row["org_id"]), RunId(row["id"])) for row in rows]


async def remove(tx: Tx, org: OrgId, runs: Sequence[RunId]) -> int:
    """Removes the files of runs. Returns their number."""
    return await tx.execute(
        "DELETE FROM run_files WHERE org_id = :org AND run_id IN (:runs)", {"org": org, "runs": list(runs)}
    )
