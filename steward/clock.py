"""The only file that reads time or sleeps; other code takes `now` or a Clock as an argument."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Time as an argument: tests pass their own."""

    def now(self) -> datetime:
        """Returns the current time, timezone-aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits `seconds`."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Returns the current time, timezone-aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Waits `seconds`."""
        await asyncio.sleep(seconds)
