"""Tests the intake over HTTP: only signed deliveries are stored, once, within limits."""

from collections.abc import Mapping
from typing import Any

import pytest

from steward.events.floods import Floods
from steward.model.refusals import Unavailable
from tests.events.world import ADDRESS, ListeningService, order

LIMIT = 256 * 1024
MIB = 1024 * 1024


async def count_events(listener: ListeningService) -> int:
    """Returns the number of stored events."""
    [row] = await listener.rows("SELECT count(*) AS n FROM events WHERE org_id = :org")
    return int(row["n"])


def sized(number: int, size: int) -> bytes:
    """Builds a delivery of an order with exactly this many bytes."""
    head = b'{"id": %d, "note": "' % number
    return head + b"x" * (size - len(head) - 2) + b'"}'


async def test_unsigned_deliveries_are_refused_and_not_stored(listener: ListeningService) -> None:
    """Unsigned or wrongly signed deliveries are refused and not stored.

    See docs/design/api/events.md#delivery and docs/design/events.md#receiving-deliveries.
    """
    await listener.automation("orders/create")
    url, body = listener.hook("order.created")["delivery_url"], order(1)
    refused: list[Mapping[str, str]] = [
        {"x-wc-webhook-signature": ""},
        {"x-wc-webhook-signature": "c2lnbmVk"},
        {"x-wc-webhook-signature": listener.signature(listener.hook("order.created"), b"another body")},
    ]
    for headers in refused:
        response = await listener.deliver("order.created", body, **headers)
        assert (response.status, response.code) == (401, "unauthenticated"), headers
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert (await listener.post(url, b"webhook_id=1", **form)).status == 200
    assert (await listener.post(url, b"webhook_id=1&order=2", **form)).status == 401
    assert (await listener.post(url, b'{"id": 1}')).status == 401
    unknown = await listener.post(ADDRESS + "A" * 32, b"webhook_id=1", **form)
    malformed = await listener.post(ADDRESS + "A" * 31, b"{}")
    assert (unknown.status, unknown.code, malformed.status) == (404, "not_found", 404)
    nobody = listener.populated.service.nobody()
    assert (await nobody.call("GET", url.partition("8400")[2])).status == 405
    left_over = await listener.deliver("order.created", body, **{"x-wc-webhook-id": "4711"})
    other = await listener.deliver("order.created", body, **{"x-wc-webhook-topic": "order.updated"})
    assert (left_over.status, other.status) == (200, 200)
    assert await count_events(listener) == 0
    good = await listener.deliver("order.created", body)
    assert (good.status, good.body["data"]) == (200, {})
    assert await count_events(listener) == 1


async def test_a_repeated_delivery_is_one_event_and_equal_ids_alone_are_not(
    listener: ListeningService,
) -> None:
    """A delivery counts as repeated only if both its id and its body are equal.

    See docs/design/api/events.md#delivery and docs/design/api/events.md#deduplication.
    """
    automation = await listener.automation("orders/create", "orders/updated")
    for _ in range(3):
        assert (await listener.deliver("order.created", order(1), delivery="same")).status == 200
    assert (await listener.deliver("order.created", order(2), delivery="same")).status == 200
    assert (await listener.deliver("order.updated", order(1), delivery="same")).status == 200
    assert (await listener.deliver("order.created", order(1), delivery="another")).status == 200
    assert await count_events(listener) == 4
    assert await listener.events_of_runs(automation) == [
        ("orders/create", "1"),
        ("orders/create", "2"),
        ("orders/updated", "1"),
        ("orders/create", "1"),
    ]


async def test_an_event_has_256_kb_and_one_byte_more_is_a_refused_run(listener: ListeningService) -> None:
    """An event of 256 KB starts a run; one byte more gives a refused run.

    See docs/design/api/automations.md#trigger and docs/design/api/events.md#delivery.

    Interface statements: 8 event.
    """
    automation = await listener.automation("orders/create")
    assert (await listener.deliver("order.created", sized(1, LIMIT))).status == 200
    await listener.shop.drain()
    assert (await listener.trigger(automation))["events_dropped"] == 0
    assert (await listener.deliver("order.created", sized(2, LIMIT + 1))).status == 200
    assert await listener.events_of_runs(automation) == [("orders/create", "1"), ("orders/create", None)]
    refused = (await listener.runs(automation))[1]
    assert (refused["status"], refused["code"]) == ("refused", "event_too_large")
    trigger = await listener.trigger(automation)
    assert (trigger["events_dropped"], trigger["events_dropped_at"]) == (1, refused["queued_at"])
    assert (await listener.deliver("order.created", sized(2, LIMIT + 1), delivery="delivery-2")).status == 200
    await listener.shop.drain()
    assert (await listener.trigger(automation))["events_dropped"] == 1


async def test_a_body_is_read_to_64_mib_and_no_further(listener: ListeningService) -> None:
    """A body over 64 MiB answers 413 and is not read further. See docs/design/api/events.md#delivery."""
    await listener.automation("orders/create")
    path = listener.hook("order.created")["delivery_url"].partition("8400")[2]
    responses: list[Any] = []
    remaining = [64]

    async def receive() -> dict[str, Any]:
        remaining[0] -= 1
        return {"type": "http.request", "body": b"\0" * MIB, "more_body": remaining[0] >= 0}

    async def send(message: Any) -> None:
        responses.append(message.get("status"))

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "headers": [],
        "query_string": b"",
        "client": ("203.0.113.9", 1),
    }
    await listener.populated.service.app(scope, receive, send)
    assert responses[0] == 413
    assert await count_events(listener) == 0


async def test_a_signed_body_that_is_no_event_is_stored_and_matches_nothing(
    listener: ListeningService,
) -> None:
    """A signed body that is not an event is stored and matches nothing.

    See docs/design/api/events.md#delivery.
    """
    automation = await listener.automation("orders/create")
    for body in (b"not json", b"[]", b'{"id": "text"}', b""):
        response = await listener.deliver("order.created", body, **{"content-type": "text/plain"})
        assert response.status == 200, body
    await listener.deliver("order.created", order(3))
    assert await listener.events_of_runs(automation) == [("orders/create", "3")]
    states = await listener.rows("SELECT DISTINCT state FROM events WHERE org_id = :org")
    assert states == [{"state": "matched"}]


async def test_a_flood_is_held_back_and_ends_by_itself(listener: ListeningService) -> None:
    """Over 2 MiB a second within 10 s from one address gives 503 with Retry-After.

    See docs/design/events.md#receiving-deliveries.
    """
    await listener.automation("orders/create")
    for number in (1, 2):
        assert (await listener.deliver("order.created", sized(number, 10 * MIB))).status == 200
    response = await listener.deliver("order.created", {"id": 3})
    assert (response.status, response.code, response.headers["retry-after"]) == (503, "unavailable", "10")
    assert await count_events(listener) == 2
    listener.shop.clock.tick(9.9)
    assert (await listener.deliver("order.created", {"id": 3})).status == 503
    listener.shop.clock.tick(0.2)
    assert (await listener.deliver("order.created", {"id": 3})).status == 200
    assert await count_events(listener) == 3


def test_sixty_events_a_second_are_accepted_and_a_wrong_signature_counts_double() -> None:
    """Each address may send 60 events a second within 10 s; 401s count double.

    See docs/design/events.md#receiving-deliveries.
    """
    floods = Floods()
    for number in range(600):
        floods.admit("one", number / 60)
    with pytest.raises(Unavailable) as full:
        floods.admit("one", 9.99)
    assert full.value.retry_after == 1
    floods.admit("another", 9.99)
    floods.admit("one", 10.0)
    for _ in range(300):
        floods.admit("doubtful", 50.0)
        floods.count_invalid("doubtful", 50.0)
    with pytest.raises(Unavailable):
        floods.admit("doubtful", 59.9)
    floods.admit("doubtful", 60.1)
