"""Rows a tick could not deal with: how often they failed, and until when they are put off (engine 16)."""

from collections.abc import Collection
from datetime import timedelta

from steward.store.engine import Tx

_MESSAGE_CHARACTERS = 500
LONGEST_MINUTES = 60


# A selecting statement heeds what was put off, so that such rows never take others' places (engine 16).
NOT_PUT_OFF = (
    " AND NOT EXISTS (SELECT 1 FROM tick_failures AS f"
    " WHERE f.tick = '{tick}' AND f.key = {key} AND f.not_before > {{now}})"
)


async def put_off(tx: Tx, tick: str, key: str, *, message: str) -> int:
    """Counts one more failure of `key` and puts it off for 1, 2, 4 … 60 minutes; failures so far."""
    row = await tx.one("SELECT failures FROM tick_failures WHERE tick = :tick AND key = :key", _of(tick, key))
    failures = 1 if row is None else int(row["failures"]) + 1
    minutes = min(2 ** min(failures - 1, 10), LONGEST_MINUTES)
    await tx.execute(
        "INSERT INTO tick_failures (tick, key, failures, not_before, message, last_at)"
        " VALUES (:tick, :key, :failures, :not_before, :message, :now)"
        " ON CONFLICT (tick, key) DO UPDATE SET failures = excluded.failures,"
        " not_before = excluded.not_before, message = excluded.message, last_at = excluded.last_at",
        {
            **_of(tick, key),
            "failures": failures,
            "not_before": tx.now + timedelta(minutes=minutes),
            "message": message[:_MESSAGE_CHARACTERS],
        },
    )
    return failures


async def put_off_now(tx: Tx, tick: str) -> set[str]:
    """The keys of a tick that are not to be tried yet."""
    rows = await tx.all(
        "SELECT key FROM tick_failures WHERE tick = :tick AND not_before > {now}", {"tick": tick}
    )
    return {row["key"] for row in rows}


async def clear(tx: Tx, tick: str, keys: Collection[str]) -> None:
    """Forgets the failures of `keys`: they have been dealt with, or a person has put them right."""
    await tx.execute(
        "DELETE FROM tick_failures WHERE tick = :tick AND key IN (:keys)", {"tick": tick, "keys": list(keys)}
    )


def _of(tick: str, key: str) -> dict[str, object]:
    return {"tick": tick, "key": key}
