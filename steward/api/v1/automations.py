"""Automations over HTTP: list, create, get, update, pause, resume, archive, restore."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from pydantic import Field

from steward.api.http.operation import ApiCall, Operation, Response, replayed
from steward.api.schema.fields import (
    CommaList,
    PageQuery,
    PlatformText,
    Positive,
    QueryInt,
    ReasonText,
    RequestBody,
    SearchText,
    TemplateIdText,
    Timestamp,
    absent,
)
from steward.api.v1.automation_bodies import (
    CreateBody,
    UpdateBody,
    bound_connections,
    create_command,
    integration_of,
    requested_trigger,
)
from steward.api.v1.automation_records import (
    AutomationResponse,
    AutomationsResponse,
    current,
    record,
    record_with_readiness,
)
from steward.automations import lifecycle, pauses, setup
from steward.automations.pauses import StateCommand
from steward.automations.updates import change
from steward.automations.updates.update_command import UpdateCommand
from steward.database.automations import lists
from steward.database.automations import records as automations
from steward.database.automations.lists import AutomationFilter, Sort, SortKey
from steward.database.engine.base import Tx
from steward.model.account import Actor, Scope
from steward.model.automation import Automation, AutomationKind, AutomationState
from steward.model.ids import AutomationId
from steward.model.refusals import KeyReused, NotConnected, NotReady, StaleVersion, WrongState
from steward.model.trigger import TriggerKind

# Bodies ----------------------------------------------------------------------------------------------------


class StateBody(RequestBody):
    """Resume, archive or restore."""

    version: Positive = absent(1)


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


# Endpoints -------------------------------------------------------------------------------------------------


async def find(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /v1/automations` with the automations. Ids of another organization match nothing."""
    query: AutomationsQuery = call.query
    filters = AutomationFilter(
        states=query.state,
        kind=query.kind,
        template_id=query.template_id,
        platform=query.platform,
        integration_id=integration_of(query.integration_id),
        trigger=query.trigger,
        source=query.source,
        q=query.q,
        updated_since=query.updated_since,
    )
    page = await lists.find(
        tx, call.actor.org, filters, sort=query.sort, limit=query.limit, after=_after(call)
    )
    cursor = None if page.next_key is None else call.next_cursor(page.next_key)
    return AutomationsResponse([record(automation) for automation in page.automations], cursor)


def _after(call: ApiCall) -> SortKey | None:
    key = call.page_start()
    if key is None:
        return None
    value = key[0]
    return (value if isinstance(value, int | str) else None), str(key[1])


async def create(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /v1/automations`. Creates an automation, or returns the one created with the same key."""
    created = await setup.create(
        tx, call.actor, create_command(call.body), rules=call.context.automation_rules
    )
    response = AutomationResponse(record(created.automation))
    return replayed(response) if created.replayed else response


async def get(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /v1/automations/{automationId}`."""
    automation = await automations.get(tx, call.actor.org, _id(call))
    return AutomationResponse(await record_with_readiness(tx, automation))


async def update(tx: Tx, call: ApiCall) -> Response:
    """Handles `PATCH /v1/automations/{automationId}`.

    Replaces each field that is sent if the version is current.
    """
    body: UpdateBody = call.body
    sent_fields = body.model_fields_set
    command = UpdateCommand(
        automation=_id(call),
        version=body.version,
        name=body.name if "name" in sent_fields else None,
        inputs=body.inputs if "inputs" in sent_fields else None,
        schedule=body.schedule.sent if "schedule" in sent_fields else None,
        timezone=body.timezone if "timezone" in sent_fields else None,
        integration_id=integration_of(body.integration_id),
        has_integration="integration_id" in sent_fields,
        connections=bound_connections(body.connections) if "connections" in sent_fields else None,
        trigger=requested_trigger(body.trigger) if "trigger" in sent_fields else None,
        template_version=body.template_version if "template_version" in sent_fields else None,
        bindings=body.bindings if "bindings" in sent_fields else None,
        accounts=body.accounts if "accounts" in sent_fields else None,
        calls=body.calls if "calls" in sent_fields else None,
        variables=body.variables if "variables" in sent_fields else None,
        send_mode=body.send_mode if "send_mode" in sent_fields else None,
    )
    changed = await change.update(tx, call.actor, command, rules=call.context.automation_rules)
    return AutomationResponse(await record_with_readiness(tx, changed))


Turn = Callable[..., Awaitable[Automation]]


async def _turn(tx: Tx, call: ApiCall, verb: Turn) -> Response:
    body: StateBody = call.body
    command = StateCommand(
        automation=_id(call),
        version=body.version if "version" in body.model_fields_set else None,
        reason=(body.reason or None) if isinstance(body, PauseBody) else None,
    )
    actor: Actor = call.actor
    turned = await verb(tx, actor, command, rules=call.context.automation_rules)
    return AutomationResponse(await record_with_readiness(tx, turned))


async def pause(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /v1/automations/{automationId}/pause`."""
    return await _turn(tx, call, pauses.pause)


async def resume(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /v1/automations/{automationId}/resume`."""
    return await _turn(tx, call, lifecycle.resume)


async def archive(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /v1/automations/{automationId}/archive`."""
    return await _turn(tx, call, lifecycle.archive)


async def restore(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /v1/automations/{automationId}/restore`."""
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
        response=AutomationsResponse,
        summary="List automations",
    ),
    Operation(
        name="automations.create",
        method="POST",
        path="/v1/automations",
        scope=Scope.WRITE,
        function=create,
        body=CreateBody,
        response=AutomationResponse,
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
        response=AutomationResponse,
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
        response=AutomationResponse,
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
        response=AutomationResponse,
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
        response=AutomationResponse,
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
        response=AutomationResponse,
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
        response=AutomationResponse,
        summary="Restore automation",
        refusals=(StaleVersion, WrongState),
        writes=True,
        current=current,
    ),
)
