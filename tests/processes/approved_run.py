"""Provides a run with thirty approved changes, and judges it by the ledger of the fake platforms."""

from collections import Counter
from typing import Any

import httpx

from steward.model.ids import new_id
from tests.processes.running import CLOCK, Site

WANTED = 30


async def slow_writes(site: Site, delay_ms: int = 150) -> None:
    """Delays every write to the shop, so that a kill happens between or within writes."""
    for method in ("PUT", "POST"):
        await site.fault(method=method, path="/wp-json/**", kind="delay", delay_ms=delay_ms, count=-1)


async def more_products(site: Site, count: int) -> None:
    """Adds `count` products to the shop."""
    shop = site.sandbox.facts["woocommerce"]
    keys = httpx.BasicAuth(shop["consumer_key"], shop["consumer_secret"])
    for first in range(0, count, 100):
        created_items = [
            {"name": f"Product {n}", "regular_price": "5.00", "manage_stock": True, "stock_quantity": 5}
            for n in range(first, min(first + 100, count))
        ]
        path = "/wp-json/wc/v3/products/batch"
        response = await site.world.post(path, json={"create": created_items}, auth=keys)
        assert response.status_code == 200, response.text


async def written_parts(site: Site, before: int) -> int:
    """Returns how many values of products were written since."""
    entries = [entry for entry in await site.ledger(before) if entry["applied"]]
    return sum(item["type"] == "product" for entry in entries for item in entry["objects"])


async def hiding(site: Site, expected: int = WANTED) -> tuple[str, list[dict[str, Any]], int]:
    """Starts a run and approves `expected` of its changes.

    Returns its id, the approved changes and the ledger's number before.
    """
    before = max((entry["seq"] for entry in await site.ledger()), default=0)
    automation = await site.call(
        "POST",
        "/v1/automations",
        {
            "template_id": "hide-out-of-stock-products",
            "name": "Hide",
            "inputs": {"threshold": 100_000, "limit": 5_000},
            "schedule": {"cadence": "manual"},
            "integration_id": site.store,
        },
    )
    path = f"/v1/automations/{automation['automation']['id']}/runs"
    run = (await site.call("POST", path, {"idempotency_key": new_id(CLOCK.now())}))["run"]["id"]
    waiting = await site.reaches(run, "waiting_approval")
    changes = await site.changes(run)
    assert len(changes) >= expected
    approval = (await site.call("GET", f"/v1/automations/approvals/{waiting['approval_id']}"))["approval"]
    left_out = [change["id"] for change in changes[expected:]]
    body = {"version": approval["version"], "change_hash": approval["change_hash"], "except": left_out}
    await site.call("POST", f"/v1/automations/approvals/{approval['id']}/approve", body)
    return run, changes[:expected], before


async def assert_written_once(
    site: Site, run: str, approved: list[dict[str, Any]], before: int, *, honest: bool = False
) -> None:
    """Checks that the run ended by itself and applied each approved change once, and no other.

    With `honest` some may have failed, as long as exactly those reported as applied arrived.
    """
    ended = await site.reaches(run, "succeeded", "failed", "cancelled", "expired", "refused")
    changes = await site.changes(run)
    if not honest:
        assert (ended["status"], ended["code"]) == ("succeeded", None)
        assert Counter(change["outcome"] for change in changes)["applied"] == len(approved)
    applied = [entry for entry in await site.ledger(before) if entry["applied"]]
    keys = Counter(entry["idempotency_key"] for entry in applied)
    assert max(keys.values()) == 1
    touched = Counter(
        (str(item["id"]), field)
        for entry in applied
        for item in entry["objects"]
        if item["type"] == "product"
        for field in item["fields"]
        if item["before"].get(field) != item["after"].get(field)
    )
    assert set(touched.values()) == {1}
    hidden = {product for product, field in touched if field == "catalog_visibility"}
    expected = {change["object"]["id"] for change in approved}
    if honest:
        expected = {change["object"]["id"] for change in changes if change["outcome"] == "applied"}
    assert hidden == expected
