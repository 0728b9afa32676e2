"""Real processes on a slow disk and without memory: slower, or refused, and nothing lost.

See docs/guides/contributors.md#tests.
"""

import asyncio
import json
import os
import resource
import shutil
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from steward.database.engine.migrate import is_sqlite
from tests.databases import copy_migrated_sqlite
from tests.processes import postgres
from tests.processes.judging import assert_written_once, hiding, slow_writes
from tests.processes.running import CLOCK, Site, eventually, open_site

# How many runs each goes through; `make soak` sets it.
ROUNDS = int(os.environ.get("HARDSHIPS", "1"))
pytestmark = pytest.mark.skipif(
    "HARDSHIPS" not in os.environ, reason="in `make soak`: processes of its own, kept short of something"
)

SYNC_S = 0.1
ROOM = 8 * 1024 * 1024
PAGE = resource.getpagesize()
# As a disk that takes its time: anyone who asks that bytes be on it waits.
SLOW_C = f"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
static int slow(const char *name, int file) {{
    usleep({int(SYNC_S * 1e6)});
    return ((int (*)(int)) dlsym(RTLD_NEXT, name))(file);
}}
int fsync(int file) {{ return slow("fsync", file); }}
int fdatasync(int file) {{ return slow("fdatasync", file); }}
"""


def _slow_syncs(folder: Path) -> str:
    """A library that makes every sync of a process slow."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("SKIPPED LOUDLY: without a C compiler no disk can be made slow here.")
    source, path = folder / "slow.c", folder / "slow.so"
    source.write_text(SLOW_C)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, source, "-ldl"], check=True)
    return str(path)


@pytest.fixture(params=["sqlite", "postgresql"])
def slow_url(request: pytest.FixtureRequest, session_folder: Path, tmp_path: Path) -> Iterator[str]:
    """A database that is to be served from a slow disk; PostgreSQL's is one already."""
    if request.param == "sqlite":
        yield copy_migrated_sqlite(session_folder, tmp_path / "steward.db")
        return
    request.getfixturevalue("clones")  # says loudly when there is no PostgreSQL, or fails where it must be
    server = postgres.start_primary(options=postgres.SLOW)
    yield server.url("postgres")
    postgres.remove(server)


@pytest.fixture
async def slow_site(slow_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    """A site whose database needs 100 ms to bring a commit to the disk."""
    slowness = {"LD_PRELOAD": _slow_syncs(tmp_path)} if is_sqlite(slow_url) else {}
    async with open_site(slow_url, tmp_path, **slowness) as site:
        yield site


@pytest.fixture
async def site(database_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    """A site on each engine."""
    async with open_site(database_url, tmp_path) as opened:
        yield opened


async def test_a_slow_disk_makes_runs_slow_and_nothing_else(slow_site: Site) -> None:
    """30 changes once each, by the worker that began. See docs/guides/contributors.md#tests."""
    for _ in range(ROUNDS):
        began = CLOCK.monotonic()
        run, approved, before = await hiding(slow_site)
        assert CLOCK.monotonic() - began > 3 * SYNC_S
        await assert_written_once(slow_site, run, approved, before)
        steps = (await slow_site.run(run))["steps"]
        assert {step["attempt"] for step in steps} == {1}


def _limit_memory(process: int, room: int | None) -> None:
    """Lets a running process take so many bytes more than it has; None: as many as it likes."""
    _, limit = resource.prlimit(process, resource.RLIMIT_AS)
    used = int(Path(f"/proc/{process}/statm").read_text().split()[0]) * PAGE
    resource.prlimit(process, resource.RLIMIT_AS, (limit if room is None else used + room, limit))


async def _ask_for_much(site: Site, answered: Counter[int]) -> None:
    """Documents that take many times their size once they are read."""
    content = json.dumps({"nodes": [{"name": f"n{number}", "x": "y" * 200} for number in range(8_000)]})
    body = {"source": "n8n", "content": content}
    while True:
        answer = await site.web.post(
            "/v1/automations/imports/preview", json=body, headers=site.csrf, timeout=60
        )
        answered[answer.status_code] += 1


async def test_a_process_without_memory_says_so_and_loses_nothing(site: Site) -> None:
    """503 and never another 5xx; the run ends by itself, each change once at most.

    See docs/guides/contributors.md#tests.
    """
    for _ in range(ROUNDS):
        await site.world.post("/sandbox/reset", json={})
        await slow_writes(site)
        run, approved, before = await hiding(site)

        async def begun(before: int = before) -> bool:
            return bool([entry for entry in await site.ledger(before) if entry["applied"]])

        await eventually(begun)
        _limit_memory(site.service.child.pid, ROOM)
        answered: Counter[int] = Counter()
        asking = [asyncio.create_task(_ask_for_much(site, answered)) for _ in range(8)]

        async def refused(answered: Counter[int] = answered) -> bool:
            return answered[503] >= 5 or site.service.child.returncode is not None

        try:
            await eventually(refused)
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        if site.service.child.returncode is None:
            _limit_memory(site.service.child.pid, None)
        else:  # the system may end it: as after any kill, another goes on
            await site.serve_again()
        assert {code for code in answered if code >= 500} <= {503}, answered
        await assert_written_once(site, run, approved, before, honest=True)
