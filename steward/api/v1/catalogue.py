"""Templates, stores and connections over HTTP."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from pydantic import Field

from steward.api.http.operation import ApiCall, Operation, Response
from steward.api.schema.fields import CommaList, PageQuery, PlatformText, QueryFlag
from steward.api.schema.json_passthrough import Need, ScheduleWire, TemplateStep
from steward.api.schema.responses import (
    AuthStr,
    CategoryStr,
    ConnectionStateStr,
    Currency,
    Cursor,
    Instant,
    Platform,
    PositiveInt,
    TemplateName,
    TriggerKindStr,
)
from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.model.account import Scope
from steward.model.connection import Connection, ConnectionState, Readiness
from steward.model.ids import IntegrationId
from steward.model.instants import wire_time, wire_time_or_none
from steward.model.json import JsonValue
from steward.model.refusals import NotFound
from steward.templates.base import Category, Template


class ReadinessRecord(msgspec.Struct):
    """The connections that a template lacks before it can run."""

    ready: bool
    missing: list[Platform]


class TemplateRecord(msgspec.Struct):
    """A template."""

    template_id: TemplateName
    template_version: PositiveInt
    name: str
    description: str
    category: CategoryStr
    platforms: list[Platform]
    connections: list[Need]
    inputs_schema: Mapping[str, Any]
    result_schema: Mapping[str, Any] | None
    steps: list[TemplateStep]
    changes_store: bool
    triggers: list[TriggerKindStr]
    topics: Mapping[str, list[str]]
    default_schedule: ScheduleWire
    readiness: ReadinessRecord
    example_result: Mapping[str, Any] | None


class TemplatesResponse(msgspec.Struct):
    """A page of templates."""

    templates: list[TemplateRecord]
    next_cursor: Cursor | None


class TemplateResponse(msgspec.Struct):
    """A template."""

    template: TemplateRecord


class StoreRecord(msgspec.Struct):
    """A store automations can run on."""

    integration_id: PositiveInt
    platform: Platform
    name: str
    domain: str
    timezone: str
    currency: Currency | None
    state: ConnectionStateStr
    topics: list[str]
    connected_at: Instant


class StoresResponse(msgspec.Struct):
    """A page of stores."""

    stores: list[StoreRecord]
    next_cursor: Cursor | None


class ConnectionRecord(msgspec.Struct):
    """A connection; never a key, a secret or a Teams address."""

    integration_id: PositiveInt
    kind: Platform
    name: str
    state: ConnectionStateStr
    auth: AuthStr
    account_label: str | None
    store: bool
    last_ok_at: Instant | None


class ConnectionsResponse(msgspec.Struct):
    """A page of connections."""

    connections: list[ConnectionRecord]
    next_cursor: Cursor | None


class TemplatesQuery(PageQuery):
    """Query parameters: which templates to list."""

    category: Category | None = None
    platform: PlatformText | None = None
    changes_store: QueryFlag | None = None


class StoresQuery(PageQuery):
    """Query parameters: which stores to list."""

    platform: PlatformText | None = None
    state: Annotated[list[ConnectionState], CommaList] = Field(
        default_factory=lambda: [ConnectionState.CONNECTED, ConnectionState.NEEDS_RECONNECTING]
    )


class ConnectionsQuery(PageQuery):
    """Query parameters: which connections to list."""

    kind: PlatformText | None = None
    state: Annotated[list[ConnectionState], CommaList] = Field(default_factory=lambda: list(ConnectionState))


def template_record(template: Template, readiness: Readiness) -> TemplateRecord:
    """Returns the API record of the template."""
    ready = ReadinessRecord(readiness.ready, list(readiness.missing))
    wire: dict[str, Any] = template.facts.to_wire()
    return TemplateRecord(**wire, readiness=ready)


def store_record(store: Connection, topics: list[str]) -> StoreRecord:
    """Returns the API record of the store."""
    return StoreRecord(
        integration_id=store.integration_id,
        platform=store.kind,
        name=store.name,
        domain=store.domain or "",
        timezone=store.zone or "UTC",
        currency=store.currency,
        state=store.state.value,
        topics=topics,
        connected_at=wire_time(store.connected_at),
    )


def connection_record(connection: Connection) -> ConnectionRecord:
    """Returns the API record of the connection."""
    return ConnectionRecord(
        integration_id=connection.integration_id,
        kind=connection.kind,
        name=connection.name,
        state=connection.state.value,
        auth=connection.auth.value,
        account_label=connection.account_label,
        store=connection.is_store,
        last_ok_at=wire_time_or_none(connection.last_ok_at),
    )


async def find_templates(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /v1/automations/templates` with the templates by template id."""
    query: TemplatesQuery = call.query
    key = call.page_start()
    last = str(key[0]) if key else ""
    offered = sorted(call.context.automation_rules.templates.items())
    following = [template for name, template in offered if name > last]
    listed = [template for template in following if _is_asked_for(template, query)]
    page = listed[: query.limit]
    connected = await connections.connected_by_kind(tx, call.actor.org)
    more = call.next_cursor([page[-1].template_id]) if len(listed) > len(page) else None
    return TemplatesResponse(
        [template_record(template, template.readiness(connected)) for template in page], more
    )


async def get_template(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /v1/automations/templates/{template_id}` with the template. Raises NotFound."""
    template: Template | None = call.context.automation_rules.templates.get(call.ids["template_id"])
    if template is None:
        raise NotFound
    return TemplateResponse(
        template_record(template, template.readiness(await connections.connected_by_kind(tx, call.actor.org)))
    )


async def find_stores(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /v1/automations/stores` with the stores by integration id."""
    query: StoresQuery = call.query
    rows = await connections.find(
        tx,
        call.actor.org,
        kind=query.platform,
        states=query.state,
        stores_only=True,
        after=_last(call.page_start()),
        limit=query.limit + 1,
    )
    page = rows[: query.limit]
    more = call.next_cursor([page[-1].integration_id]) if len(rows) > len(page) else None
    return StoresResponse([store_record(store, _topics(call, store)) for store in page], more)


async def find_connections(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /v1/automations/connections` with all connections and stores by integration id."""
    query: ConnectionsQuery = call.query
    rows = await connections.find(
        tx,
        call.actor.org,
        kind=query.kind,
        states=query.state,
        after=_last(call.page_start()),
        limit=query.limit + 1,
    )
    page = rows[: query.limit]
    more = call.next_cursor([page[-1].integration_id]) if len(rows) > len(page) else None
    return ConnectionsResponse([connection_record(connection) for connection in page], more)


def _is_asked_for(template: Template, query: TemplatesQuery) -> bool:
    facts = template.facts
    return (
        (query.category is None or facts.category is query.category)
        and (query.platform is None or query.platform in facts.platforms)
        and (query.changes_store is None or facts.changes_store is query.changes_store)
    )


def _topics(call: ApiCall, store: Connection) -> list[str]:
    """Returns the store's topics in the connector's order; none if deliveries cannot be verified."""
    connector = call.context.automation_rules.connectors.get(store.kind)
    if connector is None or store.facts.get("events_verified") is False:
        return []
    return list(connector.topics)


def _last(key: list[JsonValue] | None) -> IntegrationId | None:
    return IntegrationId(int(str(key[0]))) if key else None


OPERATIONS = (
    Operation(
        name="templates.list",
        method="GET",
        path="/v1/automations/templates",
        scope=Scope.READ,
        function=find_templates,
        query=TemplatesQuery,
        response=TemplatesResponse,
        summary="List templates",
    ),
    Operation(
        name="templates.get",
        method="GET",
        path="/v1/automations/templates/{template_id}",
        scope=Scope.READ,
        function=get_template,
        response=TemplateResponse,
        summary="Get template",
    ),
    Operation(
        name="stores.list",
        method="GET",
        path="/v1/automations/stores",
        scope=Scope.READ,
        function=find_stores,
        query=StoresQuery,
        response=StoresResponse,
        summary="List stores",
    ),
    Operation(
        name="connections.list",
        method="GET",
        path="/v1/automations/connections",
        scope=Scope.READ,
        function=find_connections,
        query=ConnectionsQuery,
        response=ConnectionsResponse,
        summary="List connections",
    ),
)
