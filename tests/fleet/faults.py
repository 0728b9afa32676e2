"""What can happen to the host of a primary, and how it ends."""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from tests.fleet.clients import BACK_WITHIN, Clients
from tests.fleet.cluster import Cluster, Host
from tests.fleet.commands import run
from tests.processes.running import CLOCK

Kind = Literal["host", "network", "disk", "clock"]

FROZEN = 35.0  # seconds; longer than `ttl`
LASTING = 30.0  # of what need not end in a fail-over
SHORT_STALL = 8.0
LONG_STALL = 45.0  # longer than `ttl`, and than a fail-over takes
CLOCK_OFF = 45.0  # for longer than `ttl`
HOUR = 3600.0
GAIN = 0.1  # seconds in each second, of a clock that drifts


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the primary's host, which lasts until the service is back and at least `seconds`.

    Where that need not come while it lasts, it ends after `longest` seconds.
    """

    kind: Kind
    begin: Callable[[Cluster, Host], None]
    end: Callable[[Cluster, Host], None]
    seconds: float = 0.0
    longest: float = BACK_WITHIN


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


def _replace_disk(cluster: Cluster, host: Host) -> None:
    """Mounts the disk anew with what reached it, as after a restart of the host."""
    host.kill()
    host.disk.unmount()
    host.disk.mount()
    cluster.start(host)


def _stall(seconds: float) -> Fault:
    return Fault(
        "disk",
        lambda cluster, host: host.disk.stall(),
        lambda cluster, host: host.disk.go_on(),
        seconds,
        seconds,
    )


def _clock(ahead: float, gains: float = 0.0) -> Fault:
    return Fault(
        "clock",
        lambda cluster, host: host.set_clock(ahead, gains=gains),
        lambda cluster, host: host.set_clock(),
        CLOCK_OFF,
    )


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
    "disk full": Fault(
        "disk", lambda cluster, host: host.disk.fill(), lambda cluster, host: host.disk.empty(), LASTING
    ),
    "disk stalls for 8 s": _stall(SHORT_STALL),
    "disk stalls for 45 s": _stall(LONG_STALL),
    "disk broken": Fault("disk", lambda cluster, host: host.disk.break_down(), _replace_disk),
    "clock 1 h ahead": _clock(HOUR),
    "clock 1 h behind": _clock(-HOUR),
    "clock gains": _clock(0, GAIN),
    "clock loses": _clock(0, -GAIN),
}


async def fail(cluster: Cluster, host: Host, fault: Fault, clients: Clients) -> float | None:
    """Lets the primary's host fail, ends the fault when the service goes on, and waits until it does.

    Returns the longest time without an answered act, or None when the service did not go on in time.
    """
    since = CLOCK.monotonic()
    fault.begin(cluster, host)
    is_back = await _is_back(clients, since, fault.longest)
    await CLOCK.sleep(max(0.0, fault.seconds - (CLOCK.monotonic() - since)))
    fault.end(cluster, host)
    is_back = await _is_back(clients, CLOCK.monotonic(), BACK_WITHIN) and (
        is_back or fault.longest < BACK_WITHIN
    )
    return clients.history.longest_pause(since, CLOCK.monotonic()) if is_back else None


async def _is_back(clients: Clients, since: float, within: float) -> bool:
    try:
        await clients.are_back(since, within)
    except AssertionError:
        return False
    return True
