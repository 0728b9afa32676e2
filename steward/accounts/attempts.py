"""Counts attempts to log in or sign in, in a transaction of its own before any look-up."""

import hashlib
from collections.abc import Mapping
from datetime import datetime

from steward.database.accounts import attempt_limits as limits
from steward.database.accounts.attempt_limits import AttemptKind
from steward.database.engine.base import Engine, Tx
from steward.model.refusals import RateLimited


def hashed(text: str) -> str:
    """Returns the hash under which an attempt's key is stored and logged."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


async def count(engine: Engine, now: datetime, keys: Mapping[AttemptKind, str], *, limit: int) -> None:
    """Counts one attempt under every key.

    Raises RateLimited, without counting, when one of the keys is at its limit.
    """
    key_hashes = {kind: hashed(key) for kind, key in keys.items()}

    async def act(tx: Tx) -> int | None:
        return await limits.attempt(tx, key_hashes, limit)

    wait = await engine.write(now, act)
    if wait is not None:
        raise RateLimited(retry_after=wait)
