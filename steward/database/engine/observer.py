"""The interface by which an engine reports on its connections and commits."""

from collections.abc import Callable
from dataclasses import dataclass


def _ignore(*_event: object) -> None:
    """Does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineObserver:
    """Functions that an engine calls at once; a host is its position in the database URL, from 1.

    SQLite reports batches alone, from its writer thread.
    """

    batch_committed: Callable[[int], None] = _ignore  # how many writes share a commit
    batch_split: Callable[[str, Exception], None] = _ignore  # a kind of shared call, and why it failed
    connected: Callable[[int, float], None] = _ignore  # the host, and the seconds over all hosts tried
    lost: Callable[[str], None] = _ignore  # why a connection was given up or not opened
    commit_unknown: Callable[[], None] = _ignore  # lost after its commit was sent, before the answer
    back: Callable[[int, float], None] = _ignore  # the host that serves, and seconds since the first loss


UNOBSERVED = EngineObserver()
