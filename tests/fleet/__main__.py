"""`make fleet`: fail-overs of three database hosts under load, and what became of every answered act.

`python -m tests.fleet --failovers 20 [--flap | --asynchronous | --patroni-3]`, with `--kind network` for
cuts in one direction, `disk` and `clock` for those. It needs root, for network namespaces and disks.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from tests.fleet.clients import BACK_WITHIN, Clients, stored_acts, working
from tests.fleet.cluster import FOLDER, WHOLE_WITHIN, Cluster, Programs, cluster
from tests.fleet.faults import FAULTS, Kind, fail
from tests.fleet.flap import flap
from tests.fleet.history import History, Outcome
from tests.processes.approved_run import assert_written_once
from tests.processes.running import CLOCK, eventually, open_site
from tests.processes.test_database import applying

UNREPLICATED = 3.0
SLOW = 60.0  # a fail-over whose logs are kept
LAST_LINES = 8  # of each log, in the report of a cluster that did not come back
PROGRAMS = Path(".cache/fleet").resolve()
STOP = PROGRAMS / "stop"  # a file that ends a campaign after the fail-over under way
DEBIAN = PROGRAMS / "debian/usr/lib/python3/dist-packages"  # Patroni 3.0.2 and what it imports


@dataclass
class Report:
    """What the campaign found."""

    failovers: int = 0
    gaps: dict[str, list[float]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    wrong_by_freeze: list[int] = field(default_factory=list)
    history: History = field(default_factory=History)

    def note(self, fault: str, gap: float | None) -> None:
        """Counts and prints a fail-over, and after how many seconds the service was back."""
        self.failovers += 1
        if gap is None:
            self.wrong.append(f"fail-over {self.failovers}: {fault}, not back within {BACK_WITHIN:.0f} s")
            print(self.wrong[-1], flush=True)
        else:
            self.gaps.setdefault(fault, []).append(gap)
            print(f"{self.failovers}: {fault}, back after {gap:.1f} s", flush=True)

    def as_json(self) -> dict[str, Any]:
        """The figures."""
        gaps = sorted(gap for of_fault in self.gaps.values() for gap in of_fault)
        return {
            "failovers": self.failovers,
            "acts": {str(outcome): self.history.count(outcome) for outcome in Outcome},
            "back_after_seconds": {
                "median": round(statistics.median(gaps), 1) if gaps else None,
                "p95": round(gaps[max(0, -(-len(gaps) * 95 // 100) - 1)], 1) if gaps else None,
                "worst": round(gaps[-1], 1) if gaps else None,
                "by_fault": {fault: [round(gap, 1) for gap in some] for fault, some in self.gaps.items()},
            },
            "violations": self.wrong,
            "violations_by_freeze": self.wrong_by_freeze,
        }


def keep_logs(cluster: Cluster, name: str) -> None:
    """Copies what the programs of each host logged to .cache/fleet/NAME."""
    for host in cluster.hosts:
        kept = PROGRAMS / name / host.name
        kept.mkdir(parents=True, exist_ok=True)
        for log in host.folder.glob("*.log"):
            shutil.copy(log, kept)


async def campaign(
    cluster: Cluster, folder: Path, failovers: int, report: Report, faults: Sequence[str]
) -> None:
    """Makes one fault after the other under load, then compares the history with the database."""
    async with open_site(cluster.url, folder, STEWARD_LEASE_SECONDS="5") as site:
        clients = Clients(site, report.history)
        async with working(clients):
            for number in range(failovers):
                if STOP.exists():  # the history of those before is compared all the same
                    break
                fault = faults[number % len(faults)]
                host = await cluster.leader()
                assert host is not None
                await clients.are_back(CLOCK.monotonic())
                run, approved, before = await applying(site)
                gap = await fail(cluster, host, FAULTS[fault], clients)
                report.note(fault, gap)
                if gap is None or gap > SLOW:
                    keep_logs(cluster, f"slow-{report.failovers}")
                await cluster.becomes_whole()
                try:
                    await assert_written_once(site, run, approved, before)
                except AssertionError as error:
                    ended = await site.run(run)
                    statement = traceback.extract_tb(error.__traceback__)[-1].line
                    report.wrong.append(f"run {run} {ended['status']} {ended['code']}: {statement} {error}")
                    print(report.wrong[-1], flush=True)
    report.wrong += clients.faulty + report.history.violations(await stored(cluster))


async def lie(cluster: Cluster, folder: Path, report: Report) -> None:
    """The control: with asynchronous commits, cut-off standbys and a killed primary lose acts."""
    async with open_site(cluster.url, folder, STEWARD_LEASE_SECONDS="5") as site:
        clients = Clients(site, report.history)
        async with working(clients):
            primary = await cluster.leader()
            assert primary is not None
            await clients.are_back(CLOCK.monotonic())
            standbys = [host for host in cluster.hosts if host is not primary]
            for host in standbys:
                host.plug("down")
            await CLOCK.sleep(UNREPLICATED)
            # Its kernel would still send what the killed processes had written.
            primary.plug("down")
            primary.signal(signal.SIGKILL)
            for host in standbys:
                host.plug("up")
            await clients.are_back(CLOCK.monotonic())
            report.failovers += 1
    report.wrong += report.history.violations(await stored(cluster))


async def freeze(cluster: Cluster, folder: Path, report: Report) -> None:
    """The control: under Patroni 3.0.2 a frozen primary that wakes can take the leader key back."""
    history = History()
    async with open_site(cluster.url, folder, STEWARD_LEASE_SECONDS="5") as site:
        clients = Clients(site, history)
        async with working(clients):
            primary = await cluster.leader()
            assert primary is not None
            await clients.are_back(CLOCK.monotonic())
            report.note("host frozen", await fail(cluster, primary, FAULTS["host frozen"], clients))
            await cluster.becomes_whole()
    wrong = history.violations(await stored(cluster))
    report.history.acts += history.acts
    report.wrong += wrong
    report.wrong_by_freeze.append(len(wrong))
    print(f"{len(wrong)} violations", flush=True)


async def hasten(cluster: Cluster, folder: Path, minutes: float, report: Report) -> None:
    """Lets hosts fail faster than they come back; afterwards the history is compared with the database."""
    try:
        wrong, report.failovers = await flap(cluster, folder, report.history, minutes)
    except AssertionError as error:  # not back: what was answered is compared all the same
        wrong = [f"not back: {error}", *await stuck(cluster)]
        print("\n".join(wrong), flush=True)
    report.wrong += wrong
    try:
        await eventually(cluster.leader, within=WHOLE_WITHIN)
    except AssertionError:
        report.wrong.append("no primary to compare the answered acts with")
        return
    report.wrong += report.history.violations(await stored(cluster))


async def stuck(cluster: Cluster) -> list[str]:
    """Keeps the logs in .cache/fleet/stuck; returns each host's state and last log lines."""
    keep_logs(cluster, "stuck")
    lines = []
    for host in cluster.hosts:
        lines.append(f"{host.name}: {len(host.processes())} processes, {json.dumps(await host.health())}")
        log = (host.folder / "patroni.log").read_text("utf-8", "replace")
        lines += [f"{host.name}:   {line}" for line in log.splitlines()[-LAST_LINES:]]
    return lines


async def stored(cluster: Cluster) -> list[str]:
    """The keys of the acts that the cluster's database holds."""
    leader = await cluster.leader()
    assert leader is not None
    return await stored_acts(f"postgresql://postgres:{cluster.password}@{leader.address}/postgres")


async def main(words: Sequence[str]) -> int:
    """Runs the campaign and prints its report; 1 when the checker found something."""
    parser = argparse.ArgumentParser(prog="make fleet")
    parser.add_argument("--failovers", type=int, default=20)
    control = parser.add_mutually_exclusive_group()
    control.add_argument("--asynchronous", action="store_true", help="a control, which has to fail")
    control.add_argument(
        "--patroni-3", action="store_true", help="a control: frozen hosts under Debian's Patroni"
    )
    control.add_argument(
        "--flap", action="store_true", help="fail-overs every 20 s, no etcd, and one host of three"
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long --flap goes on")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="only these faults")
    parser.add_argument("--kind", choices=get_args(Kind), default="host", help="only faults of this kind")
    parser.add_argument("--report", type=Path)
    args = parser.parse_args(words)
    if os.geteuid() != 0:
        print("SKIPPED LOUDLY: network namespaces need root")
        return 0
    site = PROGRAMS / "site"
    faults = args.fault or [name for name, fault in FAULTS.items() if fault.kind == args.kind]
    kinds = {FAULTS[name].kind for name in faults}
    programs = Programs(
        PROGRAMS / "usr/bin/etcd",
        [DEBIAN, site] if args.patroni_3 else [site],
        PROGRAMS / "host_clock.so" if "clock" in kinds else None,
    )
    report = Report()
    for _ in range(
        args.failovers if args.patroni_3 else 1
    ):  # each freeze of the control: a cluster of its own
        with tempfile.TemporaryDirectory(prefix=FOLDER) as name:
            folder = Path(name)
            os.chmod(folder, 0o755)  # the servers' user passes through
            async with cluster(
                folder, programs, is_synchronous=not args.asynchronous, has_disks="disk" in kinds
            ) as new_cluster:
                if args.asynchronous:
                    await lie(new_cluster, folder / "service", report)
                elif args.flap:
                    await hasten(new_cluster, folder / "service", args.minutes, report)
                elif args.patroni_3:
                    await freeze(new_cluster, folder / "service", report)
                else:
                    await campaign(new_cluster, folder / "service", args.failovers, report, faults)
    text = json.dumps(report.as_json(), indent=1)
    print(text)
    if args.report is not None:
        args.report.write_text(text + "\n", "utf-8")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
