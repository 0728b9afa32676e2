"""A dead route is marked and reported, its deliveries stay listed, and a person can send them again."""

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from steward.database.engine.base import Engine, Tx
from steward.database.notifications import notices
from steward.database.notifications import routes as rows
from steward.model.ids import OrgId, RouteId, new_id
from steward.model.notice import MessageState, Topic
from steward.model.notification_route import NotificationRoute, RouteState
from steward.notifications.broken_routes import record_delivery
from steward.notifications.channel import DeliveryOutcome, DeliveryResult
from tests.api.audited import actions
from tests.fake_clock import FakeClock
from tests.notifications.receivers import ROUTES, made, receiving
from tests.people import Caller
from tests.service import Cast, Service

ACCEPTED = DeliveryOutcome(DeliveryResult.ACCEPTED, 200)
REFUSED = DeliveryOutcome(DeliveryResult.REFUSED, 400, "The receiver answered with status 400.")
AWAY = DeliveryOutcome(DeliveryResult.TRY_AGAIN, 503, "The receiver answered with status 503.")
GONE = DeliveryOutcome(DeliveryResult.REFUSED, 410, "The receiver answered with status 410.", is_gone=True)


@pytest.fixture
async def service(engine: Engine, clock: FakeClock, cast: Cast) -> AsyncIterator[Service]:
    """Yields a service that has route channels."""
    async with receiving(engine, clock, cast) as (opened, _):
        yield opened


@pytest.fixture
async def web(service: Service) -> Caller:
    """Returns the owner's web session."""
    return await service.web("owner")


async def one_route(web: Caller) -> RouteId:
    """Creates a webhook route and returns its id."""
    return RouteId((await made(web))["route"]["id"])


async def after(service: Service, route: RouteId, *outcomes: DeliveryOutcome) -> NotificationRoute:
    """Records these deliveries and returns the route after them."""
    org = service.own.organization.id
    for outcome in outcomes:
        await service.write(partial(record_delivery, org=org, route=route, outcome=outcome), org=org)
    read = partial(rows.get, org=org, route=route)
    found_route: NotificationRoute | None = await service.context.engine.read(
        service.clock.now(), read, org=org
    )
    assert found_route is not None
    return found_route


async def told(service: Service) -> list[Topic]:
    """Returns the topics of the organization's new notices."""
    org = service.own.organization.id

    async def act(tx: Tx) -> list[Topic]:
        waiting = await notices.waiting(tx, 100)
        stored = await notices.get_many(tx, org, [notice for _, notice in waiting])
        return [stored_notice.notice.topic for stored_notice in stored]

    topics: list[Topic] = await service.context.engine.read(service.clock.now(), act, org=org)
    return topics


async def test_the_twentieth_refusal_in_a_row_breaks_a_route_with_one_notice(
    service: Service, web: Caller
) -> None:
    """Breaks a route at the twentieth refusal in a row and writes one notice of it."""
    route = await one_route(web)
    assert (await after(service, route, *[REFUSED] * 19)).state is RouteState.OK
    assert await told(service) == []
    found_route = await after(service, route, REFUSED)
    assert found_route.state is RouteState.BROKEN
    assert "20 messages in a row were refused" in str(found_route.reason)
    await after(service, route, REFUSED, GONE)
    assert await told(service) == [Topic.ROUTE_BROKEN]


async def test_an_accepted_delivery_ends_the_row(service: Service, web: Caller) -> None:
    """Starts the count of refusals again after an accepted delivery."""
    route = await one_route(web)
    found_route = await after(service, route, *[REFUSED] * 19, ACCEPTED, *[REFUSED] * 19)
    assert (found_route.state, found_route.failures) == (RouteState.OK, 19)
    assert found_route.last_accepted_at is not None


async def test_a_receiver_that_is_gone_breaks_its_route_at_once(service: Service, web: Caller) -> None:
    """Breaks a route at once when its receiver answers 410 Gone."""
    assert (await after(service, await one_route(web), GONE)).state is RouteState.BROKEN


async def test_three_days_of_failures_break_a_route_and_an_outage_of_hours_does_not(
    service: Service, web: Caller
) -> None:
    """Breaks a route whose deliveries have failed for three days, and not a second earlier."""
    route = await one_route(web)
    assert (await after(service, route, *[AWAY] * 50)).state is RouteState.OK
    service.clock.tick(timedelta(days=3).total_seconds() - 1)
    assert (await after(service, route, AWAY)).state is RouteState.OK
    service.clock.tick(1)
    found_route = await after(service, route, AWAY)
    assert found_route.state is RouteState.BROKEN
    assert "3 days" in str(found_route.reason)


async def message(tx: Tx, *, org: OrgId, route: RouteId, state: MessageState) -> str:
    """Stores a message of a route in this state and returns its id."""
    message_id = new_id(tx.now)
    is_open = state in (MessageState.COLLECTING, MessageState.DUE, MessageState.SENDING)
    await tx.execute(
        "INSERT INTO messages (org_id, id, route_id, channel, kind, state, created_at, due_at, next_try_at,"
        " closed_at, lease_until, attempt, count, sent_at) VALUES (:org, :id, :route, 'webhook', 'notices',"
        " :state, :now, :now, :next, :closed, :lease, 1, 1, :sent)",
        {
            "org": org,
            "id": message_id,
            "route": route,
            "state": state,
            "next": tx.now if is_open else None,
            "closed": None if state is MessageState.COLLECTING else tx.now,
            "lease": tx.now if state is MessageState.SENDING else None,
            "sent": tx.now if state is MessageState.SENT else None,
        },
    )
    return message_id


async def populated(service: Service, route: RouteId, states: list[MessageState]) -> list[str]:
    """Stores messages of the route in these states, a second apart, and returns their ids."""
    org = service.own.organization.id
    message_ids = []
    for state in states:
        service.clock.tick(1)
        message_ids.append(await service.write(partial(message, org=org, route=route, state=state), org=org))
    return message_ids


async def listed(web: Caller, route: RouteId, **query: Any) -> list[tuple[str, str]]:
    """Returns the ids and states of the route's deliveries."""
    response = await web.get(f"{ROUTES}/{route}/deliveries", **query)
    return [(row["id"], row["state"]) for row in response.data["deliveries"]]


async def test_messages_of_a_broken_route_expire_and_stay_listed(service: Service, web: Caller) -> None:
    """Expires what waits for a broken route, keeps it listed and leaves sent messages as they are."""
    route = await one_route(web)
    states = [MessageState.SENT, MessageState.DUE, MessageState.SENDING, MessageState.COLLECTING]
    sent, due, sending, collecting = await populated(service, route, states)
    await after(service, route, GONE)
    record = dict(await listed(web, route))
    assert record == {sent: "sent", due: "expired", sending: "expired", collecting: "expired"}


async def test_a_deleted_route_leaves_nothing_to_send(service: Service, web: Caller) -> None:
    """Marks the waiting messages of a deleted route as obsolete and answers 404 for its deliveries."""
    route = await one_route(web)
    await populated(service, route, [MessageState.DUE, MessageState.COLLECTING])
    assert (await web.delete(f"{ROUTES}/{route}")).status == 200

    async def act(tx: Tx) -> list[str]:
        return [row["state"] for row in await tx.all("SELECT state FROM messages WHERE person_id = 0")]

    org = service.own.organization.id
    assert await service.context.engine.read(service.clock.now(), act, org=org) == ["obsolete", "obsolete"]
    assert (await web.get(f"{ROUTES}/{route}/deliveries")).status == 404


@pytest.mark.parametrize("state", [MessageState.SENT, MessageState.REFUSED, MessageState.EXPIRED])
async def test_a_finished_delivery_is_sent_again_under_its_id(
    service: Service, web: Caller, state: MessageState
) -> None:
    """Sends a finished delivery again under its id, wakes the worker and writes an audit entry."""
    route = await one_route(web)
    [one] = await populated(service, route, [state])
    assert (await web.post(f"{ROUTES}/{route}/deliveries/{one}/again")).status == 200
    assert await listed(web, route) == [(one, "due")]
    assert "deliver_webhook" in service.wake_hints
    newest = (await actions(service, service.own.organization.id))[-1]
    assert (newest[0], newest[2]) == ("delivery_sent_again", route)


async def test_nothing_else_is_sent_again(service: Service, web: Caller) -> None:
    """Refuses to send again what has not ended, is obsolete, was a test or belongs to a broken route.

    Another route's delivery is not found.
    """
    route, other = await one_route(web), await one_route(web)
    unfinished = await populated(service, route, [MessageState.DUE, MessageState.OBSOLETE])
    await web.post(f"{ROUTES}/{route}/test")
    test = (await listed(web, route))[0][0]
    for one in (*unfinished, test):
        assert (await web.post(f"{ROUTES}/{route}/deliveries/{one}/again")).code == "wrong_state"
    [sent] = await populated(service, route, [MessageState.SENT])
    assert (await web.post(f"{ROUTES}/{other}/deliveries/{sent}/again")).status == 404
    await after(service, route, GONE)
    assert (await web.post(f"{ROUTES}/{route}/deliveries/{sent}/again")).code == "wrong_state"


async def test_deliveries_are_paged_newest_first_for_30_days(service: Service, web: Caller) -> None:
    """Lists deliveries of the last 30 days in pages, newest first."""
    route = await one_route(web)
    old = await populated(service, route, [MessageState.SENT])
    service.clock.tick(timedelta(days=30).total_seconds())
    sent = await populated(service, route, [MessageState.SENT] * 3)
    web = await service.web("owner")
    paged, cursor = [], None
    for _ in range(3):
        query = {"limit": 1} | ({"cursor": cursor} if cursor else {})
        page = (await web.get(f"{ROUTES}/{route}/deliveries", **query)).data
        paged += [row["id"] for row in page["deliveries"]]
        cursor = page["next_cursor"]
    assert cursor is None
    assert paged == [*reversed(sent)]
    assert old[0] not in paged
