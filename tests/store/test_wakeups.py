"""Hints between processes over PostgreSQL: heard by others, not by who told them, and again after a cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from steward.clock import SystemClock
from steward.store.wakeups import KINDS, Wakeups

SECONDS = 30


class Ear:
    """What one process was told."""

    def __init__(self) -> None:
        self.kinds: asyncio.Queue[str] = asyncio.Queue()

    async def hears(self, *kinds: str) -> list[str]:
        """The next hints, as many as named, in any order."""
        async with asyncio.timeout(SECONDS):
            return sorted([await self.kinds.get() for _ in kinds])


@asynccontextmanager
async def listening(url: str) -> AsyncIterator[tuple[Wakeups, Ear]]:
    """A process that listens, once it does: then it looks for everything it may have missed."""
    ear = Ear()
    wakeups = Wakeups(url, ear.kinds.put_nowait, clock=SystemClock())
    wakeups.listen()
    assert await ear.hears(*KINDS) == sorted(KINDS)
    yield wakeups, ear
    await wakeups.close()


async def test_a_hint_is_heard_by_every_other_process(postgresql_url: str) -> None:
    """engine 7: NOTIFY on a connection of its own; hints told together merge"""
    async with listening(postgresql_url) as (first, own), listening(postgresql_url) as (_, other):
        first.tell("ready")
        first.tell("ready")
        first.tell("due")
        assert await other.hears("due", "ready") == ["due", "ready"]
        first.tell("settle")
        assert await other.hears("settle") == ["settle"]
        assert own.kinds.empty()


async def test_after_a_cut_everything_is_looked_at_and_hints_are_heard_again(postgresql_url: str) -> None:
    """engine 7: lost hints cost latency only"""
    async with listening(postgresql_url) as (_, ear), listening(postgresql_url) as (teller, _):
        watching = await asyncpg.connect(postgresql_url)
        await watching.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND query LIKE 'LISTEN%' AND datname = current_database()"
        )
        await watching.close()
        assert await ear.hears(*KINDS) == sorted(KINDS)
        teller.tell("event")
        assert await ear.hears("event") == ["event"]
