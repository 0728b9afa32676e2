"""The only module that reads time or sleeps; other code takes `now` or a Clock as an argument."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The time as an argument; tests pass their own."""

    def now(self) -> datetime:
        """Returns the current time, timezone-aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Returns seconds that never decrease."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits for `seconds`."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Returns the current time, timezone-aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Returns seconds that never decrease."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Waits for `seconds`."""
        await asyncio.sleep(seconds)
