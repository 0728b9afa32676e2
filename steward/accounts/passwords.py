"""Hashes passwords in two threads with a short queue."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from steward.model.refusals import Unavailable
from steward.security.passwords import Cost, hash_password, needs_rehash, verify_password

T = TypeVar("T")

_MAX_CONCURRENT = 2
_MAX_WAITING = 20


class PasswordHasher:
    """The threads that compute password hashes; one instance per process."""

    def __init__(self, cost: Cost) -> None:
        self._cost = cost
        self._pool = ThreadPoolExecutor(_MAX_CONCURRENT, thread_name_prefix="steward-password")
        self._in_use = 0
        self._nobody: str | None = None

    async def hash(self, password: str) -> str:
        """Returns the hash to store. Raises Unavailable when too many wait."""
        return await self._run(lambda: hash_password(password, self._cost))

    async def verify(self, password: str, password_hash: str | None) -> bool:
        """Returns whether the password matches; without a hash it does the same work and returns False.

        Raises Unavailable when too many wait.
        """
        return await self._run(lambda: self._verify(password, password_hash))

    def is_outdated(self, password_hash: str) -> bool:
        """Returns whether a stored hash has a lower cost than a new one, or is damaged."""
        return needs_rehash(password_hash, self._cost)

    def close(self) -> None:
        """Ends the threads when their current work is done."""
        self._pool.shutdown(wait=True)

    def _verify(self, password: str, password_hash: str | None) -> bool:
        if self._nobody is None:
            self._nobody = hash_password("nobody has this password", self._cost)
        right = verify_password(password_hash or self._nobody, password)
        return right and password_hash is not None

    async def _run(self, work: Callable[[], T]) -> T:
        """Runs `work` on a thread. Raises Unavailable when two run and twenty wait already."""
        if self._in_use >= _MAX_CONCURRENT + _MAX_WAITING:
            raise Unavailable("Too many people are signing in. Try again shortly.", retry_after=1)
        self._in_use += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._in_use -= 1
