"""Pace: how many at once, in a minute and apart, after failures and on request (connectors 7)."""

import asyncio
from datetime import UTC, datetime

import pytest

from steward.outbound.errors import Throttled
from steward.outbound.link import PaceRule
from steward.outbound.pace import Pace, Paces, retry_after
from steward.outbound.points import PointsRule, Told
from tests.fake_clock import FakeClock


async def test_only_so_many_run_at_once_and_the_next_goes_when_one_ends(clock: FakeClock) -> None:
    """connectors 7.2: 2 calls at once per shop"""
    pace = Pace(PaceRule(at_once=2), clock)
    await pace.enter(write=False)
    await pace.enter(write=False)
    third = asyncio.create_task(pace.enter(write=False))
    await clock.settle()
    assert not third.done()
    pace.leave(write=False, seconds=0.1, failed=False)
    await third


async def test_a_slow_answer_leaves_one_at_a_time(clock: FakeClock) -> None:
    """connectors 7.2: 1 while the last answer took over 5 s"""
    pace = Pace(PaceRule(at_once=2, slow_after_s=5.0), clock)
    await pace.enter(write=False)
    pace.leave(write=False, seconds=5.1, failed=False)
    await pace.enter(write=False)
    second = asyncio.create_task(pace.enter(write=False))
    await clock.settle()
    assert not second.done()
    pace.leave(write=False, seconds=1, failed=False)
    await second
    await pace.enter(write=False)


async def test_failures_in_a_row_wait_longer_each_time_and_a_success_clears_them(clock: FakeClock) -> None:
    """connectors 7.2: after a 5xx or timeout wait 2, 8, 30 s"""
    pace = Pace(PaceRule(after_failure_s=(2.0, 8.0, 30.0)), clock)
    for wait in (2, 8, 30, 30):
        await pace.enter(write=False)
        pace.leave(write=False, seconds=1, failed=True)
        waiting = asyncio.create_task(pace.enter(write=False))
        await clock.advance(wait - 0.1)
        assert not waiting.done()
        await clock.advance(0.1)
        await waiting
        pace._running -= 1
    await pace.enter(write=False)
    pace.leave(write=False, seconds=1, failed=False)
    await asyncio.wait_for(pace.enter(write=False), 1)


async def test_fifty_reads_start_in_a_minute_and_the_next_waits(clock: FakeClock) -> None:
    """connectors 7.3"""
    pace = Pace(PaceRule(at_once=4, reads_a_minute=50), clock)
    for _ in range(50):
        await pace.enter(write=False)
        pace.leave(write=False, seconds=0, failed=False)
    waiting = asyncio.create_task(pace.enter(write=False))
    await clock.advance(59)
    assert not waiting.done()
    await clock.advance(1)
    await waiting
    await pace.enter(write=True)  # writes have a budget of their own


async def test_messages_start_a_second_apart(clock: FakeClock) -> None:
    """connectors 7.4"""
    pace = Pace(PaceRule(at_once=1, seconds_apart=1.0), clock)
    await pace.enter(write=True)
    pace.leave(write=True, seconds=0, failed=False)
    waiting = asyncio.create_task(pace.enter(write=True))
    await clock.advance(0.9)
    assert not waiting.done()
    await clock.advance(0.1)
    await waiting


async def test_who_has_no_patience_is_told_to_come_again(clock: FakeClock) -> None:
    """engine 11.2: an attempt that cannot be handed over in time is not sent"""
    pace = Pace(PaceRule(at_once=1), clock)
    pace.hold(6)
    with pytest.raises(Throttled) as told:
        await pace.enter(write=True, patience=5)
    assert told.value.wait_s == 6
    await clock.advance(6)
    await pace.enter(write=True, patience=0.5)
    with pytest.raises(Throttled):
        await pace.enter(write=True, patience=0)
    assert not pace.idle


async def test_points_are_waited_for_once_however_their_sum_is_rounded() -> None:
    """connectors 7.1, Pace: what floats leave of a wait is no wait that a clock could tell"""

    class Counting(FakeClock):
        asked = 0

        async def sleep(self, seconds: float) -> None:
            if seconds > 0:
                self.asked += 1
                assert seconds >= 0.001
            await super().sleep(seconds)

    for number in range(200):
        clock = Counting()
        pace = Pace(PaceRule(points=PointsRule()), clock)
        clock.tick(number / 7)
        await pace.enter(write=False, points=10)
        told = Told(10, 2000, 600 + number / 3, 100, throttled=False)
        pace.leave(write=False, seconds=0.1, failed=False, points=10, told=told)
        clock.tick(number / 11)
        await clock.through(pace.enter(write=False, points=1100))
        assert clock.asked <= 2


def test_one_name_is_one_pace_and_the_longest_unused_is_forgotten(clock: FakeClock) -> None:
    """connectors 7.3: the budget is the account's"""
    paces = Paces(clock)
    first = paces.of("a", PaceRule())
    assert paces.of("a", PaceRule(at_once=1)) is first
    for number in range(5_000):
        paces.of(str(number), PaceRule())
    assert paces.of("a", PaceRule()) is not first


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("0", 0), ("600", 600), (" 7 ", 7), ("Fri, 01 May 2026 06:01:00 GMT", 60), (None, None), ("soon", None),
     ("-3", None), ("Fri, 01 May 2026 05:00:00 GMT", 0), ("9999999999", None)],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    """connectors 5.5"""
    assert retry_after(value, datetime(2026, 5, 1, 6, 0, tzinfo=UTC)) == seconds
