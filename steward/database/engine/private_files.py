"""Keeps files readable only by their owner; the caller says which files."""

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO

_FILE_MODE = 0o600
_FOLDER_MODE = 0o700
_OTHERS = 0o077
_SHARED = stat.S_ISVTX | stat.S_ISGID
# Folders of the Filesystem Hierarchy Standard, which programs share; one is a data folder only by mistake.
_OF_THE_SYSTEM = frozenset(
    Path(name)
    for name in (
        "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/media", "/mnt", "/opt", "/proc", "/root",
        "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/lib", "/usr/local", "/usr/share", "/var",
        "/var/cache", "/var/lib", "/var/log", "/var/opt", "/var/tmp",
    )
)  # fmt: skip


def make_folder(folder: Path) -> None:
    """Creates a folder that only its owner can enter, unless it exists."""
    folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)


def make_file(file: Path) -> None:
    """Creates an empty file that only its owner can read, unless it exists."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE))


def open_to_write(file: Path) -> IO[str]:
    """Opens a file for writing and empties it; only its owner can read a file that this creates."""
    return open(file, "w", opener=lambda path, flags: os.open(path, flags, _FILE_MODE))


def is_shared(folder: Path) -> bool:
    """Returns whether another account owns a folder, or several accounts or programs use it."""
    status = folder.stat()
    is_marked = bool(status.st_mode & _SHARED)
    return status.st_uid != os.geteuid() or is_marked or folder.resolve() in _OF_THE_SYSTEM


def is_open(path: Path) -> bool:
    """Returns whether other accounts have any rights to it; False when it does not exist."""
    try:
        return bool(path.stat().st_mode & _OTHERS)
    except FileNotFoundError:
        return False


def is_foreign(path: Path) -> bool:
    """Returns whether a file, or a symbolic link itself, belongs to neither this account nor root."""
    return path.lstat().st_uid not in (0, os.geteuid())


def close(paths: Iterable[Path]) -> list[Path]:
    """Removes all rights of other accounts from files and folders; returns those that stay open.

    Shared folders, other accounts' files and paths whose file system refuses the change stay unchanged. A
    file of another account is never changed, because its owner can replace it with a link to any file.
    """
    still_open = []
    for path in paths:
        if not is_open(path):
            continue
        try:
            is_folder = path.is_dir()
            if not (is_shared(path) if is_folder else is_foreign(path)):
                path.chmod(_FOLDER_MODE if is_folder else _FILE_MODE)
        except OSError:
            pass  # reported by the check below
        if is_open(path):
            still_open.append(path)
    return still_open
