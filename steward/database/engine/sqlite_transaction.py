"""One transaction on SQLite: statements that never suspend, rows as dictionaries, many rows in one INSERT."""

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

# Statements sqlite3 keeps compiled for a connection.
STATEMENTS = 512
# Rows of one INSERT: a row of a table with ten indexes then costs two thirds of one by itself. More in one
# would gain nothing, and each size is a statement of its own.
_BLOCKS = (64, 16)
_VALUES = re.compile(r"(?P<head>INSERT .*? VALUES )(?P<row>\((?:[^()]|\(\))*\))(?P<tail>| ON CONFLICT [^?]*)")
_NUMBER = re.compile(r"\?([0-9]+)")


# A row as a dictionary, its names worked out once a statement: sqlite3's own compares every look-up with each
# name in turn, which for thirty columns was a tenth of a request.
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
    """A transaction whose methods never suspend, so an act ends in one drive."""

    __slots__ = ("_connection", "now")

    def __init__(self, connection: sqlite3.Connection, now: datetime) -> None:
        self._connection = connection
        self.now = now

    @property
    def dialect(self) -> Dialect:
        """Which engine this runs on."""
        return "sqlite"

    @property
    def test_now(self) -> datetime | None:
        """None: the bound instant is the only clock here."""
        return None

    def _run(self, sql: Sql, args: Args | None) -> tuple[Statement, sqlite3.Cursor]:
        statement = prepare(sql, "sqlite")
        values = bind(statement, args, self.now, dialect="sqlite")
        return statement, self._connection.execute(statement.text, values)

    async def first(self, sql: Sql, args: Args | None = None) -> Row | None:
        """The first row, or None."""
        statement, cursor = self._run(sql, args)
        values = cursor.fetchone()
        row = None if values is None else dict(zip(_columns(statement, cursor), values, strict=True))
        cursor.close()
        return row

    async def all(self, sql: Sql, args: Args | None = None) -> list[Row]:
        """Every row."""
        statement, cursor = self._run(sql, args)
        rows = cursor.fetchall()
        if not rows:
            return []
        names = _columns(statement, cursor)
        return [dict(zip(names, values, strict=True)) for values in rows]

    async def execute(self, sql: Sql, args: Args | None = None) -> int:
        """Runs a statement; the number of rows it touched."""
        return self._run(sql, args)[1].rowcount

    async def many(self, sql: str, rows: Sequence[Sequence[object]]) -> int:
        """Runs a statement for each of `rows`; the number of rows it touched."""
        return _insert_or_update(self._connection, prepare(sql, "sqlite").text, rows)

    async def set_tenant(self, orgs: Collection[OrgId]) -> None:
        """Does nothing: SQLite has no row-level security."""


def drive(act: Act[T], tx: SqliteTx) -> T:
    """Runs an act to its end in one go. Raises ForeignAwait when it waits for anything but its Tx."""
    coroutine: Any = act(tx)
    try:
        coroutine.send(None)
    except StopIteration as end:
        answer: T = end.value
        return answer
    coroutine.close()
    raise ForeignAwait("an act awaited something other than its transaction")


@lru_cache(maxsize=128)
def _block(text: str, width: int, count: int) -> str | None:
    """The INSERT of one row `text`, of `width` arguments, as one of `count` rows; None when it is none."""
    match = _VALUES.fullmatch(text)
    if match is None:
        return None

    def row(before: int) -> str:
        return _NUMBER.sub(lambda number: f"?{int(number[1]) + before}", match["row"])

    return match["head"] + ",".join(row(width * n) for n in range(count)) + match["tail"]


def _insert_or_update(connection: sqlite3.Connection, text: str, rows: Sequence[Sequence[object]]) -> int:
    """Runs a statement once for each of `rows`, INSERTs by blocks; the number of rows it touched."""
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
