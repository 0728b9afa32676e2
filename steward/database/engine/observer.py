"""The interface through which an engine reports on its connections and commits."""

from collections.abc import Callable
from dataclasses import dataclass


def _ignore(*_event: object) -> None:
    """Does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineObserver:
    """Functions that an engine calls immediately; a host is its position in the database URL, from 1.

    SQLite only reports batches: commits from its writer thread, splits on the event loop.
    """

    batch_committed: Callable[[int], None] = _ignore  # the number of writes that share a commit
    batch_split: Callable[[str, Exception], None] = _ignore  # the kind of a shared call, and the error
    connected: Callable[[int, float], None] = _ignore  # the host, and the seconds spent on all tried hosts
    connection_lost: Callable[[str], None] = _ignore  # the reason why it was closed or not opened
    commit_unknown: Callable[[], None] = _ignore  # the connection was lost before the response to a COMMIT
    recovered: Callable[[int, float], None] = (
        _ignore  # the host that serves, and seconds since the first loss
    )


UNOBSERVED = EngineObserver()
