"""Tests real processes on a slow disk and without memory: slower or refused, and nothing is lost.

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
from tests.processes.approved_run import assert_written_once, hiding, slow_writes
from tests.processes.running import CLOCK, Site, eventually, open_site

# How many runs each test makes; `make soak` sets it.
ROUNDS = int(os.environ.get("HARDSHIPS", "1"))
pytestmark = pytest.mark.skipif(
    "HARDSHIPS" not in os.environ, reason="in `make soak`: processes of its own, kept short of something"
)

SYNC_S = 0.1
ROOM = 8 * 1024 * 1024
PAGE = resource.getpagesize()
# Replaces the sync functions of the C library by slow ones.
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
    """Compiles a library that makes every sync of a process slow, and returns its path."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("SKIPPED LOUDLY: without a C compiler no disk can be made slow here.")
    source, path = folder / "slow.c", folder / "slow.so"
    source.write_text(SLOW_C)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, source, "-ldl"], check=True)
    return str(path)


@pytest.fixture(params=["sqlite", "postgresql"])
def slow_url(request: pytest.FixtureRequest, session_folder: Path, tmp_path: Path) -> Iterator[str]:
    """Provides a database for a slow disk; PostgreSQL's server is slow itself."""
    if request.param == "sqlite":
        yield copy_migrated_sqlite(session_folder, tmp_path / "steward.db")
        return
    request.getfixturevalue("clones")  # skips loudly without PostgreSQL, or fails where it is required
    server = postgres.start_primary(options=postgres.SLOW)
    yield server.url("postgres")
    postgres.remove(server)


@pytest.fixture
async def slow_site(slow_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    """Provides a site whose database needs 100 ms to flush a commit."""
    slowness = {"LD_PRELOAD": _slow_syncs(tmp_path)} if is_sqlite(slow_url) else {}
    async with open_site(slow_url, tmp_path, **slowness) as site:
        yield site


@pytest.fixture
async def site(database_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    """Provides a site on each engine."""
    async with open_site(database_url, tmp_path, STEWARD_LEASE_SECONDS="4") as opened:
        yield opened


async def test_a_slow_disk_makes_runs_slow_and_nothing_else(slow_site: Site) -> None:
    """Applies 30 changes once each in the first attempt, only slower.

    See docs/guides/contributors.md#tests.
    """
    for _ in range(ROUNDS):
        began = CLOCK.monotonic()
        run, approved, before = await hiding(slow_site)
        assert CLOCK.monotonic() - began > 3 * SYNC_S
        await assert_written_once(slow_site, run, approved, before)
        steps = (await slow_site.run(run))["steps"]
        assert {step["attempt"] for step in steps} == {1}


def _limit_memory(process: int, room: int | None) -> None:
    """Limits a running process to `room` bytes more than it uses; None removes the limit."""
    _, limit = resource.prlimit(process, resource.RLIMIT_AS)
    used = int(Path(f"/proc/{process}/statm").read_text().split()[0]) * PAGE
    resource.prlimit(process, resource.RLIMIT_AS, (limit if room is None else used + room, limit))


async def _ask_for_much(site: Site, answered: Counter[int]) -> None:
    """Sends documents that need many times their size in memory, and counts the statuses."""
    content = json.dumps({"nodes": [{"name": f"n{number}", "x": "y" * 200} for number in range(8_000)]})
    body = {"source": "n8n", "content": content}
    while True:
        response = await site.web.post(
            "/v1/automations/imports/preview", json=body, headers=site.csrf, timeout=60
        )
        answered[response.status_code] += 1


async def test_a_process_without_memory_says_so_and_loses_nothing(site: Site) -> None:
    """Answers 503 and no other 5xx, and the run ends by itself with each change made at most once.

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
        else:  # the system may have ended it, so the service is started again
            await site.serve_again()
        assert {code for code in answered if code >= 500} <= {503}, answered
        await assert_written_once(site, run, approved, before, honest=True)
