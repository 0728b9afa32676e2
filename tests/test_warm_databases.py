"""What a test leaves in a PostgreSQL database and on its connections does not reach the next test."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from steward.database.engine.hosts import Hosts, ServerConnection
from tests.databases import MIGRATED, WITH_CAST, Clones
from tests.event_loop import SessionLoop
from tests.warm_databases import WarmDatabases

# Without constraints any table takes a row of its defaults.
_ACCEPT_ANY_ROW = """
DO $$
DECLARE entry record;
BEGIN
    FOR entry IN SELECT conrelid::regclass AS name, conname FROM pg_constraint
        WHERE conrelid <> 0 AND coninhcount = 0 AND connamespace = 'public'::regnamespace
        ORDER BY contype = 'p', contype = 'u' LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I CASCADE', entry.name, entry.conname);
    END LOOP;
    FOR entry IN SELECT attrelid::regclass AS name, attname
        FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
        AND attnum > 0 AND attnotnull AND attidentity = '' LOOP
        EXECUTE format('ALTER TABLE %s ALTER %I DROP NOT NULL', entry.name, entry.attname);
    END LOOP;
END $$
"""


@pytest.fixture
def databases(
    clones: Clones, session_loop: SessionLoop, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WarmDatabases]:
    """Provides warm databases that only this test uses."""
    databases = WarmDatabases(clones, session_loop)
    monkeypatch.setattr(asyncpg, "connect", databases.connect)
    yield databases
    databases.close()


async def _superuser(url: str) -> Any:
    return await asyncpg.connect(url)


async def _engine_connection(url: str) -> ServerConnection:
    return await Hosts(url).connect(timeout=30)


async def _tables(connection: Any) -> list[str]:
    rows = await connection.fetch(
        "SELECT quote_ident(table_name) FROM information_schema.tables"
        " WHERE table_schema NOT IN ('pg_catalog', 'information_schema') AND table_type = 'BASE TABLE'"
        " AND table_schema !~ '^pg_temp' ORDER BY 1"
    )
    return [row[0] for row in rows]


async def _contents(connection: Any) -> dict[str, str]:
    """Returns the rows of every table and the state of every sequence, as texts."""
    contents = {}
    for table in await _tables(connection):
        contents[table] = await connection.fetchval(
            f"SELECT string_agg(t::text, chr(10) ORDER BY t::text) FROM {table} AS t"
        )
    for sequence in await connection.fetch("SELECT sequencename, last_value FROM pg_sequences"):
        contents[sequence[0]] = str(sequence[1])
    return contents


async def test_a_row_in_any_table_is_gone(clones: Clones, databases: WarmDatabases) -> None:
    """A table or sequence that resetting forgets fails here. See docs/guides/contributors.md#tests."""
    url = clones.clone(MIGRATED)
    connection = await _superuser(url)
    await connection.execute(_ACCEPT_ANY_ROW)
    databases.take(url, MIGRATED)
    before = await _contents(connection)
    await connection.execute("SET session_replication_role = replica")
    rows = await connection.fetch(
        "SELECT oid::regclass::text FROM pg_class"
        " WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace"
    )
    tables = [table for (table,) in rows]
    assert len(tables) > 50
    for table in tables:
        await connection.execute(f"INSERT INTO {table} DEFAULT VALUES")
    await connection.execute("SELECT nextval(format('%I.%I', schemaname, sequencename)) FROM pg_sequences")
    filled = await _contents(connection)
    assert [table for table in tables if filled[table] == before[table]] == []
    await connection.close()
    databases.give_back(url)
    assert databases.lend(MIGRATED) == url
    connection = await _superuser(url)
    assert await _contents(connection) == before
    await connection.close()


async def test_changed_and_deleted_rows_of_the_cast_are_put_back(databases: WarmDatabases) -> None:
    """The cast is as its template has it. See docs/guides/contributors.md#tests."""
    url = databases.lend(WITH_CAST)
    connection = await _superuser(url)
    before = await _contents(connection)
    await connection.execute("SET session_replication_role = replica")
    await connection.execute("UPDATE dir_orgs SET name = 'Another'; DELETE FROM members")
    assert await _contents(connection) != before
    await connection.close()
    databases.give_back(url)
    assert databases.lend(WITH_CAST) == url
    connection = await _superuser(url)
    assert await _contents(connection) == before
    await connection.close()


async def test_a_connection_comes_back_without_what_its_session_was_given(databases: WarmDatabases) -> None:
    """Settings, listeners, temporary tables and the engine's notes are gone; the session goes on."""
    url = databases.lend(MIGRATED)
    connection: Any = await _engine_connection(url)
    pid = connection.get_server_pid()
    heard: list[object] = []
    await connection.add_listener("steward_wake", lambda *note: heard.append(note))
    await connection.execute("SET ROLE steward_app; SET app.orgs = '1'; SET statement_timeout = 5")
    await connection.execute("CREATE TEMP TABLE mine (id int)")
    connection.has_context = True
    await connection.close()
    connection = await _engine_connection(url)
    assert connection.get_server_pid() == pid
    assert await connection.fetchval("SELECT current_user") == "steward"
    assert await connection.fetchval("SELECT coalesce(current_setting('app.orgs', true), '')") == ""
    assert await connection.fetchval("SHOW statement_timeout") == "0"
    assert await connection.fetchval("SELECT to_regclass('mine')") is None
    await connection.execute("NOTIFY steward_wake, 'ready'")
    assert await connection.fetch("SELECT * FROM pg_listening_channels()") == []
    assert not connection.has_context
    assert heard == []
    await connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE left_over (id int)",
        "ALTER TABLE runs SET (fillfactor = 50)",
        "CREATE OR REPLACE FUNCTION left_over() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "ANALYZE dir_orgs",
        "SELECT pg_advisory_lock(1)",
        "BEGIN; LOCK TABLE runs",
    ],
)
async def test_a_database_that_is_not_as_at_first_is_not_lent_again(
    databases: WarmDatabases, statement: str
) -> None:
    """Changes of the schema and statistics, locks and open transactions cost a new database."""
    url = databases.lend(WITH_CAST)
    connection = await _superuser(url)
    await connection.execute(statement)
    if "LOCK" not in statement.upper():
        await connection.close()
    databases.give_back(url)
    assert databases.lend(WITH_CAST) != url
    connection.terminate()


async def test_a_connection_that_is_closed_again_does_not_come_back_twice(databases: WarmDatabases) -> None:
    """Two engines never have one session."""
    url = databases.lend(MIGRATED)
    connection = await _engine_connection(url)
    await connection.close()
    second = await _engine_connection(url)
    assert connection.is_closed()
    connection.terminate()
    await connection.close()
    third = await _engine_connection(url)
    assert second.get_server_pid() != third.get_server_pid()
    assert await second.fetchval("SELECT 1") == await third.fetchval("SELECT 1")
    await second.close()
    await third.close()


async def test_a_connection_amid_a_statement_is_closed(databases: WarmDatabases) -> None:
    """Who ends it ends the statement, as without warm databases."""
    url = databases.lend(MIGRATED)
    connection, blocker = await _engine_connection(url), await _superuser(url)
    await blocker.execute("SELECT pg_advisory_lock(7)")
    waiting = asyncio.create_task(connection.fetchval("SELECT pg_advisory_lock(7)"))
    blocked = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = 'advisory'"
    )
    while not await blocker.fetchval(blocked):
        assert not waiting.done()
    connection.terminate()
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await waiting
    await blocker.close()


async def test_a_connection_in_a_transaction_is_closed(databases: WarmDatabases) -> None:
    """The next engine gets another session."""
    url = databases.lend(MIGRATED)
    connection = await _engine_connection(url)
    pid = connection.get_server_pid()
    await connection.execute("BEGIN; LOCK TABLE runs")
    await connection.close()
    other = await _engine_connection(url)
    assert other.get_server_pid() != pid
    await other.close()


async def test_a_lost_connection_is_closed(databases: WarmDatabases) -> None:
    """The next engine gets another session."""
    url = databases.lend(MIGRATED)
    connection = await _engine_connection(url)
    connection.lose()
    assert connection.is_closed()
    other = await _engine_connection(url)
    assert other is not connection
    await other.close()


async def test_a_warm_connection_that_no_engine_closed_costs_a_new_database(databases: WarmDatabases) -> None:
    """What still uses a database cannot reach the next test."""
    url = databases.lend(MIGRATED)
    connection = await _engine_connection(url)
    databases.give_back(url)
    assert databases.lend(MIGRATED) != url
    connection.terminate()


def test_the_loop_forgets_what_a_test_left_in_it() -> None:
    """Timers, tasks, threads and sockets of a test end with it; the next test finds the loop as new."""
    loop = SessionLoop()
    timers: list[asyncio.TimerHandle] = []
    events: list[str] = []
    receiver, sender = socket.socketpair()
    with receiver, sender:
        for _ in range(2):
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                timers.append(runner.run(_leave_something(events, receiver)))
        sender.send(b"1")
        loop.end()
    assert events == ["task begins", "task ends"] * 2
    assert [timer.cancelled() for timer in timers] == [True, True]


def test_a_server_that_a_test_left_open_is_closed_and_reported() -> None:
    """The warning fails the test."""
    loop = SessionLoop()
    with (
        pytest.warns(ResourceWarning, match="unclosed servers"),
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        server = runner.run(asyncio.start_server(lambda *_: None, "127.0.0.1", 0))
    assert not server.is_serving()
    loop.end()


async def _leave_something(events: list[str], receiver: socket.socket) -> asyncio.TimerHandle:
    begun = asyncio.Event()

    async def wait_for_ever() -> None:
        events.append("task begins")
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            events.append("task ends")

    loop = asyncio.get_running_loop()
    loop.add_reader(receiver, events.append, "socket")
    assert await asyncio.to_thread(len, events) == len(events)
    events_task = asyncio.create_task(wait_for_ever())
    await begun.wait()
    assert not events_task.done()
    return loop.call_later(3600, events.append, "timer")
