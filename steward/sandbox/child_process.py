"""A sandbox process with its two pipes, which always ends, even if its start is cancelled."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from typing import IO, Final, NamedTuple, SupportsIndex, cast

from steward.sandbox.protocol import FRAME_BYTES, HEADER

_NICE: Final = 10
_CLOCK_OF_PROCESS: Final = 2  # Linux: the CPU clock of process p has the number ~p << 3 | 2.


class BadFrame(Exception):
    """Raised if a child wrote anything but the result of its message, after which it is not trusted."""


class Frame(NamedTuple):
    """A frame from a child: its kind, as in protocol.py, and its body."""

    kind: bytes
    body: bytes


class _CountingReader(asyncio.StreamReader):
    """A stream reader that counts the bytes not read yet."""

    def __init__(self, frame_bytes: int) -> None:
        super().__init__(limit=frame_bytes)
        self.unread = 0

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        """Receives data from the pipe."""
        received = bytes(data)
        self.unread += len(received)
        super().feed_data(received)

    async def read_counted(self, count: int) -> bytes:
        """Returns the next `count` bytes. Raises IncompleteReadError if the stream ends first."""
        data = await self.readexactly(count)
        self.unread -= count
        return data


class PipeEnd:
    """The service's end of a pipe, whose descriptor is closed exactly once.

    libuv closes a transport's descriptor, and uvloop then also closes the file object it was given. Between
    the two, another thread may have opened a file with the same number, which would then be closed by
    mistake. asyncio's own loop closes only the file.
    """

    def __init__(self, file: IO[bytes] | None) -> None:
        if file is None:
            raise OSError(os.strerror(32))
        self._descriptor = os.dup(file.fileno())
        self._is_open = True
        file.close()

    def fileno(self) -> int:
        """Returns the descriptor."""
        return self._descriptor

    def hand_to(self, loop: asyncio.AbstractEventLoop) -> IO[bytes]:
        """Returns this object as the file of a loop's transport.

        From then on either the loop or `close` closes the descriptor.
        """
        self._is_open = isinstance(loop, asyncio.BaseEventLoop)
        return cast("IO[bytes]", self)

    def close(self) -> None:
        """Closes the descriptor unless it is closed already or the loop closes it."""
        if self._is_open:
            self._is_open = False
            os.close(self._descriptor)


class ChildProcess:
    """A process that replies to frames.

    asyncio's own subprocesses are not used, because they hang if their start is cancelled midway.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], reader: _CountingReader, frame_bytes: int = FRAME_BYTES
    ) -> None:
        self._process = process
        self._output, self._input = PipeEnd(process.stdout), PipeEnd(process.stdin)
        self._frame_bytes = frame_bytes
        self._reader = reader
        self._writer: asyncio.StreamWriter | None = None
        self._read_transport: asyncio.ReadTransport | None = None
        self._has_low_priority = False
        self.pid = process.pid

    @classmethod
    async def start(
        cls, command: Sequence[str], folder: str, frame_bytes: int = FRAME_BYTES
    ) -> "ChildProcess":
        """Starts a process with an empty environment, its own process group, two pipes and no other files."""
        loop = asyncio.get_running_loop()
        process = _open_process(command, folder)
        child = cls(process, _CountingReader(frame_bytes), frame_bytes)
        try:
            reader = child._reader
            child._read_transport, _ = await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), child._output.hand_to(loop)
            )
            write_transport, protocol = await loop.connect_write_pipe(
                asyncio.streams.FlowControlMixin, child._input.hand_to(loop)
            )
            child._writer = asyncio.StreamWriter(write_transport, protocol, None, loop)
        except BaseException:  # also when cancelled
            child.kill()
            raise
        return child

    def cpu(self) -> float | None:
        """Returns the CPU seconds used so far, or None if the system does not report them."""
        with contextlib.suppress(OSError):
            return time.clock_gettime(~self.pid << 3 | _CLOCK_OF_PROCESS)
        return None

    def lower_priority(self) -> None:
        """Gives every other process on this machine priority over this one, permanently.

        On Linux it uses the scheduling policy, because a low weight alone would still delay processes that
        wake up. Weights apply within a session, and the kernel may weigh sessions as a whole, so a child
        stays in the service's session.
        """
        if self._has_low_priority:
            return
        self._has_low_priority = True
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self.pid, _NICE)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                os.sched_setscheduler(self.pid, os.SCHED_IDLE, os.sched_param(0))

    @property
    def unread(self) -> bool:
        """Whether the process has written anything that has not been read."""
        return self._reader.unread > 0

    async def frame(self, nonce: bytes) -> Frame:
        """Returns the next frame.

        Raises BadFrame if the process has ended, or if the frame belongs to another message, is too long or
        contains a line break.
        """
        try:
            echoed, kind, length = HEADER.unpack(await self._reader.read_counted(HEADER.size))
            if echoed != nonce or length > self._frame_bytes:
                raise BadFrame
            body = await self._reader.read_counted(length)
        except asyncio.IncompleteReadError as end:
            raise BadFrame from end
        if b"\n" in body:
            raise BadFrame
        return Frame(kind, body)

    async def send(self, message: bytes) -> None:
        """Writes a message; if the process has ended, reading its result fails."""
        if self._writer is None:
            return
        with contextlib.suppress(ConnectionError):
            self._writer.write(message)
            await self._writer.drain()

    async def end(self) -> None:
        """Kills the process and waits for its end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        try:
            with contextlib.suppress(ValueError, ConnectionError):
                while await self._reader.read(1 << 20):
                    pass
        finally:
            self.kill()

    def kill(self) -> None:
        """Kills the process without awaiting anything."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        for transport in (self._read_transport, self._writer):
            if transport is not None:
                transport.close()
        if self._read_transport is None:
            self._output.close()
        if self._writer is None:
            self._input.close()


def _open_process(command: Sequence[str], folder: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={},
        close_fds=True,
        process_group=0,  # keeps it from terminal signals; for the session see lower_priority
        bufsize=0,
    )
