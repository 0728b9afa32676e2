"""The history of what clients were told, and its comparison with what the database holds in the end."""

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    """What a client was told about an act."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"  # 503, a cut connection, or no response in time


@dataclass(frozen=True, slots=True)
class Act:
    """One act of a client, named by a key that no other act has; times are seconds of one monotonic clock."""

    key: str
    outcome: Outcome
    began: float
    ended: float


@dataclass(slots=True)
class History:
    """Every act of every client."""

    acts: list[Act] = field(default_factory=list)

    def add(self, key: str, outcome: Outcome, began: float, ended: float) -> None:
        """Notes an act that has ended."""
        self.acts.append(Act(key, outcome, began, ended))

    def count(self, outcome: Outcome) -> int:
        """Returns how many acts had the outcome."""
        return sum(act.outcome is outcome for act in self.acts)

    def first_acknowledged(self, after: float) -> float | None:
        """Returns when the first act that began after an instant was acknowledged; None when none was."""
        ends = [act.ended for act in self.acts if act.began >= after and act.outcome is Outcome.ACKNOWLEDGED]
        return min(ends, default=None)

    def longest_pause(self, since: float, until: float) -> float:
        """Returns the longest time between two instants in which no act was acknowledged."""
        ends = [act.ended for act in self.acts if act.outcome is Outcome.ACKNOWLEDGED]
        instants = [since, *sorted(end for end in ends if since < end < until), until]
        return max(later - earlier for earlier, later in itertools.pairwise(instants))

    def violations(self, stored: Iterable[str]) -> list[str]:
        """Compares the acts with the keys that the store holds, each as often as it is there.

        An acknowledged act is there once, a refused one is not, and one whose outcome is unknown is there
        once at most. Nothing is there that nobody did.
        """
        times = Counter(stored)
        wrong = [f"{key}: nobody did this" for key in times.keys() - {act.key for act in self.acts}]
        for act in self.acts:
            there = times[act.key]
            if there > 1:
                wrong.append(f"{act.key}: {there} times")
            elif act.outcome is Outcome.ACKNOWLEDGED and there == 0:
                wrong.append(f"{act.key}: acknowledged and lost")
            elif act.outcome is Outcome.REFUSED and there:
                wrong.append(f"{act.key}: refused and there")
        return sorted(wrong)
