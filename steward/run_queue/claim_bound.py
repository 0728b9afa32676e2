"""Remembers the stamp below which no ready run is expected (docs/design/runs.md#claim)."""

from collections.abc import Callable

from steward.database.runs.transitions import Claim

# Longer than a transaction usually takes from stamping a run to its commit.
MARGIN = 2.0  # seconds
FULL_WALK_EVERY = 10.0  # seconds


class ClaimBound:
    """The stamp at which one worker's claims begin.

    PostgreSQL's index keeps an entry for every run claimed since the oldest open transaction began. Claims
    that begin at the bound skip those entries. Every 10 seconds a claim begins at 0 and, after the margin,
    finds runs committed below the bound; it lowers the bound to them, so that claims keep the fair order.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._walked_at: float | None = None
        self._bound = 0
        self._candidate = 0
        self._candidate_at = monotonic()

    def first_vt(self) -> int:
        """Returns the stamp at which the next claim begins."""
        if self._walked_at is None or self._monotonic() - self._walked_at >= FULL_WALK_EVERY:
            return 0
        return self._bound

    def note(self, first_vt: int, claim: Claim | None, *, leaves_out: bool) -> None:
        """Records a claim that began at `first_vt`; with `leaves_out` it passed over full organizations.

        All runs from `first_vt` up to the claim's last stamp are then claimed, except those passed over. Runs
        that become ready later are stamped with the fairness clock or more. Therefore the bound never rises
        past either, and not at all while organizations are passed over.
        """
        now = self._monotonic()
        if first_vt == 0:
            self._walked_at = now
        if claim is None:
            return
        self._bound = min(self._bound, claim.last_vt)
        self._candidate = min(self._candidate, claim.last_vt)
        if not leaves_out and now - self._candidate_at >= MARGIN:
            self._bound = self._candidate
            self._candidate, self._candidate_at = min(claim.last_vt, claim.clock), now
