"""Hints between processes over PostgreSQL: heard by others, not by who told them, and again after a cut."""

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


class Ear:
    """What one process was told."""

    def __init__(self) -> None:
        self.kinds: asyncio.Queue[str] = asyncio.Queue()

    async def hears(self, *kinds: str) -> list[str]:
        """The next hints, as many as named, in any order."""
        async with asyncio.timeout(SECONDS):
            return sorted([await self.kinds.get() for _ in kinds])


class Cut:
    """A connection that was cut and does not know it."""

    def is_closed(self) -> bool:
        """Not that it knew."""
        return False

    def get_server_pid(self) -> int:
        """Nobody's."""
        return 0

    def terminate(self) -> None:
        """There is nothing left to end."""

    async def execute(self, *_: object) -> None:
        """As asyncpg does it then."""
        raise asyncpg.InternalClientError("cut")


@asynccontextmanager
async def listening(url: str, check_every: float = 10) -> AsyncIterator[tuple[Wakeups, Ear]]:
    """A process that listens, once it does: then it looks for everything it may have missed."""
    ear = Ear()
    wakeups = Wakeups(url, ear.kinds.put_nowait, clock=SystemClock(), check_every=check_every)
    wakeups.listen()
    assert await ear.hears(*KINDS) == sorted(KINDS)
    yield wakeups, ear
    await wakeups.close()


async def test_a_hint_is_heard_by_every_other_process(postgresql_url: str) -> None:
    """NOTIFY on a connection of its own; hints told together merge.

    See docs/design/runs.md#hints-between-processes.
    """
    async with listening(postgresql_url) as (first, own_ear), listening(postgresql_url) as (_, other):
        first.tell("ready")
        first.tell("ready")
        first.tell("due")
        assert await other.hears("due", "ready") == ["due", "ready"]
        first.tell("listen")
        assert await other.hears("listen") == ["listen"]
        assert own_ear.kinds.empty()


async def test_after_a_cut_everything_is_looked_at_and_hints_are_heard_again(postgresql_url: str) -> None:
    """Lost hints cost latency only. See docs/design/runs.md#hints-between-processes."""
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


async def test_a_silent_server_is_noticed_by_asking_it(postgresql_url: str) -> None:
    """Nobody says that the server is gone: the listener asks, and listens anew where it is answered."""
    address = urlsplit(postgresql_url)
    assert address.hostname is not None
    assert address.port is not None
    async with line_to(address.hostname, address.port) as line:
        url = postgresql_url.replace(f":{address.port}/", f":{line.listen_port}/")
        async with listening(url, check_every=0.1) as (_, ear):
            line.silence()
            # The next connection goes past what is silent: only those that are open stay so.
            line.heal_new()
            assert await ear.hears(*KINDS) == sorted(KINDS)


async def test_a_connection_cut_in_the_midst_of_a_statement_is_made_anew(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the ear nor the voice is lost for good. See docs/design/runs.md#hints-between-processes."""
    real, cuts = asyncpg.connect, [asyncpg.InternalClientError("cut")]

    async def connect(*args: Any, **more: Any) -> Any:
        if cuts:
            raise cuts.pop()
        return await real(*args, **more)

    monkeypatch.setattr(asyncpg, "connect", connect)
    async with listening(postgresql_url) as (teller, _), listening(postgresql_url) as (_, other):
        assert not cuts
        teller._voice = Cut()
        teller.tell("due")
        assert teller._telling is not None
        await teller._telling
        teller.tell("event")
        assert await other.hears("event") == ["event"]
