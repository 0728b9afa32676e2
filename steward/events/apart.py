"""One row's work, apart from the next: what it came to, or what it failed with (engine 16)."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from steward.model.refusals import Unavailable

T = TypeVar("T")


async def tried(act: Awaitable[T]) -> T | Exception:
    """What `act` gives, or the error it raised. Raises Unavailable: then it is the database, not a row."""
    [result] = await asyncio.gather(act, return_exceptions=True)
    if isinstance(result, Unavailable):
        raise result
    if isinstance(result, BaseException) and not isinstance(result, Exception):
        raise result
    return result
