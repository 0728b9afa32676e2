"""Searches for values in every column of every table of a database."""

import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import asyncpg

from steward.database.engine.migrate import is_sqlite, sqlite_path

Tables = Mapping[str, list[dict[str, Any]]]


async def tables_of(url: str) -> Tables:
    """Returns every table with all of its rows of every organization."""
    if is_sqlite(url):
        file = sqlite3.connect(sqlite_path(url))
        file.row_factory = sqlite3.Row
        names = [row["name"] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        results = {name: [dict(row) for row in file.execute(f'SELECT * FROM "{name}"')] for name in names}
        file.close()
        return results
    connection = await asyncpg.connect(url)
    names = [
        row["name"]
        for row in await connection.fetch(
            "SELECT c.relname AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
        )
    ]
    results = {
        name: [dict(row) for row in await connection.fetch(f'SELECT * FROM "{name}"')] for name in names
    }
    await connection.close()
    return results


def holding(tables: Tables, values: Iterable[str]) -> list[str]:
    """Returns `table.column` of each cell that contains a value, in any case, also compressed."""
    expected = [value.casefold() for value in values]
    return sorted(
        {
            f"{table}.{column}"
            for table, rows in tables.items()
            for row in rows
            for column, cell in row.items()
            if any(value in _text(cell) for value in expected)
        }
    )


def _text(cell: object) -> str:
    if isinstance(cell, bytes):
        try:
            cell = zlib.decompress(cell)
        except zlib.error:
            pass
        return cell.decode("utf-8", "replace").casefold()
    return str(cell).casefold()
