"""Stores and reads the files of a run's items. See docs/design/files.md#storage."""

import asyncio
import errno
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

from steward.clock import Clock
from steward.connections import vault
from steward.connections.vault import Vault
from steward.database.engine.base import Engine, Tx, WeightedAct
from steward.database.engine.disk_space import DiskFull
from steward.database.runs import file_folder, run_files
from steward.database.runs.run_files import StoredFile
from steward.failpoint import failpoint
from steward.model.ids import OrgId, RunId
from steward.model.limits import MAX_FILE_BYTES
from steward.runs.run_context import FileFolder
from steward.security.envelope import SealContext, open_sealed, seal
from steward.steps.base import FileRefused

T = TypeVar("T")
RUN_BYTES = 100 * 1024 * 1024
_INLINE_BYTES = 64 * 1024  # a smaller file is hashed and sealed at once, without a thread
GONE = "The file is no longer stored. Run the workflow again from its start."


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A file that waits for its row; `content` is empty where the folder holds it, or the row is there."""

    sha256: str
    row: StoredFile | None = None  # None: it is stored already
    content: bytes = b""

    async def insert(self, tx: Tx, org: OrgId, run: RunId) -> None:
        """Stores the row of the file."""
        if self.row is not None:
            await run_files.insert(tx, org, run, file=self.row, sealed=self.content)


@dataclass(frozen=True, slots=True)
class StoredRunFiles:
    """The files of one run: sealed under the organization's data key, in rows or in a folder."""

    engine: Engine
    clock: Clock
    vault: Vault
    folder: FileFolder | None  # None: in rows
    org: OrgId
    run: RunId

    async def put(self, content: bytes) -> str:
        """Stores a file durably and returns its hash. Raises FileRefused past a limit."""
        file = await self.seal(content)
        if file.row is not None:
            insert = partial(file.insert, org=self.org, run=self.run)
            await self.engine.write(self.clock.now(), WeightedAct(insert, len(file.content)), org=self.org)
            failpoint("after_file_row")
        return file.sha256

    async def seal(self, content: bytes) -> SealedFile:
        """Seals a file, whose row is still to be written. Raises FileRefused past a limit.

        On SQLite its content is written before the row: a kill in between leaves a file that a periodic task
        removes.
        """
        if len(content) > MAX_FILE_BYTES:
            raise FileRefused("The file is larger than 20 MiB. Use a smaller one, or split it.")
        sha256 = await _run_off_loop(len(content), lambda: hashlib.sha256(content).hexdigest())
        reserve = partial(self._reserve, sha256=sha256, size=len(content))
        key = await self.engine.write(self.clock.now(), reserve, org=self.org)
        if key is None:
            return SealedFile(sha256)
        key_no, data_key = key
        context = self._seal_context(sha256, key_no)
        sealed = await _run_off_loop(len(content), lambda: seal(content, data_key, context))
        folder, now = self.folder, self.clock.now()
        if folder is not None:
            await self._write_in(folder, sha256, sealed, now)
            failpoint("after_file")
            sealed = b""
        return SealedFile(sha256, StoredFile(sha256, len(content), key_no), sealed)

    async def get(self, sha256: str) -> bytes:
        """Returns the content of a file of this run. Raises FileRefused for one that is not there."""

        async def read_stored(tx: Tx) -> tuple[StoredFile, bytes, bytes] | None:
            files = await run_files.of_run(tx, self.org, self.run)
            file = next((file for file in files if file.sha256 == sha256), None)
            if file is None:
                return None
            data_key = await vault.opening_key(tx, self.vault, self.org, file.key_no)
            parts = await run_files.sealed_content(tx, self.org, self.run, sha256=sha256)
            return file, data_key, parts

        stored = await self.engine.read(self.clock.now(), read_stored, org=self.org)
        if stored is None:
            raise FileRefused(GONE)
        file, data_key, sealed = stored
        if self.folder is not None:
            read = await asyncio.to_thread(file_folder.read, self.folder.path, self.org, self.run, sha256)
            if read is None:
                raise FileRefused(GONE)
            sealed = read
        context = self._seal_context(sha256, file.key_no)
        return await _run_off_loop(file.size, lambda: open_sealed(sealed, data_key, context))

    async def _write_in(self, folder: FileFolder, sha256: str, sealed: bytes, now: datetime) -> None:
        """Writes the content to the folder. Raises DiskFull: the run continues when there is room again."""
        try:
            await asyncio.to_thread(file_folder.write, folder.path, self.org, self.run, sha256, sealed, now)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            if folder.space is not None:
                folder.space.mark_full()
            raise DiskFull from error

    async def _reserve(self, tx: Tx, sha256: str, size: int) -> tuple[int, bytes] | None:
        """Returns number and data key to seal with, or None for content that is there already.

        Raises FileRefused if the run's files would be too large together.
        """
        files = await run_files.of_run(tx, self.org, self.run)
        if any(file.sha256 == sha256 for file in files):
            return None
        if sum(file.size for file in files) + size > RUN_BYTES:
            words = "The files of this run are larger than 100 MiB together. Let it work on fewer files."
            raise FileRefused(words)
        return await vault.sealing_key(tx, self.vault, self.org)

    def _seal_context(self, sha256: str, key_no: int) -> SealContext:
        return SealContext(self.org, None, f"run_file/{self.run}/{sha256}", 1, key_no)


async def _run_off_loop(size: int, work: Callable[[], T]) -> T:
    """Returns the result of `work`, which runs on another thread when there are many bytes to process."""
    return work() if size < _INLINE_BYTES else await asyncio.to_thread(work)
