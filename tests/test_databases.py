"""The databases of the tests: fresh, migrated, apart from each other, and gone afterwards."""

import socket
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from steward.database.engine.base import Engine, Tx
from tests.databases import Clones
from tests.fake_clock import START
from tests.postgres_server import (
    NoPostgres,
    install_programs,
    remove_leftovers,
    shared_server,
    start,
)


@pytest.mark.parametrize("turn", [1, 2])
async def test_every_test_gets_an_empty_migrated_database(engine: Engine, turn: int) -> None:
    """One suite on both engines. See docs/guides/contributors.md#tests."""

    async def fill(tx: Tx) -> int:
        rows = await tx.all("SELECT org_id FROM dir_orgs")
        await tx.execute("INSERT INTO dir_orgs (name, name_norm) VALUES ('Corner Shop', 'corner shop')")
        return len(rows)

    assert await engine.write(START, fill) == 0


async def test_a_dropped_database_is_gone(clones: Clones) -> None:
    """Nothing is left behind. See docs/guides/contributors.md#tests."""
    url = clones.clone()
    held = await asyncpg.connect(url)
    clones.drop(url)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(url)
    held.terminate()


def test_missing_postgresql_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """issue bar: never skipped silently"""
    monkeypatch.setattr("tests.postgres_server.find_programs", lambda: None)
    for _ in range(2):
        with pytest.raises(NoPostgres, match="make test"):
            shared_server(tmp_path, starter=1, prepare=lambda server: None)


def test_a_cluster_whose_session_was_killed_is_removed_by_the_next(clones: Clones) -> None:
    """Nothing is left behind, also by a session that could not clean up.

    See docs/guides/contributors.md#tests.
    """
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    remaining = start(starter=ended.pid)
    remove_leftovers()
    assert not Path(remaining.folder).exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", remaining.port))


def test_a_missing_server_is_installed_by_the_package_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make test` installs what it needs."""
    path = tmp_path / "postgresql" / "17" / "bin"
    lines = [f"mkdir -p {path}", *(f"{_write_program(path / name)}" for name in ("initdb", "pg_ctl"))]
    lines.append(_write_program(path / "postgres", "echo postgres 17.1"))
    manager = tmp_path / "apt-get"
    manager.write_text("#!/bin/sh\n[ $1 = install ] || exit 0\n" + "\n".join(lines))
    manager.chmod(0o755)
    monkeypatch.setattr("tests.postgres_server._PLACES", (f"{tmp_path}/postgresql/*/bin",))
    monkeypatch.setattr("tests.postgres_server.os.geteuid", lambda: 0)
    monkeypatch.setenv("PATH", f"{tmp_path}:{_tools(tmp_path)}")
    assert install_programs() == path
    assert install_programs() == path


def _write_program(path: Path, does: str = "exit 0") -> str:
    return f"printf '#!/bin/sh\\n{does}\\n' >{path} && chmod +x {path}"


def _tools(folder: Path) -> Path:
    """A folder with the few programs that a package manager of ours runs."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("sh", "mkdir", "chmod"):
        path = next(
            location for location in (Path("/bin") / name, Path("/usr/bin") / name) if location.exists()
        )
        (tools / name).symlink_to(path)
    return tools


def test_where_it_cannot_be_installed_the_message_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else clear words and failure."""
    monkeypatch.setattr("tests.postgres_server._PLACES", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoPostgres, match="Install the PostgreSQL server package"):
        install_programs()


def test_a_server_too_old_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL is part of make test. See docs/guides/contributors.md#tests."""
    for name, does in (("initdb", ""), ("pg_ctl", ""), ("postgres", "echo postgres 13.9")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr("tests.postgres_server._PLACES", (str(tmp_path),))
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(NoPostgres, match="14 or newer"):
        install_programs()
