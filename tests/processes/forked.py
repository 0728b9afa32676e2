"""Forks service processes from one that has imported the service, in a tenth of the CPU time.

A killed process has its own connections and files, like one that `steward serve` starts.
"""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess

from steward import failpoint
from tests.processes.running import LONGEST, environ

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.processes.preloaded"])


@dataclass(frozen=True, slots=True)
class DeathAt:
    """Names a failpoint at which the process kills itself, once it has passed it `passes` times."""

    failpoint: str
    passes: int


@dataclass
class ForkedService:
    """Holds a forked process that serves."""

    process: ForkServerProcess

    async def kill(self) -> None:
        """Kills the process by SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid or 0, signal.SIGKILL)
        await self.ended()

    async def ended(self) -> None:
        """Waits until the process is dead, and checks that SIGKILL ended it."""
        await asyncio.to_thread(self.process.join, LONGEST)
        assert self.process.exitcode == -signal.SIGKILL, self.process.exitcode


async def fork_service(env: Mapping[str, str], death: DeathAt | None = None) -> ForkedService:
    """Forks a process that runs `steward serve` and waits until it is ready."""
    reader, writer = _FORKING.Pipe(duplex=False)
    process = _FORKING.Process(target=_serve, args=(environ(env), writer, death), daemon=True)
    process.start()
    writer.close()
    with reader:
        is_ready = await asyncio.to_thread(reader.poll, LONGEST)
        assert is_ready, f"not ready within {LONGEST} s"
        assert os.read(reader.fileno(), 1 << 20), "the service ended before it was ready"
    return ForkedService(process)


def _serve(env: Mapping[str, str], out: Connection, death: DeathAt | None) -> None:
    """Runs the command `serve` in the forked process."""
    os.environ.clear()
    os.environ.update(env)
    os.dup2(out.fileno(), 1)
    if death is not None:
        failpoint.watch(_Killer(death).reached)
    from steward.cli.run import main

    sys.exit(main(["serve", "--json"]))


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
