"""Occurrences, their states and reasons."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from steward.model.ids import AutomationId, RunId
from steward.model.instants import wire_time, wire_time_or_none
from steward.model.json import JsonValue
from steward.model.run import RunStatus


class OccurrenceState(StrEnum):
    """The state of an occurrence."""

    PENDING = "pending"
    QUEUED = "queued"
    SKIPPED = "skipped"


class SkipReason(StrEnum):
    """The reason why an occurrence is `skipped`."""

    PREVIOUS_RUNNING = "skipped_previous_running"
    WAITING_APPROVAL = "skipped_waiting_approval"
    TOO_LATE = "skipped_too_late"
    BY_MERCHANT = "by_merchant"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A slot in the calendar; `slot_at` never changes, `run_at` is when it really runs."""

    automation_id: AutomationId
    automation_name: str
    automation_version: int
    timezone: str
    slot_at: datetime
    run_at: datetime
    state: OccurrenceState = OccurrenceState.PENDING
    reason: SkipReason | None = None
    run_id: RunId | None = None
    run_status: RunStatus | None = None
    moved_from: datetime | None = None
    version: int = 0
    is_projected: bool = False
    closed_id: str | None = None  # the closed period that skips a future run
    closed_name: str | None = None

    def to_wire(self) -> dict[str, JsonValue]:
        """Returns all thirteen fields, and the closed period that skips it, if any."""
        closed: dict[str, JsonValue] = {"id": self.closed_id, "name": self.closed_name}
        return ({} if self.closed_name is None else {"closed_period": closed}) | {
            "automation_id": self.automation_id,
            "automation_name": self.automation_name,
            "automation_version": self.automation_version,
            "timezone": self.timezone,
            "slot_at": wire_time(self.slot_at),
            "run_at": wire_time(self.run_at),
            "state": self.state.value,
            "reason": None if self.reason is None else self.reason.value,
            "run_id": self.run_id,
            "run_status": None if self.run_status is None else self.run_status.value,
            "moved_from": wire_time_or_none(self.moved_from),
            "version": self.version,
            "projected": self.is_projected,
        }
