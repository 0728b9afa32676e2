"""Undoes the changes of every template and compares the store's tables with those before the run.

See docs/design/undo.md#promises.
"""

import copy
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from steward.model.automation import Automation
from steward.model.change import Change, FieldChange, ObjectRef, Outcome
from steward.model.refusals import WrongState
from steward.model.run import RunStatus
from tests.fake_clock import FakeClock
from tests.fakes.shopify.goods import stamp
from tests.runs.undoing import tables, undo_now, undone
from tests.templates.full_store import BY_ID
from tests.templates.orders_of import OrderSpec, in_shopify
from tests.templates.test_records import RECORDS
from tests.templates.test_test_runs_leave_nothing import inputs_of, lay_out, prices, world
from tests.templates.two_platforms import ConnectedService

# Columns that every write changes by itself.
_MOVED = {"updatedAt"}
CHANGING = [name for name, template in BY_ID.items() if template.facts.changes]
# What these have read stays read after an undo: they look at it again once it changes.
_READ_ONCE = {"supplier-feed-import", "tag-orders-by-rule"}
# A sale starts before it ends; the changes that cannot be undone come last.
_ORDER = {"sale-start": -1, "cancel-unpaid-orders": 1}


def snapshot(both: ConnectedService) -> dict[str, Any]:
    """Returns the tables of both stores, without times."""
    rows = {
        key: {name: value for name, value in row.items() if name not in _MOVED}
        for key, row in both.store.rows.items()
        if not key.startswith("gid://shopify/Job/")
    }
    return copy.deepcopy({"woocommerce": tables(both.shop), "shopify": rows})


def differences(before: Any, after: Any, path: str = "") -> list[str]:
    """Returns where two snapshots differ, by path."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            line
            for name in [*before, *(name for name in after if name not in before)]
            for line in differences(before.get(name), after.get(name), f"{path}/{name}")
        ]
    return [] if before == after else [f"{path}: {before!r} is now {after!r}"]


def filled(both: ConnectedService) -> None:
    """Gives Shopify old products, one of them sold out, orders in several states, and WooCommerce's SKUs."""
    store, now = both.store, both.shop.clock.now()
    ages = {"pending": timedelta(hours=30), "sent": timedelta(days=3), "risky": timedelta(hours=1)}
    in_shopify(store, [OrderSpec(now - age, (("Pot 1", 1, "9.00"),), state) for state, age in ages.items()])
    store.of("InventoryLevel")[0]["available"] = 0
    for row in (*store.of("Product"), *store.of("ProductVariant")):
        row["createdAt"] = stamp(now - timedelta(days=400))
    skus = [row["sku"] for row in both.shop.world.state.shop.products.values() if row["manage_stock"] is True]
    for row, sku in zip(store.of("ProductVariant"), skus, strict=False):
        row["sku"] = sku


async def restocked(both: ConnectedService, platform: str) -> None:
    """Hides all sold-out products and then puts them back in stock."""
    for row in both.store.of("InventoryLevel"):
        row["available"] = 0
    await both.run(await both.set_up("hide-out-of-stock-products", {"limit": 5000}, on=platform))
    woo = both.shop.world.state.shop
    for row in (*woo.products.values(), *woo.variations.values()):
        if row["manage_stock"] is True:
            row.update(stock_quantity=9, stock_status="instock")
    for row in both.store.of("InventoryLevel"):
        row["available"] = 9


def _proposed(changes: Sequence[Change]) -> list[tuple[ObjectRef, Sequence[FieldChange]]]:
    """Returns what the changes set, in order."""
    return [(change.proposal.object, change.proposal.fields) for change in changes]


async def _proposals_again(both: ConnectedService, automation: Automation) -> list[Change]:
    """Runs the automation once more, without approving, and returns what it proposes."""
    run = await both.shop.run_and_drain(automation)
    changes = await both.shop.changes(run)
    if run.status is RunStatus.WAITING_APPROVAL:
        await both.shop.reject(run)
        await both.shop.drain()
    return changes


@pytest.mark.parametrize(
    ("platform", "database_url"),
    [("woocommerce", "sqlite"), ("shopify", "postgresql")],
    indirect=["database_url"],
)
async def test_reversible_template_changes_are_undone_in_every_field(
    platform: str, database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Restores every field of changes that the catalogue calls reversible; refuses to undo the others.

    As many are put back as the first approval promised, and a run after the undo proposes what the first did.
    """
    both = await world(database_url, clock, tmp_path)
    sheet = prices(both)
    filled(both)
    lay_out(both, sheet)
    sale = await both.set_up("sale-start", {"products": {"all": True}, "percent": 10}, on=platform)
    exercised = set()
    for name in sorted(CHANGING, key=lambda name: _ORDER.get(name, 0)):
        if platform not in BY_ID[name].facts.platforms:
            continue
        if name == "sale-end":
            await both.run(sale)
        if name == "show-back-in-stock-products":
            await restocked(both, platform)
        automation = await both.set_up(name, inputs_of(both, name, platform, sale), on=platform)
        before = snapshot(both)
        run = await both.run(automation)
        changes = await both.shop.changes(run)
        if not changes:
            continue
        exercised.add(name)
        assert {change.outcome for change in changes} == {Outcome.APPLIED}, name
        [reversible] = {row["reversible"] for row in RECORDS[name]["changes"]}
        assert {change.undoable for change in changes} == {reversible}, name
        if not reversible:
            with pytest.raises(WrongState):
                await undo_now(both.shop, run)
            continue
        assert snapshot(both) != before, name
        promised = (await both.shop.approval(run)).counts["undoable"] if run.approval_id else len(changes)
        undo_run = await undone(both.shop, run)
        assert undo_run.status is RunStatus.SUCCEEDED, (name, undo_run)
        assert differences(before, snapshot(both)) == [], name
        put_back = Counter(change.outcome for change in await both.shop.changes(undo_run))
        assert put_back == {Outcome.APPLIED: promised}, name
        again = _proposed(await _proposals_again(both, automation))
        assert again == _proposed(changes) or (name in _READ_ONCE and not again), name
    on_platform = {name for name in CHANGING if platform in BY_ID[name].facts.platforms}
    assert on_platform - exercised == set()
    await both.shop.service.close()
