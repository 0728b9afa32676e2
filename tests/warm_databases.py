"""PostgreSQL databases and connections that one test hands on to the next, put back to their beginning.

On a new connection to a new database the server reads every catalog and plans every statement again, which
is half of what a test of a few runs takes. What is not certain to be as at first is thrown away.
"""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from steward.database.engine.hosts import ServerConnection
from tests.databases import Clones

# All of DISCARD ALL but for prepared statements and their plans.
_RESET_SESSION = (
    "CLOSE ALL; RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; UNLISTEN *;"
    " SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES"
)
_RESET_SECONDS = 30.0
# All that the service has, for as long as the connection lives.
_STATEMENTS = {"statement_cache_size": 1_000, "max_cached_statement_lifetime": 0}
# Deleted rows stay in files and indexes for a while: a database that has had so many is not used again.
_MAX_DELETED = 20_000
# DELETE keeps what TRUNCATE would make the server forget.
_TABLES = """
SELECT c.oid::regclass::text AS name,
       (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
        WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '') AS columns
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname !~ '^(pg_|information_schema$)'
"""
_SEQUENCES = "SELECT schemaname, sequencename, last_value, start_value FROM pg_sequences"
# Statistics too: a plan made for many rows is none for a few.
_CATALOGS = """
    pg_class pg_attribute pg_attrdef pg_proc pg_type pg_constraint pg_index pg_trigger pg_policy pg_namespace
    pg_rewrite pg_extension pg_inherits pg_event_trigger pg_default_acl pg_db_role_setting pg_sequence
    pg_statistic pg_statistic_ext
""".split()  # noqa: SIM905 - a list of twenty strings reads worse
_CATALOG_STATE = "SELECT " + ", ".join(
    f"(SELECT (count(*), count(*) FILTER (WHERE age(xmin) < age($1::xid)))::text FROM {catalog})"
    for catalog in _CATALOGS
)
_OTHER_SESSIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
  AND (pid <> ALL ($1::int[]) OR state <> 'idle'
       OR pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory'))
"""


class SharedConnection(ServerConnection):
    """A connection whose session goes to `shelf`, for the next engine, when it is closed at rest."""

    shelf: "list[SharedConnection] | None" = None
    _is_executing = False

    async def execute(self, query: str, *args: object, timeout: float | None = None) -> str:
        """Executes commands and records that they are under way."""
        self._is_executing = True
        try:
            return await super().execute(query, *args, timeout=timeout)
        finally:
            self._is_executing = False

    async def close(self, *, timeout: float | None = None) -> None:
        """Hands the session on, or closes it if it is not at rest."""
        if not self._hand_on():
            await super().close(timeout=timeout)

    def terminate(self) -> None:
        """Hands the session on, or closes it at once if it is not at rest."""
        if not self._hand_on():
            super().terminate()

    def _hand_on(self) -> bool:
        """Puts another connection of the same session on the shelf; this one is closed then."""
        connection: Any = self
        if self.shelf is None or self._is_lost or self.is_closed() or self.is_in_transaction():
            return False
        if self._is_executing or connection._stmt_exclusive_section._acquired or connection._cancellations:
            return False
        protocol = connection._protocol
        parameters = connection._addr, connection._config, connection._params
        successor: Any = SharedConnection(protocol, connection._transport, connection._loop, *parameters)
        protocol.set_connection(successor)
        for statements in ("_stmt_cache", "_stmts_to_close"):
            own, others = getattr(connection, statements), getattr(successor, statements)
            setattr(connection, statements, others)
            setattr(successor, statements, own)
        successor.shelf = self.shelf
        self.shelf.append(successor)
        connection._aborted, connection._protocol = True, None
        super().terminate()  # tells who waits for the end of this connection
        return True

    def discard(self) -> None:
        """Closes the session at once."""
        self.shelf = None
        super().terminate()

    async def renew(self) -> bool:
        """Makes the session like that of a new connection; closes it and returns False if that fails."""
        try:
            await self.execute(_RESET_SESSION, timeout=_RESET_SECONDS)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            self.discard()
            return False
        return True


@dataclass
class WarmDatabase:
    """A database that tests use in turn, and the statements that put it back to its beginning."""

    url: str
    template: str
    owner: Any  # a connection of the superuser, which checks and empties
    delete: str
    restore: str
    prepared_by: int  # the transaction after which no row of a catalog has changed
    catalog_state: tuple[str, ...]
    shelves: dict[Any, list[SharedConnection]] = field(default_factory=lambda: defaultdict(list))
    deleted_rows: int = 0
    is_in_use: bool = True

    def idle_connections(self) -> list[SharedConnection]:
        """Returns the connections that no engine has."""
        return [connection for shelf in self.shelves.values() for connection in shelf]


class WarmDatabases:
    """The warm databases of this test process, one of each template."""

    def __init__(self, clones: Clones, loop: asyncio.AbstractEventLoop) -> None:
        self._clones = clones
        self._loop = loop
        self._by_template: dict[str, WarmDatabase] = {}
        self._by_url: dict[str, WarmDatabase] = {}
        self._connect: Any = asyncpg.connect

    async def connect(self, dsn: str = "", **options: Any) -> Any:
        """Connects as asyncpg.connect does, but lends the engine a connection of a warm database."""
        database = self._by_url.get(dsn)
        is_engine = options.get("connection_class") is ServerConnection
        if database is None or not is_engine or asyncio.get_running_loop() is not self._loop:
            return await self._connect(dsn, **options)
        shelf = database.shelves[options.get("command_timeout")]
        while shelf:
            connection = shelf.pop()
            if not connection.is_closed() and await connection.renew():
                return connection
        options |= {"connection_class": SharedConnection, **_STATEMENTS}
        connection = await self._connect(dsn, **options)
        connection.shelf = shelf
        return connection

    def lend(self, template: str) -> str:
        """Returns the address of a database that is like this template; `give_back` follows."""
        database = self._by_template.get(template)
        if database is not None:
            if not database.is_in_use and self._clones.run(_reset(database)):
                database.is_in_use = True
                return database.url
            self._throw_away(database)
        return self.take(self._clones.clone(template), template)

    def take(self, url: str, template: str) -> str:
        """Makes a database, as it is now, the one that is lent for this template."""
        database = self._clones.run(_prepare(url, template, self._connect))
        self._by_template[template] = self._by_url[url] = database
        return url

    def give_back(self, url: str) -> None:
        """Ends the use of a database; it is put back to its beginning when the next test asks for it."""
        self._by_url[url].is_in_use = False

    def close(self) -> None:
        """Throws all databases away."""
        for database in list(self._by_url.values()):
            self._throw_away(database)

    def _throw_away(self, database: WarmDatabase) -> None:
        for connection in database.idle_connections():
            connection.discard()
        self._clones.run(database.owner.close())
        del self._by_template[database.template], self._by_url[database.url]
        self._clones.drop_meanwhile(database.url)


async def _prepare(url: str, template: str, connect: Any) -> WarmDatabase:
    owner = await connect(url)
    await owner.execute("SET session_replication_role = replica")  # no triggers and foreign keys
    tables = await owner.fetch(_TABLES)
    deletes = ", ".join(
        f"t{number} AS (DELETE FROM {table['name']} RETURNING 1)" for number, table in enumerate(tables)
    )
    count = " + ".join(f"(SELECT count(*) FROM t{number})" for number in range(len(tables)))
    inserts = []
    for number, table in enumerate(tables):
        if await owner.fetchval(f"SELECT EXISTS (SELECT FROM {table['name']})"):
            await owner.execute(f"CREATE TEMP TABLE rows_{number} AS SELECT * FROM {table['name']}")
            inserts.append(
                f"r{number} AS (INSERT INTO {table['name']} ({table['columns']}) OVERRIDING SYSTEM VALUE"
                f" SELECT {table['columns']} FROM pg_temp.rows_{number})"
            )
    values = [
        f'setval(\'"{schema}"."{name}"\', {last or start}, {"false" if last is None else "true"})'
        for schema, name, last, start in await owner.fetch(_SEQUENCES)
    ]
    restore = f"{'WITH ' if inserts else ''}{', '.join(inserts)} SELECT {', '.join(values)}"
    prepared_by = await owner.fetchval("SELECT pg_current_xact_id()::xid")
    state = tuple(await owner.fetchrow(_CATALOG_STATE, prepared_by))
    return WarmDatabase(url, template, owner, f"WITH {deletes} SELECT {count}", restore, prepared_by, state)


async def _reset(database: WarmDatabase) -> bool:
    """Puts the rows and sequences back to their beginning; returns False if that is not enough."""
    owner = database.owner
    pids = [
        connection.get_server_pid()
        for connection in database.idle_connections()
        if not connection.is_closed()
    ]
    if await owner.fetchval(_OTHER_SESSIONS, pids):
        return False
    if tuple(await owner.fetchrow(_CATALOG_STATE, database.prepared_by)) != database.catalog_state:
        return False
    async with owner.transaction():
        database.deleted_rows += await owner.fetchval(database.delete)
        await owner.fetch(database.restore)
    return database.deleted_rows <= _MAX_DELETED
