"""Pace: how many at once, in a minute and apart, after failures and on request.

See docs/design/connectors.md#limits.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.outbound.call_queue import Urgency
from steward.outbound.endpoint import RateLimit
from steward.outbound.errors import LocalQueueFull, Throttled
from steward.outbound.query_cost import CostBudget, ReportedCost
from steward.outbound.rate_limiter import RateLimiter, RateLimiters, retry_after
from tests.fake_clock import FakeClock


async def test_concurrent_calls_of_a_shop_are_limited(clock: FakeClock) -> None:
    """2 calls at once per shop. See docs/design/connectors.md#woocommerce."""
    pace = RateLimiter(RateLimit(max_concurrency=2), clock)
    await pace.acquire(write=False)
    await pace.acquire(write=False)
    third = asyncio.create_task(pace.acquire(write=False))
    await clock.settle()
    assert not third.done()
    pace.release(write=False, seconds=0.1, failed=False)
    await third


async def test_a_slow_response_leaves_one_at_a_time(clock: FakeClock) -> None:
    """1 while the last response took over 5 s. See docs/design/connectors.md#woocommerce."""
    pace = RateLimiter(RateLimit(max_concurrency=2, slow_after_s=5.0), clock)
    await pace.acquire(write=False)
    pace.release(write=False, seconds=5.1, failed=False)
    await pace.acquire(write=False)
    second = asyncio.create_task(pace.acquire(write=False))
    await clock.settle()
    assert not second.done()
    pace.release(write=False, seconds=1, failed=False)
    await second
    await pace.acquire(write=False)


async def test_a_call_that_was_not_made_leaves_the_rate_limiter_alone(clock: FakeClock) -> None:
    """A run that was cancelled while it waited: the shop is as slow as it was."""
    pace = RateLimiter(RateLimit(max_concurrency=2, slow_after_s=5.0), clock)
    await pace.acquire(write=False)
    pace.release(write=False, seconds=5.1, failed=False)
    await pace.acquire(write=False)
    pace.release(write=False, seconds=None, failed=False)
    await pace.acquire(write=False)
    second = asyncio.create_task(pace.acquire(write=False))
    await clock.settle()
    assert not second.done()
    second.cancel()


async def test_failures_in_a_row_wait_longer_each_time_and_a_success_clears_them(clock: FakeClock) -> None:
    """After a 5xx or timeout wait 2, 8, 30 s. See docs/design/connectors.md#woocommerce."""
    pace = RateLimiter(RateLimit(failure_backoff_s=(2.0, 8.0, 30.0)), clock)
    for wait in (2, 8, 30, 30):
        await pace.acquire(write=False)
        pace.release(write=False, seconds=1, failed=True)
        waiting = asyncio.create_task(pace.acquire(write=False))
        await clock.advance(wait - 0.1)
        assert not waiting.done()
        await clock.advance(0.1)
        await waiting
        pace._running -= 1
    await pace.acquire(write=False)
    pace.release(write=False, seconds=1, failed=False)
    await asyncio.wait_for(pace.acquire(write=False), 60)


async def test_fifty_reads_start_in_a_minute_and_the_next_waits(clock: FakeClock) -> None:
    """See docs/design/connectors.md#google-sheets."""
    pace = RateLimiter(RateLimit(max_concurrency=4, reads_per_minute=50), clock)
    for _ in range(50):
        await pace.acquire(write=False)
        pace.release(write=False, seconds=0, failed=False)
    waiting = asyncio.create_task(pace.acquire(write=False))
    await clock.advance(59)
    assert not waiting.done()
    await clock.advance(1)
    await waiting
    await pace.acquire(write=True)  # writes have a budget of their own


async def test_messages_start_a_second_apart(clock: FakeClock) -> None:
    """See docs/design/connectors.md#teams."""
    pace = RateLimiter(RateLimit(max_concurrency=1, min_interval_s=1.0), clock)
    await pace.acquire(write=True)
    pace.release(write=True, seconds=0, failed=False)
    waiting = asyncio.create_task(pace.acquire(write=True))
    await clock.advance(0.9)
    assert not waiting.done()
    await clock.advance(0.1)
    await waiting


async def test_an_impatient_caller_is_asked_to_retry_later(clock: FakeClock) -> None:
    """An attempt that cannot be handed over in time is not sent.

    See docs/design/writes.md#protocol-of-one-write.
    """
    pace = RateLimiter(RateLimit(max_concurrency=1), clock)
    pace.pause(6)
    with pytest.raises(Throttled) as throttled:
        await pace.acquire(write=True, max_wait_s=5)
    assert throttled.value.wait_s == 6
    await clock.advance(6)
    await pace.acquire(write=True, max_wait_s=0.5)
    with pytest.raises(Throttled):
        await pace.acquire(write=True, max_wait_s=0)
    assert not pace.idle


async def test_points_are_waited_for_once_however_their_sum_is_rounded() -> None:
    """What floats leave of a wait is no wait that a clock could tell.

    See docs/design/connectors.md#shopify.
    """

    class Counting(FakeClock):
        request_count = 0

        async def sleep(self, seconds: float) -> None:
            if seconds > 0:
                self.request_count += 1
                assert seconds >= 0.001
            await super().sleep(seconds)

    for number in range(200):
        clock = Counting()
        pace = RateLimiter(RateLimit(cost_budget=CostBudget()), clock)
        clock.tick(number / 7)
        await pace.acquire(write=False, max_cost=10)
        reported_cost = ReportedCost(10, 2000, 600 + number / 3, 100, throttled=False)
        pace.release(write=False, seconds=0.1, failed=False, max_cost=10, reported_cost=reported_cost)
        clock.tick(number / 11)
        await clock.through(pace.acquire(write=False, max_cost=1100))
        assert clock.request_count <= 2


def test_one_name_is_one_pace_and_the_longest_unused_is_forgotten(clock: FakeClock) -> None:
    """The budget is the account's. See docs/design/connectors.md#google-sheets."""
    paces = RateLimiters(clock)
    first = paces.get("a", RateLimit())
    assert paces.get("a", RateLimit(max_concurrency=1)) is first
    for number in range(5_000):
        paces.get(str(number), RateLimit())
    assert paces.get("a", RateLimit()) is not first


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("0", 0), ("600", 600), (" 7 ", 7), ("Fri, 01 May 2026 06:01:00 GMT", 60), (None, None), ("soon", None),
     ("-3", None), ("Fri, 01 May 2026 05:00:00 GMT", 0), ("9999999999", None)],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    """See docs/design/connectors.md#retries."""
    assert retry_after(value, datetime(2026, 5, 1, 6, 0, tzinfo=UTC)) == seconds


async def queued(
    pace: RateLimiter, clock: FakeClock, started: list[str], **calls: dict[str, Any]
) -> list[Any]:
    """Calls that wait one after the other; `started` gets their names as they start."""

    async def one(name: str, named: dict[str, Any]) -> None:
        await pace.acquire(**{"write": False, **named})
        started.append(name)

    tasks = []
    for name, named in calls.items():
        tasks.append(asyncio.create_task(one(name, named)))
        await clock.settle(3)
    return tasks


async def test_writes_start_before_upkeep_and_upkeep_before_reads(clock: FakeClock) -> None:
    """Whatever came first: an approved change does not wait for a queue of reads."""
    pace = RateLimiter(RateLimit(max_concurrency=1), clock)
    await pace.acquire(write=False)
    started: list[str] = []
    await queued(
        pace, clock, started,
        read={}, check={"urgency": Urgency.MANAGEMENT}, reread={"urgency": Urgency.WRITE},
        write={"write": True},
    )  # fmt: skip
    urgencies = [Urgency.READ, Urgency.WRITE, Urgency.WRITE, Urgency.MANAGEMENT]
    for number, urgency in enumerate(urgencies, start=1):
        pace.release(write=number == 3, seconds=0.1, failed=False, urgency=urgency)
        await clock.settle()
        assert len(started) == number
    assert started == ["reread", "write", "check", "read"]


async def test_runs_take_turns_however_much_one_of_them_asks(clock: FakeClock) -> None:
    pace = RateLimiter(RateLimit(max_concurrency=1), clock)
    await pace.acquire(write=False)
    started: list[str] = []
    many = {f"a{number}": {"share": "a"} for number in range(4)}
    await queued(pace, clock, started, **many, b0={"share": "b"}, b1={"share": "b"}, c0={"share": "c"})
    for _ in range(7):
        pace.release(write=False, seconds=0.1, failed=False)
        await clock.settle()
    assert started == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


@pytest.mark.parametrize("named", [{"write": True}, {"urgency": Urgency.MANAGEMENT}])
async def test_writes_keep_a_place_beside_slow_reads(clock: FakeClock, named: dict[str, Any]) -> None:
    """The shop's rule: reads in all places, and one that takes 20 s, do not keep a write waiting."""
    pace = RateLimiter(RateLimit(max_concurrency=2, urgent_concurrency=1, slow_after_s=5.0), clock)
    for slow in (False, True):
        if slow:
            pace.release(write=False, seconds=20, failed=False)
            pace.release(write=False, seconds=20, failed=False)
            await pace.acquire(write=False)
        else:
            await pace.acquire(write=False)
            await pace.acquire(write=False)
        started: list[str] = []
        [read, *_] = await queued(pace, clock, started, read={}, urgent=named, second=named)
        assert started == ["urgent"]  # one beside them, not two
        read.cancel()
        urgency = named.get("urgency", Urgency.WRITE)
        for _ in range(2):
            pace.release(write="write" in named, seconds=20 if slow else 1, failed=False, urgency=urgency)
            await clock.settle()
        assert started == ["urgent", "second"]


async def test_a_kind_over_its_own_budget_lets_the_others_go(clock: FakeClock) -> None:
    """Fifty writes a minute do not stop the reads; one write at a time neither."""
    pace = RateLimiter(RateLimit(max_concurrency=4, writes_per_minute=1, max_concurrent_writes=1), clock)
    await pace.acquire(write=True)
    started: list[str] = []
    await queued(pace, clock, started, write={"write": True}, read={})
    assert started == ["read"]
    pace.release(write=True, seconds=0.1, failed=False)
    await clock.advance(60)
    assert started == ["read", "write"]


@pytest.mark.parametrize(
    "rule", [RateLimit(max_concurrency=2, reads_per_minute=3), RateLimit(min_interval_s=1.0)]
)
async def test_a_call_that_waited_for_a_place_starts_when_the_budget_allows(
    clock: FakeClock, rule: RateLimit
) -> None:
    """Also when the last call ended before: no other call is there to wake it."""
    pace = RateLimiter(rule, clock)
    started: list[str] = []
    for _ in range(rule.max_concurrency):
        await pace.acquire(write=False)
        await clock.advance(1)
    await queued(pace, clock, started, first={}, second={}, third={})
    for _ in range(rule.max_concurrency):
        pace.release(write=False, seconds=0.1, failed=False)
    while len(started) < 3 and clock.monotonic() < 1400:
        await clock.advance(0.5)
        if pace._running:
            pace.release(write=False, seconds=0.1, failed=False)
    assert started == ["first", "second", "third"]


async def test_a_dear_write_is_not_overtaken_by_cheap_reads(clock: FakeClock) -> None:
    """Points concern every call: those that come later wait until the first one is paid."""
    pace = RateLimiter(
        RateLimit(max_concurrency=4, cost_budget=CostBudget(maximum=100, restore_rate=1, share=1.0)), clock
    )
    await pace.acquire(write=False, max_cost=100)
    pace.release(write=False, seconds=0, failed=False, max_cost=100)
    started: list[str] = []
    await queued(pace, clock, started, write={"write": True, "max_cost": 50}, read={"max_cost": 5})
    await clock.advance(49)
    assert started == []
    await clock.advance(1)
    assert started == ["write"]
    await clock.advance(5)
    assert started == ["write", "read"]


@pytest.mark.parametrize("is_woken", [False, True])
async def test_a_cancelled_call_ends_and_the_next_one_goes(clock: FakeClock, is_woken: bool) -> None:
    """Also one that is cancelled in the very moment it was woken: the place is not lost with it."""
    pace = RateLimiter(RateLimit(max_concurrency=1), clock)
    await pace.acquire(write=False)
    started: list[str] = []
    [first, _] = await queued(pace, clock, started, first={}, second={})
    if is_woken:
        pace.release(write=False, seconds=0.1, failed=False)
    first.cancel()
    await clock.settle()
    assert first.cancelled()
    if not is_woken:
        pace.release(write=False, seconds=0.1, failed=False)
        await clock.settle()
    assert started == ["second"]
    pace.release(write=False, seconds=0.1, failed=False)
    assert pace.idle


async def test_impatience_with_the_own_queue_is_not_laid_to_the_account(clock: FakeClock) -> None:
    pace = RateLimiter(RateLimit(max_concurrency=1), clock)
    await pace.acquire(write=True)
    with pytest.raises(LocalQueueFull) as refusal:
        await pace.acquire(write=True, max_wait_s=0)
    assert "account asks" not in refusal.value.message
    assert refusal.value.wait_s == 15  # five attempts outlast a write of a minute
    pace.release(write=True, seconds=0.1, failed=False)
    assert pace.idle


@settings(max_examples=100, deadline=None)
@given(
    rule=st.sampled_from(
        [
            RateLimit(max_concurrency=2, urgent_concurrency=1, slow_after_s=5.0),
            RateLimit(max_concurrency=4, reads_per_minute=3, writes_per_minute=5, max_concurrent_writes=1),
            RateLimit(max_concurrency=2, min_interval_s=1.0),
        ]
    ),
    calls=st.lists(
        st.tuples(st.sampled_from(Urgency), st.integers(0, 3), st.floats(0.1, 30), st.booleans()), max_size=40
    ),
)
async def test_every_call_starts_once_and_the_places_hold(
    rule: RateLimit,
    calls: list[tuple[Urgency, int, float, bool]],
) -> None:
    """A mixture of calls, some cancelled on their way: nothing waits for ever, no place is given twice."""
    clock = FakeClock()
    pace = RateLimiter(rule, clock)
    ended: list[int] = []

    async def one(number: int, urgency: Urgency, share: int, seconds: float) -> None:
        named: dict[str, Any] = {"write": urgency is Urgency.WRITE, "urgency": urgency}
        await pace.acquire(**named, share=share)
        assert pace._running <= rule.max_concurrency + rule.urgent_concurrency
        try:
            await clock.sleep(seconds)
        finally:
            pace.release(**named, seconds=seconds, failed=False)
        ended.append(number)

    tasks = [asyncio.create_task(one(number, *call[:3])) for number, call in enumerate(calls)]
    await clock.settle()
    for task, call in zip(tasks, calls, strict=True):
        if call[3]:
            task.cancel()
    await clock.advance(60 * 41)
    assert sorted(ended) == [number for number, call in enumerate(calls) if not call[3]]
    assert pace.idle
