"""How little it takes: what an installation weighs, how soon it is ready, and what it uses while idle."""

import asyncio
import contextlib
import importlib.metadata
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

from bench.rounds import Case, Env, Figure, OpenCase
from steward.clock import SystemClock
from steward.database.engine.migrate import migrate

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)


@contextlib.asynccontextmanager
async def opened(env: Env) -> AsyncIterator[OpenCase]:
    """A fresh database; each round starts `steward serve` over it, waits and ends it."""
    url = f"sqlite:///{env.folder}/steward.db"
    await migrate(url, SystemClock().now())
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("STEWARD_")},
        "STEWARD_ENV": "demo",
        "STEWARD_DATABASE_URL": url,
        "STEWARD_DATA_DIR": str(env.folder),
        "STEWARD_METRICS_LISTEN": "off",
    }

    async def subject() -> Mapping[str, float]:
        return await _round(environ, idle_s=env.size(10, 3))

    yield OpenCase(subject)


async def _round(environ: Mapping[str, str], *, idle_s: float) -> Mapping[str, float]:
    begun = time.perf_counter()
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "steward", "serve", "--port", "0", "--json"),
        env=environ,
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    json.loads(await child.stdout.readline())
    ready = time.perf_counter() - begun
    try:
        clock = SystemClock()
        await clock.sleep(2)  # the first passes of the ticks belong to the start
        before, since = _used(child.pid), time.perf_counter()
        await clock.sleep(idle_s)
        share = (_used(child.pid) - before) / (time.perf_counter() - since)
        return {
            "installed": _installed() / MIB,
            "ready": ready,
            "resident": _resident(child.pid) / MIB,
            "idle_cpu": share * 100,
        }
    finally:
        child.terminate()
        await child.wait()


def _tree(pid: int) -> Iterator[int]:
    """A process and those it has started."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for below in (task / "children").read_text().split():
            yield from _tree(int(below))


def _used(pid: int) -> float:
    """Seconds of CPU of a process and those it has started."""
    ticks = 0
    for process_id in _tree(pid):
        fields = Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> int:
    """Bytes in memory of a process and those it has started, what they share counted once."""
    total = 0
    for process_id in _tree(pid):
        rollup = Path(f"/proc/{process_id}/smaps_rollup").read_text()
        match = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
        total += int(match[1]) * 1024 if match else 0
    return total


def _installed() -> int:
    """Bytes of the service and of everything requirements.txt names, as they lie on the disk here."""
    total = sum(path.stat().st_size for path in (ROOT / "steward").rglob("*") if path.is_file())
    for name in _REQUIREMENT.findall((ROOT / "requirements.txt").read_text("utf-8")):
        for file in importlib.metadata.distribution(name).files or ():
            path = Path(str(file.locate()))
            total += path.stat().st_size if path.is_file() else 0
    return total


CASES = [
    Case(
        "small",
        (
            Figure("installed", "MiB", maximum=150),
            Figure("ready", "s", maximum=2),
            Figure("resident", "MiB", maximum=150),
            Figure("idle_cpu", "% of a core", maximum=1),
        ),
        opened,
    ),
]
