"""The sliding window of attempts under concurrency, on both engines."""

import asyncio

import pytest

from steward.accounts.attempts import count
from steward.database.engine.base import Engine, Tx
from steward.model.refusals import RateLimited
from tests.fake_clock import FakeClock


async def attempt(engine: Engine, clock: FakeClock, client: str, address: str) -> int | None:
    """Counts an attempt; returns the seconds to wait, or None when it was allowed."""
    try:
        await count(engine, clock.now(), {"client": client, "address": address}, limit=3)
    except RateLimited as refused:
        return refused.retry_after
    return None


async def test_of_many_at_once_exactly_as_many_as_allowed_pass(engine: Engine, clock: FakeClock) -> None:
    """Allows exactly three of eight simultaneous attempts under a limit of three."""
    outcomes = await asyncio.gather(*(attempt(engine, clock, "c", f"a{number}") for number in range(8)))
    assert sorted(outcomes, key=str) == [60] * 5 + [None] * 3


async def test_a_refused_attempt_counts_under_no_key(engine: Engine, clock: FakeClock) -> None:
    """Counts a refused attempt under none of its keys."""
    for _ in range(3):
        assert await attempt(engine, clock, "full", "a") is None
        assert await attempt(engine, clock, "other", "b") is None
    for _ in range(5):
        assert await attempt(engine, clock, "full", "fresh") == 60
    for _ in range(3):
        assert await attempt(engine, clock, "new", "fresh") is None


async def test_the_wait_is_that_of_the_key_that_frees_last(engine: Engine, clock: FakeClock) -> None:
    """Returns the wait of the key that frees last, until its oldest attempt leaves the window."""
    for _ in range(3):
        await attempt(engine, clock, "c", "x")
    clock.tick(10)
    for number in range(3):
        await attempt(engine, clock, f"d{number}", "y")
    assert await attempt(engine, clock, "c", "y") == 60
    assert await attempt(engine, clock, "c", "z") == 50
    clock.tick(49.999)
    assert await attempt(engine, clock, "c", "z") == 1
    clock.tick(0.001)
    assert await attempt(engine, clock, "c", "z") is None


async def test_keys_are_kept_as_hashes(engine: Engine, clock: FakeClock) -> None:
    """Stores keys as hashes."""
    await attempt(engine, clock, "st_plain", "203.0.113.9")

    async def load(tx: Tx) -> list[str]:
        return [row["key_hash"] for row in await tx.all("SELECT key_hash FROM login_attempts")]

    attempts = await engine.read(clock.now(), load)
    assert len(attempts) == 2
    assert all(len(key) == 64 for key in attempts)


@pytest.mark.parametrize("allowed", [1, 10])
async def test_a_limit_lowered_meanwhile_holds_at_once(
    engine: Engine, clock: FakeClock, allowed: int
) -> None:
    """Applies a lower limit to attempts counted under a higher one."""
    for _ in range(10):
        await count(engine, clock.now(), {"client": "c"}, limit=10)
    with pytest.raises(RateLimited):
        await count(engine, clock.now(), {"client": "c"}, limit=allowed)
