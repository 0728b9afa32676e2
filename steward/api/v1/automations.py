"""Automations over HTTP: list, create, get, update, pause, resume, archive, restore."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, cast

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import InitErrorDetails, PydanticCustomError

from steward.api.http import paging
from steward.api.http.operation import Answer, ApiCall, Operation, replayed
from steward.api.schema.answers import (
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
from steward.api.schema.body_rules import (
    BY_EVENTS,
    by_step,
    component,
)
from steward.api.schema.fields import (
    CommaList,
    IdempotencyKey,
    NameText,
    OpenObject,
    PageQuery,
    PlatformText,
    Positive,
    QueryInt,
    ReasonText,
    RequestBody,
    SearchText,
    TemplateIdText,
    Text,
    Timestamp,
    ZoneText,
    check_open_json,
    wrong,
)
from steward.api.schema.json_passthrough import (
    CalledImports,
    ScheduleWire,
    StepAccounts,
    StepBindings,
    TriggerWire,
    UsedConnection,
    WorkflowReadiness,
)
from steward.automations import change, lifecycle, setup, workflows
from steward.automations.bindings import accounts_of, bindings_of
from steward.automations.change import UpdateCommand
from steward.automations.checks import BY_SCHEDULE, MAX_CONNECTIONS, MAX_TOPICS, RequestedTrigger
from steward.automations.lifecycle import StateCommand
from steward.automations.setup import CreateCommand
from steward.automations.topics import shown_trigger
from steward.database.automations import lists
from steward.database.automations import records as automations
from steward.database.automations.lists import AutomationFilter, Sort, SortKey
from steward.database.engine.base import Tx
from steward.model.account import Actor, Scope
from steward.model.automation import Automation, AutomationKind, AutomationState
from steward.model.connection import AutomationConnection
from steward.model.ids import AutomationId, IntegrationId
from steward.model.instants import wire_time, wire_time_or_none
from steward.model.occurrence import Occurrence
from steward.model.refusals import KeyReused, NotConnected, NotReady, StaleVersion, WrongState
from steward.model.schedule import Schedule
from steward.model.trigger import TriggerKind
from steward.scheduling.shape import read_schedule
from steward.scheduling.zones import FIRST


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
    readiness: WorkflowReadiness | UnsetType = UNSET
    send_mode_allowed: bool | UnsetType = UNSET


class AutomationAnswer(msgspec.Struct):
    """An automation."""

    automation: AutomationRecord


class AutomationsAnswer(msgspec.Struct):
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


async def whole_record(tx: Tx, automation: Automation, *, is_new: bool = False) -> AutomationRecord:
    """Builds the answer with the readiness of a workflow automation."""
    answer = record(automation)
    if automation.kind is not AutomationKind.WORKFLOW:
        return answer
    state = await workflows.state_of(tx, automation)
    missing = [] if state is None else state.unconfigured
    is_ready = state is not None and state.is_ready
    answer.readiness = workflows.readiness_wire(missing, is_ready=is_ready)
    answer.accounts = accounts_of(automation.bindings)
    answer.calls = {} if state is None else state.calls
    if not is_new:
        answer.send_mode_allowed = state is not None and state.may_send
    return answer


def current(_: ApiCall, records: Mapping[str, object]) -> Mapping[str, object]:
    """Builds the `data` of a StaleVersion refusal: the occurrence or null, and the automation."""
    occurrence, automation = records.get("occurrence"), records.get("automation")
    return {
        "occurrence": occurrence.to_wire() if isinstance(occurrence, Occurrence) else None,
        "automation": record(automation) if isinstance(automation, Automation) else None,
    }


# Bodies ----------------------------------------------------------------------------------------------------


class SentSchedule(NamedTuple):
    """A schedule as sent and as parsed."""

    sent: dict[str, Any]
    read: Schedule


def _schedule(value: Any) -> Any:
    """Parses a schedule; all of its faults are reported together with those of other fields."""
    if not isinstance(value, dict):
        raise wrong("Give an object.")
    schedule = read_schedule(value, zone=None, now=FIRST, path="schedule")
    if isinstance(schedule, Schedule):
        return SentSchedule(value, schedule)
    faults = [
        InitErrorDetails(
            type=PydanticCustomError("plain", "{words}", {"words": words}) if name in value else "missing",
            loc=(name,),
            input=value,
        )
        for name, words in ((path.partition(".")[2], words[0]) for path, words in schedule.items())
    ]
    raise ValidationError.from_exception_data("schedule", faults)


ScheduleJson = Annotated[SentSchedule, PlainValidator(_schedule), WithJsonSchema(component("ScheduleBody"))]


Bindings = Annotated[
    dict[str, Any], BeforeValidator(check_open_json), WithJsonSchema(by_step("StepBindingBody", 500))
]
Accounts = Annotated[
    dict[str, Any], BeforeValidator(check_open_json), WithJsonSchema(by_step("StepAccountBody", 500))
]
Calls = Annotated[
    dict[str, Any], BeforeValidator(check_open_json), WithJsonSchema(by_step("CalledImportBody", 20))
]


class ConnectionBody(RequestBody):
    """A connection an automation reads."""

    integration_id: Positive
    kind: PlatformText


class ScheduleTriggerBody(RequestBody):
    """Starts on its schedule."""

    kind: Literal["schedule"]


class EventTriggerBody(RequestBody):
    """Starts when its store sends one of `topics`; the other fields are the service's."""

    kind: Literal["event"]
    topics: list[Text] = Field(json_schema_extra={"minItems": 1, "maxItems": MAX_TOPICS, "uniqueItems": True})


TriggerBody = Annotated[ScheduleTriggerBody | EventTriggerBody, Field(discriminator="kind")]


class CreateBody(RequestBody):
    """A new automation."""

    model_config = ConfigDict(json_schema_extra=BY_EVENTS)

    template_id: TemplateIdText
    name: NameText
    inputs: OpenObject
    schedule: ScheduleJson
    integration_id: Positive | None = None
    connections: list[ConnectionBody] = Field(default=[], json_schema_extra={"maxItems": MAX_CONNECTIONS})
    timezone: ZoneText = Field(default="")
    trigger: TriggerBody = ScheduleTriggerBody(kind="schedule")
    idempotency_key: IdempotencyKey = Field(default="")


class UpdateBody(RequestBody):
    """A change of an automation; a field that is absent stays as it is."""

    version: Positive
    name: NameText = Field(default="")
    inputs: OpenObject = Field(default={})
    schedule: ScheduleJson = Field(default=cast("SentSchedule", None))
    integration_id: Positive | None = None
    connections: list[ConnectionBody] = Field(default=[], json_schema_extra={"maxItems": MAX_CONNECTIONS})
    timezone: ZoneText = Field(default="")
    trigger: TriggerBody = ScheduleTriggerBody(kind="schedule")
    template_version: Positive = Field(default=1)
    bindings: Bindings = Field(default={})
    accounts: Accounts = Field(default={})
    calls: Calls = Field(default={})
    send_mode: Literal["ask", "send"] = "ask"


class StateBody(RequestBody):
    """Resume, archive or restore."""

    version: Positive = Field(default=1)


class PauseBody(StateBody):
    """Pause."""

    reason: ReasonText = Field(default="")


class AutomationsQuery(PageQuery):
    """Query parameters: which automations to list."""

    state: Annotated[list[AutomationState], CommaList] = Field(
        default=[AutomationState.DRAFT, AutomationState.ACTIVE, AutomationState.PAUSED]
    )
    kind: AutomationKind | None = None
    template_id: TemplateIdText | None = None
    platform: PlatformText | None = None
    integration_id: QueryInt | None = None
    trigger: TriggerKind | None = None
    source: Literal["workflow_tool", "store_flow"] | None = None
    q: SearchText | None = None
    updated_since: Timestamp | None = None
    sort: Sort = Sort.NEWEST


def _bound(bodies: list[ConnectionBody]) -> tuple[AutomationConnection, ...]:
    return tuple(AutomationConnection(IntegrationId(body.integration_id), body.kind) for body in bodies)


def trigger_ask(body: ScheduleTriggerBody | EventTriggerBody) -> RequestedTrigger:
    """Returns the trigger that a body requests."""
    if isinstance(body, EventTriggerBody):
        return RequestedTrigger(TriggerKind.EVENT, tuple(body.topics))
    return BY_SCHEDULE


def _integration(number: int | None) -> IntegrationId | None:
    return None if number is None else IntegrationId(number)


# Endpoints -------------------------------------------------------------------------------------------------


async def find(tx: Tx, call: ApiCall) -> Answer:
    """`GET `: lists automations by filter and sort; ids of another organization match nothing."""
    query: AutomationsQuery = call.query
    filters = AutomationFilter(
        states=query.state,
        kind=query.kind,
        template_id=query.template_id,
        platform=query.platform,
        integration_id=_integration(query.integration_id),
        trigger=query.trigger,
        source=query.source,
        q=query.q,
        updated_since=query.updated_since,
    )
    page = await lists.find(
        tx, call.actor.org, filters, sort=query.sort, limit=query.limit, after=_after(call)
    )
    cursor = None if page.next_key is None else paging.next_cursor(call, page.next_key)
    return AutomationsAnswer([record(automation) for automation in page.automations], cursor)


def _after(call: ApiCall) -> SortKey | None:
    key = paging.after(call)
    if key is None:
        return None
    value = key[0]
    return (value if isinstance(value, int | str) else None), str(key[1])


def create_ask(body: CreateBody) -> CreateCommand:
    """Returns what a body asks for."""
    return CreateCommand(
        template_id=body.template_id,
        name=body.name,
        inputs=body.inputs,
        schedule=body.schedule.sent,
        read=body.schedule.read,
        integration_id=_integration(body.integration_id),
        connections=_bound(body.connections),
        timezone=body.timezone if "timezone" in body.model_fields_set else None,
        trigger=trigger_ask(body.trigger),
        idempotency_key=body.idempotency_key or None,
    )


async def create(tx: Tx, call: ApiCall) -> Answer:
    """`POST `: creates an automation, or returns the one created with the same key."""
    created = await setup.create(tx, call.actor, create_ask(call.body), rules=call.context.automation_rules)
    answer = AutomationAnswer(record(created.automation))
    return replayed(answer) if created.replayed else answer


async def get(tx: Tx, call: ApiCall) -> Answer:
    """`GET /{automationId}`."""
    automation = await automations.get(tx, call.actor.org, _id(call))
    return AutomationAnswer(await whole_record(tx, automation))


async def update(tx: Tx, call: ApiCall) -> Answer:
    """`PATCH /{automationId}`: replaces each field that is sent, if the version is current."""
    body: UpdateBody = call.body
    sent_fields = body.model_fields_set
    command = UpdateCommand(
        automation=_id(call),
        version=body.version,
        name=body.name if "name" in sent_fields else None,
        inputs=body.inputs if "inputs" in sent_fields else None,
        schedule=body.schedule.sent if "schedule" in sent_fields else None,
        timezone=body.timezone if "timezone" in sent_fields else None,
        integration_id=_integration(body.integration_id),
        has_integration="integration_id" in sent_fields,
        connections=_bound(body.connections) if "connections" in sent_fields else None,
        trigger=trigger_ask(body.trigger) if "trigger" in sent_fields else None,
        template_version=body.template_version if "template_version" in sent_fields else None,
        bindings=body.bindings if "bindings" in sent_fields else None,
        accounts=body.accounts if "accounts" in sent_fields else None,
        calls=body.calls if "calls" in sent_fields else None,
        send_mode=body.send_mode if "send_mode" in sent_fields else None,
    )
    changed = await change.update(tx, call.actor, command, rules=call.context.automation_rules)
    return AutomationAnswer(await whole_record(tx, changed))


Turn = Callable[..., Awaitable[Automation]]


async def _turn(tx: Tx, call: ApiCall, verb: Turn) -> Answer:
    body: StateBody = call.body
    command = StateCommand(
        automation=_id(call),
        version=body.version if "version" in body.model_fields_set else None,
        reason=(body.reason or None) if isinstance(body, PauseBody) else None,
    )
    actor: Actor = call.actor
    turned = await verb(tx, actor, command, rules=call.context.automation_rules)
    return AutomationAnswer(await whole_record(tx, turned))


async def pause(tx: Tx, call: ApiCall) -> Answer:
    """`POST /{automationId}/pause`."""
    return await _turn(tx, call, lifecycle.pause)


async def resume(tx: Tx, call: ApiCall) -> Answer:
    """`POST /{automationId}/resume`."""
    return await _turn(tx, call, lifecycle.resume)


async def archive(tx: Tx, call: ApiCall) -> Answer:
    """`POST /{automationId}/archive`."""
    return await _turn(tx, call, lifecycle.archive)


async def restore(tx: Tx, call: ApiCall) -> Answer:
    """`POST /{automationId}/restore`."""
    return await _turn(tx, call, lifecycle.restore)


def _id(call: ApiCall) -> AutomationId:
    return AutomationId(call.ids["automation_id"])


OPERATIONS = (
    Operation(
        name="automations.list",
        method="GET",
        path="/v1/automations",
        scope=Scope.READ,
        function=find,
        query=AutomationsQuery,
        answer=AutomationsAnswer,
        summary="List automations",
    ),
    Operation(
        name="automations.create",
        method="POST",
        path="/v1/automations",
        scope=Scope.WRITE,
        function=create,
        body=CreateBody,
        answer=AutomationAnswer,
        summary="Create automation",
        status=201,
        refusals=(KeyReused, NotConnected),
        writes=True,
        wakes=("due",),
    ),
    Operation(
        name="automations.get",
        method="GET",
        path="/v1/automations/{automation_id}",
        scope=Scope.READ,
        function=get,
        answer=AutomationAnswer,
        summary="Get automation",
        small=True,
    ),
    Operation(
        name="automations.update",
        method="PATCH",
        path="/v1/automations/{automation_id}",
        scope=Scope.WRITE,
        function=update,
        body=UpdateBody,
        answer=AutomationAnswer,
        summary="Update automation",
        refusals=(StaleVersion, WrongState, NotConnected),
        writes=True,
        wakes=("due", "ready", "listen"),
        current=current,
    ),
    Operation(
        name="automations.pause",
        method="POST",
        path="/v1/automations/{automation_id}/pause",
        scope=Scope.WRITE,
        function=pause,
        body=PauseBody,
        answer=AutomationAnswer,
        summary="Pause automation",
        refusals=(StaleVersion, WrongState),
        writes=True,
        wakes=("ready", "listen"),
        current=current,
    ),
    Operation(
        name="automations.resume",
        method="POST",
        path="/v1/automations/{automation_id}/resume",
        scope=Scope.WRITE,
        function=resume,
        body=StateBody,
        answer=AutomationAnswer,
        summary="Resume automation",
        refusals=(StaleVersion, WrongState, NotConnected, NotReady),
        writes=True,
        wakes=("due", "listen"),
        current=current,
    ),
    Operation(
        name="automations.archive",
        method="POST",
        path="/v1/automations/{automation_id}/archive",
        scope=Scope.WRITE,
        function=archive,
        body=StateBody,
        answer=AutomationAnswer,
        summary="Archive automation",
        refusals=(StaleVersion, WrongState),
        writes=True,
        wakes=("ready", "listen"),
        current=current,
    ),
    Operation(
        name="automations.restore",
        method="POST",
        path="/v1/automations/{automation_id}/restore",
        scope=Scope.WRITE,
        function=restore,
        body=StateBody,
        answer=AutomationAnswer,
        summary="Restore automation",
        refusals=(StaleVersion, WrongState),
        writes=True,
        current=current,
    ),
)
