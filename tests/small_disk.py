"""A small file system of its own, for disks that are full or read-only."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_BLOCK = 1 << 16


@contextlib.contextmanager
def mounted(path: Path, size: int) -> Iterator[Path]:
    """Mounts a file system of `size` bytes at `path`; skips the test where only root may, and this is not."""
    path.mkdir()
    completed = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True, check=False
    )
    if completed.returncode:
        pytest.skip(
            f"SKIPPED LOUDLY: no small file system can be mounted here: {completed.stderr.decode().strip()}"
        )
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def remount(path: Path, how: str) -> None:
    """Makes the file system read-only (`ro`) or writable again (`rw`)."""
    subprocess.run(["mount", "-o", f"remount,{how}", str(path)], check=True)


def fill(path: Path) -> Path:
    """Uses up every free byte; returns the file to remove for room."""
    ballast = path / "ballast"
    with ballast.open("wb", buffering=0) as out, contextlib.suppress(OSError):
        while True:
            out.write(bytes(_BLOCK))
    return ballast
