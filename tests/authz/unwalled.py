"""The test hook that switches off the first wall: statements on PostgreSQL lose their `org_id = :org`."""

import re

import pytest

from steward.database.engine import postgres as engine_postgres
from steward.database.engine.base import Args, Both, Sql
from steward.database.engine.postgres import PostgresTx

_FIRST_WALL = re.compile(r"\b(?:\w+\.)?org_id = :org\b")


def open_wall(sql: Sql) -> str:
    """The statement as if anyone who wrote it had forgotten the organisation."""
    text = sql.postgresql if isinstance(sql, Both) else sql
    return _FIRST_WALL.sub("TRUE", text)


class Unwalled(PostgresTx):
    """A transaction whose statements see whatever the second wall lets through."""

    __slots__ = ()

    def _bound(self, sql: Sql, args: Args | None) -> tuple[str, list[object]]:
        return super()._bound(open_wall(sql), args)


def without_the_first_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here to the end of the test every transaction on PostgreSQL is such a one."""
    monkeypatch.setattr(engine_postgres, "PostgresTx", Unwalled)
