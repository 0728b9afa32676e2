"""Hints between processes over PostgreSQL: received by others, not by the sender, and again after a cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from steward.clock import SystemClock
from steward.database.engine.wakeups import KINDS, Wakeups
from tests.processes.proxy import line_to

SECONDS = 30


class HintCollector:
    """Collects the hints that one process receives."""

    def __init__(self) -> None:
        self.kinds: asyncio.Queue[str] = asyncio.Queue()

    async def hears(self, *kinds: str) -> list[str]:
        """Returns as many hints as named, sorted."""
        async with asyncio.timeout(SECONDS):
            return sorted([await self.kinds.get() for _ in kinds])


class CutConnection:
    """A connection that was cut without noticing."""

    def is_closed(self) -> bool:
        """Returns False, since the cut was not noticed."""
        return False

    def get_server_pid(self) -> int:
        """Returns the process id of no server."""
        return 0

    def terminate(self) -> None:
        """Does nothing."""

    async def execute(self, *_: object) -> None:
        """Raises the error that asyncpg raises on such a connection."""
        raise asyncpg.InternalClientError("cut")


@asynccontextmanager
async def listening(url: str, check_every: float = 10) -> AsyncIterator[tuple[Wakeups, HintCollector]]:
    """Yields a listening process once it listens and has received every kind of hint."""
    ear = HintCollector()
    wakeups = Wakeups(url, ear.kinds.put_nowait, clock=SystemClock(), check_every=check_every)
    wakeups.listen()
    assert await ear.hears(*KINDS) == sorted(KINDS)
    yield wakeups, ear
    await wakeups.close()


async def test_a_hint_reaches_every_other_process(postgresql_url: str) -> None:
    """Delivers a hint to every other process; equal hints told together merge.

    See docs/design/runs.md#hints-between-processes.
    """
    async with listening(postgresql_url) as (first, own_ear), listening(postgresql_url) as (_, other):
        first.notify("ready")
        first.notify("ready")
        first.notify("due")
        assert await other.hears("due", "ready") == ["due", "ready"]
        first.notify("listen")
        assert await other.hears("listen") == ["listen"]
        assert own_ear.kinds.empty()


async def test_after_a_cut_everything_is_looked_at_and_hints_are_received_again(postgresql_url: str) -> None:
    """Gives every kind of hint after a cut, since some may be lost, and receives new ones.

    See docs/design/runs.md#hints-between-processes.
    """
    async with listening(postgresql_url) as (_, ear), listening(postgresql_url) as (teller, _):
        watching = await asyncpg.connect(postgresql_url)
        await watching.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND query LIKE 'LISTEN%' AND datname = current_database()"
        )
        await watching.close()
        assert await ear.hears(*KINDS) == sorted(KINDS)
        teller.notify("event")
        assert await ear.hears("event") == ["event"]


async def test_a_silent_server_is_noticed_by_asking_it(postgresql_url: str) -> None:
    """Notices a silent server by asking it, and listens over a new connection."""
    address = urlsplit(postgresql_url)
    assert address.hostname is not None
    assert address.port is not None
    async with line_to(address.hostname, address.port) as line:
        url = postgresql_url.replace(f":{address.port}/", f":{line.listen_port}/")
        async with listening(url, check_every=0.1) as (_, ear):
            line.silence()
            # New connections pass; only those that are open stay silent.
            line.heal_new()
            assert await ear.hears(*KINDS) == sorted(KINDS)


async def test_a_connection_cut_during_a_statement_is_replaced(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reconnects both the listening and the telling connection after a cut in a statement.

    See docs/design/runs.md#hints-between-processes.
    """
    real, cuts = asyncpg.connect, [asyncpg.InternalClientError("cut")]

    async def connect(*args: Any, **more: Any) -> Any:
        if cuts:
            raise cuts.pop()
        return await real(*args, **more)

    monkeypatch.setattr(asyncpg, "connect", connect)
    async with listening(postgresql_url) as (teller, _), listening(postgresql_url) as (_, other):
        assert not cuts
        teller._notify_connection = CutConnection()
        teller.notify("due")
        assert teller._notify_task is not None
        await teller._notify_task
        teller.notify("event")
        assert await other.hears("event") == ["event"]
