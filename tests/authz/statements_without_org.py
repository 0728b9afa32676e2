"""Removes `org_id = :org` from PostgreSQL statements."""

import re

import pytest

from steward.database.engine import postgres as engine_postgres
from steward.database.engine.base import Args, PerEngine, Sql
from steward.database.engine.postgres import PostgresTx

_FIRST_WALL = re.compile(r"\b(?:\w+\.)?org_id = :org\b")


def open_wall(sql: Sql) -> str:
    """Returns the statement without its condition on the organization."""
    text = sql.postgresql if isinstance(sql, PerEngine) else sql
    return _FIRST_WALL.sub("TRUE", text)


class UnconditionalTx(PostgresTx):
    """Runs each statement without its condition, so that only row-level security limits its rows."""

    __slots__ = ()

    def _bound(self, sql: Sql, args: Args | None) -> tuple[str, list[object]]:
        return super()._bound(open_wall(sql), args)


def without_the_first_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every transaction on PostgreSQL an UnconditionalTx until the end of the test."""
    monkeypatch.setattr(engine_postgres, "PostgresTx", UnconditionalTx)
