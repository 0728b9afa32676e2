"""The time of the tests keeps its own promises: order, no waiting, and who wakes when."""

import asyncio
from datetime import timedelta

import pytest

from steward.clock import Clock
from tests.fake_clock import START, FakeClock


async def test_sleepers_wake_in_the_order_of_their_times(clock: FakeClock) -> None:
    """Time is given. See docs/guides/contributors.md#tests."""
    woken: list[tuple[str, float]] = []

    async def wait(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, (clock.now() - START).total_seconds()))

    async with asyncio.TaskGroup() as group:
        group.create_task(wait("late", 30))
        group.create_task(wait("early", 10))
        await clock.advance(29.999)
        assert woken == [("early", 10.0)]
        await clock.advance(0.001)
        assert woken == [("early", 10.0), ("late", 30.0)]


async def test_a_loop_that_waits_again_and_again_is_served_each_time(clock: FakeClock) -> None:
    """Time is given. See docs/guides/contributors.md#tests."""
    ticks: list[float] = []

    async def tick() -> None:
        while len(ticks) < 5:
            await clock.sleep(2)
            ticks.append(clock.monotonic())

    task = asyncio.create_task(tick())
    await clock.until_sleeping()
    await clock.advance(10)
    await task
    assert [later - ticks[0] for later in ticks] == [0, 2, 4, 6, 8]


async def test_a_cancelled_sleeper_is_forgotten(clock: FakeClock) -> None:
    """Time is given. See docs/guides/contributors.md#tests."""
    task = asyncio.create_task(clock.sleep(5))
    await clock.until_sleeping(1)
    task.cancel()
    await clock.settle()
    assert clock.sleeping == 0
    await clock.advance(5)
    assert task.cancelled()


def test_a_jump_of_the_wall_clock_leaves_the_monotonic_one(clock: FakeClock) -> None:
    """Jumps of the wall clock leave the monotonic clock unchanged. See docs/guides/contributors.md#tests."""
    typed_clock: Clock = clock
    before = typed_clock.monotonic()
    clock.jump(-600)
    assert (typed_clock.now(), typed_clock.monotonic()) == (START - timedelta(minutes=10), before)
    clock.tick(1.5)
    assert (typed_clock.now(), typed_clock.monotonic()) == (
        START - timedelta(minutes=10, seconds=-1.5),
        before + 1.5,
    )


async def test_time_never_goes_back_by_advancing(clock: FakeClock) -> None:
    """Time is given. See docs/guides/contributors.md#tests."""
    with pytest.raises(ValueError, match="forward"):
        await clock.advance(-1)
    sleeper = asyncio.ensure_future(clock.sleep(10))
    await clock.settle()
    clock.tick(60)
    await clock.advance(1)
    assert (sleeper.done(), clock.now()) == (True, START + timedelta(seconds=61))
