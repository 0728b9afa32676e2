"""Server processes of the HTTP measurements, each on one core, and what their requests cost."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

from bench.load import flood, get, request
from bench.served import USED

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Server:
    """A server process that keeps to one core."""

    port: int
    process: "subprocess.Popen[bytes]"

    async def measured(self, requests: Iterable[bytes], count: int) -> tuple[float, float]:
        """Requests a second, and µs of the server's CPU per request; a tenth as many warm it up."""
        sent = iter(requests)
        await flood(self.port, sent, count=count // 10)
        before = float(await get(self.port, USED, {}))
        spent = await flood(self.port, sent, count=count)
        used = float(await get(self.port, USED, {})) - before
        return count / spent, used / count * 1e6

    async def of_one(self, path: str, headers: Mapping[str, str], count: int) -> tuple[float, float]:
        """As `measured`, for one GET again and again."""
        return await self.measured(repeat(request(path, headers)), count)


@contextlib.asynccontextmanager
async def beside_framework(
    url: str, folder: Path, path: str, headers: Mapping[str, str]
) -> AsyncIterator[tuple[Server, Server]]:
    """The service over the database at `url`, answering `path`, and the bare framework."""
    with serving(url, folder) as steward, serving("bare", folder) as framework:
        await ready(steward, path, headers)
        await ready(framework, "/", {})
        yield steward, framework


async def framework_round(framework: Server, count: int) -> Mapping[str, float]:
    """What a request costs at the least."""
    rate, cpu = await framework.of_one("/", {}, count)
    return {"bare framework": rate, "bare framework CPU": cpu}


@contextlib.contextmanager
def serving(what: str, folder: Path) -> Iterator[Server]:
    """A server process: the service over a database's address, or `bare`."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        handle = listening.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.served", str(handle), what, str(folder)],
            pass_fds=[handle],
            cwd=ROOT,
        )
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
        try:
            yield Server(listening.getsockname()[1], process)
        finally:
            process.kill()
            process.wait()


async def ready(server: Server, path: str, headers: Mapping[str, str]) -> None:
    """Waits for the first response; the socket listens from the start."""
    async with asyncio.timeout(30):
        await get(server.port, path, headers)
