"""Ports for servers of tests whose address is settled before they start."""

import fcntl
import itertools
import os
import socket
import tempfile
from functools import cache
from pathlib import Path

FIRST = 11_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def _last() -> int:
    """The end of the ports below those that the system hands out by itself.

    What a connection or another test's server is given between the asking and the start is then never one
    of these, nor while a server is down to be started again.
    """
    lowest = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_000
    return lowest if FIRST + 4_000 < lowest < 32_000 else 32_000


LAST = _last()
# Test processes at work at once begin apart from each other.
_NUMBERS = itertools.count(os.getpid() * 64)


def free_port(successive: int = 1) -> int:
    """Returns the first of so many successive loopback ports that nobody listens on.

    No other test process is given one of them while this one lives, whether a server listens there or not.
    """
    while True:
        port = FIRST + next(_NUMBERS) % (LAST - FIRST)
        ports = range(port, port + successive)
        if all(_is_reserved(each_port) and _is_free(each_port) for each_port in ports):
            for _ in ports[1:]:
                next(_NUMBERS)
            return port


@cache
def _reservations() -> int:
    """The file whose byte number N is locked by the process that port N was given to."""
    path = Path(tempfile.gettempdir()) / f"steward-test-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_reserved(port: int) -> bool:
    """Locks the byte of a port for this process, which lasts to its end; False: another process has it."""
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
