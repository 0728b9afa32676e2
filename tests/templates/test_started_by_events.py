"""Tests runs of templates that start with a signed webhook of the store.

See docs/design/api/events.md#delivery.
"""

from functools import partial
from typing import Any

import httpx
import pytest

from steward.automations import lifecycle, setup
from steward.automations.checks import RequestedTrigger
from steward.automations.pauses import StateCommand
from steward.automations.setup import CreateCommand
from steward.connections.health import ConnectionChecks, check_due
from steward.database.accounts import connections
from steward.database.automations import records as automations
from steward.database.engine.base import Tx
from steward.database.runs import records as runs
from steward.model.automation import Automation
from steward.model.connection import ConnectionState
from steward.model.run import Run, RunStatus
from steward.model.trigger import EventTrigger, Listening, TriggerKind
from tests.fakes.shopify.goods import number
from tests.service import Service
from tests.templates.sample_products import Item, PlatformStore, ProductSpec
from tests.templates.two_platforms import lines_of

TOPIC = "inventory_levels/update"


class StoreWithEvents:
    """Holds a store whose webhooks lead to the service, and its automations."""

    def __init__(self, store: PlatformStore) -> None:
        self.store, self.shop = store, store.shop
        service = Service(self.shop.service.context, self.shop.clock, lines=[], wake_hints=[])
        door = httpx.ASGITransport(app=service.app)
        self.shop.world.set_webhook_transport(door)
        store.fake.deliver = door

    async def automation(self, template: str, topic: str = TOPIC, **inputs: Any) -> Automation:
        """Creates and resumes an automation that listens to the store."""
        command = CreateCommand(
            template_id=template,
            name=template,
            inputs=inputs,
            schedule={"cadence": "manual"},
            integration_id=self.shop.connections[self.store.platform].integration_id,
            trigger=RequestedTrigger(TriggerKind.EVENT, (topic,)),
        )
        rules, owner = self.shop.service.worker_context.automation_rules, self.shop.owner
        new_automation = (
            await self.shop.write(partial(setup.create, actor=owner, command=command, rules=rules))
        ).automation
        wish = StateCommand(new_automation.id)
        await self.shop.write(partial(lifecycle.resume, actor=owner, command=wish, rules=rules))
        await self.shop.drain()
        now = await self.shop.read(partial(automations.get, org=owner.org, automation=new_automation.id))
        assert isinstance(now.trigger, EventTrigger)
        assert now.trigger.listening is Listening.YES, now.trigger
        return new_automation

    async def sold(self, title: str, sku: str, left: int) -> None:
        """Sells down to `left` pieces, and waits until the events have arrived."""
        if self.store.platform == "shopify":
            fake = self.store.fake
            [item] = [record["item"] for record in fake.of("ProductVariant") if record["sku"] == sku]
            for level in fake.owned(item):
                fake.touch(level, available=left)
                assert await fake.tell("INVENTORY_LEVELS_UPDATE", level) == [200]
        else:
            row = self.store.row(title)
            rows = self.shop.world.state.shop.variations
            own_variations = [variation for variation in row["variations"] if rows[variation]["sku"] == sku]
            path = f"/products/{row['id']}" + (f"/variations/{own_variations[0]}" if own_variations else "")
            keys = self.shop.world.described()["woocommerce"]
            auth = (keys["consumer_key"], keys["consumer_secret"])
            async with httpx.AsyncClient(transport=self.shop.world.transport(), auth=auth) as client:
                url = f"{keys['url']}/wp-json/wc/v3{path}"
                assert (await client.put(url, json={"stock_quantity": left})).status_code == 200
        await self.settled()

    async def settled(self) -> None:
        """Delivers all webhooks and drains the runs that they start."""
        await self.shop.world.settle()
        await self.shop.drain()

    async def runs(self, automation: Automation) -> list[Run]:
        """Returns the automation's runs, in the order of their events."""
        org = self.shop.owner.org

        async def load(tx: Tx) -> list[Run]:
            sql = "SELECT id FROM runs WHERE org_id = :org AND automation_id = :automation"
            rows = await tx.all(sql, {"org": org, "automation": automation.id})
            return [await runs.get(tx, org, row["id"]) for row in rows]

        # Events of one moment have rising ids; runs made in one moment do not.
        return sorted(await self.shop.read(load), key=lambda run: run.event.id if run.event else "")


@pytest.fixture
def listening_store(store: PlatformStore) -> StoreWithEvents:
    """Provides one of the two stores, once for each platform."""
    return StoreWithEvents(store)


_GOODS = (
    ProductSpec("Mug", sizes={"S": Item("MUG-S", stock=0), "L": Item("MUG-L", stock=3)}),
    ProductSpec("Teapot", Item("POT-1", stock=0)),
)


async def test_a_sale_hides_the_product_it_sold_out_and_no_other(listening_store: StoreWithEvents) -> None:
    """Reads one product and hides it.

    The automation's own change starts no run.
    See docs/design/templates-catalogue.md#hide-out-of-stock-products and docs/design/events.md#echo-guard.
    """
    store = listening_store.store
    store.stock(*_GOODS)
    automation = await listening_store.automation("hide-out-of-stock-products")
    await listening_store.sold("Mug", "MUG-L", 2)
    [first] = await listening_store.runs(automation)
    assert (first.status, first.result and first.result["checked"]) == (RunStatus.SUCCEEDED, 1)
    await listening_store.sold("Mug", "MUG-L", 0)
    [_, second] = await listening_store.runs(automation)
    assert (second.status, second.event and second.event.topic) == (RunStatus.WAITING_APPROVAL, TOPIC)
    await store.shop.approve(second)
    await listening_store.settled()
    ended = await store.shop.run(second)
    assert (ended.status, ended.result) == (
        RunStatus.SUCCEEDED,
        {
            "checked": 1,
            "sold_out": 1,
            "hidden": 1,
            "already_hidden": 0,
            "products": [{"label": "Mug", "stock": 0}],
        },
    )
    assert (store.is_visible("Mug"), store.tags("Mug"), store.is_visible("Teapot")) == (
        False,
        ["auto-hidden"],
        True,
    )
    assert len(await listening_store.runs(automation)) == 2


async def test_a_sale_is_announced_to_the_channel_once(listening_store: StoreWithEvents) -> None:
    """Posts one message when the stock falls to the threshold, and none before or after.

    See docs/design/templates-catalogue.md#low-stock-alert.
    """
    store = listening_store.store
    store.stock(*_GOODS)
    automation = await listening_store.automation("low-stock-alert", threshold=2, teams=store.both.teams())
    for remaining in (3, 2, 1):
        await listening_store.sold("Mug", "MUG-L", remaining)
    actual = [lines_of(message)[-1] for message in store.both.posted()]
    assert actual == ["Mug, L (MUG-L): 2 left"]
    assert {run.status for run in await listening_store.runs(automation)} == {RunStatus.SUCCEEDED}


async def test_an_app_taken_off_its_store_is_found_out_within_minutes(
    listening_store: StoreWithEvents,
) -> None:
    """Marks the connection as to be reconnected after two failed checks within a minute.

    See docs/design/connectors.md#topics.
    """
    store, shop = listening_store.store, listening_store.shop
    if store.platform != "shopify":
        pytest.skip("a WooCommerce shop does not tell that a key was taken away")
    await listening_store.automation("low-stock-alert", threshold=2, teams=store.both.teams())
    integration = shop.connections["shopify"].integration_id

    async def state() -> ConnectionState:
        connection = await shop.read(partial(connections.get, org=shop.owner.org, integration=integration))
        assert connection is not None
        return connection.state

    store.fake.app.installed = False
    store.fake.tokens.clear()
    row = {"__typename": "Shop", "id": "gid://shopify/Shop/1"}
    assert (number(row), await store.fake.tell("APP_UNINSTALLED", row)) == (1, [200])
    ctx = shop.service.worker_context
    for seconds, expected in ((1, ConnectionState.CONNECTED), (60, ConnectionState.NEEDS_RECONNECTING)):
        await shop.pass_time(seconds=seconds)
        await check_due(ConnectionChecks(ctx.engine, ctx.clock, ctx.vault, ctx.log))
        assert await state() is expected
