"""Tests event runs whose store cannot be read: they wait and continue, or fail."""

from datetime import timedelta
from typing import Any

import pytest

from tests.events.test_matching import hiding
from tests.events.world import ListeningService

PRODUCTS = "/wp-json/wc/v3/products"
PATIENCE = timedelta(minutes=15)


async def begun(listener: ListeningService, fault: str, **how: Any) -> dict[str, Any]:
    """Creates an automation whose product changed just before its store became unreachable."""
    automation = await hiding(listener)
    [row] = await listener.woo("GET", "/products?per_page=1&type=simple&stock_status=instock")
    await listener.woo("PUT", f"/products/{row['id']}", {"manage_stock": True, "stock_quantity": 0})
    listener.shop.fault(fault, "GET", f"{PRODUCTS}**", count=10_000, **how)
    await listener.shop.drain()
    return automation


async def the_run(listener: ListeningService, automation: dict[str, Any]) -> dict[str, Any]:
    """Returns the automation's only run."""
    listener.token = await listener.populated.service.token("member")
    [run] = await listener.runs(automation)
    return run


@pytest.mark.parametrize(
    ("fault", "how"), [("status", {"status": 503}), ("status", {"status": 500}), ("drop_before", {})]
)
async def test_a_run_of_an_event_waits_for_its_store_and_then_continues(
    listener: ListeningService, fault: str, how: dict[str, Any]
) -> None:
    """The run sleeps, its current step says why, and it continues once the store answers."""
    automation = await begun(listener, fault, **how)
    for minutes in (0, 1, 8):
        await listener.later(minutes=minutes)
        run = await the_run(listener, automation)
        assert run["status"] == "running", (run["code"], run["message"])
        assert "Waiting: " in run["current_step"]["title"]
        assert "tried again in" in run["current_step"]["title"]
    listener.shop.world.state.faults.clear()
    await listener.later(minutes=5)
    run = await the_run(listener, automation)
    assert (run["status"], run["current_step"]) == ("waiting_approval", None), run


async def test_a_run_of_an_event_fails_once_its_store_was_away_for_a_quarter_of_an_hour(
    listener: ListeningService,
) -> None:
    """The run fails after a quarter of an hour, not before, and says what failed."""
    automation = await begun(listener, "status", status=503)
    began = listener.shop.clock.now()
    while (run := await the_run(listener, automation))["status"] == "running":
        assert listener.shop.clock.now() - began < 2 * PATIENCE
        await listener.later(seconds=30)
    assert listener.shop.clock.now() - began >= PATIENCE
    assert (run["status"], run["code"]) == ("failed", "step_failed")
    [step] = (await listener.token.get(f"/v1/automations/runs/{run['id']}")).data["run"]["steps"]
    assert (step["status"], step["code"]) == ("failed", "unavailable")


async def test_a_run_by_hand_does_not_wait_for_its_store(listener: ListeningService) -> None:
    """A run by hand fails at once, since a person is watching it."""
    listener.shop.fault("status", "GET", f"{PRODUCTS}**", status=503, count=10_000)
    run = await listener.shop.run_now(await listener.shop.hiding())
    await listener.shop.drain()
    assert (await listener.shop.run(run)).status == "failed"
