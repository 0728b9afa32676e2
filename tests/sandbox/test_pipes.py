"""Tests that each descriptor of a sandbox process's pipes is closed once, and no other thread's file."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvloop

from steward.sandbox.child_process import PipeEnd

# With the file itself instead of its PipeEnd, each third try of 1,500 aborted the process.
CLOSED = 4000


@contextmanager
def readers(file: Path, wrong: list[OSError]) -> Iterator[None]:
    """Runs threads that open, read and close a file all the time."""
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            try:
                descriptor = os.open(file, os.O_RDONLY)
                os.read(descriptor, 1)
                os.close(descriptor)
            except OSError as error:
                wrong.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)


async def _close_pipes(number: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(number):
        output, written = os.pipe()
        end = PipeEnd(os.fdopen(output, "rb", buffering=0))
        transport, _ = await loop.connect_read_pipe(asyncio.Protocol, end.hand_to(loop))
        transport.close()
        end.close()
        os.close(written)


@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_closing_a_pipe_closes_no_file_of_another_thread(
    loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """Closes each descriptor once, since libuv closes it too, and leaves none open."""
    (tmp_path / "file").write_text("x")
    wrong: list[OSError] = []
    before = len(os.listdir("/proc/self/fd"))
    with readers(tmp_path / "file", wrong), asyncio.Runner(loop_factory=loop) as runner:
        runner.run(_close_pipes(CLOSED if loop is uvloop.new_event_loop else 50))
    assert wrong == []
    assert len(os.listdir("/proc/self/fd")) < before + 10  # libuv keeps a few for the whole process
