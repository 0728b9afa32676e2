"""The time of the tests: it stands still until a test moves it, and wakes who waited for it."""

import asyncio
import heapq
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")

START = datetime(2026, 5, 1, 6, 0, tzinfo=UTC)


class FakeClock:
    """A Clock whose wall and monotonic time only a test moves; `sleep` ends when its time has come."""

    def __init__(self, start: datetime = START) -> None:
        if start.tzinfo is None:
            raise ValueError("give the clock an aware instant")
        self._now = start.astimezone(UTC)
        self._monotonic = 1000.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """The wall clock, aware, UTC."""
        return self._now

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._monotonic

    @property
    def sleeping(self) -> int:
        """How many wait for the time."""
        return sum(not future.done() for _, _, future in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        """Waits until the test has moved the time by `seconds`; for 0 or less, lets others go first."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if seconds <= 0:
            future.get_loop().call_soon(_wake, future)
        else:
            heapq.heappush(self._sleepers, (self._monotonic + seconds, next(self._order), future))
            for expected, watcher in self._watchers:
                if self.sleeping >= expected:
                    _wake(watcher)
        await future

    async def until_sleeping(self, tasks: int = 1) -> None:
        """Returns when at least `tasks` wait for the time: also after work in threads and on sockets."""
        if self.sleeping < tasks:
            watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append((tasks, watcher))
            await watcher
            self._watchers = [entry for entry in self._watchers if not entry[1].done()]

    async def advance(self, seconds: float) -> None:
        """Moves both clocks by `seconds`, waking sleepers one by one, each at its own time.

        What they do until they wait again happens before the next one wakes, as on a real clock.
        """
        if seconds < 0:
            raise ValueError("time goes forward; use jump for a wall clock that was set back")
        end = self._monotonic + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, future = heapq.heappop(self._sleepers)
            if future.done():
                continue
            self._move(max(due - self._monotonic, 0.0))  # `tick` may have passed it
            _wake(future)
            await self.settle()
        self._move(end - self._monotonic)

    async def through(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` comes to; time passes whenever it waits for it, and at no other."""
        going = asyncio.ensure_future(work)
        try:
            while not going.done():
                waiting = asyncio.ensure_future(self.until_sleeping())
                await asyncio.wait({going, waiting}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if not going.done():
                    await self.advance(1.0)
            return going.result()
        finally:
            going.cancel()

    async def advance_to(self, instant: datetime) -> None:
        """Moves the time on to `instant`."""
        await self.advance((instant - self._now).total_seconds())

    def tick(self, seconds: float) -> datetime:
        """Moves both clocks at once, waking nobody; for tests without a loop. The new now."""
        self._move(seconds)
        return self._now

    def jump(self, seconds: float) -> datetime:
        """Sets only the wall clock, forward or back, as an operator may. Returns the new time."""
        self._now += timedelta(seconds=seconds)
        return self._now

    async def settle(self, rounds: int = 50) -> None:
        """Lets everything on this loop go on that needs neither time nor a thread nor a socket."""
        for _ in range(rounds):
            await self.sleep(0)

    def _move(self, seconds: float) -> None:
        self._monotonic += seconds
        self._now += timedelta(seconds=seconds)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
