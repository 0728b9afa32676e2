"""The databases of the tests: fresh, migrated, apart from each other, and gone afterwards."""

from pathlib import Path

import asyncpg
import pytest

from steward.store.engine import Engine, Tx
from tests.databases import Clones
from tests.fake_clock import START
from tests.postgres_server import NoPostgres, shared_server


@pytest.mark.parametrize("turn", [1, 2])
async def test_every_test_gets_an_empty_migrated_database(engine: Engine, turn: int) -> None:
    """house 6, Tests: one suite on both engines"""

    async def fill(tx: Tx) -> int:
        found = await tx.all("SELECT org_id FROM dir_orgs")
        await tx.execute("INSERT INTO dir_orgs (name, name_norm) VALUES ('Corner Shop', 'corner shop')")
        return len(found)

    assert await engine.write(START, fill) == 0


async def test_a_dropped_database_is_gone(clones: Clones) -> None:
    """house 6, Tests: nothing is left behind"""
    url = clones.clone()
    held = await asyncpg.connect(url)
    clones.drop(url)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(url)
    held.terminate()


def test_a_machine_without_postgresql_is_told_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """issue bar: never skipped silently"""
    monkeypatch.setattr("tests.postgres_server.find_programs", lambda: None)
    for _ in range(2):
        with pytest.raises(NoPostgres, match="make test"):
            shared_server(tmp_path, starter=1, prepare=lambda server: None)
