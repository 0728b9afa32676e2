"""Limits a connection's calls: how many run at once and start within a minute, and when to retry."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from steward.clock import Clock
from steward.outbound.call_queue import CallQueue, Urgency, WaitingCall
from steward.outbound.endpoint import RateLimit
from steward.outbound.errors import LocalQueueFull
from steward.outbound.query_cost import CostBucket, ReportedCost

_MINUTE = 60.0
_MAX_LIMITERS = 5_000
# Waits are floats: the remainder of one may be shorter than the clock's smallest step.
_MIN_SLEEP_S = 0.001
# A running write may take a minute; a call without a turn is retried sooner.
_RETRY_AFTER_S = 15.0


class RateLimiter:
    """The budget of one connection or account in this process: which call starts next, and when.

    Reads of runs share `max_concurrency`. Approved writes and management calls go before them and may also
    use `urgent_concurrency`, so that they only wait for each other and never for a queue of reads.
    """

    def __init__(self, rule: RateLimit, clock: Clock) -> None:
        self._rule = rule
        self._clock = clock
        self._running = 0
        self._urgent = 0
        self._writing = 0
        self._failures = 0
        self._slow = False
        self._paused_until = 0.0
        self._starts: dict[bool, deque[float]] = {False: deque(), True: deque()}
        self._queue = CallQueue()
        self._wakers: dict[WaitingCall, asyncio.Future[None]] = {}
        self._bucket = CostBucket(rule.cost_budget) if rule.cost_budget is not None else None

    @property
    def idle(self) -> bool:
        """Whether no call runs or waits."""
        return not self._running and not self._queue

    async def acquire(
        self,
        *,
        write: bool,
        max_wait_s: float | None = None,
        max_cost: float = 0.0,
        urgency: Urgency | None = None,
        share: Hashable = None,
    ) -> None:
        """Waits for the call's turn, for capacity, and until `max_cost` is available.

        Without `urgency`, a write is a WRITE and any other call a READ. Calls of one `share` take turns
        with those of others. Raises LocalQueueFull if that would take longer than `max_wait_s` seconds.
        """
        urgency = _urgency_of(write, urgency)
        call = WaitingCall(urgency, share, write, max_cost)
        self._queue.add(call)
        try:
            await self._wait_for_turn(call, max_wait_s)
        except BaseException:  # also when cancelled
            self._queue.remove(call)
            self._wake()  # it may have been woken in place of another call
            raise
        self._queue.remove(call)
        self._running += 1
        self._urgent += urgency is not Urgency.READ
        self._writing += write
        if self._bucket is not None:
            self._bucket.reserve(max_cost)
        self._starts[write].append(self._clock.monotonic())
        self._wake()

    def release(
        self,
        *,
        write: bool,
        seconds: float | None,
        failed: bool,
        retry_after: float | None = None,
        max_cost: float = 0.0,
        reported_cost: ReportedCost | None = None,
        urgency: Urgency | None = None,
    ) -> None:
        """Releases the call's capacity and adapts to the call's result.

        `seconds` is how long it took; null for a call that was not made, which changes nothing.
        """
        if self._bucket is not None:
            self._bucket.settle(max_cost, reported_cost, self._clock.monotonic())
        self._running -= 1
        self._urgent -= _urgency_of(write, urgency) is not Urgency.READ
        self._writing -= write
        if seconds is not None:
            self._adapt(seconds, failed=failed)
        if retry_after is not None:
            self.pause(retry_after)
        self._wake()

    def _adapt(self, seconds: float, *, failed: bool) -> None:
        """Slows down after a slow response, and pauses after failures in a row."""
        slow_after = self._rule.slow_after_s
        self._slow = slow_after is not None and seconds > slow_after
        if failed and self._rule.failure_backoff_s:
            steps = self._rule.failure_backoff_s
            self.pause(steps[min(self._failures, len(steps) - 1)])
        self._failures = self._failures + 1 if failed else 0

    def pause(self, seconds: float) -> None:
        """Prevents calls from starting for `seconds`."""
        self._paused_until = max(self._paused_until, self._clock.monotonic() + seconds)

    async def _wait_for_turn(self, call: WaitingCall, max_wait_s: float | None) -> None:
        """Returns when the call may start. Raises LocalQueueFull if that takes longer than `max_wait_s`."""
        started_at = self._clock.monotonic()
        while True:
            wait = max(self._rate_wait(call.write), self._shared_wait(call.max_cost))
            if wait <= 0 and self._next_call() is call:
                return
            remaining_s = None if max_wait_s is None else max_wait_s - (self._clock.monotonic() - started_at)
            if remaining_s is not None and (remaining_s <= 0 or wait > remaining_s):
                raise LocalQueueFull(wait or _RETRY_AFTER_S)
            if wait > 0:
                await self._clock.sleep(max(wait, _MIN_SLEEP_S))
            else:
                await self._wait_for_wakeup(call, remaining_s)

    async def _wait_for_wakeup(self, call: WaitingCall, remaining_s: float | None) -> None:
        """Returns when it may be the call's turn. Raises LocalQueueFull after `remaining_s` seconds."""
        self._wakers[call] = asyncio.get_running_loop().create_future()
        try:
            # Not wait_for: it may return a result when it is cancelled at the moment when it is woken.
            async with asyncio.timeout(remaining_s):
                await self._wakers[call]
        except TimeoutError:
            raise LocalQueueFull(_RETRY_AFTER_S) from None
        finally:
            del self._wakers[call]

    def _wake(self) -> None:
        """Wakes the call whose turn it is; that call wakes the next one once it has started.

        Earlier calls that exceed the budget of their kind are woken too, to wait for the time instead: no
        other call might end after the budget allows them to start.
        """
        for call in self._queue.heads():
            if not self._has_capacity(call):
                continue
            waker = self._wakers.get(call)
            if waker is not None and not waker.done():
                waker.set_result(None)
            if self._rate_wait(call.write) <= 0:
                return

    def _next_call(self) -> WaitingCall | None:
        """Returns the first call in order that has capacity and fits into the budget of its kind.

        A pause and the query cost apply to every call, so no call overtakes the first one because of them.
        """
        for call in self._queue.heads():
            if self._has_capacity(call) and self._rate_wait(call.write) <= 0:
                return call
        return None

    def _has_capacity(self, call: WaitingCall) -> bool:
        """Returns whether one more call of this urgency may run at once."""
        capacity = 1 if self._slow else self._rule.max_concurrency
        if call.urgency is Urgency.READ:
            return self._running < capacity
        if (
            call.write
            and self._rule.max_concurrent_writes
            and self._writing >= self._rule.max_concurrent_writes
        ):
            return False
        return self._urgent < capacity and self._running < capacity + self._rule.urgent_concurrency

    def _rate_wait(self, write: bool) -> float:
        """Returns the seconds until another call of this kind may start."""
        now, wait = self._clock.monotonic(), 0.0
        limit = self._rule.writes_per_minute if write else self._rule.reads_per_minute
        starts = self._starts[write]
        while starts and starts[0] <= now - _MINUTE:
            starts.popleft()
        if limit is not None and len(starts) >= limit:
            wait = starts[len(starts) - limit] + _MINUTE - now
        if starts and self._rule.min_interval_s is not None:
            wait = max(wait, starts[-1] + self._rule.min_interval_s - now)
        return wait

    def _shared_wait(self, cost: float) -> float:
        """Returns the seconds until any call of `cost` may start."""
        now = self._clock.monotonic()
        paid = 0.0 if self._bucket is None else self._bucket.wait(cost, now)
        return max(self._paused_until - now, paid, 0.0)


def _urgency_of(write: bool, urgency: Urgency | None) -> Urgency:
    """Returns the urgency of a call, by default WRITE for a write and READ for any other call."""
    if urgency is not None:
        return urgency
    return Urgency.WRITE if write else Urgency.READ


class RateLimiters:
    """The rate limiters in use; beyond 5,000, the one unused for longest is dropped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._limiters: OrderedDict[str, RateLimiter] = OrderedDict()

    def get(self, key: str, rule: RateLimit) -> RateLimiter:
        """Returns the limiter named `key`; creates it with `rule` if it does not exist."""
        limiter = self._limiters.setdefault(key, RateLimiter(rule, self._clock))
        self._limiters.move_to_end(key)
        if len(self._limiters) > _MAX_LIMITERS:
            oldest = next(
                (name for name, candidate in self._limiters.items() if candidate.idle and name != key), None
            )
            if oldest is not None:
                del self._limiters[oldest]
        return limiter


def retry_after(value: str | None, now: datetime) -> float | None:
    """Returns the seconds in a `Retry-After` header, given as a number or a date; null for other values."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return float(text)
    try:
        resume_at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    if resume_at.tzinfo is None:
        resume_at = resume_at.replace(tzinfo=UTC)
    return max((resume_at - now).total_seconds(), 0.0)
