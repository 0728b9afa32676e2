"""Copies an SQLite database consistently into one file, and restores a database from it."""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from steward.database.engine.base import from_ms, ms
from steward.database.engine.disk_space import write_obstacle
from steward.database.engine.private_files import make_file, open_to_write
from steward.database.engine.sqlite import connect
from steward.model.refusals import Unavailable

_BACKUP_TABLE = (
    "CREATE TABLE backup"
    " (singleton INTEGER PRIMARY KEY CHECK (singleton = 1), taken_at INTEGER NOT NULL) STRICT"
)
_BLOCK = 1 << 20


class InvalidBackup(Exception):
    """Raised when a file cannot be restored: it is damaged, or `create` did not write it."""


@dataclass(frozen=True, slots=True)
class BackupCopy:
    """Facts about a copy: its size, its hash, its newest migration and when it was taken."""

    size: int
    sha256: str
    schema_version: int
    taken_at: datetime


def create(source: Path, target: Path, now: datetime) -> BackupCopy:
    """Copies a snapshot of the database, which may be in use, and writes the copy's hash beside it.

    Only the owner can read the two files. Raises FileExistsError when one of them exists already, and
    Unavailable if SQLite cannot make the copy, such as on a disk that is full or failing.
    """
    for backup_path in (target, hash_file(target)):
        if backup_path.exists():
            raise FileExistsError(backup_path)
    partial_copy = target.with_name(target.name + ".partial")
    with contextlib.suppress(FileNotFoundError):
        partial_copy.unlink()
    make_file(partial_copy)
    try:
        with (
            contextlib.closing(connect(source, read_only=True)) as source_file,
            _opened(partial_copy) as copy_file,
        ):
            source_file.backup(copy_file)
            copy_file.execute("PRAGMA journal_mode = DELETE")  # so that the copy is a single file
            copy_file.execute(_BACKUP_TABLE)
            copy_file.execute("INSERT INTO backup (singleton, taken_at) VALUES (1, ?)", (ms(now),))
        facts = inspect(partial_copy)
        _flush(partial_copy)
        partial_copy.rename(target)
    except sqlite3.OperationalError as error:
        words = (f"The copy cannot be made: {error}.", _disk_advice(error, source, target))
        raise Unavailable(" ".join(filter(None, words))) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial_copy.unlink()
    with open_to_write(hash_file(target)) as out:
        out.write(f"{facts.sha256}  {target.name}\n")
    _flush(hash_file(target))
    _flush(target.parent)
    return facts


def _disk_advice(error: sqlite3.OperationalError, source: Path, target: Path) -> str | None:
    """Returns what to do about the disks; None if they did not cause the error."""
    # The low byte is the error without its details; errors of the module itself have no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return "Free space next to the database and where the copy goes."
    return write_obstacle(source) or write_obstacle(target)


def hash_file(copy: Path) -> Path:
    """Returns the path of the copy's hash file, which `sha256sum --check` can read."""
    return copy.with_name(copy.name + ".sha256")


def inspect(copy: Path) -> BackupCopy:
    """Checks a copy and returns the facts about it.

    Raises InvalidBackup when it is damaged or does not match its hash file.
    """
    digest = hashlib.sha256()
    with copy.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    if hash_file(copy).exists() and hash_file(copy).read_text().split()[0] != digest.hexdigest():
        raise InvalidBackup(
            f"{copy.name} is not what was written: its SHA-256 differs from {hash_file(copy).name}."
        )
    try:
        with _opened(copy) as copy_file:
            [integrity] = copy_file.execute("PRAGMA integrity_check(1)").fetchone()
            [version] = copy_file.execute("SELECT max(version) FROM schema_version").fetchone()
            [taken_at] = copy_file.execute("SELECT taken_at FROM backup").fetchone()
    except (sqlite3.DatabaseError, TypeError) as error:
        raise InvalidBackup(f"{copy.name} is not a copy made by `steward backup`: {error}.") from error
    if integrity != "ok":
        raise InvalidBackup(f"{copy.name} is damaged: {integrity}.")
    return BackupCopy(copy.stat().st_size, digest.hexdigest(), version, from_ms(taken_at))


def restore_copy(copy: Path, target: Path) -> None:
    """Creates a database file from a copy; only its owner can read the file.

    Raises FileExistsError when `target` exists.
    """
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as out, copy.open("rb") as file:
        while block := file.read(_BLOCK):
            out.write(block)
    with _opened(target) as target_file:
        target_file.execute("DROP TABLE backup")


def replace_database(fresh: Path, target: Path, suffix: str) -> None:
    """Renames `fresh` to `target`; a former database and its log keep their names with `suffix` appended."""
    for end in ("", "-wal", "-shm"):
        before = target.with_name(target.name + end)
        if before.exists():
            before.rename(target.with_name(target.name + suffix + end))
    _flush(fresh)
    fresh.rename(target)
    _flush(target.parent)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def _flush(path: Path) -> None:
    """Flushes a file, or a folder's entries, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
