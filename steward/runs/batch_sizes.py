"""Learns from this process's calls how many items the next call of an operation carries."""

from collections import OrderedDict
from dataclasses import dataclass, field

from steward.model.change import Part
from steward.model.ids import IntegrationId

# A call with several items is sized to take at most this long; the first call is small, because the speed of
# the shop is not known yet.
CALL_SECONDS = 20.0
_FIRST_ITEMS = 10
# How many parts of one kind are considered together: the largest batch a platform takes.
MAX_CANDIDATES = 250
_REMEMBERED = 5_000


def batch_size(item_seconds: float | None, *, limit: int) -> int:
    """Returns how many items the next call carries: 1 to `limit`, so that it takes at most CALL_SECONDS.

    `item_seconds` is how long one item took in the previous call; None without one.
    """
    if item_seconds is None:
        return min(_FIRST_ITEMS, limit)
    if item_seconds * limit <= CALL_SECONDS:
        return limit
    return max(1, int(CALL_SECONDS / item_seconds))


@dataclass(slots=True)
class BatchSizes:
    """The number of items per call, by operation and connection, learned from this process's calls.

    It outlives a run's sleep, so that a slow shop is not overloaded again after each wait.
    """

    _learned: OrderedDict[tuple[IntegrationId, str], tuple[float, int]] = field(default_factory=OrderedDict)

    def next(self, part: Part, *, limit: int) -> int:
        """Returns how many items the next call with parts of this kind carries, at most `limit`."""
        learned = self._learned.get((part.integration_id, part.operation))
        if learned is None:
            return batch_size(None, limit=limit)
        seconds, learned_limit = learned
        return batch_size(seconds, limit=min(limit, learned_limit))

    def note(self, part: Part, *, items: int, seconds: float, has_response: bool) -> None:
        """Learns from a call. After one without a usable response, calls carry at most half as many items.

        Each other call raises that limit by a tenth.
        """
        kind = (part.integration_id, part.operation)
        _, limit = self._learned.get(kind, (0.0, MAX_CANDIDATES))
        if has_response:
            limit = min(limit + max(1, limit // 10), MAX_CANDIDATES)
        else:
            limit = max(1, items // 2)
        self._learned[kind] = (seconds / items, limit)
        self._learned.move_to_end(kind)
        if len(self._learned) > _REMEMBERED:
            self._learned.popitem(last=False)
