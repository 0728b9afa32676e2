"""Tests what the commands report on a full or read-only disk, and that `doctor` detects it."""

import io
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from steward.cli.run import run
from steward.database.engine.migrate import sqlite_path
from tests.cli.test_operator import CommandOutput
from tests.small_disk import fill, mounted, remount

_DISK = 4 * 1024 * 1024
Commands = Callable[..., CommandOutput]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Provides a small file system."""
    with mounted(tmp_path / "disk", _DISK) as path:
        yield path


@pytest.fixture
def steward(disk: Path, sqlite_url: str) -> Commands:
    """Returns a function that runs a command line over a database on the small disk."""
    shutil.copyfile(sqlite_path(sqlite_url), disk / "steward.db")
    environ = {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": f"sqlite:///{disk}/steward.db",
        "STEWARD_DATA_DIR": str(disk / "data"),
    }

    def call(*words: str) -> CommandOutput:
        out, err = io.StringIO(), io.StringIO()
        return CommandOutput(run([*words, "--json"], environ, out=out, err=err), out.getvalue(), "")

    return call


def test_a_full_disk_is_named(steward: Commands, disk: Path) -> None:
    """Says that the disk is full, leaves no partial copy, and succeeds once the disk has space."""
    assert steward("org", "create", "--name", "First").status == 0
    ballast = fill(disk)
    refused = steward("org", "create", "--name", "Second")
    assert refused.refused == (1, "unavailable")
    assert "full" in refused.facts["error"]["message"]
    copying = steward("backup", "--to", str(disk / "copy.db"))
    assert copying.refused == (1, "unavailable")
    assert "Free space" in copying.facts["error"]["message"]
    assert not list(disk.glob("copy.db*"))
    ballast.unlink()
    assert steward("org", "create", "--name", "Second").status == 0


def test_a_read_only_disk_is_named(steward: Commands, disk: Path) -> None:
    """Names the disk, whether the database was closed or its process was killed; `doctor` fails."""
    assert steward("org", "create", "--name", "First").status == 0
    _leave_log(disk / "steward.db")
    remount(disk, "ro")
    assert steward("org", "list").facts["organizations"][0]["name"] == "First"
    refused = steward("org", "create", "--name", "Second")
    assert refused.refused == (1, "unavailable")
    assert "failing" in refused.facts["error"]["message"]
    _fails_for_the_disk(steward("doctor"), disk)
    remount(disk, "rw")
    steward("org", "list")
    remount(disk, "ro")
    refused = steward("org", "create", "--name", "Second")
    assert f"{disk} is not writable" in refused.facts["error"]["message"]
    copying = steward("backup", "--to", str(disk.parent / "copy.db"))
    assert copying.refused == (1, "unavailable")
    assert f"{disk} is not writable" in copying.facts["error"]["message"]
    _fails_for_the_disk(steward("doctor"), disk)
    remount(disk, "rw")


def _leave_log(file: Path) -> None:
    """Leaves the files that a killed process leaves beside its database, with which it can still be read."""
    with closing(sqlite3.connect(file)) as writing:
        writing.execute("SELECT 1 FROM organizations").fetchall()
        log_files = [path for path in file.parent.iterdir() if path.name.endswith(("-wal", "-shm"))]
        contents = {path: path.read_bytes() for path in log_files}
    for path, content in contents.items():
        path.write_bytes(content)


def _fails_for_the_disk(output: CommandOutput, disk: Path) -> None:
    check = next(check for check in output.facts["checks"] if check["name"] == "database")
    assert not check["ok"]
    assert f"{disk} is not writable" in check["message"]
