"""Flood limits per store address: events and bytes of the last ten seconds, in this process."""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from math import ceil

from steward.model.refusals import Unavailable

_SECONDS = 10.0
_MAX_EVENTS = 60 * int(_SECONDS)
_MAX_BYTES = 2 * 1024 * 1024 * int(_SECONDS)
_MAX_ADDRESSES = 10_000


@dataclass(slots=True)
class _Window:
    """The deliveries of one address in the last ten seconds, with their events and bytes."""

    deliveries: deque[tuple[float, int, int]] = field(default_factory=deque)
    events: int = 0
    size: int = 0

    def add(self, now: float, events: int, size: int) -> None:
        self.deliveries.append((now, events, size))
        self.events += events
        self.size += size

    def drop_expired(self, now: float) -> None:
        while self.deliveries and self.deliveries[0][0] <= now - _SECONDS:
            _, events, size = self.deliveries.popleft()
            self.events -= events
            self.size -= size


@dataclass(slots=True)
class Floods:
    """The windows of recently used addresses."""

    windows: "OrderedDict[str, _Window]" = field(default_factory=OrderedDict)

    def admit(self, address: str, now: float) -> None:
        """Admits one delivery. Raises Unavailable with the seconds until the next one is admitted."""
        window = self.windows.setdefault(address, _Window())
        self.windows.move_to_end(address)
        if len(self.windows) > _MAX_ADDRESSES:
            self.windows.popitem(last=False)
        window.drop_expired(now)
        if window.events >= _MAX_EVENTS or window.size >= _MAX_BYTES:
            wait = window.deliveries[0][0] + _SECONDS - now
            message = "Too many events at the same time. Nothing was stored; send them again later."
            raise Unavailable(message, retry_after=max(1, ceil(wait)))
        window.add(now, 1, 0)

    def count_bytes(self, address: str, now: float, *, size: int) -> None:
        """Counts the bytes of an admitted delivery."""
        self.windows.setdefault(address, _Window()).add(now, 0, size)

    def count_invalid(self, address: str, now: float) -> None:
        """Counts a delivery with a wrong signature twice."""
        self.windows.setdefault(address, _Window()).add(now, 1, 0)
