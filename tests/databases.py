"""Fresh migrated databases for the tests: a copied file, or a clone of one migrated PostgreSQL database."""

import asyncio
import shutil
from collections.abc import Coroutine
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import asyncpg

from steward.database.engine.migrate import migrate
from tests.fake_clock import START
from tests.postgres_server import Server, locked

T = TypeVar("T")
_TEMPLATE = "steward_migrated"
# As where `migrate` may not grant pg_read_all_stats: in one database, as a grant is of the whole server.
HIDE_SESSIONS = (
    "ALTER FUNCTION queue_open_transactions() OWNER TO steward_app;"
    " ALTER FUNCTION queue_sees_sessions() OWNER TO steward_app"
)


def migrate_template(server: Server) -> None:
    """Makes the database that every PostgreSQL test starts from; once a session."""
    asyncio.run(_migrate_template(server))


async def _migrate_template(server: Server) -> None:
    maintenance: Any = await asyncpg.connect(server.url("postgres"))
    await maintenance.execute(f"CREATE DATABASE {_TEMPLATE}")
    await migrate(server.url(_TEMPLATE), START)
    await maintenance.close()


def copy_migrated_sqlite(session: Path, target: Path) -> str:
    """A fresh migrated SQLite database at `target`; the first caller of a session migrates the original."""
    original = session / "migrated.db"
    with locked(session / "sqlite.lock"):
        if not original.exists():
            making = session / "making.db"
            asyncio.run(migrate(f"sqlite:///{making}", START))
            making.rename(original)
    shutil.copyfile(original, target)
    return f"sqlite:///{target}"


class Clones:
    """Clones and drops PostgreSQL databases over one connection on a loop of its own.

    A loop of its own, because a test's loop is not running while its fixtures are being set up. The next
    clone is made, and the last one dropped, while tests go on.
    """

    def __init__(self, server: Server, worker: str) -> None:
        self._server = server
        self._prefix = f"test_{worker}"
        self._numbers = count(1)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="clones", daemon=True)
        self._thread.start()
        self._maintenance: Any = self._wait(self._connect())
        version = self._maintenance.get_server_version().major
        # Copying files beats the default of 15 and later three times in memory: 15 ms against 45 ms.
        self._how = "STRATEGY file_copy" if version >= 15 else ""
        self._turn = asyncio.Lock()  # one statement at a time
        self._drops: list[Future[None]] = []
        self._next = self._begin(self._create())

    def clone(self) -> str:
        """The address of a fresh migrated database."""
        name = self._next.result()
        self._next = self._begin(self._create())
        return self._server.url(name)

    def drop(self, url: str) -> None:
        """Removes a clone, no matter who is still connected to it."""
        self._wait(self._drop(url))

    def drop_meanwhile(self, url: str) -> None:
        """Removes a clone while the next test begins; a drop that failed fails the one after it."""
        self._drops = [drop for drop in self._drops if not drop.done() or drop.result()]
        self._drops.append(self._begin(self._drop(url)))

    def close(self) -> None:
        """Ends the connection and the loop."""
        self._next.result()
        for drop in self._drops:
            drop.result()
        self._wait(self._maintenance.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _connect(self) -> Any:
        return await asyncpg.connect(self._server.url("postgres"))

    async def _create(self) -> str:
        name = f"{self._prefix}_{next(self._numbers)}"
        await self._run(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE} {self._how}")
        return name

    async def _drop(self, url: str) -> None:
        await self._run(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")

    async def _run(self, sql: str) -> None:
        async with self._turn:
            await self._maintenance.execute(sql)

    def _begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._begin(coroutine).result()
