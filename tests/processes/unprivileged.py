"""Runs a command as a user with no rights, as a service is installed: `python unprivileged.py command…`.

Root uses it. An interpreter in a folder that others cannot enter, such as root's home, is mounted at the
same path in a mount namespace.
"""

import ctypes
import os
import sys
import tempfile
from pathlib import Path

NOBODY = 65_534
_NEW_MOUNTS = 0x20000
_BIND, _PRIVATE_ALL = 0x1000, 0x4000 | 0x40000


def _mount(libc: ctypes.CDLL, source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    if libc.mount(*words, ctypes.c_ulong(flags), data.encode() or None) != 0:
        raise OSError(ctypes.get_errno(), f"{target} cannot be mounted")


def _closed(path: Path) -> Path | None:
    """Returns the uppermost folder of the path that others may not enter."""
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), None)


def show_interpreter() -> None:
    """Makes the interpreter's folder reachable for every user, in this process and those it starts."""
    path = Path(sys.base_prefix)
    closed = _closed(path)
    if closed is None:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_MOUNTS) != 0:
        raise OSError(ctypes.get_errno(), "there is no mount namespace")
    _mount(libc, "none", "/", None, _PRIVATE_ALL)
    mkdtemp = tempfile.mkdtemp()
    _mount(libc, str(path), mkdtemp, None, _BIND)
    _mount(libc, "tmpfs", str(closed), "tmpfs", 0, "mode=755")
    path.mkdir(parents=True)
    _mount(libc, mkdtemp, str(path), None, _BIND)


def drop_rights() -> None:
    """Drops the rights of this process: it becomes one of the user `nobody`."""
    show_interpreter()
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


if __name__ == "__main__":
    drop_rights()
    os.execv(sys.argv[1], sys.argv[1:])
