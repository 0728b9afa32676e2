"""Fresh migrated databases for the tests: a copied file, or a clone of one migrated PostgreSQL database."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any, Final, TypeVar

import asyncpg
import msgspec

from steward.database.engine.base import Engine
from steward.database.engine.migrate import is_sqlite, migrate, sqlite_path
from steward.database.engine.postgres import PostgresEngine
from steward.database.engine.sqlite import SqliteEngine
from tests.authz.two_organizations import create_two
from tests.fake_clock import START, FakeClock
from tests.populated_service import create_populated
from tests.postgres_server import Server, locked
from tests.runs.shop import create_shop
from tests.service import create_cast

T = TypeVar("T")
MIGRATED = "steward_migrated"
WITH_CAST = "steward_with_cast"
WITH_SHOP = "steward_with_shop"
WITH_TWO = "steward_with_two"
WITH_POPULATED = "steward_populated"
# As where `migrate` may not grant pg_read_all_stats: in one database, as a grant is of the whole server.
HIDE_SESSIONS = (
    "ALTER FUNCTION queue_open_transactions() OWNER TO steward_app;"
    " ALTER FUNCTION queue_sees_sessions() OWNER TO steward_app"
)


def make_templates(server: Server, session: Path) -> None:
    """Makes the databases that PostgreSQL tests start from, only migrated and with rows; once a session."""
    asyncio.run(_make_templates(server, session))


async def _make_templates(server: Server, session: Path) -> None:
    maintenance: Any = await asyncpg.connect(server.url("postgres"))
    await maintenance.execute(f"CREATE DATABASE {MIGRATED}")
    await migrate(server.url(MIGRATED), START)
    for template in _FILLS:
        await maintenance.execute(f"CREATE DATABASE {template} TEMPLATE {MIGRATED}")
        await _fill(server.url(template), template, session)
    await maintenance.close()


async def _fill(url: str, template: str, session: Path) -> None:
    """Creates the rows of this template and writes down what tests are told of them."""
    rows = await _FILLS[template](url)
    _told(session, template, url).write_bytes(msgspec.json.encode(rows))


def _told(session: Path, template: str, url: str) -> Path:
    return session / f"{'sqlite' if is_sqlite(url) else 'postgresql'}.{template}.json"


async def _engine(url: str) -> Engine:
    if is_sqlite(url):
        return SqliteEngine(sqlite_path(url), clock=FakeClock())
    return await PostgresEngine.open(url, size=2, clock=FakeClock(), test=True)


async def _fill_by_engine(url: str, create: Callable[[Engine], Awaitable[object]]) -> object:
    engine = await _engine(url)
    rows = await create(engine)
    await engine.close()
    return rows


_FILLS: Final[Mapping[str, Callable[[str], Awaitable[object]]]] = {
    WITH_CAST: lambda url: _fill_by_engine(url, create_cast),
    WITH_SHOP: create_shop,
    WITH_TWO: lambda url: _fill_by_engine(url, create_two),
    WITH_POPULATED: create_populated,
}


def load_rows(session: Path, template: str, url: str, kind: type[T]) -> T:
    """Returns what tests are told of the rows in the database at `url`, a copy of this template."""
    return msgspec.json.decode(_told(session, template, url).read_bytes(), type=kind)


def copy_migrated_sqlite(session: Path, target: Path) -> str:
    """A fresh migrated SQLite database at `target`; the first caller of a session migrates the original."""
    original = session / "migrated.db"
    with locked(session / "sqlite.lock"):
        if not original.exists():
            unfinished = session / "unfinished.db"
            asyncio.run(migrate(f"sqlite:///{unfinished}", START))
            unfinished.rename(original)
    shutil.copyfile(original, target)
    return f"sqlite:///{target}"


def copy_sqlite(session: Path, target: Path, template: str) -> str:
    """A fresh SQLite database like this template at `target`; its first caller of a session fills it."""
    if template == MIGRATED:
        return copy_migrated_sqlite(session, target)
    original = session / f"{template}.db"
    with locked(session / f"{template}.lock"):
        if not original.exists():
            unfinished = session / f"unfinished-{template}.db"
            asyncio.run(_fill(copy_migrated_sqlite(session, unfinished), template, session))
            unfinished.rename(original)
    shutil.copyfile(original, target)
    return f"sqlite:///{target}"


class Clones:
    """Clones and drops PostgreSQL databases over one connection on a loop of its own.

    A loop of its own, because a test's loop is not running while its fixtures are being set up. The next
    clone of each template is made, and the last one dropped, while tests go on.
    """

    def __init__(self, server: Server, worker: str) -> None:
        self._server = server
        self._prefix = f"test_{worker}"
        self._numbers = count(1)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="clones", daemon=True)
        self._thread.start()
        self._maintenance: Any = self.run(self._connect())
        version = self._maintenance.get_server_version().major
        # Copying files beats the default of 15 and later three times in memory: 15 ms against 45 ms.
        self._how = "STRATEGY file_copy" if version >= 15 else ""
        self._turn = asyncio.Lock()  # one statement at a time
        self._drops: list[Future[None]] = []
        self._next: dict[str, Future[str]] = {}

    def clone(self, template: str = MIGRATED) -> str:
        """The address of a fresh copy of this template."""
        ready = self._next.get(template) or self._begin(self._create(template))
        self._next[template] = self._begin(self._create(template))
        return self._server.url(ready.result())

    def drop(self, url: str) -> None:
        """Removes a clone, no matter who is still connected to it."""
        self.run(self._drop(url))

    def drop_meanwhile(self, url: str) -> None:
        """Removes a clone while the next test begins; a drop that failed fails the one after it."""
        self._drops = [drop for drop in self._drops if not drop.done() or drop.result()]
        self._drops.append(self._begin(self._drop(url)))

    def close(self) -> None:
        """Ends the connection and the loop."""
        for pending in (*self._next.values(), *self._drops):
            pending.result()
        self.run(self._maintenance.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _connect(self) -> Any:
        return await asyncpg.connect(self._server.url("postgres"))

    async def _create(self, template: str) -> str:
        name = f"{self._prefix}_{next(self._numbers)}"
        await self._run(f"CREATE DATABASE {name} TEMPLATE {template} {self._how}")
        return name

    async def _drop(self, url: str) -> None:
        await self._run(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")

    async def _run(self, sql: str) -> None:
        async with self._turn:
            await self._maintenance.execute(sql)

    def _begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs `coroutine` on the loop of the clones."""
        return self._begin(coroutine).result()
