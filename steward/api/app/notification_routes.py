"""Notification routes over HTTP: channels and webhooks, with their tests, secrets and deliveries."""

from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field

from steward.api.http.operation import Access, ApiCall, EmptyResponse, Operation, Response
from steward.api.schema.fields import (
    FromJson,
    IdText,
    NameText,
    PageQuery,
    Positive,
    RequestBody,
    Text,
    Unique,
)
from steward.connections.vault import Vault
from steward.database.engine.base import Tx, from_ms, ms
from steward.database.notifications import routes as rows
from steward.model.account import Role
from steward.model.ids import AutomationId, IntegrationId, MessageId, RouteId
from steward.model.instants import wire_time, wire_time_or_none
from steward.model.notice import ChannelName, Topic
from steward.model.notification_route import (
    MAX_FILTERED,
    NotificationRoute,
    RouteDelivery,
    RouteFilter,
)
from steward.model.refusals import NotFound, RateLimited, WrongState
from steward.notifications import route_tests, routes
from steward.notifications.route_tests import RouteTest
from steward.notifications.routes import RouteContent, SavedRoute
from steward.notifications.webhook import GROUPED_TYPE, TEST_TYPE, wire_type

_RouteName = Annotated[NameText, Field(max_length=80)]
_RouteUrl = Annotated[Text, Field(min_length=1, max_length=2000)]
_RouteTarget = Annotated[Text, Field(min_length=1, max_length=80)]
_TopicList = Annotated[list[Annotated[Topic, FromJson]], Field(min_length=1, max_length=len(Topic)), Unique]
_AutomationIds = Annotated[list[IdText], Field(min_length=1, max_length=MAX_FILTERED), Unique]
_IntegrationIds = Annotated[list[Positive], Field(min_length=1, max_length=MAX_FILTERED), Unique]


class RouteBody(RequestBody):
    """A new route: a webhook has `url`, a chat `integration_id`; a null filter matches all."""

    name: _RouteName
    channel: Literal["teams", "slack", "webhook"]
    integration_id: Positive | None = None
    target: _RouteTarget | None = None
    url: _RouteUrl | None = None
    topics: _TopicList
    automation_ids: _AutomationIds | None = None
    integration_ids: _IntegrationIds | None = None


class ChangedRouteBody(RequestBody):
    """The fields to change; omitted ones stay as they are."""

    name: _RouteName = ""
    integration_id: Positive | None = None
    target: _RouteTarget | None = None
    url: _RouteUrl | None = None
    topics: _TopicList = Field(default_factory=list)
    automation_ids: _AutomationIds | None = None
    integration_ids: _IntegrationIds | None = None


class NotificationRouteRecord(msgspec.Struct):
    """A route, without its secret; `url` is only for owners."""

    id: str
    name: str
    channel: Literal["teams", "slack", "webhook"]
    integration_id: int | None
    target: str | None
    url: str | None
    topics: list[Topic]
    automation_ids: list[str] | None
    integration_ids: list[int] | None
    state: str
    reason: str | None
    last_accepted_at: str | None
    created_at: str
    created_by: int | None


class NotificationRoutesResponse(msgspec.Struct):
    """Every route of the organization."""

    routes: list[NotificationRouteRecord]


class NotificationRouteResponse(msgspec.Struct):
    """A route, and its new secret, if any, which is shown only this once."""

    route: NotificationRouteRecord
    secret: str | None


class RouteTestResponse(msgspec.Struct):
    """The result of a test message."""

    accepted: bool
    status: int | None
    message: str


class RouteDeliveryRecord(msgspec.Struct):
    """A delivery, without its body."""

    id: str
    type: str
    count: int
    state: str
    attempts: int
    last_status: int | None
    error: str | None
    at: str


class RouteDeliveriesResponse(msgspec.Struct):
    """A page of deliveries."""

    deliveries: list[RouteDeliveryRecord]
    next_cursor: str | None


def record(route: NotificationRoute, url: str | None) -> NotificationRouteRecord:
    """Returns the API record of the route."""
    chosen = route.filter
    return NotificationRouteRecord(
        id=route.id,
        name=route.name,
        channel=route.channel.value,  # type: ignore[arg-type]
        integration_id=route.integration,
        target=route.target,
        url=url,
        topics=[topic for topic in Topic if topic in chosen.topics],
        automation_ids=None if chosen.automations is None else [*sorted(chosen.automations)],
        integration_ids=None if chosen.integrations is None else [*sorted(chosen.integrations)],
        state=route.state,
        reason=route.reason,
        last_accepted_at=wire_time_or_none(route.last_accepted_at),
        created_at=wire_time(route.created_at),
        created_by=route.created_by,
    )


async def find(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /app/notification-routes` with the routes, oldest first.

    Shows a webhook's address to owners only.
    """
    chosen = call.session.chosen if call.session else None
    records = []
    for route in await rows.every(tx, call.actor.org):
        url = await routes.url_of(tx, _vault(call), route) if chosen and chosen.role is Role.OWNER else None
        records.append(record(route, url))
    return NotificationRoutesResponse(records)


async def create(tx: Tx, call: ApiCall) -> Response:
    """Responds to `POST /app/notification-routes` with the new route and, this once, the webhook's secret."""
    body: RouteBody = call.body
    content = RouteContent(
        name=body.name,
        channel=ChannelName(body.channel),
        filter=_filter(body.topics, body.automation_ids, body.integration_ids),
        integration=_integration(body.integration_id),
        target=body.target,
        url=body.url,
    )
    return _saved(await routes.create(tx, _vault(call), call.actor, content))


async def change(tx: Tx, call: ApiCall) -> Response:
    """Handles `PATCH /app/notification-routes/{routeId}`. A new address gets a new secret."""
    route = await rows.get(tx, call.actor.org, _route(call))
    if route is None:
        raise NotFound
    body: ChangedRouteBody = call.body
    values = _values(route, await routes.url_of(tx, _vault(call), route))
    values |= {name: getattr(body, name) for name in body.model_fields_set}
    content = RouteContent(
        name=values["name"],
        channel=route.channel,
        filter=_filter(values["topics"], values["automation_ids"], values["integration_ids"]),
        integration=_integration(values["integration_id"]),
        target=values["target"],
        url=values["url"],
    )
    return _saved(await routes.change(tx, _vault(call), call.actor, content, route=route.id))


async def delete(tx: Tx, call: ApiCall) -> Response:
    """Handles `DELETE /app/notification-routes/{routeId}`."""
    await routes.delete(tx, call.actor, _route(call))
    return EmptyResponse()


async def prepare_test(call: ApiCall) -> RouteTest:
    """Delivers a test message, with no transaction open."""
    context = call.context
    return await route_tests.send_test(
        context.engine, context.clock, context.channels, call.actor.org, _route(call)
    )


async def test(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/notification-routes/{routeId}/test`.

    The status is 200 also if the test is not accepted.
    """
    return await _tested(tx, call, ends_broken=False)


async def try_again(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/notification-routes/{routeId}/try-again`. An accepted test ends the broken state."""
    return await _tested(tx, call, ends_broken=True)


async def rotate_secret(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/notification-routes/{routeId}/rotate-secret`.

    The old secret signs for another 24 hours.
    """
    return _saved(await routes.rotate_secret(tx, _vault(call), call.actor, _route(call)))


async def deliveries(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/notification-routes/{routeId}/deliveries`. Goes back 30 days, newest first."""
    route = await rows.get(tx, call.actor.org, _route(call))
    if route is None:
        raise NotFound
    query: PageQuery = call.query
    key: list[Any] | None = call.page_start()
    before = (from_ms(int(key[0])), MessageId(str(key[1]))) if key else None
    rows_found = await rows.deliveries(tx, route, before=before, limit=query.limit + 1)
    page, cursor = rows_found[: query.limit], None
    if len(rows_found) > len(page):
        cursor = call.next_cursor([ms(page[-1].at), page[-1].id])
    return RouteDeliveriesResponse([_delivery(delivery) for delivery in page], cursor)


async def send_again(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/notification-routes/{routeId}/deliveries/{messageId}/again`.

    Sends the same id with a new time.
    """
    await routes.send_again(tx, call.actor, _route(call), MessageId(call.ids["message_id"]))
    return EmptyResponse()


async def _tested(tx: Tx, call: ApiCall, *, ends_broken: bool) -> Response:
    tested: RouteTest = call.prepared
    await route_tests.record_test(tx, call.actor, tested, ends_broken=ends_broken)
    return RouteTestResponse(tested.is_accepted, tested.outcome.status, tested.words)


def _values(route: NotificationRoute, url: str | None) -> dict[str, Any]:
    chosen = route.filter
    return {
        "name": route.name,
        "integration_id": route.integration,
        "target": route.target,
        "url": url,
        "topics": chosen.topics,
        "automation_ids": chosen.automations,
        "integration_ids": chosen.integrations,
    }


def _filter(topics: Any, automations: Any, integrations: Any) -> RouteFilter:
    return RouteFilter(
        topics=frozenset(topics),
        automations=None if automations is None else frozenset(AutomationId(id_) for id_ in automations),
        integrations=None if integrations is None else frozenset(IntegrationId(id_) for id_ in integrations),
    )


def _integration(number: int | None) -> IntegrationId | None:
    return None if number is None else IntegrationId(number)


def _saved(saved: SavedRoute) -> NotificationRouteResponse:
    return NotificationRouteResponse(record(saved.route, saved.url), saved.secret)


def _delivery(delivery: RouteDelivery) -> RouteDeliveryRecord:
    if delivery.is_test:
        name = TEST_TYPE
    else:
        name = GROUPED_TYPE if delivery.topic is None else wire_type(delivery.topic)
    return RouteDeliveryRecord(
        id=delivery.id,
        type=name,
        count=delivery.count,
        state=delivery.state,
        attempts=delivery.attempts,
        last_status=delivery.last_status,
        error=delivery.error,
        at=wire_time(delivery.at),
    )


def _route(call: ApiCall) -> RouteId:
    return RouteId(call.ids["route_id"])


def _vault(call: ApiCall) -> Vault:
    vault: Vault = call.context.vault
    return vault


_PATH = "/app/notification-routes"
OPERATIONS = (
    Operation(
        name="notification_routes.list",
        method="GET",
        path=_PATH,
        access=Access.APP,
        role=Role.MEMBER,
        function=find,
        response=NotificationRoutesResponse,
        summary="List the routes of notices",
    ),
    Operation(
        name="notification_routes.create",
        method="POST",
        path=_PATH,
        access=Access.APP,
        role=Role.OWNER,
        function=create,
        body=RouteBody,
        response=NotificationRouteResponse,
        summary="Make a route of notices",
        status=201,
        writes=True,
    ),
    Operation(
        name="notification_routes.update",
        method="PATCH",
        path=f"{_PATH}/{{route_id}}",
        access=Access.APP,
        role=Role.OWNER,
        function=change,
        body=ChangedRouteBody,
        response=NotificationRouteResponse,
        summary="Change a route of notices",
        writes=True,
    ),
    Operation(
        name="notification_routes.delete",
        method="DELETE",
        path=f"{_PATH}/{{route_id}}",
        access=Access.APP,
        role=Role.OWNER,
        function=delete,
        response=EmptyResponse,
        summary="Delete a route of notices",
        writes=True,
    ),
    Operation(
        name="notification_routes.test",
        method="POST",
        path=f"{_PATH}/{{route_id}}/test",
        access=Access.APP,
        role=Role.OWNER,
        prepare=prepare_test,
        function=test,
        response=RouteTestResponse,
        summary="Send a test message by a route",
        refusals=(RateLimited,),
        writes=True,
        seconds=25.0,
    ),
    Operation(
        name="notification_routes.rotate_secret",
        method="POST",
        path=f"{_PATH}/{{route_id}}/rotate-secret",
        access=Access.APP,
        role=Role.OWNER,
        function=rotate_secret,
        response=NotificationRouteResponse,
        summary="Make a new signing secret for a webhook",
        refusals=(WrongState,),
        writes=True,
    ),
    Operation(
        name="notification_routes.try_again",
        method="POST",
        path=f"{_PATH}/{{route_id}}/try-again",
        access=Access.APP,
        role=Role.OWNER,
        prepare=prepare_test,
        function=try_again,
        response=RouteTestResponse,
        summary="Test a broken route and use it again",
        refusals=(RateLimited,),
        writes=True,
        seconds=25.0,
    ),
    Operation(
        name="notification_routes.list_deliveries",
        method="GET",
        path=f"{_PATH}/{{route_id}}/deliveries",
        access=Access.APP,
        role=Role.OWNER,
        function=deliveries,
        query=PageQuery,
        response=RouteDeliveriesResponse,
        summary="List the deliveries of a route",
    ),
    Operation(
        name="notification_routes.send_again",
        method="POST",
        path=f"{_PATH}/{{route_id}}/deliveries/{{message_id}}/again",
        access=Access.APP,
        role=Role.OWNER,
        function=send_again,
        response=EmptyResponse,
        summary="Send a delivery again",
        refusals=(WrongState,),
        writes=True,
        wakes=("deliver_teams", "deliver_slack", "deliver_webhook"),
    ),
)
