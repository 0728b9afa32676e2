"""Turns reports of the database engine into metrics and log lines."""

from typing import TYPE_CHECKING

from steward.clock import Clock
from steward.telemetry.log import Log

if TYPE_CHECKING:  # commands have no metrics and do not import them
    from steward.telemetry.metrics import Metrics

# Repeated reports are logged once per interval for each reason.
_QUIET_SECONDS = 60.0
_BATCH_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500)


class DatabaseTelemetry:
    """Counts and logs the connections and commits of a process."""

    def __init__(self, metrics: "Metrics", log: Log, clock: Clock) -> None:
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._logged_at: dict[tuple[str, ...], float] = {}
        self._host: int | None = None
        self._is_loss_logged = False

    def batch_committed(self, size: int) -> None:
        """Records how many writes shared a commit."""
        self._metrics.observe("steward_commit_batch_size", size, bounds=_BATCH_SIZES)

    def batch_split(self, kind: str, error: Exception) -> None:
        """Counts a batch that was split after a failure; logs each kind and error once a minute."""
        self._metrics.count("steward_commit_batches_split_total", kind=kind)
        name = type(error).__name__
        if self._should_log("batch_split", kind, name):
            self._log.warning("batch_split", kind=kind, reason=name)

    def connected(self, host: int, seconds: float) -> None:
        """Records how long a connection took to open, and which host now serves this process."""
        self._metrics.observe("steward_database_connect_seconds", seconds)
        if self._host not in (None, host):
            self._metrics.set("steward_database_host", 0, host_number=str(self._host))
        self._host = host
        self._metrics.set("steward_database_host", 1, host_number=str(host))

    def connection_lost(self, reason: str) -> None:
        """Counts a lost connection; logs each reason once a minute."""
        self._metrics.count("steward_database_lost_total", why=reason)
        if self._should_log("database_lost", reason):
            self._is_loss_logged = True
            self._log.warning("database_lost", reason=reason)

    def commit_unknown(self) -> None:
        """Counts a commit with an unknown outcome."""
        self._metrics.count("steward_commits_unknown_total")

    def recovered(self, host: int, seconds: float) -> None:
        """Logs that the database serves again, once after the losses that were logged."""
        if self._is_loss_logged:
            self._is_loss_logged = False
            self._log.warning("database_recovered", host_number=host, seconds=round(seconds, 3))

    def _should_log(self, *sort: str) -> bool:
        """Returns whether no line of this kind was logged within the last minute; records this line if so."""
        now = self._clock.monotonic()
        if now - self._logged_at.get(sort, -_QUIET_SECONDS) < _QUIET_SECONDS:
            return False
        self._logged_at[sort] = now
        return True
