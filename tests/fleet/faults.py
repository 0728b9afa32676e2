"""What can happen to the host of a primary, and how it ends."""

import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from tests.fleet.clients import Clients
from tests.fleet.cluster import Cluster, Host, run
from tests.processes.running import CLOCK

Kind = Literal["host", "network"]

FROZEN = 35.0  # seconds; longer than `ttl`
LASTING = 30.0  # of what need not end in a fail-over


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the primary's host, which lasts until the service is back and at least `seconds`."""

    kind: Kind
    begin: Callable[[Cluster, Host], None]
    end: Callable[[Cluster, Host], None]
    seconds: float = 0.0


def _nothing(cluster: Cluster, host: Host) -> None:
    """Ends what ends by itself."""


def _others(cluster: Cluster, host: Host) -> list[Host]:
    return [other for other in cluster.hosts if other is not host]


def _send_nothing(cluster: Cluster, host: Host) -> None:
    """Everybody reaches the host, which reaches nobody."""
    for address in (cluster.address, *(other.address for other in _others(cluster, host))):
        run(f"ip -n {host.name} route add blackhole {address}/32")


def _send_again(cluster: Cluster, host: Host) -> None:
    for address in (cluster.address, *(other.address for other in _others(cluster, host))):
        run(f"ip -n {host.name} route del blackhole {address}/32")


def _hear_nothing(cluster: Cluster, host: Host) -> None:
    """The host reaches everybody, and nobody reaches the host."""
    for other in _others(cluster, host):
        run(f"ip -n {other.name} route add blackhole {host.address}/32")
    run(f"ip route add blackhole {host.address}/32")


def _hear_again(cluster: Cluster, host: Host) -> None:
    for other in _others(cluster, host):
        run(f"ip -n {other.name} route del blackhole {host.address}/32")
    run(f"ip route del blackhole {host.address}/32")


def _lose_a_standby(cluster: Cluster, host: Host) -> None:
    """The host reaches one of the two others no more, which may be its synchronous standby."""
    run(f"ip -n {host.name} route add blackhole {_others(cluster, host)[0].address}/32")


def _find_the_standby(cluster: Cluster, host: Host) -> None:
    run(f"ip -n {host.name} route del blackhole {_others(cluster, host)[0].address}/32")


FAULTS: Mapping[str, Fault] = {
    "host killed": Fault(
        "host", lambda cluster, host: host.signal(signal.SIGKILL), lambda cluster, host: cluster.start(host)
    ),
    "host frozen": Fault(
        "host",
        lambda cluster, host: host.signal(signal.SIGSTOP),
        lambda cluster, host: host.signal(signal.SIGCONT),
        FROZEN,
    ),
    "cable pulled": Fault(
        "host", lambda cluster, host: host.plug("down"), lambda cluster, host: host.plug("up")
    ),
    "server killed": Fault(
        "host", lambda cluster, host: os.kill(host.postmaster(), signal.SIGKILL), _nothing
    ),
    "sends nothing": Fault("network", _send_nothing, _send_again, LASTING),
    "hears nothing": Fault("network", _hear_nothing, _hear_again, LASTING),
    "standby out of reach": Fault("network", _lose_a_standby, _find_the_standby, LASTING),
}


async def fail(cluster: Cluster, host: Host, fault: Fault, clients: Clients) -> float | None:
    """Lets the primary's host fail, and ends the fault when the service goes on.

    Returns the seconds until it did, or None when it did not while the fault lasted.
    """
    since = CLOCK.monotonic()
    fault.begin(cluster, host)
    gap: float | None = None
    with contextlib.suppress(AssertionError):
        gap = await clients.are_back(since)
    await CLOCK.sleep(max(0.0, fault.seconds - (CLOCK.monotonic() - since)))
    fault.end(cluster, host)
    return gap
