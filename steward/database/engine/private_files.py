"""Keeps the files of an installation readable by their owner alone; which files those are is the caller's."""

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
# Folders of the Filesystem Hierarchy Standard, which programs share: a data folder only by mistake.
_OF_THE_SYSTEM = frozenset(
    Path(name)
    for name in (
        "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/media", "/mnt", "/opt", "/proc", "/root",
        "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/lib", "/usr/local", "/usr/share", "/var",
        "/var/cache", "/var/lib", "/var/log", "/var/opt", "/var/tmp",
    )
)  # fmt: skip


def make_folder(folder: Path) -> None:
    """Makes a folder that its owner alone can enter, unless it is there."""
    folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)


def make_file(file: Path) -> None:
    """Makes an empty file that its owner alone can read, unless it is there."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE))


def open_to_write(file: Path) -> IO[str]:
    """The file, emptied; made readable by its owner alone where it is missing."""
    return open(file, "w", opener=lambda path, flags: os.open(path, flags, _FILE_MODE))


def is_shared(folder: Path) -> bool:
    """Returns whether another account owns a folder, or several accounts or programs use it."""
    status = folder.stat()
    is_marked = bool(status.st_mode & _SHARED)
    return status.st_uid != os.geteuid() or is_marked or folder.resolve() in _OF_THE_SYSTEM


def is_open(path: Path) -> bool:
    """Whether another account than the owner may read, write or enter it; False for what is gone."""
    try:
        return bool(path.stat().st_mode & _OTHERS)
    except FileNotFoundError:
        return False


def is_foreign(path: Path) -> bool:
    """Whether a file, or a symbolic link itself, belongs to another account than this one and root."""
    return path.lstat().st_uid not in (0, os.geteuid())


def close(paths: Iterable[Path]) -> list[Path]:
    """Takes everybody's rights but the owner's from files and folders; those that stay open.

    A folder that is shared stays as it is, and so does what belongs to another account or lies on a disk
    that does not take it. Another account's file is never changed, as it may become a link to any file.
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
            pass  # told by what is still open
        if is_open(path):
            still_open.append(path)
    return still_open
