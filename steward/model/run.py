"""Runs, their states and the allowed transitions, which runs/ and run_queue/ make."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from itertools import product
from operator import add, attrgetter

from steward.model.account import Creator
from steward.model.ids import ApprovalId, AutomationId, OrgId, RunId
from steward.model.json import JsonObject


class RunStatus(StrEnum):
    """The public status of a run."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING_APPROVAL = "waiting_approval"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class Queue(StrEnum):
    """The state of a run in the workers' queue."""

    BLOCKED = "blocked"
    READY = "ready"
    LEASED = "leased"
    SLEEPING = "sleeping"
    PARKED = "parked"
    DONE = "done"


class Mode(StrEnum):
    """Whether a run is live, or a test run, which really reads and refuses every change."""

    LIVE = "live"
    TEST = "test"


class StartedBy(StrEnum):
    """The kind of trigger that started a run."""

    SCHEDULE = "schedule"
    EVENT = "event"
    HAND = "hand"


TERMINAL = frozenset(
    {RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.REFUSED, RunStatus.CANCELLED, RunStatus.EXPIRED}
)


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a step or run; all ten are always present."""

    read: int = 0
    matched: int = 0
    proposed: int = 0
    applied: int = 0
    unchanged: int = 0
    declined: int = 0
    conflicts: int = 0
    failed: int = 0
    sent: int = 0
    unknown: int = 0

    def plus(self, other: "Counts") -> "Counts":
        """Returns the sum, field by field."""
        more = _all_counts(other)
        return Counts(*map(add, _all_counts(self), more)) if any(more) else self

    def wire(self) -> dict[str, int]:
        """Returns the counts in their API form."""
        return dict(zip(_COUNT_NAMES, _all_counts(self), strict=True))


_COUNT_NAMES = tuple(field.name for field in fields(Counts))
_all_counts: Callable[[Counts], tuple[int, ...]] = attrgetter(*_COUNT_NAMES)


@dataclass(frozen=True, slots=True)
class EventRef:
    """The store event that started a run."""

    id: str
    topic: str
    received_at: datetime


@dataclass(frozen=True, slots=True)
class Run:
    """A run in its API form, without its steps."""

    org: OrgId
    id: RunId
    automation_id: AutomationId
    automation_name: str
    automation_version: int
    template_id: str
    template_version: int
    plan_version: int | None
    mode: Mode
    started_by: StartedBy
    status: RunStatus
    code: str | None
    message: str | None
    slot_at: datetime | None
    event: EventRef | None
    idempotency_key: str | None
    queued_at: datetime
    started_at: datetime | None
    waiting_since: datetime | None
    finished_at: datetime | None
    cancel_requested_at: datetime | None
    expires_at: datetime | None
    approval_id: ApprovalId | None
    current_step: JsonObject | None
    last_seq: int
    summary: JsonObject | None
    result: JsonObject | None
    held_name: str | None
    held_until: datetime | None
    maker: Creator
    undo_of: RunId | None = None


# The addends of a kind.
_STATUSES = {status: 10 * number for number, status in enumerate(RunStatus)}
_MODES = {Mode.LIVE: 0, Mode.TEST: 3}
_STARTERS = {starter: number for number, starter in enumerate(StartedBy)}


def kinds(
    statuses: Collection[RunStatus] = (), mode: Mode | None = None, started_by: StartedBy | None = None
) -> list[int]:
    """Returns the kinds of runs with these statuses, mode and starter; without one, with any.

    A kind is the column `runs.kind`: all three in one number, with which the indexes of lists begin.
    """
    combinations = product(
        statuses or RunStatus, [mode] if mode else Mode, [started_by] if started_by else StartedBy
    )
    return [
        _STATUSES[status] + _MODES[of_mode] + _STARTERS[starter]
        for status, of_mode, starter in combinations
        if of_mode is Mode.LIVE or starter is StartedBy.HAND  # nothing else starts a test run
    ]
