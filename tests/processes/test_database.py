"""Kills, restarts, silences and fails over a real PostgreSQL under load.

See docs/guides/contributors.md#tests.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.postgres_server import Server
from tests.processes import postgres
from tests.processes.approved_run import assert_written_once, hiding, slow_writes
from tests.processes.proxy import Proxy, line_to
from tests.processes.running import CLOCK, Site, eventually, open_site

# How often the server is killed, silenced and restarted; `make soak` sets more.
ROUNDS = int(os.environ.get("DATABASE_KILLS", "1"))
BACK_WITHIN = 15.0
PACE = 0.15
LEASE = 2
pytestmark = pytest.mark.skipif(
    "DATABASE_KILLS" not in os.environ, reason="in `make soak`: a server of its own, killed and failed over"
)


@pytest.fixture(scope="module")
def primary(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Provides a server that these tests may kill."""
    request.getfixturevalue("clones")  # skips loudly without PostgreSQL, or fails where it is required
    server = postgres.start_primary()
    yield server
    postgres.remove(server)


@dataclass
class Load:
    """Creates automations all the time as one person, and records the responses."""

    site: Site
    made: dict[str, str] = field(default_factory=dict)
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    last_at: float = 0.0

    async def go_on(self) -> None:
        """Creates one automation after the other; only 201 and 503 with Retry-After are right answers."""
        number = 0
        while True:
            number += 1
            body = {
                "template_id": "hide-out-of-stock-products",
                "name": f"Number {number}",
                "inputs": {},
                "schedule": {"cadence": "manual"},
                "integration_id": self.site.store,
            }
            response = await self.site.web.post(
                "/v1/automations", json=body, headers=self.site.csrf, timeout=90
            )
            if response.status_code == 201:
                self.made[response.json()["data"]["automation"]["id"]] = body["name"]
                self.last_at = CLOCK.monotonic()
            elif response.status_code == 503 and "retry-after" in response.headers:
                self.refused += 1
            else:
                self.wrong.append(f"{response.status_code}: {response.text}")
            await CLOCK.sleep(PACE)

    async def comes_back(self) -> float:
        """Returns the seconds until a creation is acknowledged again."""
        since = CLOCK.monotonic()

        async def look() -> bool:
            return self.last_at > since

        await eventually(look, within=60)
        return self.last_at - since

    async def assert_nothing_lost(self) -> None:
        """Checks that every acknowledged automation is there as it was created."""
        assert self.wrong == []
        assert self.made
        for automation, name in self.made.items():
            found_automation = (await self.site.call("GET", f"/v1/automations/{automation}"))["automation"]
            assert found_automation["name"] == name


@dataclass
class DisconnectedShop:
    """Holds a served shop whose line to the database tests can cut."""

    site: Site
    line: Proxy


@contextlib.asynccontextmanager
async def serving(primary: Server, folder: Path) -> AsyncIterator[DisconnectedShop]:
    """Starts real processes whose line to the database goes through a proxy."""
    maintenance = await asyncpg.connect(primary.url("postgres"))
    await maintenance.execute("CREATE DATABASE steward")
    await maintenance.close()
    async with line_to("127.0.0.1", primary.port) as line:
        url = replace(primary, port=line.listen_port).url("steward")
        async with open_site(url, folder, STEWARD_LEASE_SECONDS=f"{LEASE}") as site:
            yield DisconnectedShop(site, line)


@pytest.fixture(scope="module")
async def scene(primary: Server, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DisconnectedShop]:
    """Provides the scene for every test but the fail-over, which leaves no server to come back to."""
    async with serving(primary, tmp_path_factory.mktemp("data")) as opened:
        yield opened


@contextlib.asynccontextmanager
async def loaded(site: Site) -> AsyncIterator[Load]:
    """Creates automations meanwhile, and checks afterwards that every acknowledged one is there."""
    load = Load(site)
    task = asyncio.create_task(load.go_on())
    try:
        await load.comes_back()
        yield load
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await load.assert_nothing_lost()


async def applying(site: Site) -> tuple[str, list[dict[str, Any]], int]:
    """Starts a run and returns while it applies its changes."""
    await site.world.post("/sandbox/reset", json={})
    await slow_writes(site)
    run, approved, before = await hiding(site)

    async def begun() -> bool:
        return bool([entry for entry in await site.ledger(before) if entry["applied"]])

    await eventually(begun)
    return run, approved, before


async def test_a_killed_database_loses_nothing_and_the_service_comes_back(
    primary: Server, scene: DisconnectedShop
) -> None:
    """Answers 503 with Retry-After and never 500, loses nothing acknowledged, and is back within 15 s.

    See docs/guides/contributors.md#tests.
    """
    async with loaded(scene.site) as load:
        for _ in range(ROUNDS):
            run, approved, before = await applying(scene.site)
            postgres.kill(primary)
            await CLOCK.sleep(0.5)
            await postgres.start_again(primary)
            assert await load.comes_back() <= BACK_WITHIN
            await assert_written_once(scene.site, run, approved, before)
        assert load.refused


async def test_a_silent_network_to_the_database_loses_nothing(scene: DisconnectedShop) -> None:
    """Begins no write while the line is silent for longer than the lease, and then finishes the run.

    See docs/design/runs.md#workers-and-leases.
    """
    async with loaded(scene.site) as load:
        for _ in range(ROUNDS):
            run, approved, before = await applying(scene.site)
            scene.line.silence()
            await CLOCK.sleep(LEASE + 1)
            still = len(await scene.site.ledger(before))
            await CLOCK.sleep(0.5)
            assert len(await scene.site.ledger(before)) == still
            scene.line.heal()
            assert await load.comes_back() <= BACK_WITHIN
            await assert_written_once(scene.site, run, approved, before)


@pytest.mark.usefixtures("clones")  # skips loudly without PostgreSQL, or fails where it is required
async def test_a_fail_over_to_a_synchronous_standby_loses_nothing(tmp_path: Path) -> None:
    """Loses no acknowledged write, and serves again within 15 s of the promotion."""
    primary = await asyncio.to_thread(postgres.start_primary)
    standby = await asyncio.to_thread(postgres.follow, primary)
    try:
        async with serving(primary, tmp_path) as scene:
            await _fails_over(scene, primary, standby)
    finally:
        postgres.remove(standby, primary)


async def _fails_over(scene: DisconnectedShop, primary: Server, standby: Server) -> None:
    maintenance: Any = await asyncpg.connect(primary.url("postgres"))
    await maintenance.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    await maintenance.execute("SELECT pg_reload_conf()")

    async def is_followed() -> Any:
        return await maintenance.fetchval(
            "SELECT 1 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')"
        )

    await eventually(is_followed)
    maintenance.terminate()
    async with loaded(scene.site) as load:
        run, approved, before = await applying(scene.site)
        postgres.kill(primary)
        scene.line.port = standby.port
        await scene.line.reset()
        refused = load.refused

        async def reads_only() -> bool:
            return load.refused > refused + 1

        await eventually(reads_only)
        await asyncio.to_thread(postgres.promote, standby)
        assert await load.comes_back() <= BACK_WITHIN
        await assert_written_once(scene.site, run, approved, before)
