"""Routes over the API: created, changed, tested and deleted by owners; secrets shown once and rotated."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from steward.connections import rotation
from steward.database.engine.base import Engine, Tx
from steward.database.notifications import routes as rows
from steward.model.ids import OrgId, RouteId
from steward.model.notification_route import MAX_ROUTES, NotificationRoute
from tests.api.audited import actions
from tests.fake_clock import FakeClock
from tests.notifications.receivers import (
    HOOK,
    ROUTES,
    SLACK_HOOK,
    SLACK_TOKEN,
    TEAMS_URL,
    Receivers,
    connected,
    made,
    receiving,
    webhook,
)
from tests.outbound.test_address import SPELLINGS
from tests.people import Caller
from tests.service import Cast, Service


@pytest.fixture
async def world(engine: Engine, clock: FakeClock, cast: Cast) -> AsyncIterator[tuple[Service, Receivers]]:
    """Yields the service and its receivers."""
    async with receiving(engine, clock, cast) as opened:
        yield opened


@pytest.fixture
async def web(world: tuple[Service, Receivers]) -> Caller:
    """Returns the owner's web session."""
    return await world[0].web("owner")


async def stored(service: Service, route: str) -> NotificationRoute:
    """Returns the route as stored."""
    org = service.own.organization.id
    found_route = await service.context.engine.read(
        service.clock.now(), partial(rows.get, org=org, route=RouteId(route)), org=org
    )
    assert found_route is not None
    return found_route


async def test_a_webhook_is_made_with_a_secret_that_is_shown_once(
    world: tuple[Service, Receivers], web: Caller
) -> None:
    """Shows the secret once, hides the address from members, and stores both sealed."""
    service, _ = world
    response = await made(web, automation_ids=None)
    assert response["secret"].startswith("whsec_")
    route = response["route"]
    assert (route["state"], route["url"], route["topics"]) == ("ok", HOOK, ["run_failed"])
    [listed] = (await web.get(ROUTES)).data["routes"]
    assert listed == route
    assert "secret" not in listed
    member = await service.web("member")
    [seen] = (await member.get(ROUTES)).data["routes"]
    assert seen == {**route, "url": None}
    row = await stored(service, route["id"])
    assert row.webhook is not None
    assert b"hooks.example" not in row.webhook.url
    assert response["secret"].encode() not in row.webhook.secret
    who = str(service.members["owner"].person.id)
    assert await actions(service, row.org) == [("route_made", who, route["id"])]


async def test_acts_on_a_route_are_in_the_audit_log(world: tuple[Service, Receivers], web: Caller) -> None:
    """Writes an audit entry for each act on a route."""
    service, _ = world
    item = (await made(web))["route"]["id"]
    await web.patch(f"{ROUTES}/{item}", {"name": "Night shift"})
    await web.post(f"{ROUTES}/{item}/rotate-secret")
    await web.delete(f"{ROUTES}/{item}")
    done = await actions(service, service.own.organization.id)
    expected = ["route_made", "route_changed", "route_secret_rotated", "route_deleted"]
    assert [(action, about) for action, _, about in done] == [(action, item) for action in expected]


async def test_only_owners_make_change_test_and_read_deliveries(
    world: tuple[Service, Receivers], web: Caller
) -> None:
    """Lets only owners change, test and read deliveries; other organizations get 404, tokens 403."""
    service, _ = world
    route = (await made(web))["route"]["id"]
    one = f"{ROUTES}/{route}"
    approver = await service.web("approver")
    assert (await approver.get(ROUTES)).status == 200
    calls = [
        ("POST", ROUTES),
        ("PATCH", one),
        ("DELETE", one),
        *(("POST", f"{one}/{verb}") for verb in ("test", "try-again", "rotate-secret")),
        ("GET", f"{one}/deliveries"),
        ("POST", f"{one}/deliveries/{route}/again"),
    ]
    token = await service.token("owner")
    for method, path in calls:
        assert (await approver.call(method, path)).code == "forbidden", path
        assert (await token.call(method, path)).code == "forbidden", path
    stranger = await service.web("stranger")
    for method, path in calls[1:]:
        body = {"name": "Mine"} if method == "PATCH" else {}
        assert (await stranger.call(method, path, body=body)).status == 404, path


async def test_at_most_20_routes_are_made(web: Caller) -> None:
    """Refuses the twenty-first route and accepts one again after a deletion."""
    for number in range(20):
        first = await made(web, name=f"Route {number}")
    response = await web.post(ROUTES, webhook())
    assert (response.status, response.code) == (422, "validation_failed")
    assert "20 routes" in response.errors["name"][0]
    assert (await web.delete(f"{ROUTES}/{first['route']['id']}")).status == 200
    assert (await web.post(ROUTES, webhook())).status == 201


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"channel": "email"}, "channel"),
        ({"channel": "pigeon"}, "channel"),
        ({"topics": []}, "topics"),
        ({"topics": ["run_failed", "run_failed"]}, "topics"),
        ({"topics": ["run_won"]}, "topics.0"),
        ({"url": None}, "url"),
        ({"url": "https://hooks.example/" + "x" * 1979}, "url"),
        ({"target": "C1"}, "target"),
        ({"integration_id": 1}, "integration_id"),
        ({"automation_ids": []}, "automation_ids"),
        ({"automation_ids": ["01JD3Z0QH8N2Y5V7W9X1C4B6A8"]}, "automation_ids"),
        ({"integration_ids": [999_999]}, "integration_ids"),
        ({"integration_ids": list(range(1, 202))}, "integration_ids"),
        ({"channel": "teams", "url": None}, "integration_id"),
        ({"channel": "slack", "url": HOOK}, "url"),
        ({"secret": "whsec_x"}, "secret"),
    ],
)
async def test_a_faulty_route_is_refused_by_field(web: Caller, changes: dict[str, Any], field: str) -> None:
    """Refuses invalid input under its field and stores nothing."""
    response = await web.post(ROUTES, webhook(**changes))
    assert response.status == 422, response.body
    assert field in response.errors
    assert (await web.get(ROUTES)).data["routes"] == []


async def test_the_limits_of_a_route_are_accepted(web: Caller) -> None:
    """Accepts a name of 80 characters and an address of 2,000."""
    longest = "https://hooks.example/" + "x" * 1978
    assert (await made(web, name="x" * 80, url=longest))["route"]["url"] == longest


@pytest.mark.parametrize(
    "url",
    [
        *(f"https://{host}/hook" for host in SPELLINGS),
        "http://hooks.example/x",
        "https://hooks.example:8443/x",
        "https://user:password@hooks.example/x",
        "https://hooks.example/x#part",
        "ftp://hooks.example/x",
        "file:///etc/passwd",
        "//hooks.example",
        "https://[::1",
    ],
)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_no_address_inside_is_taken_for_a_webhook(web: Caller, url: str) -> None:
    """Refuses private addresses, other schemes, ports, user parts and fragments."""
    response = await web.post(ROUTES, webhook(url=url))
    assert response.status == 422, response.body
    assert set(response.errors) == {"url"}


async def test_another_address_gets_another_secret_and_anything_else_keeps_it(web: Caller) -> None:
    """Issues a new secret for a new address and keeps it for any other change."""
    response = await made(web)
    one = f"{ROUTES}/{response['route']['id']}"
    renamed = await web.patch(one, {"name": "Night shift", "topics": ["run_failed", "connection_lost"]})
    assert renamed.data["secret"] is None
    assert renamed.data["route"]["name"] == "Night shift"
    assert renamed.data["route"]["topics"] == ["run_failed", "connection_lost"]
    same = await web.patch(one, {"url": HOOK})
    assert same.data["secret"] is None
    moved = await web.patch(one, {"url": "https://other.example/hook"})
    assert moved.data["secret"] not in (None, response["secret"])
    assert moved.data["route"]["url"] == "https://other.example/hook"
    for body, field in (({"url": None}, "url"), ({"name": None}, "name"), ({"channel": "slack"}, "channel")):
        assert field in (await web.patch(one, body)).errors


async def test_a_rotated_secret_signs_at_once_and_the_former_one_for_a_day(
    world: tuple[Service, Receivers], web: Caller
) -> None:
    """Signs with both secrets for 24 hours after a rotation and with the new one alone then."""
    service, receivers = world
    response = await made(web)
    one = f"{ROUTES}/{response['route']['id']}"
    rotated = await web.post(f"{one}/rotate-secret")
    assert rotated.data["secret"] not in (None, response["secret"])
    await web.post(f"{one}/test")
    service.clock.tick(24 * 3600 - 1)
    web = await service.web("owner")
    await web.post(f"{one}/test")
    service.clock.tick(1)
    web = await service.web("owner")
    await web.post(f"{one}/test")
    secrets = [rotated.data["secret"], response["secret"]]
    for request, counting in zip(receivers.seen, [2, 2, 1], strict=True):
        expected = " ".join(signature(secret, request) for secret in secrets[:counting])
        assert request.headers["webhook-signature"] == expected

    async def former_secrets(tx: Tx) -> list[Any]:
        query = "SELECT old_secret FROM notification_routes WHERE org_id = :org"
        return [row["old_secret"] for row in await tx.all(query, {"org": service.own.organization.id})]

    org = service.own.organization.id
    assert await service.write(former_secrets, org=org) == [None]  # the delivery after it has erased it


async def test_a_rotation_of_the_encryption_seals_webhooks_under_the_new_data_key(
    world: tuple[Service, Receivers], web: Caller
) -> None:
    """Seals address and secrets of a webhook under the new data key once, and deliveries go on."""
    service, receivers = world
    org, masters = service.own.organization.id, service.context.vault.masters
    response = await made(web)
    one = f"{ROUTES}/{response['route']['id']}"
    secret = (await web.post(f"{one}/rotate-secret")).data["secret"]
    number = await service.write(partial(rotation.new_key, org=org, masters=masters), org=org)
    assert number is not None
    others = partial(rows.sealed_under_others, org=org, number=number)
    [route] = await service.write(others, org=org)
    reseal = partial(rotation.seal_route_anew, org=org, masters=masters, route=route, number=number)
    assert [await service.write(reseal, org=org), await service.write(reseal, org=org)] == [1, 0]
    assert await service.write(others, org=org) == []
    await web.post(f"{one}/test")
    [request] = receivers.seen
    expected = " ".join(signature(key, request) for key in (secret, response["secret"]))
    assert (str(request.url), request.headers["webhook-signature"]) == (HOOK, expected)


def signature(secret: str, request: Any) -> str:
    """Returns the signature that the specification's library computes."""
    sent_at = datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), UTC)
    return Webhook(secret).sign(request.headers["webhook-id"], sent_at, request.content.decode())


async def test_a_test_is_signed_delivered_acknowledged_and_listed(
    world: tuple[Service, Receivers], web: Caller
) -> None:
    """Signs, delivers and lists a test and answers its status, never the receiver's text."""
    service, receivers = world
    response = await made(web)
    one = f"{ROUTES}/{response['route']['id']}"
    good = await web.post(f"{one}/test")
    assert good.data == {"accepted": True, "status": 200, "message": "The test message was accepted."}
    [request] = receivers.seen
    body = json.loads(request.content)
    assert (body["type"], body["data"]["organization_id"]) == (
        "notification.test",
        service.own.organization.id,
    )
    assert request.headers["webhook-signature"] == signature(response["secret"], request)
    receivers.refuse(404)
    service.clock.tick(1)
    bad = await web.post(f"{one}/test")
    assert bad.data == {
        "accepted": False,
        "status": 404,
        "message": "The receiver answered with status 404.",
    }
    listed = (await web.get(f"{one}/deliveries")).data["deliveries"]
    assert [(row["type"], row["state"], row["last_status"]) for row in listed] == [
        ("notification.test", "refused", 404),
        ("notification.test", "sent", 200),
    ]
    assert (await web.get(ROUTES)).data["routes"][0]["last_accepted_at"] is not None


async def test_ten_tests_an_hour_are_sent(world: tuple[Service, Receivers], web: Caller) -> None:
    """Sends ten tests an hour for a route and refuses the next until an hour has passed."""
    service, receivers = world
    one = f"{ROUTES}/{(await made(web))['route']['id']}"
    for _ in range(10):
        assert (await web.post(f"{one}/test")).status == 200
    refused = await web.post(f"{one}/test")
    assert (refused.status, refused.code) == (429, "rate_limited")
    assert len(receivers.seen) == 10
    service.clock.tick(3601)
    web = await service.web("owner")
    assert (await web.post(f"{one}/test")).status == 200


async def test_teams_and_slack_routes_post_cards_to_their_own_address_alone(
    world: tuple[Service, Receivers], web: Caller
) -> None:
    """Posts to a Teams workflow, a Slack webhook or a Slack bot's channel; refuses other combinations."""
    _, receivers = world
    teams = await connected(web, "teams", webhook_url=TEAMS_URL)
    hook = await connected(web, "slack", webhook_url=SLACK_HOOK)
    bot = await connected(web, "slack", bot_token=SLACK_TOKEN)
    routes = [
        {"channel": "teams", "integration_id": teams},
        {"channel": "slack", "integration_id": hook},
        {"channel": "slack", "integration_id": bot, "target": "C042"},
    ]
    for chosen in routes:
        response = await made(web, url=None, **chosen)
        assert response["secret"] is None
        tested = await web.post(f"{ROUTES}/{response['route']['id']}/test")
        assert tested.data["accepted"], tested.data
        assert (await web.post(f"{ROUTES}/{response['route']['id']}/rotate-secret")).code == "wrong_state"
    addresses = [f"{request.method} {request.url}" for request in receivers.seen]
    assert addresses == [
        f"POST {TEAMS_URL}",
        f"POST {SLACK_HOOK}",
        "POST https://slack.com/api/chat.postMessage",
    ]
    assert json.loads(receivers.seen[2].content)["channel"] == "C042"
    assert receivers.seen[2].headers["authorization"] == f"Bearer {SLACK_TOKEN}"
    faults = [
        {"channel": "teams", "integration_id": teams, "target": "C042"},
        {"channel": "slack", "integration_id": hook, "target": "C042"},
        {"channel": "slack", "integration_id": bot},
        {"channel": "slack", "integration_id": teams},
    ]
    fields = [list((await web.post(ROUTES, webhook(url=None, **chosen))).errors) for chosen in faults]
    assert fields == [["target"], ["target"], ["target"], ["integration_id"]]


async def test_the_twenty_first_route_is_refused(world: tuple[Service, Receivers], web: Caller) -> None:
    """Lists twenty routes, and makes another one only after one was deleted."""
    routes = [await made(web, name=f"Route {number}") for number in range(MAX_ROUTES)]
    response = await web.post(ROUTES, webhook(name="One too many"))
    assert (response.status, list(response.errors)) == (422, ["name"])
    assert len((await web.get(ROUTES)).data["routes"]) == MAX_ROUTES == 20
    await web.delete(f"{ROUTES}/{routes[0]['route']['id']}")
    await made(web, name="In its place")


async def test_a_disconnected_chat_says_so(world: tuple[Service, Receivers], web: Caller) -> None:
    """Sends nothing by a disconnected account and tells the owner to reconnect it."""
    _, receivers = world
    teams = await connected(web, "teams", webhook_url=TEAMS_URL)
    route = (await made(web, url=None, channel="teams", integration_id=teams))["route"]["id"]
    await web.post(f"/app/connections/{teams}/disconnect")
    tested = (await web.post(f"{ROUTES}/{route}/test")).data
    assert (tested["accepted"], tested["status"]) == (False, None)
    assert "Reconnect it" in tested["message"]
    assert receivers.seen == []


async def test_a_broken_route_is_used_again_after_an_accepted_test(
    world: tuple[Service, Receivers], web: Caller
) -> None:
    """Leaves a broken route broken after a test, and repairs it when "Try again" is accepted."""
    service, receivers = world
    route = (await made(web))["route"]["id"]
    org = service.own.organization.id
    await service.write(partial(broken, org=org, route=RouteId(route)), org=org)
    one = f"{ROUTES}/{route}"
    receivers.refuse(500)
    assert (await web.post(f"{one}/try-again")).data["accepted"] is False
    assert (await web.post(f"{one}/test")).data["accepted"] is True
    [listed] = (await web.get(ROUTES)).data["routes"]
    assert (listed["state"], listed["reason"]) == ("broken", "gone")
    assert (await web.post(f"{one}/try-again")).data["accepted"] is True
    [listed] = (await web.get(ROUTES)).data["routes"]
    assert (listed["state"], listed["reason"]) == ("ok", None)


async def broken(tx: Tx, org: OrgId, route: RouteId) -> None:
    """Marks a route as broken."""
    assert await rows.mark_broken(tx, org, route, reason="gone")
