"""Builds the API records of automations."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from steward.api.http.operation import ApiCall
from steward.api.schema.json_passthrough import (
    CalledImports,
    ScheduleWire,
    StepAccounts,
    StepBindings,
    TriggerWire,
    UsedConnection,
    WorkflowReadiness,
)
from steward.api.schema.responses import (
    AutomationKindStr,
    AutomationStateStr,
    Count,
    Cursor,
    ImportSourceStr,
    Instant,
    Minutes,
    Name,
    PausedByStr,
    Platform,
    PositiveInt,
    SendModeStr,
    TemplateName,
    UlidStr,
    ViaStr,
)
from steward.automations import workflows
from steward.automations.bindings import accounts_of, bindings_of
from steward.automations.topics import shown_trigger
from steward.database.engine.base import Tx
from steward.model.automation import Automation, AutomationKind
from steward.model.instants import wire_time, wire_time_or_none
from steward.model.occurrence import Occurrence


class AutomationRecord(msgspec.Struct):
    """An automation; fields of workflow automations are absent for a template."""

    id: UlidStr
    version: PositiveInt
    kind: AutomationKindStr
    import_id: UlidStr | None
    template_id: TemplateName
    template_version: PositiveInt
    platform: Platform | None
    integration_id: PositiveInt | None
    store_label: str
    name: Name
    state: AutomationStateStr
    paused_by: PausedByStr | None
    paused_reason: str | None
    inputs: Mapping[str, Any]
    schedule: ScheduleWire
    timezone: str
    spread_minutes: Minutes
    next_run_at: Instant | None
    last_run_at: Instant | None
    consecutive_failures: Count
    created_at: Instant
    updated_at: Instant
    bindings: StepBindings
    connections: list[UsedConnection]
    trigger: TriggerWire
    created_by: PositiveInt | None
    created_via: ViaStr | None
    api_client_id: str | None
    source: ImportSourceStr | UnsetType = UNSET
    plan_version: PositiveInt | UnsetType = UNSET
    send_mode: SendModeStr | UnsetType = UNSET
    accounts: StepAccounts | UnsetType = UNSET
    calls: CalledImports | UnsetType = UNSET
    variables: Mapping[str, str] | UnsetType = UNSET
    readiness: WorkflowReadiness | UnsetType = UNSET
    send_mode_allowed: bool | UnsetType = UNSET


class AutomationResponse(msgspec.Struct):
    """An automation."""

    automation: AutomationRecord


class AutomationsResponse(msgspec.Struct):
    """A page of automations."""

    automations: list[AutomationRecord]
    next_cursor: Cursor | None


def record(automation: Automation) -> AutomationRecord:
    """Returns the API record of the automation."""
    is_workflow = automation.kind is AutomationKind.WORKFLOW
    return AutomationRecord(
        id=automation.id,
        version=automation.version,
        kind=automation.kind,
        import_id=automation.import_id,
        template_id=automation.template_id,
        template_version=automation.template_version,
        platform=automation.platform,
        integration_id=automation.integration_id,
        store_label=automation.store_label,
        name=automation.name,
        state=automation.state,
        paused_by=automation.paused_by,
        paused_reason=automation.paused_reason,
        inputs=automation.inputs,
        schedule=automation.schedule.to_wire(),
        timezone=automation.timezone,
        spread_minutes=automation.spread_minutes,
        next_run_at=wire_time_or_none(automation.next_run_at),
        last_run_at=wire_time_or_none(automation.last_run_at),
        consecutive_failures=automation.consecutive_failures,
        created_at=wire_time(automation.created_at),
        updated_at=wire_time(automation.updated_at),
        bindings=bindings_of(automation.bindings),
        connections=[
            {"integration_id": bound.integration_id, "kind": bound.kind} for bound in automation.connections
        ],
        trigger=shown_trigger(automation).to_wire(),
        created_by=automation.maker.created_by,
        created_via=automation.maker.created_via,
        api_client_id=automation.maker.api_client_id,
        source=automation.source if is_workflow and automation.source is not None else UNSET,
        plan_version=automation.plan_version if automation.plan_version is not None else UNSET,
        send_mode=automation.send_mode if is_workflow and automation.send_mode is not None else UNSET,
    )


async def record_with_readiness(tx: Tx, automation: Automation, *, is_new: bool = False) -> AutomationRecord:
    """Returns the API record of the automation, with the readiness of a workflow's steps."""
    response = record(automation)
    if automation.kind is not AutomationKind.WORKFLOW:
        return response
    state = await workflows.state_of(tx, automation)
    response.readiness = workflows.readiness_wire(state)
    response.accounts = accounts_of(automation.bindings)
    response.calls = {} if state is None else state.calls
    response.variables = {} if state is None else state.plan.values
    if not is_new:
        response.send_mode_allowed = state is not None and state.may_send
    return response


def current(_: ApiCall, records: Mapping[str, object]) -> Mapping[str, object]:
    """Builds the `data` of a StaleVersion refusal: the occurrence or null, and the automation."""
    occurrence, automation = records.get("occurrence"), records.get("automation")
    return {
        "occurrence": occurrence.to_wire() if isinstance(occurrence, Occurrence) else None,
        "automation": record(automation) if isinstance(automation, Automation) else None,
    }
