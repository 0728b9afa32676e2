"""Tests matching: derived topics, queued runs, counted drops, and own changes."""

from dataclasses import replace
from typing import Any, cast

from steward.model.notice import Topic
from steward.templates.base import Template
from steward.templates.hide_out_of_stock_products import TEMPLATE as HIDE
from tests.events.world import ListeningService, order
from tests.notifications.notified_people import told

LIMIT = 256 * 1024


def paid(number: int, timestamp: str, **more: Any) -> dict[str, Any]:
    """Builds an order that has been paid."""
    return order(number, modified_at=timestamp, date_paid_gmt=timestamp, **more)


async def test_topics_a_shop_does_not_send_are_worked_out(listener: ListeningService) -> None:
    """Topics that WooCommerce does not send are derived from changes.

    See docs/design/connectors.md#topics and docs/design/api/events.md#from-event-to-run.
    """
    topics = ("orders/paid", "orders/fulfilled", "orders/cancelled", "refunds/create")
    automation = await listener.automation(*topics)
    old = order(500, modified_at="2026-04-30T08:00:00")
    actual = [
        ("order.updated", {**old, "date_paid_gmt": "2026-04-30T08:00:00"}),  # first sight of an old order
        ("order.created", order(501)),
        ("order.updated", order(501)),
        ("order.updated", paid(501, "2026-05-01T09:00:00")),
        ("order.updated", order(501, modified_at="2026-05-01T08:30:00")),  # older than what was seen
        ("order.updated", paid(501, "2026-05-01T10:00:00", status="completed", refunds=[{"id": 9}])),
        ("order.updated", paid(501, "2026-05-01T10:00:01", status="completed", refunds=[{"id": 9}])),
        ("order.updated", paid(501, "2026-05-01T11:00:00", status="cancelled", refunds=[{"id": 9}])),
    ]
    for native, body in actual:
        assert (await listener.deliver(native, body)).status == 200
    assert await listener.events_of_runs(automation) == [
        ("orders/paid", "501"),
        ("orders/fulfilled", "501"),
        ("orders/cancelled", "501"),
    ]


async def test_a_deleted_product_is_reported_but_not_an_order_with_its_number(
    listener: ListeningService,
) -> None:
    """A deleted product gives an event, but not an order with the same number.

    See docs/design/connectors.md#topics.
    """
    automation = await listener.automation("products/delete")
    first, second = [str(row["id"]) for row in await listener.woo("GET", "/products?per_page=2&type=simple")]
    await listener.deliver("product.deleted", {"id": 987654})
    await listener.woo("DELETE", f"/products/{first}")
    assert await listener.events_of_runs(automation) == [("products/delete", first)]
    hooks, listener.shop.world.state.shop.webhooks = listener.shop.world.state.shop.webhooks, {}
    await listener.woo("DELETE", f"/products/{second}?force=true")
    listener.shop.world.state.shop.webhooks = hooks
    await listener.later(hours=23)
    assert len(await listener.runs(automation)) == 1
    await listener.later(hours=1, minutes=20)
    assert (await listener.events_of_runs(automation))[1:] == [("products/delete", second)]


async def test_two_hundred_runs_wait_and_every_further_event_is_counted(listener: ListeningService) -> None:
    """With 200 runs waiting, every further event is dropped and counted.

    See docs/design/api/automations.md#trigger and docs/design/runs.md#run-queue.

    Interface statements: 8 waiting.
    """
    first_automation, other = (
        await listener.automation("orders/create"),
        await listener.automation("orders/create"),
    )
    for number in range(205):
        await listener.deliver("order.created", order(number + 1))
    large = b'{"id": 1, "note": "' + b"x" * LIMIT + b'"}'
    await listener.deliver("order.created", large)
    await listener.tick("match")
    for automation in (first_automation, other):
        runs = await listener.runs(automation)
        assert [run["status"] for run in runs] == ["queued"] * 200 + ["refused"] * 6
        assert [run["code"] for run in runs[200:]] == ["too_many_waiting"] * 5 + ["event_too_large"]
        trigger = await listener.trigger(automation)
        assert (trigger["events_dropped"], trigger["events_dropped_at"]) == (6, runs[-1]["queued_at"])
    assert [(row["topic"], row["count"]) for row in await told(listener.shop)] == [
        (Topic.EVENTS_DROPPED, 6)
    ] * 2
    assert (await listener.token.post(f"/v1/automations/runs/{runs[3]['id']}/cancel")).status == 200
    await listener.deliver("order.created", order(300))
    await listener.tick("match")
    assert [run["status"] for run in await listener.runs(other, status="queued")] == ["queued"] * 200
    dropped = [
        (await listener.trigger(automation))["events_dropped"] for automation in (first_automation, other)
    ]
    assert dropped == [7, 6]
    ended = (await listener.act(first_automation, "pause")).data["automation"]
    assert await listener.runs(first_automation, status="queued") == []
    assert (ended["trigger"]["listening"], ended["trigger"]["events_dropped"]) == ("off", 7)
    await listener.deliver("order.created", order(301))
    await listener.tick("match")
    assert len(await listener.runs(first_automation)) == 207
    assert len(await listener.runs(other)) == 208


async def test_an_event_that_cannot_be_matched_is_put_off_alone_and_is_poison_in_the_end(
    listener: ListeningService,
) -> None:
    """A failing event is deferred alone, for 1, 2, 4 … minutes, and is poison after 5 failures.

    See docs/design/runs.md#periodic-tasks-and-failing-rows.
    """
    automation = await listener.automation("orders/create")
    for number in (1, 2, 3):
        await listener.deliver("order.created", order(number))
    [bad] = await listener.rows("SELECT id FROM events WHERE org_id = :org ORDER BY id LIMIT 1")
    broken = "UPDATE event_bodies SET body = :body WHERE org_id = :org AND event_id = :id"
    assert await listener.shop.tamper(broken, body=b"no longer what was kept", id=bad["id"]) == 1
    assert await listener.events_of_runs(automation) == [("orders/create", "2"), ("orders/create", "3")]
    for tries in range(1, 6):
        [stored] = await listener.rows(
            "SELECT state, tries FROM events WHERE org_id = :org AND id = :id", **bad
        )
        assert stored == {"state": "poison" if tries == 5 else "new", "tries": tries}
        await listener.later(minutes=2 ** (tries - 1), seconds=1)
    assert len(await listener.runs(automation)) == 2


def offer_hiding(listener: ListeningService) -> None:
    """Adds a template that hides sold-out products on each product change, and so triggers itself."""
    facts = replace(
        HIDE.facts,
        template_id="hide-on-change",
        topics={"woocommerce": ("products/update",)},
    )
    templates = cast("dict[str, Template]", listener.shop.service.worker_context.automation_rules.templates)
    templates["hide-on-change"] = replace(HIDE, facts=facts)


async def hiding(listener: ListeningService) -> dict[str, Any]:
    """Creates an automation of that template."""
    offer_hiding(listener)
    return await listener.automation("products/update", template_id="hide-on-change")


async def approved(listener: ListeningService, automation: dict[str, Any]) -> int:
    """Approves what the automation waits for; returns its number of runs once all is quiet."""
    await listener.shop.drain()
    waiting = await listener.runs(automation, status="waiting_approval")
    for run in waiting:
        owner = await listener.populated.service.web("owner")
        response = await owner.get(f"/v1/automations/approvals/{run['approval_id']}")
        approval = response.data["approval"]
        decision = {"version": approval["version"], "change_hash": approval["change_hash"]}
        assert (
            await owner.post(f"/v1/automations/approvals/{approval['id']}/approve", decision)
        ).status == 200
    await listener.shop.drain()
    await listener.shop.world.settle()
    await listener.shop.drain()
    return len(await listener.runs(automation))


async def test_an_automation_does_not_start_itself_and_two_that_start_each_other_are_stopped(
    listener: ListeningService,
) -> None:
    """Own changes start no run, and a loop of two automations is stopped at its fifth run.

    See docs/design/api/events.md#delivery and docs/design/events.md#echo-guard.
    """
    automation = await hiding(listener)
    [row] = await listener.woo("GET", "/products?per_page=1&type=simple&stock_status=instock")
    path = f"/products/{row['id']}"
    await listener.woo("PUT", path, {"manage_stock": True, "stock_quantity": 0})
    assert await approved(listener, automation) == 1
    assert (await listener.woo("GET", path))["catalog_visibility"] == "hidden"
    assert (await listener.trigger(automation))["events_dropped"] == 0
    for rounds in range(2, 6):
        assert (await listener.read(automation))["state"] == "active"
        listener.shop.clock.tick(5)
        await listener.woo("PUT", path, {"catalog_visibility": "visible"})  # somebody else, within 60 s
        assert await approved(listener, automation) == rounds
    stopped = await listener.read(automation)
    assert (stopped["state"], stopped["paused_by"]) == ("paused", "system")
    assert str(row["id"]) in stopped["paused_reason"]
