"""One warm sandbox for all tests of a process that ask what foreign code works out, not how it is confined.

A fresh child for each run of each test costs more than the rest of most of these tests. That a child serves
one run of one organization is held in tests/sandbox, and by every test with processes of its own.
"""

import asyncio
from collections.abc import Coroutine
from functools import cache
from threading import Thread
from typing import Any, TypeVar

from steward.sandbox.pool import Owner, SandboxPool, SandboxTime

T = TypeVar("T")
_EVERYBODY: Owner = ("tests", "tests")
_PLACES = 8  # of each kind one at work, one in reserve, and some for messages that come at once


class SharedSandboxPool(SandboxPool):
    """A pool whose children serve everybody; its loop outlives those of the tests.

    `owners` are those that messages named.
    """

    def __init__(self) -> None:
        super().__init__(_PLACES)
        self.owners: set[Owner] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="shared sandbox", daemon=True)
        self._thread.start()

    async def send(
        self,
        owner: Owner,
        kind: str,
        request: dict[str, object],
        payload: bytes,
        seconds: float,
        time_used: SandboxTime | None = None,
    ) -> bytes:
        """Returns the result from a child that may have served other owners."""
        self.owners.add(owner)
        sent = super().send(_EVERYBODY, kind, request, payload, seconds, time_used)
        return await asyncio.wrap_future(self._submit(sent))

    async def close(self) -> None:
        """Leaves the children to the next test."""

    def shut_down(self) -> None:
        """Ends the children and the loop."""
        self._submit(super().close()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop)


@cache
def shared_sandbox() -> SharedSandboxPool:
    """The pool of this process; conftest.py ends it with the session."""
    return SharedSandboxPool()
