"""The cost bucket of a platform that counts calls by query cost; one per app and store."""

from dataclasses import dataclass

from steward.outbound.response import Decoded


@dataclass(frozen=True, slots=True)
class CostBudget:
    """The assumed cost bucket until the platform reports it; Steward uses `share` of it."""

    maximum: float = 2_000.0
    restore_rate: float = 100.0
    share: float = 0.7


@dataclass(frozen=True, slots=True)
class ReportedCost:
    """The query cost in a response; `throttled`: nothing was done because the bucket was too empty."""

    requested: float
    maximum: float
    available: float
    restore_rate: float
    throttled: bool


class CostBucket:
    """The cost still available as last reported by the platform, less the calls in progress."""

    def __init__(self, rule: CostBudget) -> None:
        self._share = rule.share
        self._maximum = rule.maximum
        self._restore_rate = rule.restore_rate
        self._available = rule.maximum
        self._updated_at: float | None = None
        self._reserved = 0.0

    def wait(self, cost: float, now: float) -> float:
        """Returns the seconds until a call of `cost` leaves the other apps' share of the bucket untouched."""
        if cost <= 0:
            return 0.0
        reserve = self._maximum * (1 - self._share)
        # A call that costs more than our whole share waits for a full bucket instead of forever.
        need = min(cost + reserve, self._maximum)
        return max((need - (self._available_at(now) - self._reserved)) / self._restore_rate, 0.0)

    def reserve(self, cost: float) -> None:
        """Reserves `cost` for a call that starts."""
        self._reserved += cost

    def settle(self, cost: float, reported: ReportedCost | None, now: float) -> None:
        """Ends a call: the platform's own numbers count; without them, the whole estimate counts as spent."""
        self._reserved = max(self._reserved - cost, 0.0)
        if reported is None:
            self._available = max(self._available_at(now) - cost, 0.0)
        else:
            self._maximum, self._restore_rate = max(reported.maximum, 1.0), max(reported.restore_rate, 0.1)
            self._available = reported.available
        self._updated_at = now

    def _available_at(self, now: float) -> float:
        passed = 0.0 if self._updated_at is None else max(now - self._updated_at, 0.0)
        return min(self._available + passed * self._restore_rate, self._maximum)


def reported_cost(body: Decoded) -> ReportedCost | None:
    """Returns the cost in a decoded GraphQL response; null without a usable one."""
    cost = _entry(_entry(body, "extensions"), "cost")
    status = _entry(cost, "throttleStatus")
    maximum = _number(_entry(status, "maximumAvailable"))
    available = _number(_entry(status, "currentlyAvailable"))
    rate = _number(_entry(status, "restoreRate"))
    if maximum is None or available is None or rate is None or maximum <= 0 or rate <= 0:
        return None
    requested = _number(_entry(cost, "requestedQueryCost"))
    return ReportedCost(requested or 0.0, maximum, available, rate, is_throttled(body))


def _entry(decoded: Decoded, name: str) -> Decoded:
    return decoded.get(name) if isinstance(decoded, dict) else None


def _number(value: Decoded) -> float | None:
    if isinstance(value, bool) or value is None or isinstance(value, str | list | dict):
        return None
    return float(value)


def is_throttled(body: Decoded) -> bool:
    """Returns whether a response of any status says that it did nothing because of the query cost."""
    errors = _entry(body, "errors")
    return isinstance(errors, list) and any(
        _entry(_entry(error, "extensions"), "code") == "THROTTLED" for error in errors
    )


def throttle_wait(reported: ReportedCost | None, *, jitter: float) -> float:
    """Returns how long a throttled call waits: until its cost is available, plus up to half a second."""
    if reported is None:
        return 2.0
    return max((reported.requested - reported.available) / reported.restore_rate, 0.0) + 0.5 * jitter
