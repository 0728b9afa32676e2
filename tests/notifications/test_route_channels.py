"""Route channels: what they post, how they read answers, and that a repeat has the same bytes."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from steward.database.engine.base import Engine
from steward.model.ids import ApprovalId, AutomationId, MessageId, NoticeId, OrgId, RouteId, RunId
from steward.model.json import JsonObject
from steward.model.notice import (
    ChannelName,
    MessageKind,
    Notice,
    NoticeMessage,
    StoredNotice,
    Topic,
    facts_of,
)
from steward.notifications.channel import DeliveryOutcome, DeliveryResult
from steward.notifications.webhook import webhook_body, wire_type
from tests.fake_clock import START, FakeClock
from tests.notifications.receivers import SLACK_HOOK, TEAMS_URL, Receivers, connected, made, receiving
from tests.service import BASE_URL, Cast, Service

on_one_engine = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
AUTOMATION = AutomationId("01JD3Z0QH8N2Y5V7W9X1C4B6A8")
RUN = RunId("01JD3Z0QH8N2Y5V7W9X1C4B6A9")


@pytest.fixture
async def world(engine: Engine, clock: FakeClock, cast: Cast) -> AsyncIterator[tuple[Service, Receivers]]:
    """Yields the service and its receivers."""
    async with receiving(engine, clock, cast) as opened:
        yield opened


def notice(topic: Topic = Topic.RUN_FAILED, **facts: Any) -> StoredNotice:
    """Returns a stored notice of a run."""
    named = facts_of(**{"automation": "Hide products", "store": "Tea", "code": "connection_failed", **facts})
    fact = Notice(topic=topic, dedupe="x", facts=named, automation=AUTOMATION, run=RUN)
    return StoredNotice(OrgId(1), NoticeId("01JD3Z0QH8N2Y5V7W9X1C4B6AA"), fact, START)


def message(
    *notices: StoredNotice, route: str = "", count: int = 1, envelope: JsonObject | None = None
) -> NoticeMessage:
    """Returns a closed message of a route."""
    return NoticeMessage(
        OrgId(1),
        MessageId("01JD3Z0QH8N2Y5V7W9X1C4B6AB"),
        ChannelName.WEBHOOK,
        MessageKind.NOTICES,
        None,
        RouteId(route),
        START + timedelta(seconds=2),
        1,
        count,
        envelope or {},
        notices,
    )


def test_every_topic_has_a_type_with_one_point() -> None:
    """Names each topic by a type with exactly one point: `approval_waiting` is `approval.waiting`."""
    assert wire_type(Topic.APPROVAL_WAITING) == "approval.waiting"
    assert wire_type(Topic.RUN_OUTCOME_UNKNOWN) == "run.outcome_unknown"
    assert all(wire_type(topic).count(".") == 1 for topic in Topic)


def test_a_single_event_is_thin_and_leads_to_its_page() -> None:
    """Posts ids, a code and an address without names, with null for absent ids."""
    assert json.loads(webhook_body(message(notice()), BASE_URL)) == {
        "type": "run.failed",
        "timestamp": "2026-05-01T06:00:00.000Z",
        "data": {
            "organization_id": 1,
            "count": 1,
            "automation_id": AUTOMATION,
            "run_id": RUN,
            "approval_id": None,
            "integration_id": None,
            "code": "connection_failed",
            "url": f"{BASE_URL}/runs/{RUN}",
        },
    }
    waiting = replace(
        notice(Topic.APPROVAL_WAITING).notice, approval=ApprovalId("01JD3Z0QH8N2Y5V7W9X1C4B6AC")
    )
    body = json.loads(webhook_body(message(replace(notice(), notice=waiting)), BASE_URL))
    assert body["data"]["url"] == f"{BASE_URL}/approvals/01JD3Z0QH8N2Y5V7W9X1C4B6AC"


def test_a_flood_is_one_grouped_event() -> None:
    """Posts one grouped event that counts each type and links to the inbox."""
    summary: JsonObject = {
        "topics": {"connection_lost": 2, "run_failed": 3000},
        "first_at": "2026-05-01T00:00:00.000Z",
        "last_at": "2026-05-01T00:10:00.000Z",
    }
    flood = message(*([notice()] * 20), count=3002, envelope=summary)
    body = json.loads(webhook_body(flood, BASE_URL))
    assert (body["type"], body["timestamp"]) == ("notices.grouped", "2026-05-01T06:00:02.000Z")
    assert body["data"]["count"] == 3002
    assert body["data"]["by_type"] == {"connection.lost": 2, "run.failed": 3000}
    assert body["data"]["first_at"] == summary["first_at"]
    assert body["data"]["last_at"] == summary["last_at"]
    assert body["data"]["url"] == f"{BASE_URL}/inbox"


def test_a_body_is_far_below_20_kib_whatever_its_facts_hold() -> None:
    """Keeps bodies below 2 KiB, since only the code of a notice's facts is sent."""
    long = notice(code="c" * 80, automation="\u202e" * 80)
    assert len(webhook_body(message(long), BASE_URL)) < 1024
    every: JsonObject = {str(topic): 10**9 for topic in Topic}
    grouped = message(long, long, envelope={"topics": every})
    assert len(webhook_body(grouped, BASE_URL)) < 2048


async def delivered(world: tuple[Service, Receivers], response: Any = None) -> DeliveryOutcome:
    """Delivers once by a new webhook and returns the outcome."""
    service, receivers = world
    route = (await made(await service.web("owner")))["route"]["id"]
    if response is not None:
        receivers.responses.append(response)
    channel = service.context.channels[ChannelName.WEBHOOK]
    return await channel.deliver(replace(message(notice(), route=route), org=service.own.organization.id))


@on_one_engine
@pytest.mark.parametrize(
    ("status", "result"),
    [
        *((status, DeliveryResult.ACCEPTED) for status in (200, 201, 202, 204, 299)),
        *((status, DeliveryResult.REFUSED) for status in (400, 401, 403, 404, 409, 410, 413, 422, 451)),
        *((status, DeliveryResult.TRY_AGAIN) for status in (408, 425, 429, 500, 502, 503, 504, 302)),
    ],
)
async def test_each_webhook_status_has_its_outcome(
    world: tuple[Service, Receivers], status: int, result: DeliveryResult
) -> None:
    """Accepts 2xx, refuses 4xx other than 408, 425 and 429, retries the rest, and marks 410 as gone."""
    outcome = await delivered(world, httpx.Response(status, stream=httpx.ByteStream(b"")))
    assert outcome.result is result
    assert outcome.is_gone is (status == 410)
    assert (outcome.error is None) is (result is DeliveryResult.ACCEPTED)


@on_one_engine
@pytest.mark.parametrize(
    ("header", "seconds"), [("120", 120), ("3600", 3600), ("3601", 3600), ("soon", None)]
)
async def test_retry_after_is_honored_up_to_an_hour(
    world: tuple[Service, Receivers], header: str, seconds: int | None
) -> None:
    """Honours Retry-After up to an hour and ignores an unreadable one."""
    response = httpx.Response(503, headers={"retry-after": header}, stream=httpx.ByteStream(b""))
    outcome = await delivered(world, response)
    assert outcome.retry_after == (None if seconds is None else timedelta(seconds=seconds))


@on_one_engine
@pytest.mark.parametrize("error", [httpx.ConnectError("no"), httpx.ReadTimeout("late")])
async def test_an_unreachable_receiver_is_tried_again(
    world: tuple[Service, Receivers], error: Exception
) -> None:
    """Retries after connection failures and timeouts."""
    outcome = await delivered(world, error)
    assert (outcome.result, outcome.status) == (DeliveryResult.TRY_AGAIN, None)
    assert outcome.error


@on_one_engine
async def test_a_repeat_has_the_same_id_and_bytes_and_a_new_time(world: tuple[Service, Receivers]) -> None:
    """Repeats a delivery with the same id and body and a new timestamp."""
    service, receivers = world
    route = (await made(await service.web("owner")))["route"]["id"]
    actual = replace(message(notice(), route=route), org=service.own.organization.id)
    channel = service.context.channels[ChannelName.WEBHOOK]
    await channel.deliver(actual)
    service.clock.tick(5)
    await channel.deliver(replace(actual, attempt=2))
    first, second = receivers.seen
    assert first.content == second.content
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == f"msg_{actual.id}"
    assert int(second.headers["webhook-timestamp"]) == int(first.headers["webhook-timestamp"]) + 5


@on_one_engine
async def test_a_deleted_route_refuses_what_was_under_way(world: tuple[Service, Receivers]) -> None:
    """Refuses a message of a deleted route without sending anything."""
    service, receivers = world
    gone = replace(message(notice(), route="01JD3Z0QH8N2Y5V7W9X1C4B6AD"), org=service.own.organization.id)
    for name in (ChannelName.WEBHOOK, ChannelName.TEAMS, ChannelName.SLACK):
        assert (await service.context.channels[name].deliver(gone)).result is DeliveryResult.REFUSED
    assert receivers.seen == []


@on_one_engine
@pytest.mark.parametrize(
    ("kind", "url", "status", "body", "result"),
    [
        ("teams", TEAMS_URL, 202, b"", DeliveryResult.ACCEPTED),
        ("teams", TEAMS_URL, 200, b"Webhook failed with HTTP error 429", DeliveryResult.TRY_AGAIN),
        ("teams", TEAMS_URL, 404, b"", DeliveryResult.REFUSED),
        ("teams", TEAMS_URL, 503, b"", DeliveryResult.TRY_AGAIN),
        ("slack", SLACK_HOOK, 200, b"ok", DeliveryResult.ACCEPTED),
        ("slack", SLACK_HOOK, 404, b"no_service", DeliveryResult.REFUSED),
        ("slack", SLACK_HOOK, 429, b"", DeliveryResult.TRY_AGAIN),
        ("slack", SLACK_HOOK, 500, b"", DeliveryResult.TRY_AGAIN),
    ],
)
async def test_a_chat_shows_the_notices_and_its_response_is_read(
    world: tuple[Service, Receivers], kind: str, url: str, status: int, body: bytes, result: DeliveryResult
) -> None:
    """Posts the sentence of each notice with markup escaped, and reads the platform's own error texts."""
    service, receivers = world
    web = await service.web("owner")
    integration = await connected(web, kind, webhook_url=url)
    route = (await made(web, url=None, channel=kind, integration_id=integration))["route"]["id"]
    receivers.responses.append(httpx.Response(status, stream=httpx.ByteStream(body)))
    actual = message(notice(), notice(automation="<b>Tea</b>"), route=route, count=2)
    outcome = await service.context.channels[ChannelName(kind)].deliver(
        replace(actual, org=service.own.organization.id)
    )
    assert outcome.result is result
    text = receivers.seen[0].content.decode()
    assert "Hide products" in text
    assert "2 notices" in text
    assert f"{BASE_URL}/inbox" in text
    assert "<b>" not in text
