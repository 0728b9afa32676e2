"""Watches the disk of an SQLite file: a reserve of space, and who may write when the disk is full.

While the disk is full, the API writes nothing and no run starts; runs in progress use the space of the
reserve to store how they ended. The disk of a PostgreSQL server is not watched.
"""

import os
import shutil
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from steward.database.engine.base import Act, Engine, Tx
from steward.database.engine.maintenance import log_size
from steward.database.engine.wrapper import EngineWrapper
from steward.model.ids import OrgId
from steward.model.refusals import Unavailable

T = TypeVar("T")

RESERVE_BYTES = 32 * 1024 * 1024
_MIN_FREE_SHARE = 0.10
RETRY_SECONDS = 5
_MESSAGE = (
    "The disk is full or failing. Nothing was done. Try again after the operator has made room or made the"
    " disk writable."
)


def write_obstacle(file: Path) -> str | None:
    """Returns why a database file cannot be written to, as a sentence; None if it can be written to."""
    for path in (file.parent, file):
        if path.exists() and not os.access(path, os.W_OK):
            return f"{path} is not writable. Make it, or the disk it is on, writable."
    usage = shutil.disk_usage(file.parent)
    if usage.total and not usage.free:
        return f"The disk of {file.parent} is full. Free some space on it."
    return None


class DiskFull(Unavailable):
    """Raised when a write failed and was rolled back because the disk is full, failing or read-only."""

    def __init__(self) -> None:
        super().__init__(_MESSAGE, retry_after=RETRY_SECONDS)


class DiskSpace:
    """The disk that holds a database file, as this process last saw it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._reserve = file.with_name(file.name + ".reserve")
        self.is_full = False
        self.free_share = 1.0
        self.database_bytes = 0

    @property
    def is_low(self) -> bool:
        """Whether the operator has to free space: the disk is full, or less than a tenth of it is free."""
        return self.is_full or self.free_share < _MIN_FREE_SHARE

    def measure(self) -> None:
        """Measures the free share of the disk, without the reserve, and the size of the database."""
        usage = shutil.disk_usage(self._file.parent)
        # Some network file systems tell no size.
        self.free_share = usage.free / usage.total if usage.total else 1.0
        self.database_bytes = self._file.stat().st_size + log_size(self._file)

    def make_reserve(self) -> bool:
        """Creates the reserve file if it is missing; returns False if it cannot, such as for want of room."""
        if self._reserve.exists():
            return True
        try:
            handle = os.open(self._reserve, os.O_WRONLY | os.O_CREAT, 0o600)
        except OSError:
            return False
        try:
            os.posix_fallocate(handle, 0, RESERVE_BYTES)
        except OSError:
            self._reserve.unlink()
            return False
        finally:
            os.close(handle)
        return True

    def mark_full(self) -> bool:
        """Marks the disk as full and deletes the reserve; returns whether there was one."""
        self.is_full = True
        try:
            self._reserve.unlink()
        except OSError:
            return False
        return True

    async def recheck(self, engine: Engine, now: datetime) -> bool:
        """Allows writes again if the reserve and a write fit on the disk; returns whether they do."""
        if not self.make_reserve():
            return False
        try:
            await engine.write(now, _probe)
        except Unavailable:
            self.mark_full()
            return False
        self.is_full = False
        return True


async def _probe(tx: Tx) -> None:
    """Writes a row without changing it."""
    await tx.execute("UPDATE fairness_clock SET vt = vt WHERE singleton = 1")


class SpaceGuard(EngineWrapper):
    """An engine whose disk may fill up.

    While it is full, the API's engine refuses every write; the worker's (`uses_reserve`) deletes the reserve
    and writes in its space. Both still read.
    """

    def __init__(self, engine: Engine, space: DiskSpace, *, uses_reserve: bool) -> None:
        super().__init__(engine)
        self._space = space
        self._uses_reserve = uses_reserve

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Writes like the wrapped engine.

        Raises DiskFull; with `uses_reserve`, only if the write fails again after the reserve was deleted.
        """
        if self._space.is_full and not self._uses_reserve:
            raise DiskFull
        try:
            return await self._engine.write(now, act, org=org, urgent=urgent)
        except DiskFull:
            if not (self._space.mark_full() and self._uses_reserve):
                raise
        return await self._engine.write(now, act, org=org, urgent=urgent)
