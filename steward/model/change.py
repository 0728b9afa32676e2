"""Changes as data: what an approver sees, what a connector writes, and the hashes that bind the two."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from steward.model.ids import ApprovalId, AutomationId, ChangeId, IntegrationId, OrgId, RunId
from steward.model.json import JsonObject, JsonValue, canonical, digest

# The service's own namespace for write keys: it never changes, or repeats would become new writes.
_KEY_NAMESPACE = uuid.UUID("6f0a3d2e-9b41-5c57-8e0d-2f6f4f1f7a10")
_SHOWN_BYTES = 4096


class Action(StrEnum):
    """The kind of change to an object."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    CANCEL = "cancel"
    ARCHIVE = "archive"
    PUBLISH = "publish"
    UNPUBLISH = "unpublish"
    HOLD = "hold"
    SEND = "send"


class FieldKind(StrEnum):
    """How a field's values are shown."""

    TEXT = "text"
    NUMBER = "number"
    MONEY = "money"
    TAGS = "tags"
    BOOLEAN = "boolean"
    LIST = "list"


class Outcome(StrEnum):
    """The outcome of a change."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    DECLINED = "declined"
    APPLIED = "applied"
    UNCHANGED = "unchanged"
    CONFLICT = "conflict"
    FAILED = "failed"
    REFUSED_TEST = "refused_test"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class Recovery(StrEnum):
    """The idempotency class of an operation: how an interrupted write is reconciled."""

    IDEMPOTENT = "idempotent"
    READABLE = "readable"
    MARKED = "marked"
    AT_MOST_ONCE = "at_most_once"


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The object that a change affects, as people know it."""

    type: str
    id: str | None
    label: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field before and after, as the approver sees it."""

    field: str
    label: str
    before: JsonValue
    after: JsonValue
    kind: FieldKind
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A platform call: an operation of a connector on one target; recorded and reconciled as a unit."""

    operation: str
    integration_id: IntegrationId
    target: str
    arguments: JsonObject
    before: JsonValue
    after: JsonValue

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> "Part":
        """Returns the part that `wire` stored."""
        return cls(
            wire["operation"],
            IntegrationId(wire["integration_id"]),
            wire["target"],
            wire["arguments"],
            wire["before"],
            wire["after"],
        )

    def wire(self) -> JsonObject:
        """Returns the part as stored and hashed."""
        return {
            "operation": self.operation,
            "integration_id": self.integration_id,
            "target": self.target,
            "arguments": self.arguments,
            "before": self.before,
            "after": self.after,
        }


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that a step computed, before it has an id: one object with everything that would change."""

    object: ObjectRef
    action: Action
    fields: tuple[FieldChange, ...]
    parts: tuple[Part, ...]
    integration_id: IntegrationId | None
    message: str | None = None
    undo_of: ChangeId | None = None  # the change that this change undoes

    def item_hash(self) -> str:
        """Returns the SHA-256 of the proposed writes."""
        return digest(
            [
                self.object.type,
                self.object.id,
                self.action,
                self.integration_id,
                {field.field: field.before for field in self.fields},
                {field.field: field.after for field in self.fields},
                [part.wire() for part in self.parts],
            ]
        )


@dataclass(frozen=True, slots=True)
class Change:
    """A proposal stored with a run, and its outcome."""

    id: ChangeId
    run_id: RunId
    seq: int
    name: str
    iteration: str
    position: int
    round: int
    proposal: Proposal
    item_hash: str
    outcome: Outcome
    message: str | None
    applied_at: datetime | None
    undoable: bool = True
    undo_words: str | None = None  # why it cannot be undone, or what an undo does not restore


@dataclass(frozen=True, slots=True)
class Batch:
    """Parts that share one request, with the write key of each part and the key of the request."""

    parts: tuple[Part, ...]
    write_keys: tuple[str, ...]
    key: str


def truncated_value(value: JsonValue) -> tuple[JsonValue, bool]:
    """Returns a before or after value cut to 4 KiB of JSON, and whether it was cut."""
    if _size(value) <= _SHOWN_BYTES:
        return value, False
    if isinstance(value, Sequence) and not isinstance(value, str):
        items = list(value)
        while _size(items) > _SHOWN_BYTES:
            items = items[: len(items) // 2]
        return items, True
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    while _size(text) > _SHOWN_BYTES:
        text = text[: len(text) * _SHOWN_BYTES // _size(text) - 8]
    return text, True


def _size(value: JsonValue) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8"))


def write_key(run: RunId, name: str, iteration: str, *, position: int, part: int, version: int) -> str:
    """Returns the key of the write of one part, the same for every attempt."""
    return str(uuid.uuid5(_KEY_NAMESPACE, f"{run}|{name}|{iteration}|{position}|{part}|{version}"))


def batch_key(write_keys: Sequence[str]) -> str:
    """Returns the key of a call for these writes, which is their own key if there is only one."""
    return write_keys[0] if len(write_keys) == 1 else str(uuid.uuid5(_KEY_NAMESPACE, "|".join(write_keys)))


def request_hash(parts: Sequence[Part]) -> str:
    """Returns the hash of the canonical request: a repeat with the same key and another hash is a defect."""
    return digest([part.wire() for part in parts])


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """The changes of one approval; its hash binds the decision to exactly these changes."""

    org: OrgId
    run: RunId
    round: int
    automation: AutomationId
    automation_version: int
    plan_version: int | None
    template_version: int
    items: tuple[tuple[ChangeId, str], ...]

    def change_hash(self) -> str:
        """Returns the SHA-256 over contract version, run, round, versions and every item in order."""
        return digest(
            [
                1,
                self.org,
                self.run,
                self.round,
                self.automation,
                self.automation_version,
                self.plan_version,
                self.template_version,
                [[change, item] for change, item in self.items],
            ]
        )


_WORST = (Outcome.UNKNOWN, Outcome.FAILED, Outcome.CONFLICT, Outcome.APPLIED, Outcome.UNCHANGED)


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """Returns the outcome of a change from those of its parts; a conflict beside a written part is failed."""
    outcome = min(outcomes, key=_WORST.index)
    if outcome is Outcome.CONFLICT and Outcome.APPLIED in outcomes:
        return Outcome.FAILED
    return outcome


__all__ = [
    "Action",
    "ApprovalId",
    "Batch",
    "Change",
    "ChangeSet",
    "FieldChange",
    "FieldKind",
    "ObjectRef",
    "Outcome",
    "Part",
    "Proposal",
    "Recovery",
    "batch_key",
    "canonical",
    "request_hash",
    "truncated_value",
    "worst",
    "write_key",
]
