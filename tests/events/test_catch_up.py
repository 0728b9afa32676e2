"""Tests catching up: missed events enter once, delivered ones do not enter again."""

from typing import Any

import httpx

from tests.events.world import ListeningService
from tests.imports.exports import code, connections_of, node


async def sold(listener: ListeningService, **more: Any) -> str:
    """Creates an order in the shop and returns its number."""
    woo = await listener.woo("POST", "/orders", {"set_paid": True, "line_items": [], **more})
    return str(woo["id"])


def unreachable(request: httpx.Request) -> httpx.Response:
    """Makes the service unreachable for the shop inside the block."""
    raise httpx.ConnectError("nobody answers", request=request)


async def test_after_an_outage_what_was_lost_is_found_once(listener: ListeningService) -> None:
    """After an outage catch-up finds each lost event once.

    See docs/design/events.md#catch-up and docs/design/command-line.md#settings.
    """
    on_create, is_paid = await listener.automation("orders/create"), await listener.automation("orders/paid")
    listener.shop.clock.tick(60)
    delivered = await sold(listener)
    assert await listener.events_of_runs(on_create) == [("orders/create", delivered)]
    listener.shop.world.set_webhook_transport(httpx.MockTransport(unreachable))
    listener.shop.clock.tick(60)
    lost = await sold(listener)
    await listener.shop.drain()
    assert len(await listener.runs(on_create)) == 1
    listener.shop.world.set_webhook_transport(httpx.ASGITransport(app=listener.populated.service.app))
    await listener.later(minutes=15)
    for automation, topic in ((on_create, "orders/create"), (is_paid, "orders/paid")):
        assert await listener.events_of_runs(automation) == [(topic, delivered), (topic, lost)]
    [results] = await listener.rows("SELECT count(*) AS n FROM events WHERE org_id = :org AND polled")
    for _ in range(3):
        await listener.later(minutes=15)
    assert len(await listener.runs(on_create)) == len(await listener.runs(is_paid)) == 2
    assert await listener.rows("SELECT count(*) AS n FROM events WHERE org_id = :org AND polled") == [results]


async def test_a_store_that_cannot_be_read_is_read_from_where_it_was(listener: ListeningService) -> None:
    """After a failed read catch-up continues from its cursor. See docs/design/events.md#catch-up."""
    automation = await listener.automation("orders/create")
    listener.shop.clock.tick(60)
    listener.shop.world.set_webhook_transport(httpx.MockTransport(unreachable))
    lost = await sold(listener)
    listener.shop.fault("status", "GET", "/wp-json/wc/v3/orders", status=500, count=1000)
    await listener.later(minutes=16)
    await listener.later(hours=2)
    assert await listener.runs(automation) == []
    listener.shop.world.state.faults.clear()
    await listener.later(hours=1, minutes=1)
    assert await listener.events_of_runs(automation) == [("orders/create", lost)]


async def test_an_object_reported_as_new_is_not_new_again_when_it_changes(listener: ListeningService) -> None:
    """An object that was reported as created is not reported as created again.

    See docs/design/events.md#catch-up.
    """
    automation = await listener.automation("orders/create")
    listener.shop.clock.tick(14 * 60)
    first = await sold(listener)
    assert await listener.events_of_runs(automation) == [("orders/create", first)]
    listener.shop.clock.tick(30)
    await listener.woo("PUT", f"/orders/{first}", {"status": "completed"})
    listener.shop.world.set_webhook_transport(httpx.MockTransport(unreachable))
    lost = await sold(listener)
    await listener.later(seconds=45)
    await listener.woo("PUT", f"/orders/{lost}", {"status": "completed"})
    await listener.later(seconds=30)
    actual = [("orders/create", first), ("orders/create", lost)]
    assert await listener.events_of_runs(automation) == actual
    await listener.woo("PUT", f"/orders/{lost}", {"status": "cancelled"})
    listener.shop.world.set_webhook_transport(httpx.ASGITransport(app=listener.populated.service.app))
    await listener.later(minutes=15)
    await listener.later(minutes=15)
    assert await listener.events_of_runs(automation) == actual


async def test_a_missed_event_hands_the_whole_object_to_an_imported_workflow(
    listener: ListeningService,
) -> None:
    """A caught-up event holds few fields, so the workflow's run reads the whole object.

    See docs/design/imports-verdict.md#start.
    """
    nodes = [
        node("Told", "wooCommerceTrigger", 1, {"event": "order.created"}),
        code("See", "throw new Error($('Told').first().json.billing.city)"),
    ]
    export = {"name": "Told", "nodes": nodes, "connections": connections_of(nodes), "settings": {}}
    automation = await listener.imported(export, "orders/create")
    listener.shop.clock.tick(60)
    await sold(listener, billing={"city": "Ghent"})
    await listener.shop.drain()
    listener.shop.world.set_webhook_transport(httpx.MockTransport(unreachable))
    listener.shop.clock.tick(60)
    await sold(listener, billing={"city": "Bruges"})
    await listener.later(minutes=15)
    messages = [str(run["message"]) for run in await listener.runs(automation)]
    assert [message.partition(" ")[0] for message in messages] == ["Ghent", "Bruges"]
