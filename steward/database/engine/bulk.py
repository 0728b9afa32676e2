"""Inserts many rows with few statements."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from steward.database.engine.base import Tx

# Few rows at a time: thousands of live objects cost more in garbage collection than they save.
_ROWS_AT_ONCE = 256


class BulkInsert:
    """An `INSERT` of many rows into `table`; `columns` names the columns and their PostgreSQL types.

    With `DO UPDATE` in `on_conflict`, the rows of one call hold each key once: PostgreSQL refuses to update
    a row twice in one statement.
    """

    def __init__(self, table: str, columns: Mapping[str, str], on_conflict: str = "") -> None:
        """Composes the statements of both engines."""
        self._names = tuple(columns)
        insert_into = f"INSERT INTO {table} ({', '.join(columns)})"
        self._insert_one = f"{insert_into} VALUES ({', '.join(f':{name}' for name in columns)}) {on_conflict}"
        arrays = ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in columns.items())
        self._insert_many = f"{insert_into} SELECT rows.* FROM unnest({arrays}) AS rows {on_conflict}"

    async def insert(self, tx: Tx, rows: Iterable[Sequence[object]]) -> None:
        """Inserts `rows`, whose values are in the order of the columns and need no conversion."""
        pending = iter(rows)
        while chunk := list(islice(pending, _ROWS_AT_ONCE)):
            if tx.dialect == "sqlite":
                await tx.many(self._insert_one, chunk)
            else:
                columns = map(list, zip(*chunk, strict=True))
                await tx.execute(self._insert_many, dict(zip(self._names, columns, strict=True)))
