"""Approvals: requests for a person's decision, each decided once."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from steward.model.ids import ApprovalId, AutomationId, OrgId, PersonId, RunId
from steward.model.json import JsonObject


class ApprovalStatus(StrEnum):
    """The status of an approval."""

    PENDING = "pending"
    APPROVED = "approved"
    PARTLY_APPROVED = "partly_approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"


class ApprovalKind(StrEnum):
    """Whether the approval includes store changes, or only sends."""

    CHANGES = "changes"
    SENDS = "sends"


@dataclass(frozen=True, slots=True)
class FollowingSteps:
    """The steps after an approval: their maximum number, and whether one may need another approval."""

    steps: int = 0
    may_ask_again: bool = False

    def wire(self) -> JsonObject:
        """Returns the public and stored form."""
        return {"steps": self.steps, "may_ask_again": self.may_ask_again}


_NOTHING_FOLLOWS = FollowingSteps()


@dataclass(frozen=True, slots=True)
class Approval:
    """A request for a person's decision on exactly one set of changes."""

    org: OrgId
    id: ApprovalId
    run_id: RunId
    automation_id: AutomationId
    automation_name: str
    store_label: str
    round: int
    kind: ApprovalKind
    version: int
    status: ApprovalStatus
    change_hash: str
    counts: JsonObject
    warnings: tuple[JsonObject, ...]
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None
    decided_by: PersonId | None
    comment: str | None
    follows: FollowingSteps = _NOTHING_FOLLOWS
    undo_of: RunId | None = None
    write_now: bool = False
