"""Migrations where the system's SQLite is built "defensive": they go on, or say what to do (engine 2)."""

import ctypes
import ctypes.util
import sqlite3
import sys
from pathlib import Path

import pytest

from steward.database.engine import migrate
from steward.database.engine.sqlite import connect
from steward.model.refusals import Unavailable
from tests.fake_clock import FakeClock

DEFENSIVE = 1010  # SQLITE_DBCONFIG_DEFENSIVE


def _defend(connection: sqlite3.Connection) -> None:
    """What such a build does to every connection that is opened."""
    if sys.version_info >= (3, 12):
        connection.setconfig(DEFENSIVE, True)
        return
    found = ctypes.util.find_library("sqlite3")
    if found is None:
        pytest.skip("Python before 3.12 with an SQLite of its own: it cannot be made defensive here")
    handle = ctypes.c_void_p.from_address(id(connection) + object.__basicsize__)  # its first field
    now = ctypes.c_int(0)
    ctypes.CDLL(found).sqlite3_db_config(handle, DEFENSIVE, 1, ctypes.byref(now))
    assert now.value == 1


async def test_a_defensive_sqlite_is_asked_for_the_schema_or_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: FakeClock
) -> None:
    """Migration 0020 tells SQLite anew what a table is; no migration is begun that could not be ended"""

    def defended(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        _defend(connection)
        return connection

    monkeypatch.setattr(migrate, "connect", defended)
    url = f"sqlite:///{tmp_path / 'steward.db'}"
    if sys.version_info >= (3, 12):
        assert (await migrate.migrate(url, clock.now())).applied
        return
    with pytest.raises(Unavailable, match=r"Python 3\.12"):
        await migrate.migrate(url, clock.now())
    monkeypatch.undo()
    left = await migrate.migrate(url, clock.now(), only_look=True)
    assert (left.before, len(left.pending)) == (0, len(migrate.migrations("sqlite")))
    assert (await migrate.migrate(url, clock.now())).applied == left.pending
