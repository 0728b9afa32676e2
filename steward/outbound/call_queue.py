"""The order in which the waiting calls of one account start; pure: no clock and no waiting."""

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from enum import IntEnum


class Urgency(IntEnum):
    """The purpose of a call; a smaller number starts first."""

    WRITE = 0  # approved changes, with their reads
    MANAGEMENT = 1  # checks, sign-in, subscriptions, and calls that a person waits for
    READ = 2  # reads of runs and of catch-up


@dataclass(eq=False, slots=True)
class WaitingCall:
    """A call before its start; `share` identifies the run or client that the call counts for."""

    urgency: Urgency
    share: Hashable
    write: bool = False
    max_cost: float = 0.0


class CallQueue:
    """Waiting calls by urgency; within an urgency, shares take turns, each in its own order."""

    def __init__(self) -> None:
        self._shares_by_urgency: dict[Urgency, dict[Hashable, deque[WaitingCall]]] = {
            urgency: {} for urgency in Urgency
        }

    def __bool__(self) -> bool:
        return any(self._shares_by_urgency.values())

    def add(self, call: WaitingCall) -> None:
        """Adds a call behind the others of its share, and a new share behind the other shares."""
        self._shares_by_urgency[call.urgency].setdefault(call.share, deque()).append(call)

    def remove(self, call: WaitingCall) -> None:
        """Removes a call that started or gave up; its share then waits behind the other shares."""
        shares = self._shares_by_urgency[call.urgency]
        calls = shares.pop(call.share)
        calls.remove(call)
        if calls:
            shares[call.share] = calls

    def heads(self) -> Iterator[WaitingCall]:
        """Yields the first call of every share, in the order in which they may start."""
        for shares in self._shares_by_urgency.values():
            for calls in shares.values():
                yield calls[0]
