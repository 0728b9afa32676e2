"""Paces calls: how many of a connection run at once, start in a minute, and when to come again."""

import asyncio
from collections import OrderedDict, deque
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from steward.clock import Clock
from steward.outbound.errors import Throttled
from steward.outbound.link import PaceRule
from steward.outbound.points import Bucket, Told

_MINUTE = 60.0
_KEPT = 5_000
# A wait is worked out in floats: what is left of one after it may be less than any clock goes on by.
_LEAST_WAIT = 0.001


class Pace:
    """The budget of one connection or account in this process (connectors 7)."""

    def __init__(self, rule: PaceRule, clock: Clock) -> None:
        self._rule = rule
        self._clock = clock
        self._running = 0
        self._writing = 0
        self._failures = 0
        self._slow = False
        self._hold_until = 0.0
        self._starts: dict[bool, deque[float]] = {False: deque(), True: deque()}
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._bucket = Bucket(rule.points) if rule.points is not None else None

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self._running and not self._waiting

    async def enter(self, *, write: bool, patience: float | None = None, points: float = 0.0) -> None:
        """Waits for a place, and until `points` are left.

        Raises Throttled when that would take longer than `patience` seconds.
        """
        begun = self._clock.monotonic()
        while True:
            wait = self._wait(write, points)
            if wait <= 0 and self._has_place(write):
                break
            left = None if patience is None else patience - (self._clock.monotonic() - begun)
            if left is not None and (left <= 0 or wait > left):
                raise Throttled(max(wait, 1.0))
            if wait > 0:
                await self._clock.sleep(max(wait, _LEAST_WAIT))
            else:
                await self._turn(left)
        self._running += 1
        self._writing += write
        if self._bucket is not None:
            self._bucket.begin(points)
        self._starts[write].append(self._clock.monotonic())

    def leave(
        self,
        *,
        write: bool,
        seconds: float,
        failed: bool,
        retry_after: float | None = None,
        points: float = 0.0,
        told: Told | None = None,
    ) -> None:
        """Gives the place back and learns from how the call went."""
        if self._bucket is not None:
            self._bucket.end(points, told, self._clock.monotonic())
        self._running -= 1
        self._writing -= write
        slow_after = self._rule.slow_after_s
        self._slow = slow_after is not None and seconds > slow_after
        if failed and self._rule.after_failure_s:
            steps = self._rule.after_failure_s
            self.hold(steps[min(self._failures, len(steps) - 1)])
        self._failures = self._failures + 1 if failed else 0
        if retry_after is not None:
            self.hold(retry_after)
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
                break

    def hold(self, seconds: float) -> None:
        """Lets no call start for `seconds`."""
        self._hold_until = max(self._hold_until, self._clock.monotonic() + seconds)

    def _has_place(self, write: bool) -> bool:
        limit = 1 if self._slow else self._rule.at_once
        if self._running >= limit:
            return False
        return not (write and self._rule.writes_at_once and self._writing >= self._rule.writes_at_once)

    def _wait(self, write: bool, points: float) -> float:
        now = self._clock.monotonic()
        wait = self._hold_until - now
        limit = self._rule.writes_a_minute if write else self._rule.reads_a_minute
        starts = self._starts[write]
        while starts and starts[0] <= now - _MINUTE:
            starts.popleft()
        if limit is not None and len(starts) >= limit:
            wait = max(wait, starts[len(starts) - limit] + _MINUTE - now)
        if starts and self._rule.seconds_apart is not None:
            wait = max(wait, starts[-1] + self._rule.seconds_apart - now)
        if self._bucket is not None:
            wait = max(wait, self._bucket.wait(points, now))
        return max(wait, 0.0)

    async def _turn(self, left: float | None) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await asyncio.wait_for(waiter, left)
        except TimeoutError:
            raise Throttled(1.0) from None
        finally:
            self._waiting.remove(waiter)


class Paces:
    """The pace of every connection in use, the longest unused forgotten beyond 5,000."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[str, Pace] = OrderedDict()

    def of(self, key: str, rule: PaceRule) -> Pace:
        """The pace named `key`, made with `rule` when it is new."""
        pace = self._known.setdefault(key, Pace(rule, self._clock))
        self._known.move_to_end(key)
        if len(self._known) > _KEPT:
            oldest = next((name for name, each in self._known.items() if each.idle and name != key), None)
            if oldest is not None:
                del self._known[oldest]
        return pace


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds named by a `Retry-After` header, as a number or a date; null when it is neither."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max((at - now).total_seconds(), 0.0)
