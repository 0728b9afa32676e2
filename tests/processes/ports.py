"""Finds ports for servers whose address is set before they start."""

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
    """Returns the end of the ports below those that the system assigns by itself.

    A port that a connection or another test's server gets between choice and start is then never one of
    these, nor while a server is down between two starts.
    """
    lowest = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_000
    return lowest if FIRST + 4_000 < lowest < 32_000 else 32_000


LAST = _last()
# Concurrent test processes begin at different numbers.
_NUMBERS = itertools.count(os.getpid() * 64)


def free_port(successive: int = 1) -> int:
    """Returns the first of this many successive loopback ports that nobody listens on.

    No other test process gets one of them while this process lives, whether a server listens there or
    not.
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
    """Returns the file in which a process locks byte N while it holds port N."""
    path = Path(tempfile.gettempdir()) / f"steward-test-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_reserved(port: int) -> bool:
    """Locks the byte of a port until the process ends; returns False if another process has it."""
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
