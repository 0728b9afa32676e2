"""Sliding logs of login and sign-in attempts; accounts/ decides which keys count."""

import json
import math
from collections.abc import Mapping
from typing import Literal

from steward.database.engine.base import Json, Tx, ms

AttemptKind = Literal["client", "address", "email", "sign_in_address", "reset_email", "reset_source"]
_WINDOW_MS = 60_000


async def attempt(
    tx: Tx, keys: Mapping[AttemptKind, str], max_attempts: int, *, window_ms: int = _WINDOW_MS
) -> int | None:
    """Counts an attempt under every key; when one is full, counts nothing and returns the seconds to wait."""
    now = ms(tx.now)
    logs: dict[AttemptKind, list[int]] = {}
    wait = 0
    for kind in sorted(keys):
        log = [
            attempted_at
            for attempted_at in await _locked(tx, kind, keys[kind])
            if attempted_at > now - window_ms
        ]
        logs[kind] = log
        if len(log) >= max_attempts:
            wait = max(wait, log[-max_attempts] + window_ms - now)
    if wait:
        return max(1, math.ceil(wait / 1000))
    for kind, log in logs.items():
        await tx.execute(
            "UPDATE login_attempts SET attempts = :attempts, ends_at = :ends"
            " WHERE kind = :kind AND key_hash = :key",
            {
                "kind": kind,
                "key": keys[kind],
                "attempts": Json([*log, now][-max_attempts:]),
                "ends": now + window_ms,
            },
        )
    return None


async def _locked(tx: Tx, kind: AttemptKind, key: str) -> list[int]:
    """Returns the key's log with its row locked; inserts the row if it is missing."""
    row = await tx.first(
        "INSERT INTO login_attempts (kind, key_hash, attempts) VALUES (:kind, :key, '[]')"
        " ON CONFLICT (kind, key_hash) DO UPDATE SET kind = excluded.kind"
        " RETURNING attempts",
        {"kind": kind, "key": key},
    )
    attempts: list[int] = json.loads(row["attempts"]) if row else []
    return attempts


async def forget_ended(tx: Tx, max_rows: int) -> int:
    """Removes the logs in which no attempt counts any longer. Returns their number."""
    return await tx.execute(
        "DELETE FROM login_attempts WHERE (kind, key_hash) IN"
        " (SELECT kind, key_hash FROM login_attempts WHERE ends_at <= {now} LIMIT :most)",
        {"most": max_rows},
    )
