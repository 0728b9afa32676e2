"""Writes that are ready together share one commit, and a failing one undoes none of the others."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from steward.database.engine.base import Batchable, Engine, NeedsSlowPath, Tx, WeightedAct
from steward.database.engine.group_commit import GROUP_ITEMS, MIN_FOR_SECOND_CALL
from steward.database.engine.migrate import is_sqlite, sqlite_path
from steward.database.engine.observer import EngineObserver
from steward.database.engine.postgres import PostgresEngine
from steward.database.engine.sqlite import QUEUE_BYTES, SqliteEngine
from steward.database.engine.sqlite_log import LONGEST_PAGES
from steward.model.refusals import Unavailable
from tests.fake_clock import FakeClock


class Fault(Exception):
    """The error that a failing act raises."""


async def keep(tx: Tx, worker: str) -> None:
    """Inserts a row into a table without tenants."""
    await tx.execute(
        "INSERT INTO workers (name, version, state, lease_until, started_at, slots)"
        " VALUES (:name, '1', 'alive', :now, :now, 1)",
        {"name": worker},
    )


async def names(tx: Tx) -> list[str]:
    """Returns the names of the stored rows."""
    return [row["name"] for row in await tx.all("SELECT name FROM workers ORDER BY name")]


async def test_a_failing_write_is_undone_alone(engine: Engine, clock: FakeClock) -> None:
    """Rolls back the failing writes of a shared commit and keeps the others.

    See docs/design/storage.md#group-commit.
    """

    async def write(number: int) -> None:
        async def act(tx: Tx) -> None:
            await keep(tx, f"w{number:02}")
            if number % 3 == 0:
                raise Fault

        await engine.write(clock.now(), act)

    outcomes = await asyncio.gather(*(write(number) for number in range(30)), return_exceptions=True)
    assert [isinstance(outcome, Fault) for outcome in outcomes] == [n % 3 == 0 for n in range(30)]
    assert await engine.read(clock.now(), names) == [f"w{n:02}" for n in range(30) if n % 3]


async def test_a_write_that_fails_before_it_writes_leaves_the_others_alone(
    engine: Engine, clock: FakeClock
) -> None:
    """Commits the other writes when some fail before they write anything.

    See docs/design/storage.md#transactions.
    """

    async def refuse(tx: Tx) -> None:
        await names(tx)
        raise Fault

    async def write(number: int) -> None:
        async def act(tx: Tx) -> None:
            await keep(tx, f"w{number}")

        await engine.write(clock.now(), refuse if number % 2 else act)

    outcomes = await asyncio.gather(*(write(number) for number in range(8)), return_exceptions=True)
    assert sum(isinstance(outcome, Fault) for outcome in outcomes) == 4
    assert await engine.read(clock.now(), names) == ["w0", "w2", "w4", "w6"]


async def test_an_act_the_database_refuses_leaves_nothing(engine: Engine, clock: FakeClock) -> None:
    """Rolls back what an act wrote before the database refused it.

    See docs/design/storage.md#transactions.
    """

    async def twice(tx: Tx) -> None:
        await keep(tx, "first")
        await tx.execute(
            "INSERT INTO schema_version (version, applied_at, sha256, serves_from) VALUES (1, 1, 'x', 1)"
        )

    with pytest.raises(Exception, match=r"(?i)unique|permission"):
        await engine.write(clock.now(), twice)
    assert await engine.read(clock.now(), names) == []


async def alone(tx: Tx, item: str) -> str:
    """Writes one item; raises Unavailable for items named `refused`."""
    if item.startswith("refused"):
        raise Unavailable
    await keep(tx, item)
    return item


async def together(tx: Tx, items: Sequence[str]) -> list[str]:
    """Writes all items or none."""
    return [await alone(tx, item) for item in items]


async def test_an_item_that_is_unavailable_fails_alone(engine: Engine, clock: FakeClock) -> None:
    """Repeats a failed batch item by item, so that only the failing items raise.

    See docs/design/storage.md#group-commit.
    """
    expected = [f"refused{n}" if n % 4 == 3 else f"w{n:02}" for n in range(12)]
    acts = [engine.write(clock.now(), Batchable(item, alone, together, on_sqlite=True)) for item in expected]
    outcomes = await asyncio.gather(*acts, return_exceptions=True)
    stand = [item for item in expected if not item.startswith("refused")]
    assert [outcome for outcome in outcomes if isinstance(outcome, str)] == stand
    assert sum(isinstance(each_outcome, Unavailable) for each_outcome in outcomes) == 3
    assert await engine.read(clock.now(), names) == stand


async def mirrored(tx: Tx, item: int) -> int:
    """Returns the item."""
    return item


async def all_mirrored(tx: Tx, items: Sequence[int]) -> Sequence[int]:
    """Returns the items."""
    return items


async def test_calls_take_turns_and_what_waits_longest_goes_next(database_url: str, clock: FakeClock) -> None:
    """Shares a call between items of a kind that are ready, and serves the kind that waits longest next.

    See docs/design/storage.md#group-commit.
    """
    if is_sqlite(database_url):
        pytest.skip("SQLite gathers in its writer")
    sizes: list[int] = []
    observer = EngineObserver(batch_committed=sizes.append)
    engine = await PostgresEngine.open(database_url, size=4, clock=clock, test=True, observer=observer)

    def kind_of(number: int) -> Callable[[Tx, Sequence[int]], Awaitable[Sequence[int]]]:
        async def together(tx: Tx, items: Sequence[int]) -> Sequence[int]:
            row = await tx.first("SELECT count(*) AS n FROM workers")
            assert row is not None
            return [number * 100 + item for item in items]

        return together

    async def alone(tx: Tx, item: int) -> int:
        raise AssertionError("nothing failed that was shared")

    kinds = [kind_of(number) for number in range(3)]
    expected = [(0, 1), (1, 1), (1, 2), (0, 2), (0, 3), (2, 1), (1, 3), (2, 2), (1, 4), (0, 4), (0, 5)]
    acts = [
        engine.write(clock.now(), Batchable(item, alone, kinds[n], autocommit=True)) for n, item in expected
    ]
    assert await asyncio.gather(*acts) == [n * 100 + item for n, item in expected]
    assert sizes == [5, 4, 2]
    await engine.close()


async def refused(tx: Tx, items: Sequence[int]) -> Sequence[int]:
    """Fails whatever the items are."""
    raise ValueError("not together")


async def forgetful(tx: Tx, items: Sequence[int]) -> Sequence[int]:
    """Answers one item too few."""
    return items[:-1]


async def test_nobody_waits_for_ever_whatever_fails(database_url: str, clock: FakeClock) -> None:
    """Answers every item when a batch fails or returns too few results, even if logging fails.

    See docs/design/storage.md#group-commit.
    """
    if is_sqlite(database_url):
        pytest.skip("SQLite gathers in its writer")

    def full(kind: str, error: Exception) -> None:
        raise OSError(28, "No space left on device")

    observer = EngineObserver(batch_split=full)
    engine = await PostgresEngine.open(database_url, size=2, clock=clock, test=True, observer=observer)
    for together, expected in ((refused, [0, 1, 2]), (forgetful, [0, 1, None])):
        acts = [engine.write(clock.now(), Batchable(item, mirrored, together)) for item in range(3)]
        results = await asyncio.wait_for(asyncio.gather(*acts, return_exceptions=True), 30)
        assert [None if isinstance(result, ValueError) else result for result in results] == expected
    await engine.close()


async def slow(tx: Tx, items: Sequence[int]) -> Sequence[int]:
    """Refuses the items as a call does that leaves them to the slow path."""
    raise NeedsSlowPath


async def test_sqlite_reports_a_call_that_failed_while_its_items_succeed(
    sqlite_url: str, clock: FakeClock
) -> None:
    """Reports the kind and the error, also when reporting fails; a call that needs the slow path has none."""
    reports: list[tuple[str, str]] = []

    def full(kind: str, error: Exception) -> None:
        reports.append((kind, str(error)))
        raise OSError(28, "No space left on device")

    loop_errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: loop_errors.append(context))
    engine = SqliteEngine(sqlite_path(sqlite_url), clock=clock, observer=EngineObserver(batch_split=full))
    for together in (slow, refused, refused):
        acts = [
            engine.write(clock.now(), Batchable(item, mirrored, together, on_sqlite=True))
            for item in range(3)
        ]
        assert await asyncio.gather(*acts) == [0, 1, 2]
    assert reports == [("test_shared_commits", "not together")] * 2
    assert len(loop_errors) == 2
    await engine.close()


@pytest.mark.parametrize(
    ("count", "calls"),
    [
        (2 * MIN_FOR_SECOND_CALL - 1, [2 * MIN_FOR_SECOND_CALL - 1]),
        (2 * MIN_FOR_SECOND_CALL, [MIN_FOR_SECOND_CALL, MIN_FOR_SECOND_CALL]),
        (2 * GROUP_ITEMS, [GROUP_ITEMS, GROUP_ITEMS]),
        (2 * GROUP_ITEMS + 1, [GROUP_ITEMS, GROUP_ITEMS, 1]),
    ],
)
async def test_up_to_the_limit_share_a_call(
    database_url: str, clock: FakeClock, count: int, calls: list[int]
) -> None:
    """Shares at most 200 items a call, and uses a second call when each has enough.

    See docs/design/storage.md#group-commit.
    """
    if is_sqlite(database_url):
        pytest.skip("SQLite gathers in its writer")
    sizes: list[int] = []
    observer = EngineObserver(batch_committed=sizes.append)
    engine = await PostgresEngine.open(database_url, size=4, clock=clock, test=True, observer=observer)
    acts = [engine.write(clock.now(), Batchable(item, mirrored, all_mirrored)) for item in range(count)]
    assert await asyncio.gather(*acts) == list(range(count))
    assert sizes == calls
    await engine.close()


async def test_the_writers_queue_is_bounded_in_bytes(sqlite_url: str, clock: FakeClock) -> None:
    """Refuses writes over 64 MiB of queued data with Unavailable, except urgent ones.

    See docs/design/storage.md#disk-reserve.
    """
    engine = SqliteEngine(sqlite_path(sqlite_url), clock=clock)
    half = bytes(QUEUE_BYTES // 2)

    async def weighs(tx: Tx, load: bytes) -> int:
        return len(load)

    def write(load: bytes, *, urgent: bool = False) -> Awaitable[int]:
        act = WeightedAct(partial(weighs, load=load), len(load))
        return engine.write(clock.now(), act, urgent=urgent)

    acts = [write(half), write(half), write(b"1"), write(half, urgent=True)]
    outcomes = await asyncio.gather(*acts, return_exceptions=True)
    assert isinstance(outcomes[2], Unavailable)
    assert [outcome for outcome in outcomes if not isinstance(outcome, Unavailable)] == [len(half)] * 3
    assert await write(b"1") == 1
    await engine.close()


FAILED = "INSERT INTO deferred_rows (task, key, failures, not_before, message, last_failed_at)" + (
    " VALUES ('t', :key, 1, :at, :message, :at)"
)


@pytest.mark.parametrize("count", [15, 16, 17, 63, 64, 65, 97])
async def test_many_rows_are_written_each_as_given(engine: Engine, clock: FakeClock, count: int) -> None:
    """Inserts many rows by multi-row statements, or none when one is refused.

    See docs/design/storage.md#transactions.
    """
    rows = [(f"{n:03}", n, f"message {n}") for n in range(count)]

    async def write(tx: Tx, rows: Sequence[Sequence[object]]) -> int:
        return await tx.many(FAILED, rows)

    async def read(tx: Tx) -> list[tuple[object, ...]]:
        found_rows = await tx.all(
            "SELECT key, not_before, message, last_failed_at FROM deferred_rows ORDER BY key"
        )
        return [
            tuple(row[name] for name in ("key", "not_before", "message", "last_failed_at"))
            for row in found_rows
        ]

    with pytest.raises(Exception, match=r"(?i)unique"):
        await engine.write(clock.now(), partial(write, rows=[*rows, rows[-2]]))
    assert await engine.read(clock.now(), read) == []
    assert await engine.write(clock.now(), partial(write, rows=rows)) == count
    assert await engine.read(clock.now(), read) == [
        (key, index, message, index) for key, index, message in rows
    ]


def begun_anew(file: Path) -> int:
    """Returns how often the write-ahead log was restarted, from its header."""
    with file.with_name(file.name + "-wal").open("rb") as log:
        return int.from_bytes(log.read(16)[12:], "big")


async def test_the_log_restarts_while_the_writer_is_always_busy(sqlite_url: str, clock: FakeClock) -> None:
    """Restarts the write-ahead log while the writer is never idle, without losing a row.

    See docs/design/storage.md#postgresql.
    """
    file = sqlite_path(sqlite_url)
    engine = SqliteEngine(file, clock=clock)
    rows = [(f"{n:05}", n, "m" * 3_000) for n in range(1_000)]

    async def write(tx: Tx, turn: int) -> None:
        await tx.many(FAILED, [(f"{turn}-{key}", index, message) for key, index, message in rows])

    await engine.write(clock.now(), partial(write, turn=0))
    turns, first = 1, begun_anew(file)
    # Three at a time, so that one always waits; on any disk a restart comes long before that much is written.
    while begun_anew(file) == first and turns < 10 * LONGEST_PAGES // len(rows):
        await asyncio.gather(*(engine.write(clock.now(), partial(write, turn=turns + n)) for n in range(3)))
        turns += 3
    assert begun_anew(file) > first
    await engine.close()
    with contextlib.closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT count(*) FROM deferred_rows").fetchone() == (turns * len(rows),)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
