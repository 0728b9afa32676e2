"""Counts of failed sign-ins that are not in the audit log yet; unknown accounts are counted alike."""

from dataclasses import dataclass
from typing import Literal

from steward.database.engine.base import Row, Tx, ms

AttemptedKind = Literal["person", "credential"]
WINDOW_MS = 10 * 60 * 1000
_COLUMNS = "kind, key_hash, object_id, times, began_at"


@dataclass(frozen=True, slots=True)
class FailedSignIns:
    """The number of failed sign-ins since `began_at` (ms); `object_id` is None if no account matches."""

    kind: AttemptedKind
    key_hash: str
    object_id: str | None
    times: int
    began_at: int


async def count(tx: Tx, kind: AttemptedKind, key_hash: str, object_id: str | None) -> None:
    """Counts one failure in one statement, whether or not the account exists."""
    await tx.execute(
        f"INSERT INTO failed_sign_ins ({_COLUMNS}) VALUES (:kind, :key, :object_id, 1, :now)"
        " ON CONFLICT (kind, key_hash) DO UPDATE SET times = failed_sign_ins.times + 1",
        {"kind": kind, "key": key_hash, "object_id": object_id},
    )


async def ended(tx: Tx, *, limit: int) -> list[FailedSignIns]:
    """Returns counts of accounts whose ten minutes are over, oldest first."""
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM failed_sign_ins WHERE began_at <= :until AND object_id IS NOT NULL"
        " ORDER BY began_at LIMIT :limit",
        {"until": ms(tx.now) - WINDOW_MS, "limit": limit},
    )
    return [_failed(row) for row in rows]


async def take(tx: Tx, kind: AttemptedKind, key_hash: str) -> FailedSignIns | None:
    """Removes a count and returns it; None when another process removed it."""
    row = await tx.first(
        f"DELETE FROM failed_sign_ins WHERE kind = :kind AND key_hash = :key AND began_at <= :until"
        f" RETURNING {_COLUMNS}",
        {"kind": kind, "key": key_hash, "until": ms(tx.now) - WINDOW_MS},
    )
    return None if row is None else _failed(row)


async def forget_unknown(tx: Tx, max_rows: int) -> int:
    """Removes counts of accounts that do not exist. Returns their number."""
    return await tx.execute(
        "DELETE FROM failed_sign_ins WHERE (kind, key_hash) IN (SELECT kind, key_hash FROM failed_sign_ins"
        " WHERE began_at <= :until AND object_id IS NULL LIMIT :most)",
        {"until": ms(tx.now) - WINDOW_MS, "most": max_rows},
    )


async def forget_person(tx: Tx, person: str, key_hash: str) -> None:
    """Removes the counts of a person and of their address."""
    await tx.execute(
        "DELETE FROM failed_sign_ins WHERE kind = 'person' AND (key_hash = :key OR object_id = :person)",
        {"person": person, "key": key_hash},
    )


def _failed(row: Row) -> FailedSignIns:
    return FailedSignIns(**{name: row[name] for name in _COLUMNS.split(", ")})
