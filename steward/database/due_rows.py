"""Rows on which a periodic task failed: how often, and until when they are deferred."""

import asyncio
from collections.abc import Awaitable, Collection
from typing import TypeVar

from steward.database.engine.base import Tx
from steward.model.refusals import Unavailable

T = TypeVar("T")

_MESSAGE_CHARACTERS = 500
MAX_DEFERRED_MINUTES = 60
_MINUTE_MS = 60_000


# For statements that select due rows: deferred rows never displace others.
NOT_DEFERRED = (
    " AND NOT EXISTS (SELECT 1 FROM deferred_rows AS f"
    " WHERE f.task = '{task}' AND f.key = {key} AND f.not_before > {{now}})"
)


# Each failure defers a row for twice as long as the one before.
_BACKOFF_MINUTES = (
    "CASE deferred_rows.failures WHEN 1 THEN 2 WHEN 2 THEN 4 WHEN 3 THEN 8 WHEN 4 THEN 16 WHEN 5 THEN 32"
)
_DEFER = (
    "INSERT INTO deferred_rows (task, key, failures, not_before, message, last_failed_at)"
    f" VALUES (:task, :key, 1, {{now}} + {_MINUTE_MS}, :message, :now)"
    " ON CONFLICT (task, key) DO UPDATE SET failures = deferred_rows.failures + 1,"
    f" not_before = {{now}} + ({_BACKOFF_MINUTES} ELSE {MAX_DEFERRED_MINUTES} END) * {_MINUTE_MS},"
    " message = excluded.message, last_failed_at = excluded.last_failed_at"
    " WHERE deferred_rows.not_before <= {now} RETURNING failures"
)


async def attempt(act: Awaitable[T]) -> T | Exception:
    """Returns the result of `act`, or the error that its row causes, so that other rows can follow.

    Raises Unavailable, and errors that end the process: no row causes these.
    """
    # Gathered, because only the worker's loop may catch every exception.
    [result] = await asyncio.gather(act, return_exceptions=True)
    if isinstance(result, Unavailable):
        raise result
    if isinstance(result, BaseException) and not isinstance(result, Exception):
        raise result
    return result


async def defer(tx: Tx, task: str, key: str, *, message: str) -> int:
    """Counts a failure of `key`, defers it for 1, 2, 4 … 60 minutes, and returns the failures so far.

    Returns 0 when the row is deferred already: processes that fail on it at the same time count once.
    """
    row = await tx.first(_DEFER, {"task": task, "key": key, "message": message[:_MESSAGE_CHARACTERS]})
    return 0 if row is None else int(row["failures"])


async def deferred_keys(tx: Tx, task: str) -> set[str]:
    """Returns the deferred keys of a periodic task."""
    rows = await tx.all(
        "SELECT key FROM deferred_rows WHERE task = :task AND not_before > {now}", {"task": task}
    )
    return {row["key"] for row in rows}


async def clear(tx: Tx, task: str, keys: Collection[str]) -> None:
    """Deletes the failures of `keys`, which were handled or which a person has resolved."""
    await tx.execute(
        "DELETE FROM deferred_rows WHERE task = :task AND key IN (:keys)", {"task": task, "keys": list(keys)}
    )
