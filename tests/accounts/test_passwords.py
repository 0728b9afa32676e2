"""Password hashing in threads: two run, twenty wait, and more are refused as unavailable."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from steward.accounts.passwords import PasswordHasher
from steward.model.refusals import Unavailable
from steward.security.passwords import Cost, hash_password

CHEAP = Cost(memory=64, passes=1)


class GatedHashing(PasswordHasher):
    """Hashing whose verifications wait until the test opens the gate."""

    def __init__(self) -> None:
        super().__init__(CHEAP)
        self.open = threading.Event()
        self.pair = threading.Barrier(2, timeout=60)
        self.running = 0
        self.max_running = 0
        self._counting = threading.Lock()

    def _verify(self, password: str, stored_hash: str | None) -> bool:
        with self._counting:
            self.running += 1
            self.max_running = max(self.max_running, self.running)
        self.pair.wait()  # nobody passes alone: two run at once
        self.open.wait()
        with self._counting:
            self.running -= 1
        return True


@pytest.fixture
async def hashing() -> AsyncIterator[PasswordHasher]:
    """Yields hashing at a low cost."""
    cheap_hashing = PasswordHasher(CHEAP)
    yield cheap_hashing
    cheap_hashing.close()


async def test_a_password_is_right_or_not_and_an_unknown_account_has_none(hashing: PasswordHasher) -> None:
    """Verifies the right password, and nothing against a missing hash."""
    stored = await hashing.hash("correct sparrow lantern")
    assert stored.startswith("$argon2id$")
    assert await hashing.verify("correct sparrow lantern", stored)
    assert not await hashing.verify("correct sparrow", stored)
    assert not await hashing.verify("nobody has this password", None)


async def test_a_hash_made_at_a_lower_cost_is_outdated(hashing: PasswordHasher) -> None:
    """Reports a hash of a lower cost as outdated."""
    assert not hashing.is_outdated(hash_password("x", CHEAP))
    assert hashing.is_outdated(hash_password("x", Cost(memory=32, passes=1)))


async def test_two_run_twenty_wait_and_the_next_must_retry_later() -> None:
    """Runs two verifications at once, queues twenty, raises Unavailable for the next and then goes on."""
    hashing = GatedHashing()
    waiting = [asyncio.create_task(hashing.verify("x", None)) for _ in range(22)]
    await asyncio.gather(asyncio.create_task(_turn()))
    with pytest.raises(Unavailable):
        await hashing.verify("x", None)
    hashing.open.set()
    assert await asyncio.gather(*waiting) == [True] * 22
    assert hashing.max_running == 2
    assert await asyncio.gather(hashing.verify("x", None), hashing.verify("x", None)) == [True] * 2
    hashing.close()


async def _turn() -> None:
    """Lets every task start."""
