"""The only module that reads time or sleeps; other code takes `now` or a Clock as an argument."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

LONGEST_BACKOFF = 30.0  # seconds


def backoff(failures: int) -> float:
    """Returns the seconds to wait after the last of so many failures in a row: 1, 2, 4 and so on to 30."""
    # A power of every count would overflow after hours without a database.
    return min(LONGEST_BACKOFF, 2.0 ** min(failures - 1, 5))


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
