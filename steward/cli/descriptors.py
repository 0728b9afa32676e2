"""Limits the file descriptors of the process, and the connections that may use them."""

import resource
from dataclasses import dataclass
from typing import Final

# For the database, the log, outgoing calls and the pipes of sandbox processes.
RESERVED: Final = 40
MAX_CONNECTIONS: Final = 1_000
LONGEST_QUEUE: Final = 1_024
_FEWEST: Final = 4
_BURSTS: Final = 3  # multiples of the queue: accepted connections, those about to be closed, and new ones


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The maximum number of open connections, and of connections waiting to be accepted."""

    connections: int
    queue: int

    @property
    def few(self) -> bool:
        """Whether the process's limit is what restricts the number of connections."""
        return self.connections < MAX_CONNECTIONS


def share(limit: int) -> Descriptors:
    """Divides `limit` descriptors so that a flood of connections leaves enough for the service itself."""
    available = limit - RESERVED
    queue = max(_FEWEST, min(LONGEST_QUEUE, available // 8))
    return Descriptors(max(_FEWEST, min(MAX_CONNECTIONS, available - _BURSTS * queue)), queue)


def raise_limit() -> int:
    """Raises this process's limit to the allowed maximum and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
