"""Automations, their states and the allowed transitions."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import product

from steward.model.account import Creator
from steward.model.connection import AutomationConnection
from steward.model.ids import AutomationId, IntegrationId, OrgId
from steward.model.json import JsonObject
from steward.model.schedule import Schedule
from steward.model.trigger import Trigger, TriggerKind


class AutomationState(StrEnum):
    """The state of an automation."""

    DRAFT = "draft"
    ACTIVE = "active"
    PAUSED = "paused"
    ARCHIVED = "archived"


class AutomationKind(StrEnum):
    """The source of an automation: a template or an import."""

    TEMPLATE = "template"
    WORKFLOW = "workflow"


class PausedBy(StrEnum):
    """The kind of actor that paused an automation."""

    MERCHANT = "merchant"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Automation:
    """An automation in its API form; fields of workflows are null for a template."""

    org: OrgId
    id: AutomationId
    version: int
    kind: AutomationKind
    import_id: str | None
    template_id: str
    template_version: int
    source: str | None
    platform: str | None
    integration_id: IntegrationId | None
    store_label: str
    name: str
    state: AutomationState
    paused_by: PausedBy | None
    paused_reason: str | None
    inputs: JsonObject
    schedule: Schedule
    timezone: str
    spread_minutes: int
    trigger: Trigger
    connections: tuple[AutomationConnection, ...]
    bindings: JsonObject
    send_mode: str | None
    plan_version: int | None
    next_run_at: datetime | None
    last_run_at: datetime | None
    consecutive_failures: int
    created_at: datetime
    updated_at: datetime
    maker: Creator


# The addends of a facet.
_STATES = {state: 10 * number for number, state in enumerate(AutomationState)}
_ORIGINS = {
    (AutomationKind.TEMPLATE, None): 0,
    (AutomationKind.WORKFLOW, "workflow_tool"): 2,
    (AutomationKind.WORKFLOW, "store_flow"): 4,
}
_TRIGGERS = {TriggerKind.SCHEDULE: 0, TriggerKind.EVENT: 1}


def facets(
    states: Collection[AutomationState] = (),
    kind: AutomationKind | None = None,
    source: str | None = None,
    trigger: TriggerKind | None = None,
) -> list[int]:
    """Returns the facets of automations with these states, kind, source and trigger; None matches any.

    A facet is the column `automations.facet`: all four in one number, with which the indexes of lists
    begin.
    """
    origins = [
        number
        for (of_kind, of_source), number in _ORIGINS.items()
        if kind in (None, of_kind) and source in (None, of_source)
    ]
    combinations = product(states or AutomationState, origins, [trigger] if trigger else TriggerKind)
    return [_STATES[state] + origin + _TRIGGERS[started_by] for state, origin, started_by in combinations]
