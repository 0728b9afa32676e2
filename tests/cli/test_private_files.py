"""Files of an installation are private to its owner, new and after an upgrade."""

import asyncio
import io
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from steward.cli.run import run
from steward.config import read
from steward.database.engine.migrate import sqlite_path
from steward.database.engine.private_files import close, is_shared
from steward.startup import installation_files
from tests.processes.running import start_forked

pytestmark = pytest.mark.usefixtures("open_umask")


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Sets a umask that removes no rights."""
    before = os.umask(0)
    yield
    os.umask(before)


async def steward(environ: Mapping[str, str], *words: str) -> dict[str, Any]:
    """Runs a command and returns its output."""
    out = io.StringIO()
    await asyncio.to_thread(run, [*words, "--json"], environ, out=out, err=io.StringIO())
    actual: dict[str, Any] = json.loads(out.getvalue())
    return actual


def settings(folder: Path) -> dict[str, str]:
    """Returns the settings of an installation in this folder."""
    return {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": f"sqlite:///{folder / 'steward.db'}",
        "STEWARD_DATA_DIR": str(folder),
        "STEWARD_METRICS_LISTEN": "off",
    }


def modes(folder: Path) -> dict[str, int]:
    """Returns the rights of a folder and of its files by name."""
    return {path.name or ".": stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}


async def checked(environ: Mapping[str, str]) -> tuple[bool, str]:
    """Returns what doctor says of the files."""
    [outcome] = [check for check in (await steward(environ, "doctor"))["checks"] if check["name"] == "files"]
    return outcome["ok"], outcome["message"]


async def test_created_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    """Creates the data folder with 0700 and everything in it, and backups, with 0600."""
    folder = tmp_path / "data"
    environ = settings(folder)
    await steward(environ, "migrate")
    await steward(environ, "org", "create", "--name", "Demo Shop")
    serving = await start_forked("serve", "--port", "0", env=environ)
    try:
        await steward(environ, "org", "create", "--name", "Other Shop")
        await steward(environ, "backup", "--to", str(tmp_path / "copy.db"))
        file_modes = modes(folder)
        assert set(file_modes) >= {
            *("steward.db", "steward.db-wal", "steward.db-shm", "steward.db.lock", "steward.db.reserve"),
            "master.keys",
        }
        assert file_modes.pop(folder.name) == 0o700
        assert set(file_modes.values()) == {0o600}
        assert (await checked(environ))[0]
    finally:
        await serving.stop()
    for name in ("copy.db", "copy.db.sha256"):
        assert modes(tmp_path)[name] == 0o600
    await steward(environ, "restore", "--from", str(tmp_path / "copy.db"), "--force")
    file_modes = modes(folder)
    assert any(name.startswith("steward.db.before-") for name in file_modes)
    assert {mode for name, mode in file_modes.items() if name != folder.name} == {0o600}


@pytest.mark.parametrize("how", ["serve", "migrate", "restore"])
async def test_a_start_closes_what_an_older_release_left_open(
    sqlite_url: str, tmp_path: Path, how: str
) -> None:
    """Reports files that an older release left open, and closes them at the next start."""
    folder = tmp_path / "data"
    environ = settings(folder)
    folder.mkdir()
    shutil.copyfile(sqlite_path(sqlite_url), folder / "steward.db")
    await steward(environ, "keys", "rotate", "signing")
    await steward(environ, "backup", "--to", str(tmp_path / "copy.db"))
    for name in ("steward.db-wal", "steward.db-shm", "steward.db.lock"):
        (folder / name).touch()
    folder.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o644)
    for _ in range(2):
        is_ok, words = await checked(environ)
        assert not is_ok
        for name in ("steward.db", "steward.db.lock", "master.keys"):
            assert str(folder / name) in words
        assert f"open {folder}," in words
    if how == "serve":
        await (await start_forked("serve", "--port", "0", env=environ)).stop()
    elif how == "migrate":
        await steward(environ, "migrate")
    else:
        await steward(environ, "restore", "--from", str(tmp_path / "copy.db"), "--force")
    file_modes = modes(folder)
    assert file_modes.pop(folder.name) == 0o700
    assert set(file_modes.values()) == {0o600}
    assert (await checked(environ))[0]


@pytest.mark.parametrize("bits", [0o1777, 0o2775, "another"])
async def test_a_shared_folder_is_reported_and_left_unchanged(tmp_path: Path, bits: int | str) -> None:
    """Reports a shared folder and leaves its rights, but closes the files in it."""
    folder = tmp_path / "data"
    folder.mkdir()
    if isinstance(bits, int):
        folder.chmod(bits)
    elif os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    else:
        pytest.skip("only root can give a folder away")
    before = stat.S_IMODE(folder.stat().st_mode)
    environ = settings(folder)
    await steward(environ, "migrate")
    (folder / "steward.db").chmod(0o644)
    assert not (await checked(environ))[0]
    await steward(environ, "org", "create", "--name", "Demo Shop")
    file_modes = modes(folder)
    assert file_modes.pop(folder.name) == before
    assert set(file_modes.values()) == {0o600}
    is_ok, words = await checked(environ)
    assert is_ok
    assert f"{folder}, which is shared" in words


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what belongs to another account")
@pytest.mark.parametrize("name", ["/", "/opt", "/usr/local/", "/var/lib/../lib"])
def test_a_folder_of_the_system_is_shared(name: str) -> None:
    """Treats folders of the system as shared, so that they are never closed."""
    assert is_shared(Path(name))


def test_a_folder_of_its_own_is_not_shared(tmp_path: Path) -> None:
    """Treats a folder of its own as not shared, also with folders in it."""
    (tmp_path / "backups").mkdir()
    assert not is_shared(tmp_path)


async def test_a_link_of_another_account_changes_no_file_of_ours(tmp_path: Path) -> None:
    """Follows no link of another account, which could close a file of ours, and follows our own."""
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o2775)
    environ = settings(folder)
    await steward(environ, "migrate")
    ours, linked = tmp_path / "passwd", tmp_path / "volume"
    for path in (ours, linked):
        path.touch()
        path.chmod(0o644)
    (folder / "steward.db-foreign").symlink_to(ours)
    os.lchown(folder / "steward.db-foreign", 65534, 65534)
    (folder / "steward.db-own").symlink_to(linked)
    await steward(environ, "org", "create", "--name", "Demo Shop")
    assert stat.S_IMODE(ours.stat().st_mode) == 0o644
    assert stat.S_IMODE(linked.stat().st_mode) == 0o600
    assert (await checked(environ))[0]


def test_files_that_go_meanwhile_or_cannot_be_looked_at_are_no_fault(tmp_path: Path) -> None:
    """Ignores files that disappear meanwhile and folders that it cannot read."""
    assert close([tmp_path / "steward.db-wal"]) == []
    if os.geteuid() != 0:
        pytest.skip("only root can become another account")
    tmp_path.chmod(0o700)
    found_settings = read(
        {**settings(tmp_path / "data"), "STEWARD_DATABASE_URL": "postgresql://steward@db/steward"}
    )
    os.seteuid(65534)
    try:
        assert installation_files(found_settings) == []
    finally:
        os.seteuid(0)
