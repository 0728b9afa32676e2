"""Listening: subscriptions follow what automations wait for, are checked, mended and removed."""

from typing import Any

from tests.events.world import MANUAL, Ears


async def test_an_order_in_the_shop_starts_a_run_that_is_given_its_event(ears: Ears) -> None:
    """interface 2.5, 6; contract 2.11, 3.2 event; connectors 1 rule 6"""
    made = await ears.automation("orders/create", "orders/paid")
    assert made["trigger"] == {
        "kind": "event",
        "topics": ["orders/create", "orders/paid"],
        "words": "When an order is created or an order is paid",
        "listening": "yes",
        "reason": None,
        "events_dropped": 0,
        "events_dropped_at": None,
    }
    sold = await ears.woo("POST", "/orders", {"set_paid": True, "line_items": []})
    assert await ears.told(made) == [("orders/create", str(sold["id"]))]
    [run] = await ears.runs(made)
    assert (run["started_by"], run["status"], run["created_by"]) == ("event", "succeeded", None)
    assert (run["event"]["topic"], run["event"]["id"]) == ("orders/create", run["result"]["event"]["id"])
