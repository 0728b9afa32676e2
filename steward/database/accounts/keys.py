"""The service's own keys as stored, wrapped by the master keys; accounts/keys.py unwraps them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from steward.database.engine.base import Row, Tx, from_ms, from_ms_or_none

KeyKind = Literal["signing", "pepper", "cursor"]


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A row of service_keys."""

    key_id: str
    kind: KeyKind
    wrapped: bytes
    public: str | None
    created_at: datetime
    retires_at: datetime | None


def _key(row: Row) -> WrappedKey:
    return WrappedKey(
        key_id=row["key_id"],
        kind=row["kind"],
        wrapped=bytes(row["wrapped"]),
        public=row["public"],
        created_at=from_ms(row["created_at"]),
        retires_at=from_ms_or_none(row["retires_at"]),
    )


async def every(tx: Tx) -> list[WrappedKey]:
    """Returns all keys, oldest first."""
    rows = await tx.all(
        "SELECT key_id, kind, wrapped, public, created_at, retires_at"
        " FROM service_keys"
        " ORDER BY created_at, key_id"
    )
    return [_key(row) for row in rows]


async def insert(tx: Tx, key_id: str, kind: KeyKind, *, wrapped: bytes, public: str | None) -> None:
    """Inserts a key."""
    await tx.execute(
        "INSERT INTO service_keys (key_id, kind, wrapped, public, created_at)"
        " VALUES (:key_id, :kind, :wrapped, :public, :now)",
        {"key_id": key_id, "kind": kind, "wrapped": wrapped, "public": public},
    )


async def rewrap(tx: Tx, key_id: str, wrapped: bytes) -> None:
    """Replaces a key by the same key wrapped with another master key."""
    await tx.execute(
        "UPDATE service_keys SET wrapped = :wrapped WHERE key_id = :key_id",
        {"key_id": key_id, "wrapped": wrapped},
    )


async def retire(tx: Tx, key_id: str, retires_at: datetime) -> None:
    """Retires a signing key: it signs no longer, and verifies until `retires_at`.

    A retired key stays unchanged.
    """
    await tx.execute(
        "UPDATE service_keys SET retires_at = :retires_at WHERE key_id = :key_id AND retires_at IS NULL",
        {"key_id": key_id, "retires_at": retires_at},
    )


async def forget_retired(tx: Tx) -> int:
    """Removes signing keys whose last token has expired."""
    return await tx.execute("DELETE FROM service_keys WHERE kind = 'signing' AND retires_at <= :now")


async def newest_signing(tx: Tx) -> str | None:
    """Returns the id of the current signing key, whichever process created it."""
    row = await tx.first(
        "SELECT key_id FROM service_keys"
        " WHERE kind = 'signing' AND retires_at IS NULL"
        " ORDER BY created_at DESC, key_id DESC LIMIT 1"
    )
    return None if row is None else str(row["key_id"])
