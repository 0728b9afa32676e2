"""Forks processes of the service from one that has imported it, in a tenth of the CPU time.

A forked process has its own connections and files and can be killed, like one that a command starts.
"""

import asyncio
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any

from steward import failpoint

LONGEST = 90.0 if int(os.environ.get("KILLED_CHANGES", "0")) < 1_000 else 600.0

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.processes.preloaded"])


@dataclass(frozen=True, slots=True)
class DeathAt:
    """Names a failpoint at which the process kills itself, once it has passed it `passes` times."""

    failpoint: str
    passes: int


@dataclass
class ForkedChild:
    """Holds a forked process as asyncio's `Process` does, and the end of the pipe that it writes to."""

    process: ForkServerProcess
    out: Connection

    @property
    def pid(self) -> int:
        """Returns the process id."""
        assert self.process.pid is not None
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        """Returns the exit code, or None while the process runs."""
        return self.process.exitcode

    def terminate(self) -> None:
        """Asks the process to end by SIGTERM."""
        self.process.terminate()

    async def wait(self) -> int:
        """Waits until the process has ended and returns its exit code, or minus the signal that ended it."""
        await asyncio.to_thread(self.process.join, LONGEST)
        code = self.process.exitcode
        assert code is not None, f"still running after {LONGEST} s"
        self.out.close()
        return code


def environ(env: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of this process with the settings in `env` and no others."""
    stored = {name: value for name, value in os.environ.items() if not name.startswith("STEWARD_")}
    return {**stored, **env}


async def fork(
    *words: str,
    env: Mapping[str, str],
    death: DeathAt | None = None,
    before: Callable[[], None] | None = None,
) -> tuple[ForkedChild, bytes]:
    """Forks a process that runs a command; returns it once it is ready, with the facts that it printed.

    The process calls `before` first.
    """
    # The first call waits for imports.
    child = await asyncio.to_thread(_forked, _run, words, environ(env), death, before)
    line = await asyncio.to_thread(_first_line, child.out)
    assert line.endswith(b"\n"), f"steward {' '.join(words)} ended before it was ready"
    return child, line


async def fork_to_end(
    *words: str, env: Mapping[str, str], before: Callable[[], None] | None = None
) -> tuple[int, bytes]:
    """Forks a process that runs a command to its end; returns its exit code and the facts it printed.

    The process calls `before` first.
    """
    child = await asyncio.to_thread(_forked, _run, words, environ(env), None, before)
    line = await asyncio.to_thread(_first_line, child.out)
    return await child.wait(), line


async def fork_call(function: Callable[..., None], *args: Any, env: Mapping[str, str]) -> tuple[int, bytes]:
    """Forks a process that calls a function; returns its exit code and the first line it printed."""
    child = await asyncio.to_thread(_forked, _call, function, args, environ(env))
    line = await asyncio.to_thread(_first_line, child.out)
    return await child.wait(), line


def _forked(target: Callable[..., None], *args: Any) -> ForkedChild:
    """Forks a process that calls `target` with the pipe that it writes to and these arguments."""
    reader, writer = _FORKING.Pipe(duplex=False)
    process = _FORKING.Process(target=target, args=(writer, *args), daemon=True)
    process.start()
    writer.close()
    return ForkedChild(process, reader)


def _first_line(reader: Connection) -> bytes:
    """Returns the first line that was printed, or what was printed before the end."""
    line = b""
    while not line.endswith(b"\n"):
        assert reader.poll(LONGEST), f"not ready within {LONGEST} s"
        part = os.read(reader.fileno(), 1 << 20)
        if not part:
            break
        line += part
    return line


def _begin(out: Connection, env: Mapping[str, str]) -> None:
    """Sets the environment, output and hang-up signal of the forked process, also under `nohup`."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(env)
    os.dup2(out.fileno(), 1)
    out.close()


def _call(
    out: Connection, function: Callable[..., None], args: Sequence[Any], env: Mapping[str, str]
) -> None:
    _begin(out, env)
    function(*args)


def _run(
    out: Connection,
    words: Sequence[str],
    env: Mapping[str, str],
    death: DeathAt | None,
    before: Callable[[], None] | None,
) -> None:
    """Runs a command in the forked process."""
    _begin(out, env)
    if death is not None:
        failpoint.watch(_Killer(death).reached)
    if before is not None:
        before()
    from steward.cli.run import main

    sys.exit(main([*words, "--json"]))


@dataclass
class _Killer:
    death: DeathAt
    passed: int = 0

    def reached(self, name: str) -> None:
        """Kills the process when it reaches its failpoint once more than `passes` times."""
        if name == self.death.failpoint:
            if self.passed == self.death.passes:
                os.kill(os.getpid(), signal.SIGKILL)
            self.passed += 1
