"""`make rolling`: processes of two releases take each other's place under load, and what became of every act.

`python -m tests.fleet.rolling --before FOLDER --changes 20`. FOLDER holds the package `steward` of the
release before; without it, it is this one with another number. Both need the same schema.
"""

import argparse
import asyncio
import itertools
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from steward.model.ids import new_id
from tests.fleet.clients import Clients, stored_acts, working
from tests.fleet.history import History, Outcome
from tests.processes import postgres
from tests.processes.approved_run import WANTED, assert_written_once, slow_writes
from tests.processes.ports import free_port
from tests.processes.running import CLOCK, RunningProcess, Site, open_site, start, steward

ROOT = Path(__file__).resolve().parents[2]
BETWEEN = 3.0  # seconds between two changes
DELAY_MS = 800


class Balancer(httpx.AsyncBaseTransport):
    """Sends each request to the next API process that accepts the connection, as a proxy before them does."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._turns = itertools.count()
        self._inner = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_keepalive_connections=0))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Tries each process once."""
        first, url = next(self._turns), request.url
        for number in range(len(self._ports)):
            request.url = url.copy_with(port=self._ports[(first + number) % len(self._ports)])
            try:
                return await self._inner.handle_async_request(request)
            except httpx.ConnectError:
                continue
        raise httpx.ConnectError("no API process accepts connections")


@dataclass
class Process:
    """One place in the fleet: what runs there, and of which release."""

    words: Sequence[str]
    folder: Path
    running: RunningProcess | None = None

    async def start(self, site: Site) -> None:
        """Starts the process of the release in its folder, and waits until it is ready."""
        self.running = await start(*self.words, env=site.env, folder=self.folder)

    async def stop(self) -> None:
        """Ends it as a service manager does."""
        if self.running is not None:
            await self.running.stop()


@dataclass
class WaitingRun:
    """A run that waits for approval, and the changes that will be approved."""

    run: str
    changes: list[dict[str, Any]]


@dataclass
class Report:
    """What the campaign did and found."""

    changes: int = 0
    runs: int = 0
    history: History = field(default_factory=History)
    releases: set[str] = field(default_factory=set)
    cut: int = 0
    wrong: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The figures."""
        return {
            "changes_of_processes": self.changes,
            "runs_approved_across": self.runs,
            "releases_seen": sorted(self.releases),
            "acts": {str(outcome): self.history.count(outcome) for outcome in Outcome},
            "cut_connections": self.cut,
            "violations": self.wrong,
        }


def renumbered(folder: Path) -> Path:
    """Copies this package into `folder` as a release with another number, and returns the folder."""
    shutil.copytree(ROOT / "steward", folder / "steward", ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "steward/version.py"
    text, count = re.subn(r'^(__version__ = "[^"]*)"', r'\1.before"', file.read_text("utf-8"), flags=re.M)
    assert count == 1
    file.write_text(text, "utf-8")
    return folder


async def propose(site: Site) -> WaitingRun:
    """Starts a run and returns once it waits for approval."""
    automation = await site.call(
        "POST",
        "/v1/automations",
        {
            "template_id": "hide-out-of-stock-products",
            "name": "Hide",
            "inputs": {"threshold": 100_000, "limit": 5_000},
            "schedule": {"cadence": "manual"},
            "integration_id": site.store,
        },
    )
    path = f"/v1/automations/{automation['automation']['id']}/runs"
    run = (await site.call("POST", path, {"idempotency_key": new_id(CLOCK.now())}))["run"]["id"]
    await site.reaches(run, "waiting_approval")
    return WaitingRun(run, await site.changes(run))


async def approve(site: Site, waiting: WaitingRun) -> int:
    """Puts the shop back, approves the run's first changes, and returns the ledger's number before."""
    await site.world.post("/sandbox/reset", json={})
    await slow_writes(site, DELAY_MS)
    before = max((entry["seq"] for entry in await site.ledger()), default=0)
    record = await site.run(waiting.run)
    path = f"/v1/automations/approvals/{record['approval_id']}"
    approval = (await site.call("GET", path))["approval"]
    body = {
        "version": approval["version"],
        "change_hash": approval["change_hash"],
        "except": [change["id"] for change in waiting.changes[WANTED:]],
    }
    await site.call("POST", f"{path}/approve", body)
    return before


def orders(api: Sequence[Process], workers: Sequence[Process]) -> Iterator[Sequence[Process]]:
    """Yields the order of each round of changes: workers first, as the guide says, then the API first."""
    while True:
        yield [*workers, *api]
        yield [*api, *workers]


async def roll(site: Site, before: Path, changes: int, report: Report, ports: Sequence[int]) -> None:
    """Replaces one process after the other, round after round to the other release, with a run under way."""
    api = [Process(["serve", "--no-worker", "--port", str(port)], before) for port in ports]
    workers = [Process(["worker"], before) for _ in range(2)]
    await site.service.stop()
    try:
        await asyncio.gather(*(process.start(site) for process in (*api, *workers)))
        clients = Clients(site, report.history)
        async with working(clients):
            await clients.are_back(CLOCK.monotonic())
            waiting = [await propose(site) for _ in range(-(-changes // len([*api, *workers])))]
            folder, order = ROOT, orders(api, workers)
            for run in waiting:
                # Every release may bring its schema while the other serves.
                await steward("migrate", env=site.env, before=("env", "-C", str(folder)))
                await _round(site, next(order), folder, run, report)
                folder = before if folder == ROOT else ROOT
        report.cut, report.wrong = clients.cut, report.wrong + clients.faulty
    finally:
        await asyncio.gather(*(process.stop() for process in (*api, *workers)))


async def _round(
    site: Site, processes: Sequence[Process], folder: Path, waiting: WaitingRun, report: Report
) -> None:
    """Changes each process to the release in `folder`; the run is approved when half of them are."""
    before = 0
    for number, process in enumerate(processes):
        if number == len(processes) // 2:
            before = await approve(site, waiting)
        await process.stop()
        process.folder = folder
        await process.start(site)
        report.changes += 1
        report.releases |= await _releases(site)
        await CLOCK.sleep(BETWEEN)
    try:
        await assert_written_once(site, waiting.run, waiting.changes[:WANTED], before)
    except AssertionError as error:
        report.wrong.append(f"run {waiting.run}: {error}")
    report.runs += 1
    print(f"{report.changes} changes, {report.runs} runs approved across", flush=True)


async def _releases(site: Site) -> set[str]:
    """Returns the releases of the workers that hold their lease."""
    connection: Any = await asyncpg.connect(site.env["STEWARD_DATABASE_URL"])
    try:
        rows = await connection.fetch("SELECT DISTINCT version FROM workers WHERE state = 'alive'")
    finally:
        await connection.close()
    return {row["version"] for row in rows}


async def main(words: Sequence[str]) -> int:
    """Rolls and prints the report; 1 when something was wrong."""
    parser = argparse.ArgumentParser(prog="make rolling")
    parser.add_argument("--before", type=Path, help="a folder with the package of the release before")
    parser.add_argument("--changes", type=int, default=20)
    args = parser.parse_args(words)
    report = Report()
    server = postgres.start_primary()
    try:
        with tempfile.TemporaryDirectory(prefix="steward-rolling-") as name:
            folder = Path(name)
            before = renumbered(folder) if args.before is None else args.before.resolve()
            url = server.url("postgres")
            async with open_site(url, folder / "service", STEWARD_LEASE_SECONDS="5") as site:
                ports = [free_port(), free_port()]
                async with httpx.AsyncClient(
                    base_url=site.env["STEWARD_BASE_URL"],
                    transport=Balancer(ports),
                    cookies=site.web.cookies,
                    timeout=30,
                ) as site.web:
                    await roll(site, before, args.changes, report, ports)
            report.wrong += report.history.violations(await stored_acts(url))
    finally:
        postgres.remove(server)
    print(json.dumps(report.as_json(), indent=1))
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
