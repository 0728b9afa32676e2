"""Runs the work of one row so that its failure does not stop the next row."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from steward.model.refusals import Unavailable

T = TypeVar("T")


async def attempt(act: Awaitable[T]) -> T | Exception:
    """Returns the result of `act`, or its error. Raises Unavailable if the database failed.

    Gathered, because only the worker's loop may catch every exception.
    """
    [result] = await asyncio.gather(act, return_exceptions=True)
    if isinstance(result, Unavailable):
        raise result
    if isinstance(result, BaseException) and not isinstance(result, Exception):
        raise result
    return result
