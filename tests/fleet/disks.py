"""A disk of its own for each host's data folder, which can fill up, stall and break."""

import fcntl
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.fleet.commands import run

_BYTES = 2 << 30  # sparse: it holds what is written
_KEPT_FREE = 64 << 10  # of a full disk
_FREEZE, _THAW = 0xC0045877, 0xC0045878  # FIFREEZE, FITHAW
_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
_WITHOUT_LOG = 2  # its journal is not written any more


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system in a file: `folder` is where it is mounted."""

    folder: Path

    @property
    def _image(self) -> Path:
        return self.folder.with_suffix(".img")

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"

    def make(self, owner: int) -> None:
        """Makes the file system and mounts it for a user."""
        with self._image.open("wb") as image:
            image.truncate(_BYTES)
        run(f"mkfs.ext4 -q -m 0 {self._image}")
        self.folder.mkdir()
        self.mount()
        os.chown(self.folder, owner, owner)

    def mount(self) -> None:
        """Mounts it."""
        run(f"mount -o loop {self._image} {self.folder}")

    def unmount(self) -> None:
        """Unmounts it; no process may use it any more."""
        run(f"umount {self.folder}")

    def fill(self) -> None:
        """Leaves 64 KiB of room."""
        room = os.statvfs(self.folder)
        with self._ballast.open("wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, room.f_bavail * room.f_frsize - _KEPT_FREE)

    def empty(self) -> None:
        """Makes room again."""
        self._ballast.unlink()

    def stall(self) -> None:
        """Lets every write wait; reads of what is cached go on."""
        self._control(_FREEZE, 0)

    def go_on(self) -> None:
        """Ends a stall."""
        self._control(_THAW, 0)

    def break_down(self) -> None:
        """Answers every call with an I/O error, until it is mounted anew."""
        self._control(_SHUTDOWN, _WITHOUT_LOG)

    def _control(self, request: int, value: int) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, request, struct.pack("I", value))
        finally:
            os.close(descriptor)


def left_disks(prefix: str) -> Iterator[Disk]:
    """Yields the disks below folders that begin with `prefix`, which an earlier bed left mounted."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if (target := line.split()[1]).startswith(prefix):
            yield Disk(Path(target))
