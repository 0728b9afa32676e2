"""Keeps a row for an API process without a worker, so that updates see that its release still serves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from steward.clock import Clock
from steward.database.engine.base import Engine
from steward.database.operator import processes
from steward.model.refusals import Unavailable
from steward.runs.recover import process_name
from steward.version import __version__

_EVERY_SECONDS = 20
_LEASE_MS = 60_000


@asynccontextmanager
async def announced(engine: Engine, clock: Clock) -> AsyncIterator[None]:
    """Keeps the row of this process while the context is open; retries while the database is unavailable."""
    announcing = asyncio.create_task(_announce_again(engine, clock))
    try:
        yield
    finally:
        announcing.cancel()
        with suppress(asyncio.CancelledError):
            await announcing
        with suppress(Unavailable):  # the lease expires by itself
            withdraw = partial(processes.withdraw, name=process_name())
            await engine.write(clock.now(), withdraw)


async def _announce_again(engine: Engine, clock: Clock) -> None:
    announce = partial(processes.announce, name=process_name(), version=__version__, lease_ms=_LEASE_MS)
    while True:
        with suppress(Unavailable):
            await engine.write(clock.now(), announce)
        await clock.sleep(_EVERY_SECONDS)
