"""Tests kills at every point of intake, matching, listening and catch-up: each event runs once."""

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from steward.failpoint import watch
from tests.crash.killing import Killer, ProcessKilled, bury, watching
from tests.events.test_matching import hiding, offer_hiding
from tests.events.world import ListeningService, open_listener, order
from tests.populated_service import PopulatedService


@pytest.fixture
async def mortal(populated: PopulatedService) -> AsyncIterator[ListeningService]:
    """Provides a listening service that can be killed."""
    yield await open_listener(populated)
    watch(None)


async def again(listener: ListeningService) -> None:
    """Replaces the killed process; API calls then reach the new one."""
    service, fresh = listener.populated.service, listener.shop.service
    service.context = fresh.context
    service.restart()
    await open_listener(listener.populated)
    listener.token = await service.token("member")


@pytest.mark.parametrize("point", ["before_event", "after_event"])
async def test_a_delivery_whose_response_is_lost_runs_once_when_it_comes_again(
    mortal: ListeningService, point: str
) -> None:
    """A delivery is stored before it is answered, so its repeat is recognized.

    See docs/design/api/events.md#delivery.
    """
    automation = await mortal.automation("orders/create")
    killer = Killer(points=[point])
    with watching(mortal.shop, killer):
        with suppress(ProcessKilled):
            await mortal.deliver("order.created", order(1), delivery="one")
        assert killer.kills == [point]
        await bury(mortal.shop, killer)
    await again(mortal)
    assert (await mortal.deliver("order.created", order(1), delivery="one")).status == 200
    assert await mortal.events_of_runs(automation) == [("orders/create", "1")]


async def test_matching_killed_anywhere_makes_each_run_once(mortal: ListeningService) -> None:
    """An event leaves the state `new` in the transaction that enqueues its runs.

    See docs/design/events.md#matching.
    """
    on_create, other = await mortal.automation("orders/create"), await mortal.automation("orders/paid")
    for number in (1, 2, 3):
        paid = order(number, date_paid_gmt="2026-05-01T08:00:00")
        assert (await mortal.deliver("order.created", paid)).status == 200
    killer = Killer(points=["before_match", "after_match", "after_claim"])
    with watching(mortal.shop, killer):
        for _ in killer.points:
            with suppress(ProcessKilled):
                await mortal.shop.drain()
            await bury(mortal.shop, killer)
            await again(mortal)
        await mortal.shop.drain()
    assert killer.kills == list(killer.points)
    for automation, topic in ((on_create, "orders/create"), (other, "orders/paid")):
        assert await mortal.events_of_runs(automation) == [(topic, str(number)) for number in (1, 2, 3)]


async def test_listening_killed_anywhere_ends_with_one_subscription_and_a_full_view(
    mortal: ListeningService,
) -> None:
    """A subscription is looked up by address before it is created, and a first read starts over.

    See docs/design/events.md#subscriptions.
    """
    automation = await mortal.automation("variants/out_of_stock", listen=False)
    assert (await mortal.act(automation, "resume")).status == 200
    killer = Killer(points=["before_subscribe", "after_subscribe", "after_fill_page"])
    with watching(mortal.shop, killer):
        for _ in killer.points:
            with suppress(ProcessKilled):
                await mortal.shop.drain()
            await bury(mortal.shop, killer)
            await again(mortal)
        await mortal.shop.drain()
    assert killer.kills == list(killer.points)
    assert (await mortal.trigger(automation))["listening"] == "yes"
    assert [hook["topic"] for hook in mortal.hooks()] == ["product.updated"]


async def test_catching_up_killed_before_its_end_finds_the_same_once(mortal: ListeningService) -> None:
    """Caught-up events have keys of their own, so a repeated catch-up adds none.

    See docs/design/events.md#catch-up.
    """
    automation = await mortal.automation("orders/create")
    mortal.shop.clock.tick(60)
    hooks, mortal.shop.world.state.shop.webhooks = mortal.shop.world.state.shop.webhooks, {}
    lost = await mortal.woo("POST", "/orders", {"line_items": []})
    mortal.shop.world.state.shop.webhooks = hooks
    await mortal.shop.clock.advance(15 * 60)
    killer = Killer(points=["before_caught_up"])
    with watching(mortal.shop, killer):
        with suppress(ProcessKilled):
            await mortal.shop.drain()
        await bury(mortal.shop, killer)
    await again(mortal)
    assert killer.kills == ["before_caught_up"]
    assert await mortal.events_of_runs(automation) == [("orders/create", str(lost["id"]))]


async def test_the_echo_of_a_write_whose_end_is_not_known_waits_and_is_still_its_own(
    mortal: ListeningService,
) -> None:
    """The event of a write with an unknown outcome waits until the write is settled.

    See docs/design/events.md#matching and docs/design/events.md#echo-guard.
    """
    automation = await hiding(mortal)
    [row] = await mortal.woo("GET", "/products?per_page=1&type=simple&stock_status=instock")
    await mortal.woo("PUT", f"/products/{row['id']}", {"manage_stock": True, "stock_quantity": 0})
    await mortal.shop.drain()
    owner = await mortal.populated.service.web("owner")
    [run] = await mortal.runs(automation)
    approval = (await owner.get(f"/v1/automations/approvals/{run['approval_id']}")).data["approval"]
    decision = {"version": approval["version"], "change_hash": approval["change_hash"]}
    killer = Killer(points=["after_call", "after_call"])  # making the tag, and hiding
    with watching(mortal.shop, killer):
        assert (
            await owner.post(f"/v1/automations/approvals/{approval['id']}/approve", decision)
        ).status == 200
        for _ in killer.points:
            with suppress(ProcessKilled):
                await mortal.shop.pass_time(minutes=4)
            await bury(mortal.shop, killer)
            offer_hiding(mortal)
    assert len(killer.kills) == 2
    await again(mortal)
    offer_hiding(mortal)
    hidden = await mortal.woo("GET", f"/products/{row['id']}")
    assert hidden["catalog_visibility"] == "hidden"
    assert (await mortal.deliver("product.updated", hidden)).status == 200
    await mortal.tick("match")
    new = "SELECT count(*) AS n FROM events WHERE org_id = :org AND state = 'new'"
    assert await mortal.rows(new) == [{"n": 1}]
    await mortal.later(minutes=5)
    await mortal.later(minutes=5)
    assert await mortal.rows(new) == [{"n": 0}]
    [run] = await mortal.runs(automation)
    assert run["status"] == "succeeded"
