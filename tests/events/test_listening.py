"""Tests listening: subscriptions follow the triggers, and are checked, repaired and removed."""

import httpx

from steward.model.connection import ConnectionState
from tests.api.audited import actions
from tests.events.world import ADDRESS, ListeningService


async def test_an_order_in_the_shop_starts_a_run_that_is_given_its_event(listener: ListeningService) -> None:
    """An order in the shop starts a run with its event.

    See docs/design/api/automations.md#trigger and docs/design/api/events.md#from-event-to-run.
    """
    automation = await listener.automation("orders/create", "orders/paid")
    assert automation["trigger"] == {
        "kind": "event",
        "topics": ["orders/create", "orders/paid"],
        "words": "When an order is created or an order is paid",
        "listening": "yes",
        "reason": None,
        "events_dropped": 0,
        "events_dropped_at": None,
    }
    sold = await listener.woo("POST", "/orders", {"set_paid": True, "line_items": []})
    assert await listener.events_of_runs(automation) == [("orders/create", str(sold["id"]))]
    [run] = await listener.runs(automation)
    assert (run["started_by"], run["status"], run["created_by"]) == ("event", "succeeded", None)
    assert (run["event"]["topic"], run["event"]["id"]) == ("orders/create", run["result"]["event"]["id"])


async def test_automations_share_a_subscription_that_goes_when_nobody_waits_for_it(
    listener: ListeningService,
) -> None:
    """Automations share a subscription, which is removed when no trigger needs it.

    See docs/design/events.md#subscriptions and docs/design/events.md#matching.
    """
    first = await listener.automation("orders/create")
    second = await listener.automation("orders/create", "products/update")
    assert sorted(hook["topic"] for hook in listener.hooks()) == ["order.created", "product.updated"]
    assert len({hook["delivery_url"] for hook in listener.hooks()}) == 1
    assert (await listener.act(first, "pause")).data["automation"]["trigger"]["listening"] == "off"
    await listener.later(minutes=11)
    assert len(listener.hooks()) == 2
    archived = (await listener.act(second, "archive")).data["automation"]["trigger"]
    assert (archived["listening"], archived["reason"]) == ("off", None)
    await listener.shop.drain()
    await listener.later(minutes=9)
    assert len(listener.hooks()) == 2
    sent = await listener.deliver("order.created", {"id": 9})
    assert sent.status == 200
    await listener.later(minutes=2)
    assert listener.hooks() == []
    assert await listener.runs(first) == await listener.runs(second) == []
    assert await listener.rows("SELECT 1 FROM listeners WHERE org_id = :org") == []


async def test_an_update_changes_what_is_listened_to(listener: ListeningService) -> None:
    """Updating the trigger of an active automation updates the subscriptions.

    See docs/design/api/automations.md#requests.
    """
    automation = await listener.automation("orders/create")
    body = {"version": automation["version"], "trigger": {"kind": "event", "topics": ["customers/update"]}}
    after = (await listener.token.patch(f"/v1/automations/{automation['id']}", body)).data["automation"]
    assert (after["state"], after["trigger"]["listening"]) == ("active", "not_yet")
    await listener.shop.drain()
    assert (await listener.trigger(automation))["listening"] == "yes"
    assert sorted(hook["topic"] for hook in listener.hooks()) == ["customer.updated", "order.created"]
    await listener.deliver("order.created", {"id": 8})
    await listener.deliver("customer.updated", {"id": 7})
    assert await listener.events_of_runs(automation) == [("customers/update", "7")]


async def test_a_disabled_webhook_is_repaired_three_times_a_day_then_failed(
    listener: ListeningService,
) -> None:
    """A missing or disabled webhook is repaired three times a day, then `listening` is failed.

    See docs/design/events.md#subscriptions and docs/design/api/automations.md#trigger.
    """
    automation = await listener.automation("orders/create")
    for recovered in range(4):
        if recovered % 2:
            listener.hook("order.created")["status"] = "disabled"
        else:
            listener.shop.world.state.shop.webhooks.clear()
        await listener.later(hours=5, minutes=50)
        assert [hook["status"] for hook in listener.hooks()] in ([], ["disabled"])
        await listener.later(minutes=11)
        assert listener.hook("order.created")["status"] == "active"
        trigger = await listener.trigger(automation)
        assert trigger["listening"] == ("yes" if recovered < 3 else "failed"), recovered
    assert "could not reach Steward" in trigger["reason"]
    await listener.later(hours=25)
    assert (await listener.trigger(automation))["listening"] == "yes"


async def test_a_derived_topic_is_listened_to_once_what_is_there_has_been_seen(
    listener: ListeningService,
) -> None:
    """A derived topic starts after a first read; a first sight is no transition.

    See docs/design/connectors.md#topics.
    """
    listener.shop.fault("status", "GET", "/wp-json/wc/v3/products", status=503, count=100)
    automation = await listener.automation("variants/out_of_stock", listen=False)
    await listener.act(automation, "resume")
    await listener.shop.drain()
    assert (await listener.trigger(automation))["listening"] == "not_yet"
    listener.shop.world.state.faults.clear()
    await listener.later(minutes=2)
    assert (await listener.trigger(automation))["listening"] == "yes"
    [product] = await listener.woo("GET", "/products?per_page=1&stock_status=instock&type=simple")
    await listener.woo("PUT", f"/products/{product['id']}", {"name": "Another name"})
    assert await listener.events_of_runs(automation) == []
    await listener.woo("PUT", f"/products/{product['id']}", {"manage_stock": True, "stock_quantity": 0})
    assert await listener.events_of_runs(automation) == [("variants/out_of_stock", str(product["id"]))]


async def test_a_store_that_cannot_be_asked_is_asked_again(listener: ListeningService) -> None:
    """A store that fails is tried again after 1, 2, 4 … minutes; after five failures listening has failed.

    See docs/design/runs.md#periodic-tasks-and-failing-rows.
    """
    listener.shop.fault("status", "GET", "/wp-json/wc/v3/webhooks", status=503, count=100)
    automation = await listener.automation("orders/create", listen=False)
    await listener.act(automation, "resume")
    await listener.shop.drain()
    for minutes in (1, 2, 4):
        assert (await listener.trigger(automation))["listening"] == "not_yet"
        await listener.later(minutes=minutes, seconds=1)
    await listener.later(minutes=9)
    trigger = await listener.trigger(automation)
    assert (trigger["listening"], bool(trigger["reason"])) == ("failed", True)
    listener.shop.world.state.faults.clear()
    await listener.later(minutes=61)
    assert (await listener.trigger(automation))["listening"] == "yes"


async def test_reconnecting_gives_a_new_address_and_disconnecting_closes_it(
    listener: ListeningService,
) -> None:
    """Reconnecting gives a new webhook address, and disconnecting closes it.

    See docs/design/api/events.md#delivery and docs/design/api/connections.md#connecting.
    """
    automation = await listener.automation("orders/create")
    before = listener.hook("order.created")
    number = listener.populated.number("woocommerce")
    await listener.shop.set_connection_state("woocommerce", ConnectionState.NEEDS_RECONNECTING)
    trigger = await listener.trigger(automation)
    assert trigger["listening"] == "failed"
    assert "not connected" in trigger["reason"]
    await listener.deliver("order.created", {"id": 5})
    await listener.shop.drain()
    [refused] = await listener.runs(automation)
    assert (refused["status"], refused["code"]) == ("refused", "not_connected")
    assert (await listener.trigger(automation))["events_dropped"] == 0
    owner = await listener.populated.service.web("owner")
    woo = listener.shop.world.described()["woocommerce"]
    settings = {name: woo[name] for name in ("url", "consumer_key", "consumer_secret")}
    response = await owner.post(f"/app/connections/{number}/reconnect", {"settings": settings})
    assert response.status == 200, response.body
    done = await actions(listener.populated.service, listener.shop.owner.org)
    assert [action for action, _, about in done if about == str(number)][-1] == "reconnected"
    assert (await listener.post(before["delivery_url"], b"{}")).status == 404
    await listener.shop.drain()
    [hook] = listener.hooks()
    assert hook["delivery_url"] != before["delivery_url"]
    assert (await listener.trigger(automation))["listening"] == "yes"
    address = httpx.URL(hook["delivery_url"])
    assert address.path.startswith(ADDRESS)
    assert len(address.path) == len(ADDRESS) + 32
    assert (await owner.post(f"/app/connections/{number}/disconnect")).status == 200
    assert hook not in listener.hooks()
    assert (await listener.post(hook["delivery_url"], b"{}")).status == 404
    after = await listener.read(automation)
    assert (after["state"], after["paused_by"], after["trigger"]["listening"]) == ("paused", "system", "off")
    await listener.shop.drain()
    assert await listener.rows("SELECT 1 FROM listeners WHERE org_id = :org") == []


async def test_topics_the_shop_cannot_send_are_refused(listener: ListeningService) -> None:
    """A topic of another platform gives 422 on `trigger.topics`. See docs/design/connectors.md#topics."""
    body = {
        "template_id": "tell-events",
        "integration_id": listener.populated.number("woocommerce"),
        "name": "n",
        "inputs": {},
        "schedule": {"cadence": "manual"},
        "trigger": {"kind": "event", "topics": ["customers/tags_added"]},
    }
    response = await listener.token.post("/v1/automations", body)
    assert (response.status, list(response.errors)) == (422, ["trigger.topics"])
