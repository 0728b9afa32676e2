"""Ports for servers of tests whose address is settled before they start."""

import itertools
import os
import socket

# Below the ports that systems hand out by themselves: what a connection or another test's server is given
# between the asking and the start is never one of these, nor while a server is down to be started again.
FIRST, LAST = 11_000, 32_000
# Test processes at work at once begin apart from each other.
_NUMBERS = itertools.count(os.getpid() * 64)


def free_port(successive: int = 1) -> int:
    """Returns the first of so many successive loopback ports that nobody listens on."""
    while True:
        port = FIRST + next(_NUMBERS) % (LAST - FIRST)
        if all(_is_free(port + offset) for offset in range(successive)):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
