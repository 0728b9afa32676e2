"""Fail-overs that come faster than they end, the loss of etcd, and the loss of two hosts of three."""

import signal
from pathlib import Path

from tests.fleet.clients import Clients, working
from tests.fleet.cluster import Cluster, Host
from tests.fleet.history import History, Outcome
from tests.processes.running import CLOCK, open_site

EVERY = 20.0
DOWN = 10.0
WITHOUT_ETCD = 45.0  # longer than `ttl` and `retry_timeout`
WITHOUT_HOSTS = 45.0
SETTLED = 5.0  # what was under way when the hosts went may have had its standby
BACK_WITHIN = 300.0


async def flap(cluster: Cluster, folder: Path, history: History, minutes: float) -> tuple[list[str], int]:
    """Carries out the three under load; returns what was wrong, and how many primaries were killed.

    Whether answered acts are there is left to the caller, who compares the history.
    """
    wrong: list[str] = []
    async with open_site(cluster.url, folder, STEWARD_LEASE_SECONDS="5") as site:
        clients = Clients(site, history)
        async with working(clients):
            await clients.are_back(CLOCK.monotonic())
            killed = await _flap(cluster, minutes)
            print(f"{killed} primaries killed in {minutes:g} min", flush=True)
            await _is_back(cluster, clients)
            wrong += await _lose_etcd(cluster, history)
            await _is_back(cluster, clients)
            wrong += await _lose_two_hosts(cluster, history)
            await _is_back(cluster, clients)
        wrong += clients.faulty
    return wrong, killed


async def _is_back(cluster: Cluster, clients: Clients) -> None:
    """Waits until acts are answered and the cluster is whole, and prints how long that took."""
    since = CLOCK.monotonic()
    seconds = await clients.are_back(since, within=BACK_WITHIN)
    await cluster.becomes_whole()
    print(f"back after {seconds:.1f} s, whole after {CLOCK.monotonic() - since:.1f} s", flush=True)


async def _flap(cluster: Cluster, minutes: float) -> int:
    """Kills the host of the primary every 20 s and starts it again 10 s later."""
    killed, until = 0, CLOCK.monotonic() + minutes * 60
    while CLOCK.monotonic() < until:
        began = CLOCK.monotonic()
        host = await cluster.leader()
        if host is not None:
            host.signal(signal.SIGKILL)
            killed += 1
            await CLOCK.sleep(DOWN)
            cluster.start(host)
        await CLOCK.sleep(max(0.0, EVERY - (CLOCK.monotonic() - began)))
    return killed


async def _lose_etcd(cluster: Cluster, history: History) -> list[str]:
    """Kills every member of etcd: the primary goes on by `failsafe_mode`."""
    since = CLOCK.monotonic()
    for host in cluster.hosts:
        host.kill_etcd()
    await CLOCK.sleep(WITHOUT_ETCD)
    late = since + WITHOUT_ETCD / 2
    answered = sum(
        act.began > since and act.outcome is Outcome.ACKNOWLEDGED and act.ended > late for act in history.acts
    )
    print(f"without etcd {answered} acts were answered in the last {WITHOUT_ETCD / 2:g} s", flush=True)
    for host in cluster.hosts:
        cluster.start_etcd(host)
    return [] if answered else ["no act was answered without etcd"]


async def _lose_two_hosts(cluster: Cluster, history: History) -> list[str]:
    """Kills both standbys: nothing may be answered that one host alone has."""
    primary = await cluster.leader()
    lost: list[Host] = [host for host in cluster.hosts if host is not primary]
    since = CLOCK.monotonic()
    for host in lost:
        host.signal(signal.SIGKILL)
    await CLOCK.sleep(WITHOUT_HOSTS)
    alone = [
        act.key for act in history.acts if act.outcome is Outcome.ACKNOWLEDGED and act.began > since + SETTLED
    ]
    print(f"with one host of three {len(alone)} acts were answered", flush=True)
    for host in lost:
        cluster.start(host)
    return [f"{key}: answered while one host of three was there" for key in alone]
