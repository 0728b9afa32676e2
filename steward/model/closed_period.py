"""Closed periods: people's rules for times in which no run begins, or nothing is written."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from steward.model.ids import AutomationId, IntegrationId, OrgId
from steward.model.json import JsonObject


class Stops(StrEnum):
    """The activity that a closed period stops; `runs` includes `changes`."""

    CHANGES = "changes"
    RUNS = "runs"


class ClosedScopeKind(StrEnum):
    """The scopes of closed periods, widest first."""

    ORGANIZATION = "organization"
    STORE = "store"
    AUTOMATION = "automation"


class ClosedKind(StrEnum):
    """The four shapes of a closed period."""

    ONCE = "once"
    WEEKLY = "weekly"
    YEARLY = "yearly"
    FREEZE = "freeze"


@dataclass(frozen=True, slots=True)
class ClosedScope:
    """The organization, one of its stores, or one of its automations."""

    kind: ClosedScopeKind
    integration: IntegrationId | None = None
    automation: AutomationId | None = None

    def to_wire(self) -> JsonObject:
        """Returns the API form of the scope, with only the id of its kind."""
        if self.kind is ClosedScopeKind.STORE:
            return {"kind": self.kind.value, "integration_id": self.integration}
        if self.kind is ClosedScopeKind.AUTOMATION:
            return {"kind": self.kind.value, "automation_id": self.automation}
        return {"kind": self.kind.value}


@dataclass(frozen=True, slots=True)
class ClosedWhen:
    """The times of a closed period in its time zone; each kind uses its own fields.

    `start` and `end` (`once`): local `YYYY-MM-DDTHH:MM`. `days` with `from_time` and `to_time` (`weekly`):
    local `HH:MM`, both None for whole days. `first` and `last` (`yearly`): `MM-DD`.
    """

    kind: ClosedKind
    start: str | None = None
    end: str | None = None
    days: tuple[int, ...] = ()
    from_time: str | None = None
    to_time: str | None = None
    first: str | None = None
    last: str | None = None

    def to_wire(self) -> JsonObject:
        """Returns the fields of the kind by their API names."""
        match self.kind:
            case ClosedKind.ONCE:
                return {"kind": "once", "start": self.start, "end": self.end}
            case ClosedKind.WEEKLY:
                return {
                    "kind": "weekly",
                    "days": list(self.days),
                    "from": self.from_time,
                    "to": self.to_time,
                }
            case ClosedKind.YEARLY:
                return {"kind": "yearly", "first": self.first, "last": self.last}
            case ClosedKind.FREEZE:
                return {"kind": "freeze"}

    @classmethod
    def from_wire(cls, wire: Mapping[str, object]) -> "ClosedWhen":
        """Returns the times from their stored form; scheduling/closed_shape.py reads those of a request."""
        days = wire.get("days")
        return cls(
            ClosedKind(str(wire["kind"])),
            start=_text(wire.get("start")),
            end=_text(wire.get("end")),
            days=tuple(int(day) for day in days) if isinstance(days, list) else (),
            from_time=_text(wire.get("from")),
            to_time=_text(wire.get("to")),
            first=_text(wire.get("first")),
            last=_text(wire.get("last")),
        )


FREEZE = ClosedWhen(ClosedKind.FREEZE)


@dataclass(frozen=True, slots=True)
class ClosedPeriod:
    """A version of a closed period, valid in [`valid_from`, `valid_until`)."""

    org: OrgId
    id: str
    version: int
    valid_from: datetime
    valid_until: datetime | None
    name: str
    scope: ClosedScope
    stops: Stops
    when: ClosedWhen
    timezone: str


@dataclass(frozen=True, slots=True)
class Closing:
    """An interval of a closed period: [`start`, `end`); without `end` until a person ends it."""

    start: datetime
    end: datetime | None
    period: ClosedPeriod

    def holds(self, instant: datetime) -> bool:
        """Returns whether the instant is in the interval, which includes its start but not its end."""
        return self.start <= instant and (self.end is None or instant < self.end)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
