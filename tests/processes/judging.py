"""A run with thirty approved changes, and the pretend world's ledger as its judge."""

from collections import Counter
from typing import Any

from steward.model.ids import new_id
from tests.processes.running import CLOCK, Site

WANTED = 30


async def hiding(site: Site) -> tuple[str, list[dict[str, Any]], int]:
    """A run that waits with 30 changes approved is let go; its id, changes, and the ledger's end before."""
    before = max((entry["seq"] for entry in await site.ledger()), default=0)
    automation = await site.call(
        "POST",
        "/v1/automations",
        {
            "template_id": "hide-out-of-stock-products",
            "name": "Hide",
            "inputs": {"threshold": 100_000},
            "schedule": {"cadence": "manual"},
            "integration_id": site.store,
        },
    )
    path = f"/v1/automations/{automation['automation']['id']}/runs"
    run = (await site.call("POST", path, {"idempotency_key": new_id(CLOCK.now())}))["run"]["id"]
    waiting = await site.reaches(run, "waiting_approval")
    changes = await site.changes(run)
    assert len(changes) >= WANTED
    asked = (await site.call("GET", f"/v1/automations/approvals/{waiting['approval_id']}"))["approval"]
    left_out = [change["id"] for change in changes[WANTED:]]
    body = {"version": asked["version"], "change_hash": asked["change_hash"], "except": left_out}
    await site.call("POST", f"/v1/automations/approvals/{asked['id']}/approve", body)
    return run, changes[:WANTED], before


async def judge(
    site: Site, run: str, approved: list[dict[str, Any]], before: int, *, honest: bool = False
) -> None:
    """Each approved change applied once, no other; the run ended by itself and says so.

    `honest`: some may have failed, as long as those did not arrive and those told as applied did.
    """
    ended = await site.reaches(run, "succeeded", "failed", "cancelled", "expired", "refused")
    changes = await site.changes(run)
    if not honest:
        assert (ended["status"], ended["code"]) == ("succeeded", None)
        assert Counter(change["outcome"] for change in changes)["applied"] == WANTED
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
    wanted = {change["object"]["id"] for change in approved}
    if honest:
        wanted = {change["object"]["id"] for change in changes if change["outcome"] == "applied"}
    assert hidden == wanted
