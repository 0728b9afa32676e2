"""Writes the history of automations: who changed what, and when."""

from collections.abc import Mapping, Sequence

from steward.automations.bindings import accounts_of, bindings_of
from steward.database.automations import history
from steward.database.automations.history import FieldEdit, HistoryAction
from steward.database.engine.base import Tx
from steward.model.account import Actor
from steward.model.automation import Automation
from steward.model.json import JsonValue
from steward.model.schedule import Schedule

SERVICE = "service"


async def add_entry(
    tx: Tx,
    actor: Actor | None,
    automation: Automation,
    *,
    action: HistoryAction,
    reason: str | None = None,
    fields: Sequence[FieldEdit] = (),
) -> None:
    """Adds an entry to the history of the automation in its current state; `actor` None is the service."""
    await history.add(
        tx,
        automation.org,
        automation.id,
        action=action,
        version=automation.version,
        person=None if actor is None else actor.person,
        via=SERVICE if actor is None else actor.via.value,
        api_client_id=None if actor is None else actor.client_id,
        reason=reason,
        fields=fields,
    )


def edits(before: Automation, after: Automation) -> list[FieldEdit]:
    """Returns the fields that differ between two versions, in their API form; inputs one by one."""
    edited = [
        FieldEdit(name, old, new)
        for name, old, new in zip(_NAMES, _values(before), _values(after), strict=True)
        if old != new
    ]
    return edited + _edits_below("inputs", before.inputs, after.inputs)


_NAMES = (
    "name",
    "state",
    "paused_by",
    "paused_reason",
    "integration_id",
    "connections",
    "schedule",
    "timezone",
    "trigger",
    "template_version",
    "bindings",
    "accounts",
    "send_mode",
)


def _values(automation: Automation) -> tuple[JsonValue, ...]:
    return (
        automation.name,
        automation.state.value,
        None if automation.paused_by is None else automation.paused_by.value,
        automation.paused_reason,
        automation.integration_id,
        [
            {"integration_id": connection.integration_id, "kind": connection.kind}
            for connection in automation.connections
        ],
        automation.schedule.to_wire(),
        automation.timezone,
        automation.trigger.to_json(),
        automation.template_version,
        bindings_of(automation.bindings),
        accounts_of(automation.bindings),
        automation.send_mode,
    )


def _edits_below(
    field: str, before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]
) -> list[FieldEdit]:
    names = [*before, *(name for name in after if name not in before)]
    return [
        FieldEdit(f"{field}.{name}", before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    ]


def value_edits(before: Mapping[str, str], after: Mapping[str, str]) -> list[FieldEdit]:
    """Returns the values of variables that differ between two versions, one by one."""
    return _edits_below("variables", before, after)


def schedule_edit(before: Schedule, after: Schedule) -> FieldEdit:
    """Returns the change of schedule that `this_and_later` makes."""
    return FieldEdit("schedule", before.to_wire(), after.to_wire())
