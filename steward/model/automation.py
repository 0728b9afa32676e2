"""Automations, their states and which moves are allowed."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from steward.model.account import Creator
from steward.model.connection import AutomationConnection
from steward.model.ids import AutomationId, IntegrationId, OrgId
from steward.model.json import JsonObject
from steward.model.schedule import Schedule
from steward.model.trigger import Trigger


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
    """An automation as answered; workflow-only fields are null for a template."""

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
