"""Tests that a test run stores no memory and does not change what the next live run does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from steward.fake_platforms.seed import BUCKET
from steward.model.automation import Automation
from steward.model.run import Mode, Run, RunStatus
from steward.templates import ALL
from tests.fake_clock import FakeClock
from tests.templates.full_store import INPUTS as ALL_INPUTS
from tests.templates.two_platforms import ConnectedService, open_both

PLATFORMS = ("woocommerce", "shopify")
BY_ID = {template.template_id: template for template in ALL}


async def world(database_url: str, clock: FakeClock, folder: Path) -> ConnectedService:
    """Opens the service with both stores full, a sheet, a channel and a bucket."""
    both = await open_both(database_url, clock, folder)
    both.store.seed(products=6, orders=6, customers=2)
    await both.shop.connect("cloud_s3", both.shop.world.described()["cloud_s3"])
    rows = prices(both)
    feed = "\n".join(["SKU,Stock", *(f"{sku},77" for sku, _ in rows[1:])]).encode()
    both.shop.world.state.store.put(BUCKET, "feed.csv", feed, modified_at=clock.now())
    lay_out(both, rows)
    return both


def prices(both: ConnectedService) -> list[list[Any]]:
    """Returns a sheet with another price for the first products of each store."""
    woo = [(row["sku"], row["price"]) for row in both.shop.world.state.shop.products.values()]
    shopify = [(row["sku"], row["price"]) for row in both.store.of("ProductVariant")]
    known_items = [(sku, price) for sku, price in (*woo[:9], *shopify[:9]) if sku and price]
    return [["SKU", "Price"], *([sku, float(price) + 1] for sku, price in known_items)]


def lay_out(both: ConnectedService, rows: list[list[Any]]) -> None:
    """Replaces the cells of the sheet by these rows."""
    cells = {(y, x): cell for y, row in enumerate(rows) for x, cell in enumerate(row)}
    both.shop.world.state.google.books["sheet-prices"].tabs[0].cells = cells


def inputs_of(both: ConnectedService, template: str, platform: str, sale: Automation) -> dict[str, Any]:
    """Returns inputs with which a template finds something to do."""
    other = "shopify" if platform == "woocommerce" else "woocommerce"
    inputs_by_name = {
        "teams": both.teams(),
        "sheet": both.sheet(),
        "file": {"integration_id": both.number("cloud_s3"), "path": "feed.csv"},
        "source_integration_id": both.number(other),
        "sale_automation_id": sale.id,
        "limit": 5000,
    }
    if template == "spreadsheet-to-teams-digest":
        where = {"column": "SKU", "op": "changed"}
        return {"where": where, "columns": ["SKU"], "key_column": "SKU", "teams": both.teams()}
    expected = {**ALL_INPUTS[template]}
    return {name: inputs_by_name.get(name, value) for name, value in expected.items()}


async def memory(both: ConnectedService) -> list[dict[str, Any]]:
    """Returns every row of the automations' memory."""

    async def load(tx: Any) -> list[dict[str, Any]]:
        return [
            dict(row)
            for row in await tx.all("SELECT * FROM memory WHERE org_id = :org", {"org": both.shop.owner.org})
        ]

    return await both.shop.read(load)


async def came_to(both: ConnectedService, automation: Automation, mode: Mode) -> dict[str, Any]:
    """Returns what a run gave and proposed; rejects a live run's approval and restores the sheet."""
    rows = [] if automation.template_id == "order-export-to-spreadsheet" else prices(both)
    lay_out(both, rows)
    run: Run = await both.shop.until_settled(await both.shop.run_now(automation, mode))
    changes = [
        (
            change.name,
            change.proposal.object.label,
            [(field.field, field.before, field.after) for field in change.proposal.fields],
        )
        for change in await both.shop.changes(run)
    ]
    status, words, result = run.status, run.summary and run.summary["text"], run.result
    if status is RunStatus.WAITING_APPROVAL:
        await both.shop.reject(run)
        await both.shop.until_settled(run)
    lay_out(both, rows)
    return {"status": status, "words": words, "result": result, "changes": changes, "code": run.code}


# The code is the same on both engines, so each platform takes one of them.
@pytest.mark.parametrize(
    ("platform", "database_url"),
    [("woocommerce", "sqlite"), ("shopify", "postgresql")],
    indirect=["database_url"],
)
async def test_a_test_run_leaves_no_memory(
    platform: str, database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """For every template, a test run stores nothing.

    The live run after it equals that of a new automation. See docs/design/api/conventions.md#scope.
    """
    both = await world(database_url, clock, tmp_path)
    sale_inputs = {"products": {"all": True}, "percent": 10}
    sale = await both.set_up("sale-start", sale_inputs, on=platform)
    await came_to(both, sale, Mode.TEST)
    assert await memory(both) == []
    await both.run(sale)
    proposing = set()
    for template in ALL:
        name = template.template_id
        if template.facts.platforms and platform not in template.facts.platforms:
            continue
        inputs = inputs_of(both, name, platform, sale)
        on: Mapping[str, Any] = (
            {"on": platform}
            if template.facts.platforms
            else {"reads": ["spreadsheet"] if name == "spreadsheet-to-teams-digest" else list(PLATFORMS)}
        )
        tried, fresh = [await both.set_up(name, inputs, **on) for _ in range(2)]
        stored_memory = await memory(both)
        first = await came_to(both, tried, Mode.TEST)
        assert await memory(both) == stored_memory, name
        assert first["status"] is RunStatus.SUCCEEDED, (name, first)
        live = await came_to(both, tried, Mode.LIVE)
        assert live == await came_to(both, fresh, Mode.LIVE), name
        proposing |= {name} if first["changes"] else set()
    assert len(proposing) > 10, proposing
    await both.shop.service.close()
