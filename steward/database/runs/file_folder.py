"""Keeps the sealed content of runs' files in a folder beside the SQLite database.

See docs/design/files.md#storage.
"""

import contextlib
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from steward.database.engine.private_files import make_folder
from steward.model.ids import OrgId, RunId

ORPHAN_AFTER = timedelta(hours=1)  # a younger file may belong to a row that is being written
_FILE_MODE = 0o600
_PARTIAL = ".partial"


def folder_of(database: Path) -> Path:
    """Returns the folder of a database's files."""
    return database.with_name(database.name + ".files")


def write(folder: Path, org: OrgId, run: RunId, sha256: str, sealed: bytes, now: datetime) -> None:
    """Writes a file durably and atomically: either the whole file exists, or none."""
    run_folder = _run_folder(folder, org, run)
    make_folder(run_folder)
    target = run_folder / sha256
    partial = target.with_name(sha256 + _PARTIAL)
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE)
    with os.fdopen(handle, "wb") as out:
        out.write(sealed)
        out.flush()
        os.fsync(out.fileno())
    os.utime(partial, (now.timestamp(), now.timestamp()))
    partial.rename(target)
    for changed in (run_folder, run_folder.parent, folder):
        _flush(changed)


def read(folder: Path, org: OrgId, run: RunId, sha256: str) -> bytes | None:
    """Returns a file's sealed content, or None if it was removed."""
    try:
        return (_run_folder(folder, org, run) / sha256).read_bytes()
    except FileNotFoundError:
        return None


def runs_in(folder: Path) -> Iterator[tuple[OrgId, RunId]]:
    """Yields the runs that have a folder."""
    for org in _entries(folder):
        if org.name.isdigit():
            for run in _entries(org):
                yield OrgId(int(org.name)), RunId(run.name)


def remove_orphans(folder: Path, org: OrgId, run: RunId, *, stored: set[str], now: datetime) -> int:
    """Removes files of the run that have no row and are an hour old, and the folder if empty."""
    run_folder = _run_folder(folder, org, run)
    removed = 0
    for file in _entries(run_folder):
        with contextlib.suppress(FileNotFoundError):
            if file.name not in stored and file.stat().st_mtime <= (now - ORPHAN_AFTER).timestamp():
                file.unlink()
                removed += 1
    for empty in (run_folder, run_folder.parent):
        with contextlib.suppress(OSError):
            empty.rmdir()
    return removed


def remove_run(folder: Path, org: OrgId, run: RunId) -> None:
    """Removes all files of a run."""
    for file in _entries(_run_folder(folder, org, run)):
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
    with contextlib.suppress(OSError):
        _run_folder(folder, org, run).rmdir()


def _run_folder(folder: Path, org: OrgId, run: RunId) -> Path:
    return folder / str(int(org)) / run


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
