"""Password hashing off the loop: two at once in threads, a short queue, then 503 (safety 3.3)."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from steward.model.refusals import Unavailable

T = TypeVar("T")

AT_ONCE = 2
WAITING = 20


class Hashing:
    """The threads password hashes are worked out in; one for a process, closed with it."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="steward-password")
        self._taken = 0

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` gives. Raises Unavailable when two run and twenty wait already (contract 6.2)."""
        if self._taken >= AT_ONCE + WAITING:
            raise Unavailable("Too many people are signing in. Try again shortly.", retry_after=1)
        self._taken += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._taken -= 1

    def close(self) -> None:
        """Ends the threads; work under way finishes first."""
        self._pool.shutdown(wait=True)
