"""The sentence for a notice, and the page of the web app that it links to.

Names are quoted, since people choose them; times are left out, since readers are in different zones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from steward.model.json import JsonObject
from steward.model.notice import Topic

INBOX_PAGE: Final = "/inbox"
# For one notice, for several of one automation, and for notices of several automations.
_SENTENCES: Final[Mapping[Topic, tuple[str, str, str]]] = {
    Topic.APPROVAL_WAITING: (
        "{automation} asks for approval of {amount}",
        "{automation}: {count} approvals wait",
        "{count} approvals of {automations} automations wait",
    ),
    Topic.APPROVAL_EXPIRING: (
        "The approval of {automation} expires soon: {share} of its time has passed",
        "{automation}: {count} reminders of approvals that expire soon",
        "{count} reminders of approvals of {automations} automations that expire soon",
    ),
    Topic.APPROVAL_EXPIRED: (
        "Nobody decided on {automation} in time; nothing was changed",
        "{automation}: {count} approvals expired; nothing was changed",
        "{count} approvals of {automations} automations expired; nothing was changed",
    ),
    Topic.RUN_FAILED: (
        "{automation} failed",
        "{automation}: {count} runs failed",
        "{count} runs of {automations} automations failed",
    ),
    Topic.RUN_PARTLY_FAILED: (
        "{automation} could not make all of its changes",
        "{automation}: {count} runs could not make all of their changes",
        "{count} runs of {automations} automations could not make all of their changes",
    ),
    Topic.RUN_OUTCOME_UNKNOWN: (
        "{automation}: it is not known whether some changes were made; check the store",
        "{automation}: it is not known whether some changes of {count} runs were made; check the store",
        "It is not known whether some changes of {count} runs were made; check the stores",
    ),
    Topic.AUTOMATION_PAUSED: (
        "{automation} was paused by the service",
        "{automation} was paused by the service {count} times",
        "{automations} automations were paused by the service",
    ),
    Topic.AUTOMATION_QUIET: (
        "{automation} has had no successful run for {periods}",
        "{automation} still has no successful run",
        "{automations} automations have had no successful run for some time",
    ),
    Topic.SLOT_TOO_LATE: (
        "{automation}: a run could not start in time and was skipped",
        "{automation}: {count} runs could not start in time and were skipped",
        "{count} runs of {automations} automations could not start in time and were skipped",
    ),
    Topic.SLOT_MISSING: (
        "{automation}: a scheduled run was missed",
        "{automation}: {count} scheduled runs were missed",
        "{count} scheduled runs of {automations} automations were missed",
    ),
    Topic.EVENTS_DROPPED: (
        "{automation}: an event of the store started no run",
        "{automation}: {count} events of the store started no run",
        "{count} events for {automations} automations started no run",
    ),
    Topic.CONNECTION_LOST: (
        "The connection {connection} needs to be reconnected",
        "{count} times a connection needed to be reconnected",
        "{count} times a connection needed to be reconnected",
    ),
    Topic.ROUTE_BROKEN: (
        "The notification channel {route} no longer accepts messages",
        "{count} times a notification channel stopped accepting messages",
        "{count} times a notification channel stopped accepting messages",
    ),
    Topic.CHANGES_STOPPED: (
        "{freeze}",
        "Changes were stopped or resumed {count} times",
        "Changes were stopped or resumed {count} times",
    ),
}
_SHARES: Final[Mapping[object, str]] = {50: "half", 90: "nine tenths"}


@dataclass(frozen=True, slots=True)
class NoticeIds:
    """The ids of the records that a notice is about."""

    automation: str | None = None
    run: str | None = None
    approval: str | None = None
    integration: int | None = None
    route: str | None = None


def sentence(topic: Topic, facts: JsonObject, *, count: int = 1, automations: int = 1) -> str:
    """Returns the sentence for `count` notices of one topic about `automations` automations.

    `facts` are those of the latest notice. A single notice of an undo says so before the automation's name.
    """
    singular, several, many = _SENTENCES[topic]
    text = singular if count == 1 else several if automations == 1 else many
    undo = ""
    if facts.get("undo") and count == 1:
        undo = "Undo of " if text.startswith("{automation}") else "the undo of "
    return text.format(
        automation=undo + _quoted(facts, "automation", "An automation") + _store(facts),
        connection=_quoted(facts, "connection", "of a store"),
        route=_quoted(facts, "route", "without a name"),
        amount=_amount(facts),
        share=_SHARES.get(facts.get("percent"), "much"),
        periods=_number(facts.get("periods"), "period"),
        freeze=_freeze(facts),
        count=f"{count:,}",
        automations=f"{automations:,}",
    )


def page(topic: Topic, ids: NoticeIds, *, count: int = 1, automations: int = 1) -> str:
    """Returns the path of the page about the notice, or of a list for several notices."""
    if automations > 1:
        return _list_page(topic)
    automation = f"/automations/{ids.automation}" if ids.automation else _list_page(topic)
    if count > 1:
        return f"{automation}/runs" if ids.run and ids.automation else automation
    if ids.approval:
        return f"/approvals/{ids.approval}"
    if ids.run:
        return f"/runs/{ids.run}"
    if topic is Topic.CONNECTION_LOST and ids.integration is not None:
        return f"/connections/{ids.integration}"
    if topic is Topic.ROUTE_BROKEN and ids.route:
        return f"/organization/notifications/{ids.route}"
    return automation


def _list_page(topic: Topic) -> str:
    if topic in (Topic.APPROVAL_WAITING, Topic.APPROVAL_EXPIRING):
        return "/approvals"
    if topic is Topic.APPROVAL_EXPIRED:
        return "/approvals?decided=1"
    if topic in (Topic.RUN_FAILED, Topic.RUN_PARTLY_FAILED, Topic.RUN_OUTCOME_UNKNOWN):
        return "/runs?status=failed"
    if topic is Topic.CONNECTION_LOST:
        return "/connections"
    if topic is Topic.ROUTE_BROKEN:
        return "/organization/notifications"
    return "/automations"


def _quoted(facts: JsonObject, name: str, otherwise: str) -> str:
    value = facts.get(name)
    return f"“{value}”" if value else otherwise


def _store(facts: JsonObject) -> str:
    return f" on “{facts['store']}”" if facts.get("store") else ""


def _freeze(facts: JsonObject) -> str:
    """Returns the sentence for one stop of changes, or for its end."""
    is_over = bool(facts.get("over"))
    if facts.get("scope") == "store":
        store = _quoted(facts, "store", "a store")
        return f"Changes to {store} were {'resumed' if is_over else 'stopped'}"
    return "Changes were resumed" if is_over else "All changes were stopped"


def _amount(facts: JsonObject) -> str:
    return _number(facts.get("changes"), "message" if facts.get("kind") == "sends" else "change")


def _number(value: object, singular: str) -> str:
    number = value if isinstance(value, int) else 0
    return f"{number:,} {singular}" if number == 1 else f"{number:,} {singular}s"
