"""Tests the rules that every template keeps, each over all templates that it applies to.

See docs/design/templates.md#data-rules.
"""

import json
from typing import Any

import pytest

from steward.connectors.teams.card import CARD_BYTES
from steward.model.run import Mode
from steward.steps.base import TooManyChanges
from tests.fake_clock import FakeClock
from tests.templates.full_store import BY_ID, INPUTS, PLATFORMS, FullStore
from tests.templates.stage import SHEET, TEAMS, Stage, card_lines

CHANGING = {name for name in INPUTS if BY_ID[name].facts.changes_store}
EVIL = "=1+1 **Kettle** [x](https://evil.example) <at>all</at>"


def _runs_on(platform: str, names: set[str]) -> list[str]:
    return sorted(name for name in names if platform in (BY_ID[name].facts.platforms or PLATFORMS))


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_exactly_the_limit_is_allowed_and_one_more_is_not(platform: str, clock: FakeClock) -> None:
    """Allows `limit` changes and proposes none above it, for every template that changes a store.

    See docs/design/templates.md#e11-over-the-limit.
    """
    store = FullStore(platform, clock, 24)
    await store.fill()
    for name in _runs_on(platform, CHANGING):
        await clock.advance(60)
        outcome = len((await store.stage(name).run(mode=Mode.TEST)).proposals)
        assert (name, outcome > 1) == (name, True)
        stage, over = store.stage(name, limit=outcome), store.stage(name, limit=outcome - 1)
        assert len((await stage.run(mode=Mode.TEST)).proposals) == outcome
        run = await over.run(mode=Mode.TEST)
        assert isinstance(run.failed, TooManyChanges), name
        assert (run.failed.changes, run.proposals, store.written()) == (outcome, [], 0)
    await store.close()


SENDING = {name for name in INPUTS if "teams" in BY_ID[name].facts.inputs_schema["properties"]}  # type: ignore[operator]
# Templates whose messages or sheets name what the store has; others hold counts and sums alone.
EXPECTED_TEXTS = {
    "daily-sales-summary",
    "duplicate-sku-check",
    "duplicate-sku-check, sheet",
    "low-stock-alert",
    "missing-product-data-audit, sheet",
    "price-difference-report, sheet",
    "slow-stock-markdown",
    "stock-report-across-stores",
    "stock-report-across-stores, sheet",
}
_LOUD: dict[str, dict[str, Any]] = {
    "low-stock-alert": {"threshold": 100_000},
    "stock-report-across-stores": {"threshold": 100_000},
}


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_text_of_the_store_is_text_in_every_message_and_sheet(platform: str, clock: FakeClock) -> None:
    """Escapes mark-up, links, mentions and formulas of store texts, and keeps messages below 20 KB.

    See docs/design/templates.md#e17-sends.
    """
    store = FullStore(platform, clock, 24)
    await store.fill()
    _rename(store)
    actual = set()
    for name in _runs_on(platform, SENDING):
        await clock.advance(60)
        sheet = "sheet" in BY_ID[name].facts.inputs_schema["properties"]  # type: ignore[operator]
        more: dict[str, Any] = {"sheet": {"integration_id": int(SHEET)}} if sheet else {}
        teams = {"integration_id": int(TEAMS)}
        stage: Stage = store.stage(name, **{**_LOUD.get(name, {}), **more, "teams": teams})
        for proposal in (await stage.run(mode=Mode.TEST)).proposals:
            for part in proposal.parts:
                sent = json.dumps(part.arguments, ensure_ascii=False)
                if part.operation == "teams.post":
                    assert len(sent.encode()) <= CARD_BYTES
                    assert not any(live in sent for live in ("**Kettle", "https://evil", "<at>"))
                    actual |= {name} if "Kettle" in sent else set()
                elif part.operation.startswith("sheet."):
                    actual |= {f"{name}, sheet"} if EVIL in sent else set()
    own_values = {"woocommerce": {"unfulfilled-order-alert"}, "shopify": {"high-risk-order-hold"}}
    assert actual == EXPECTED_TEXTS | own_values[platform]
    await store.close()


async def test_stock_is_that_of_all_active_locations(clock: FakeClock) -> None:
    """Adds up the stock of all active locations and leaves out closed ones.

    See docs/design/templates.md#e14-locations.
    """
    store = FullStore("shopify", clock, 1)
    await store.fill()
    [pot], [variant] = store.fake.of("Product"), store.fake.of("ProductVariant")
    [first] = store.fake.owned(variant["item"])
    first["available"] = -1
    for name, is_active, count in (("Shop", True, 7), ("Closed", False, 9)):
        location = store.fake.add_location(name, active=is_active)
        store.fake.add_level(store.fake.rows[variant["item"]], location, count)
    low = await store.stage("low-stock-alert", threshold=6).run(mode=Mode.TEST)
    assert [each_variant["stock"] for each_variant in low.result["variants"]] == [6]
    table = await store.stage("stock-report-across-stores", threshold=6).run(mode=Mode.TEST)
    assert card_lines(table.proposals[0])[1].endswith(": 6")
    for threshold, messages in ((5, []), (6, ["Stock 6. Channels: Online Store."])):
        hidden = await store.stage("hide-out-of-stock-products", threshold=threshold).run(mode=Mode.TEST)
        assert [proposal.message for proposal in hidden.proposals] == messages
    pot |= {"tags": ["auto-hidden"], "publications": []}
    for threshold, messages in ((7, []), (6, ["Stock 6. Channels: Online Store."])):
        run = await store.stage("show-back-in-stock-products", threshold=threshold).run(mode=Mode.TEST)
        assert [each_proposal.message for each_proposal in run.proposals] == messages
    await store.close()


def _rename(store: FullStore) -> None:
    """Gives every product a harmful name, and two variants the same SKU."""
    if store.platform == "shopify":
        for row in store.fake.of("Product"):
            row["title"] = EVIL
        for order in store.fake.of("Order"):
            for line in order["lineItems"]:
                line["title"] = EVIL
            order["risk"]["assessments"] = [
                {"riskLevel": "HIGH", "facts": [{"description": EVIL, "sentiment": "NEGATIVE"}]}
            ]
        for row in store.fake.of("ProductVariant")[:2]:
            row["sku"] = EVIL
        return
    woo = store.place.world.state.shop
    for row in woo.products.values():
        row["name"] = EVIL
    for row in woo.orders.values():
        row["billing"]["first_name"] = EVIL
        for line in row["line_items"]:
            line["name"] = EVIL
    for row in list(woo.products.values())[:2]:
        row["sku"] = EVIL
