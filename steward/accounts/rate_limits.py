"""Rate limits per UTC minute, kept in memory, for a service that runs as one process."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from steward.database.engine.base import ms
from steward.model.refusals import RateLimited

_WindowKind = Literal["person", "org", "web"]
Window = tuple[_WindowKind, int, int]
_MINUTE_MS = 60_000


class CallCounters:
    """Counts the calls of the current minute by kind, organization and key."""

    def __init__(self) -> None:
        self._minute = -1
        self._used: dict[Window, int] = {}

    def take(self, now: datetime, limits: Sequence[tuple[Window, int]]) -> bool:
        """Counts a call in every window, or in none when one is full. Returns whether it was counted."""
        minute = ms(now) // _MINUTE_MS
        if minute != self._minute:
            self._minute, self._used = minute, {}
        used = self._used
        for window, limit in limits:
            if used.get(window, 0) >= limit:
                return False
        for window, _ in limits:
            used[window] = used.get(window, 0) + 1
        return True


def limit_reached(now: datetime) -> RateLimited:
    """Returns the error for a full window; it asks the client to retry in the next minute."""
    return RateLimited(retry_after=_seconds_to_next_minute(now))


def _seconds_to_next_minute(now: datetime) -> int:
    """Returns the seconds to the next window, rounded up and at least 1."""
    remaining_ms = _MINUTE_MS - ms(now) % _MINUTE_MS
    return max(1, -(-remaining_ms // 1000))
