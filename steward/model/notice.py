"""Notices: the facts that people are notified of, their topics and groups, and preferences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time
from enum import StrEnum
from typing import Final

from steward.model.ids import (
    ApprovalId,
    AutomationId,
    IntegrationId,
    MessageId,
    NoticeId,
    OrgId,
    PersonId,
    RouteId,
    RunId,
)
from steward.model.json import JsonObject, JsonValue

# The length to which a name in the facts of a notice is cut.
NAME_CHARACTERS: Final = 80
# The number of notices that a message lists; the others are counted.
LISTED: Final = 20


class NoticeGroup(StrEnum):
    """A group of topics that a person switches on or off together."""

    APPROVALS = "approvals"
    RUNS = "runs"
    AUTOMATIONS = "automations"
    CONNECTIONS = "connections"


class Topic(StrEnum):
    """The kind of event that a notice reports (docs/design/notifications.md#topics)."""

    APPROVAL_WAITING = "approval_waiting"
    APPROVAL_EXPIRING = "approval_expiring"
    APPROVAL_EXPIRED = "approval_expired"
    RUN_FAILED = "run_failed"
    RUN_PARTLY_FAILED = "run_partly_failed"
    RUN_OUTCOME_UNKNOWN = "run_outcome_unknown"
    AUTOMATION_PAUSED = "automation_paused"
    AUTOMATION_QUIET = "automation_quiet"
    SLOT_TOO_LATE = "slot_too_late"
    SLOT_MISSING = "slot_missing"
    EVENTS_DROPPED = "events_dropped"
    CONNECTION_LOST = "connection_lost"
    ROUTE_BROKEN = "route_broken"
    CHANGES_STOPPED = "changes_stopped"


GROUPS: Final[Mapping[Topic, NoticeGroup]] = {
    Topic.APPROVAL_WAITING: NoticeGroup.APPROVALS,
    Topic.APPROVAL_EXPIRING: NoticeGroup.APPROVALS,
    Topic.APPROVAL_EXPIRED: NoticeGroup.APPROVALS,
    Topic.RUN_FAILED: NoticeGroup.RUNS,
    Topic.RUN_PARTLY_FAILED: NoticeGroup.RUNS,
    Topic.RUN_OUTCOME_UNKNOWN: NoticeGroup.RUNS,
    Topic.AUTOMATION_PAUSED: NoticeGroup.AUTOMATIONS,
    Topic.AUTOMATION_QUIET: NoticeGroup.AUTOMATIONS,
    Topic.SLOT_TOO_LATE: NoticeGroup.AUTOMATIONS,
    Topic.SLOT_MISSING: NoticeGroup.AUTOMATIONS,
    Topic.EVENTS_DROPPED: NoticeGroup.AUTOMATIONS,
    Topic.CONNECTION_LOST: NoticeGroup.CONNECTIONS,
    Topic.ROUTE_BROKEN: NoticeGroup.CONNECTIONS,
    Topic.CHANGES_STOPPED: NoticeGroup.AUTOMATIONS,
}
# Topics of an approval that still waits: a message about one is urgent, and void once it is decided.
WAITING_TOPICS: Final = frozenset((Topic.APPROVAL_WAITING, Topic.APPROVAL_EXPIRING))


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A fact of which people are notified; `dedupe` identifies it, so that it is stored once.

    `facts` are the values for messages about it, created by `facts_of`; `count` is the number of equal
    facts of one transaction that it represents.
    """

    topic: Topic
    dedupe: str
    facts: JsonObject
    automation: AutomationId | None = None
    run: RunId | None = None
    approval: ApprovalId | None = None
    integration: IntegrationId | None = None
    route: RouteId | None = None
    person: PersonId | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class StoredNotice:
    """A stored notice; `inbox_only`: messages about it may have been sent before a restore."""

    org: OrgId
    id: NoticeId
    notice: Notice
    created_at: datetime
    inbox_only: bool = False


def facts_of(**values: JsonValue) -> JsonObject:
    """Returns facts for a notice; cuts texts to 80 characters, ending in `…`, and leaves out nulls."""
    return {
        name: _shortened(value) if isinstance(value, str) else value
        for name, value in values.items()
        if value is not None
    }


def _shortened(text: str) -> str:
    return text if len(text) <= NAME_CHARACTERS else f"{text[: NAME_CHARACTERS - 1].rstrip()}…"


class ChannelName(StrEnum):
    """The channel through which a message is sent."""

    EMAIL = "email"
    PUSH = "push"
    TEAMS = "teams"
    SLACK = "slack"
    WEBHOOK = "webhook"


class MessageKind(StrEnum):
    """The kind of a message: immediate notices, a digest, an account mail, or a test."""

    NOTICES = "notices"
    DIGEST = "digest"
    TRANSACTIONAL = "transactional"
    TEST = "test"


class MessageState(StrEnum):
    """The state of a message (docs/design/notifications.md#states-of-a-message)."""

    COLLECTING = "collecting"
    DUE = "due"
    SENDING = "sending"
    SENT = "sent"
    REFUSED = "refused"
    EXPIRED = "expired"
    OBSOLETE = "obsolete"


@dataclass(frozen=True, slots=True)
class NoticeMessage:
    """A message that a channel delivers to one person or one route, with its notices.

    `notices` are at most `LISTED`, the most urgent first; `count` is the number of all its facts.
    `envelope` holds everything else that its text needs, such as the organization's name, and is fixed when
    the message is closed. `address` is the person's current address. `sealed` is the content of a
    transactional message with the number of its key.
    """

    org: OrgId
    id: MessageId
    channel: ChannelName
    kind: MessageKind
    person: PersonId | None
    route: RouteId | None
    closed_at: datetime
    attempt: int
    count: int
    envelope: JsonObject
    notices: tuple[StoredNotice, ...]
    address: str | None = None
    sealed: tuple[bytes, int] | None = None


class MailChoice(StrEnum):
    """A person's choice of when a group of topics is sent by e-mail."""

    NOW = "now"
    DIGEST = "digest"
    OFF = "off"


class AutomationChoice(StrEnum):
    """The automations that notify a person: all, or those that they created or started."""

    ALL = "all"
    MINE = "mine"


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A local time of day in which nothing is sent; `days` are the days on which it begins (0 is Monday)."""

    start: time
    end: time
    days: frozenset[int]


@dataclass(frozen=True, slots=True)
class Digest:
    """The local time of the digest, and its days (0 is Monday)."""

    at: time
    days: frozenset[int]


_WORKDAYS: Final = frozenset(range(5))
_EVERY_GROUP_NOW: Final[Mapping[NoticeGroup, MailChoice]] = dict.fromkeys(NoticeGroup, MailChoice.NOW)


@dataclass(frozen=True, slots=True)
class Preferences:
    """A person's preferences; `automations` and `timezone` are null for the default."""

    email: Mapping[NoticeGroup, MailChoice] = field(default_factory=lambda: dict(_EVERY_GROUP_NOW))
    automations: AutomationChoice | None = None
    muted: frozenset[AutomationId] = frozenset()
    quiet_hours: QuietHours | None = None
    wake_for_expiry: bool = True
    digest: Digest = Digest(time(8), _WORKDAYS)
    timezone: str | None = None


DEFAULT_PREFERENCES: Final = Preferences()


def preferences_from_json(stored: Mapping[str, JsonValue]) -> Preferences:
    """Returns stored preferences, with defaults for absent ones."""
    email = {**_EVERY_GROUP_NOW}
    for group, choice in _object(stored.get("email")).items():
        email[NoticeGroup(group)] = MailChoice(str(choice))
    quiet, digest = _object(stored.get("quiet_hours")), _object(stored.get("digest"))
    automations, zone = stored.get("automations"), stored.get("timezone")
    return Preferences(
        email=email,
        automations=AutomationChoice(str(automations)) if automations else None,
        muted=frozenset(AutomationId(str(id_)) for id_ in _list(stored.get("muted"))),
        quiet_hours=(
            QuietHours(_time(quiet["from"]), _time(quiet["to"]), _days(quiet["days"])) if quiet else None
        ),
        wake_for_expiry=bool(stored.get("wake_for_expiry", True)),
        digest=Digest(_time(digest["at"]), _days(digest["days"])) if digest else DEFAULT_PREFERENCES.digest,
        timezone=str(zone) if zone else None,
    )


def preferences_to_json(preferences: Preferences) -> JsonObject:
    """Returns preferences in their stored form, which the web app reads too."""
    quiet, digest = preferences.quiet_hours, preferences.digest
    return {
        "email": {str(group): str(choice) for group, choice in preferences.email.items()},
        "automations": str(preferences.automations) if preferences.automations else None,
        "muted": [str(automation) for automation in sorted(preferences.muted)],
        "quiet_hours": None
        if quiet is None
        else {"from": f"{quiet.start:%H:%M}", "to": f"{quiet.end:%H:%M}", "days": list(sorted(quiet.days))},
        "wake_for_expiry": preferences.wake_for_expiry,
        "digest": {"at": f"{digest.at:%H:%M}", "days": list(sorted(digest.days))},
        "timezone": preferences.timezone,
    }


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, Mapping) else {}


def _list(value: JsonValue) -> list[JsonValue]:
    return list(value) if isinstance(value, list | tuple) else []


def _time(value: JsonValue) -> time:
    return time.fromisoformat(str(value))


def _days(value: JsonValue) -> frozenset[int]:
    return frozenset(int(str(day)) for day in _list(value))
