"""Tests an automation's own changes mixed with changes of others: only the others' start it."""

import asyncio
from functools import partial
from typing import Any

from steward.database.runs import records as runs
from tests.events.test_matching import hiding
from tests.events.world import ListeningService, open_listener

PRODUCTS = 8
FOREIGN = 3


async def test_only_foreign_changes_start_an_automation_that_changed_many_objects(
    listener: ListeningService,
) -> None:
    """Echoes and others' changes arrive mixed within the minute in which echoes are recognized."""
    listener.populated.service.restart(limit_person=10_000, limit_organization=10_000)
    listener = await open_listener(listener.populated)
    automation = await hiding(listener)
    rows = await listener.woo("GET", f"/products?per_page={PRODUCTS}&type=simple&stock_status=instock")
    paths = [f"/products/{row['id']}" for row in rows]
    assert len(paths) > FOREIGN
    sold_out = {"manage_stock": True, "stock_quantity": 0}
    await asyncio.gather(*(listener.woo("PUT", path, sold_out) for path in paths))
    assert await all_approved(listener, automation) == PRODUCTS
    hidden = [(await listener.woo("GET", path))["catalog_visibility"] for path in paths]
    assert hidden == ["hidden"] * len(paths)
    listener.shop.clock.tick(5)
    # Somebody else changes some of them while the echoes of the rest are known for 55 seconds more.
    foreign = [listener.woo("PUT", path, {"catalog_visibility": "visible"}) for path in paths[:FOREIGN]]
    again = [echo(listener, path) for path in paths[FOREIGN:]]
    await asyncio.gather(*foreign, *again)
    assert await all_approved(listener, automation) == PRODUCTS + FOREIGN
    assert (await listener.read(automation))["state"] == "active"
    assert (await listener.trigger(automation))["events_dropped"] == 0


async def all_approved(listener: ListeningService, automation: dict[str, Any]) -> int:
    """Approves all its runs one after the other; returns how many there were."""
    shop = listener.shop
    await shop.drain()
    while waiting := await listener.runs(automation, status="waiting_approval"):
        for run in waiting:
            await shop.approve(await shop.read(partial(runs.get, org=shop.owner.org, run=run["id"])))
        await shop.drain()
        await shop.world.settle()
        await shop.drain()
    return len(await listener.runs(automation))


async def echo(listener: ListeningService, path: str) -> None:
    """Sends a delivery of the product's present state again."""
    row = await listener.woo("GET", path)
    assert (await listener.deliver("product.updated", row)).status == 200
