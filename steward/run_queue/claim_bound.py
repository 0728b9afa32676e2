"""Remembers below which stamp no ready run is left (docs/design/runs.md#claim)."""

from collections.abc import Callable

# As long as a transaction of the service may take: a stamp given before is committed after it at the latest.
MARGIN = 10.0  # seconds
FULL_WALK_EVERY = 30.0  # seconds


class ClaimBound:
    """The stamp at which the claims of one worker begin.

    The index keeps an entry of every run that was claimed since the oldest open transaction began. Claims
    that begin at the bound do not read them again. Every 30 seconds one claim begins at 0: a run below the
    bound (its transaction took longer than the margin, or its claim was rolled back) starts then.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._walked_at: float | None = None
        self._bound = 0
        self._candidate = 0
        self._candidate_at = monotonic()

    def first_vt(self) -> int:
        """Returns the stamp at which the next claim begins."""
        now = self._monotonic()
        if self._walked_at is None or now - self._walked_at >= FULL_WALK_EVERY:
            self._walked_at = now
            return 0
        return self._bound

    def note_claimed(self, last_vt: int, *, clock: int) -> None:
        """Notes a claim that left out no organization: its largest stamp, and the fairness clock before it.

        Runs that become ready later are stamped with the clock or more, so the bound never passes it.
        """
        now = self._monotonic()
        if now - self._candidate_at >= MARGIN:
            self._bound = self._candidate
            self._candidate, self._candidate_at = min(last_vt, clock), now
