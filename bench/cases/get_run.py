"""GET run over a real socket with a verified token: requests a second on one core, CPU per request."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.load import flood, get
from bench.postgres import fresh_database
from bench.rounds import Case, Figure, Opened, Place
from bench.served import USED
from bench.service import House, open_house
from steward import worker
from steward.model.ids import RunId

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Server:
    """A server process that keeps to one core."""

    port: int
    process: "subprocess.Popen[bytes]"

    async def measured(self, path: str, headers: Mapping[str, str], count: int) -> tuple[float, float]:
        """Requests a second, and µs of the server's CPU per request."""
        await flood(self.port, path, headers, count=count // 10)
        before = float(await get(self.port, USED, {}))
        spent = await flood(self.port, path, headers, count=count)
        used = float(await get(self.port, USED, {})) - before
        return count / spent, used / count * 1e6


@contextlib.asynccontextmanager
async def on_sqlite(place: Place) -> AsyncIterator[Opened]:
    """The embedded database: everything in the server's process."""
    async with _measured(f"sqlite:///{place.folder}/steward.db", place) as opened:
        yield opened


@contextlib.asynccontextmanager
async def on_postgres(place: Place) -> AsyncIterator[Opened]:
    """PostgreSQL: the server process alone is counted."""
    assert place.postgres is not None
    async with fresh_database(place.postgres) as url, _measured(url, place) as opened:
        yield opened


@contextlib.asynccontextmanager
async def _measured(url: str, place: Place) -> AsyncIterator[Opened]:
    house = await open_house(url, place.folder)
    run = await _finished_run(house)
    headers = {"authorization": f"Bearer {house.token()}"}
    await house.service.close()
    path = f"/v1/automations/runs/{run}"
    count = place.size(8000, 2000)
    with _serving(url, place.folder) as steward, _serving("bare", place.folder) as framework:
        await _ready(steward, path, headers)
        await _ready(framework, "/", {})

        async def reference() -> Mapping[str, float]:
            rate, cpu = await framework.measured("/", headers, count)
            return {"bare framework": rate, "bare framework CPU": cpu}

        yield Opened(partial(_round, steward, path, headers, count), reference)


async def _round(server: Server, path: str, headers: Mapping[str, str], count: int) -> Mapping[str, float]:
    rate, cpu = await server.measured(path, headers, count)
    _, poll = await server.measured(f"{path}?after_seq=5", headers, count)
    return {"requests": rate, "cpu": cpu, "poll_cpu": poll}


async def _finished_run(house: House) -> RunId:
    """One run that has taken its five steps."""
    [automation] = await house.automations(1)
    run = await house.run_now(automation)
    own = await house.worker()
    await worker.drain(own, worker.ticks(own))
    return run.id


@contextlib.contextmanager
def _serving(what: str, folder: Path) -> Iterator[Server]:
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


async def _ready(server: Server, path: str, headers: Mapping[str, str]) -> None:
    """Waits for the first answer; the socket listens from the start."""
    async with asyncio.timeout(30):
        await get(server.port, path, headers)


_FIGURES = (
    Figure("requests", "requests/s", "bare framework", stretch="5,000 (issue 4)"),
    Figure("cpu", "µs of CPU per request", "bare framework CPU", most=250, stretch="170 (issue 4)"),
    Figure("poll_cpu", "µs of CPU per request", "bare framework CPU", stretch="120 (issue 4)"),
)
_POSTGRES = (
    Figure("requests", "requests/s", "bare framework"),
    Figure("cpu", "µs of CPU per request", "bare framework CPU", stretch="400 (issue 4)"),
    Figure("poll_cpu", "µs of CPU per request", "bare framework CPU"),
)
CASES = (
    Case("get_run_sqlite", _FIGURES, on_sqlite),
    Case("get_run_postgres", _POSTGRES, on_postgres, needs_postgres=True),
)
