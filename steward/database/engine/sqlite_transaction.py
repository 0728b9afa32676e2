"""A transaction on SQLite: methods never suspend, rows are dictionaries, INSERTs take many rows."""

import re
import sqlite3
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import Any, TypeVar

from steward.database.engine.base import Act, Args, Dialect, ForeignAwait, Row, Sql, Statement, bind, prepare
from steward.model.ids import OrgId

T = TypeVar("T")

# Compiled statements that sqlite3 caches for each connection.
STATEMENTS = 512
# Rows of one INSERT. A row of a table with ten indexes then costs two thirds of a single INSERT. More rows
# would gain nothing, and each size is a separate statement.
_BLOCKS = (64, 16)
_VALUES = re.compile(r"(?P<head>INSERT .*? VALUES )(?P<row>\((?:[^()]|\(\))*\))(?P<tail>| ON CONFLICT [^?]*)")
_NUMBER = re.compile(r"\?([0-9]+)")


# The column names of each statement, for rows as dictionaries. sqlite3.Row searches its names one by one at
# every access, which took a tenth of a request's time with thirty columns.
_names: dict[str, tuple[str, ...]] = {}


def _columns(statement: Statement, cursor: sqlite3.Cursor) -> tuple[str, ...]:
    names = _names.get(statement.text)
    if names is None:
        names = tuple(column[0] for column in cursor.description)
        if len(set(names)) < len(names):
            raise ValueError(f"two columns of one name: {statement.text}")
        if len(_names) >= STATEMENTS * 4:
            _names.clear()
        _names[statement.text] = names
    return names


class SqliteTx:
    """A transaction whose methods never suspend, so that `drive` completes an act in one step."""

    __slots__ = ("_connection", "now")

    def __init__(self, connection: sqlite3.Connection, now: datetime) -> None:
        self._connection = connection
        self.now = now

    @property
    def dialect(self) -> Dialect:
        """The kind of database that this runs on."""
        return "sqlite"

    @property
    def test_now(self) -> datetime | None:
        """Always None: the transaction's `now` is its only clock."""
        return None

    def _run(self, sql: Sql, args: Args | None) -> tuple[Statement, sqlite3.Cursor]:
        statement = prepare(sql, "sqlite")
        values = bind(statement, args, self.now, dialect="sqlite")
        return statement, self._connection.execute(statement.text, values)

    async def first(self, sql: Sql, args: Args | None = None) -> Row | None:
        """Returns the first row, or None."""
        statement, cursor = self._run(sql, args)
        values = cursor.fetchone()
        row = None if values is None else dict(zip(_columns(statement, cursor), values, strict=True))
        cursor.close()
        return row

    async def all(self, sql: Sql, args: Args | None = None) -> list[Row]:
        """Returns every row."""
        statement, cursor = self._run(sql, args)
        rows = cursor.fetchall()
        if not rows:
            return []
        names = _columns(statement, cursor)
        return [dict(zip(names, values, strict=True)) for values in rows]

    async def execute(self, sql: Sql, args: Args | None = None) -> int:
        """Runs a statement and returns the number of rows it changed."""
        return self._run(sql, args)[1].rowcount

    async def many(self, sql: str, rows: Sequence[Sequence[object]]) -> int:
        """Runs a statement for each of `rows` and returns the number of rows it changed."""
        return _insert_or_update(self._connection, prepare(sql, "sqlite").text, rows)

    async def set_tenant(self, orgs: Collection[OrgId]) -> None:
        """Does nothing: SQLite has no row-level security."""

    async def extend_time_limit(self, seconds: float) -> None:
        """Does nothing: SQLite has no time limits."""


def drive(act: Act[T], tx: SqliteTx) -> T:
    """Runs an act to completion and returns its result.

    Raises ForeignAwait when it awaits anything but its Tx.
    """
    coroutine: Any = act(tx)
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise ForeignAwait("an act awaited something other than its transaction")


@lru_cache(maxsize=128)
def _block(text: str, width: int, count: int) -> str | None:
    """Returns an INSERT of one row as an INSERT of `count` rows; None when `text` is not such an INSERT.

    `width` is the number of arguments of a row.
    """
    match = _VALUES.fullmatch(text)
    if match is None:
        return None

    def row(before: int) -> str:
        return _NUMBER.sub(lambda number: f"?{int(number[1]) + before}", match["row"])

    return match["head"] + ",".join(row(width * n) for n in range(count)) + match["tail"]


def _insert_or_update(connection: sqlite3.Connection, text: str, rows: Sequence[Sequence[object]]) -> int:
    """Runs a statement for each of `rows`, INSERTs in blocks; returns the number of rows it changed."""
    touched = begun = 0
    for size in _BLOCKS:
        if len(rows) - begun < size or (block := _block(text, len(rows[0]), size)) is None:
            continue
        while len(rows) - begun >= size:
            touched += connection.execute(block, list(chain(*rows[begun : begun + size]))).rowcount
            begun += size
    if begun < len(rows):
        touched += connection.executemany(text, rows[begun:] if begun else rows).rowcount
    return touched
