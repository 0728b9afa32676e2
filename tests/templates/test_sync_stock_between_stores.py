"""Tests stock taken over from another store: pairs by SKU, what is left alone, and a source that shrank.

See docs/design/templates-catalogue.md#sync-stock-between-stores.
"""

from typing import Any

import pytest

from steward.connectors.base.commands import SetStock
from steward.connectors.woocommerce.operations import SET_STOCK
from steward.model.ids import IntegrationId
from steward.model.run import Mode, RunStatus
from steward.templates.parts.stock_pairs import PairedStock, PairRules, SourceRow, pair
from steward.templates.sync_stock_between_stores import TEMPLATE
from tests.templates.sample_products import Item, PlatformStore, ProductSpec, fill_shopify, fill_woocommerce
from tests.templates.stage import variant

NAME = "sync-stock-between-stores"


def _fill_source(store: PlatformStore, *goods: ProductSpec) -> None:
    if store.platform == "woocommerce":
        fill_shopify(store.fake, goods)
    else:
        fill_woocommerce(store.shop, goods)


def _inputs(store: PlatformStore, **more: Any) -> dict[str, Any]:
    other = "shopify" if store.platform == "woocommerce" else "woocommerce"
    return {"source_integration_id": store.both.number(other), **more}


_SOURCE = (
    ProductSpec("Pot", Item("POT-1", stock=9)),
    ProductSpec("Mug", sizes={"S": Item("MUG-S", stock=3), "L": Item(" MUG-L ", stock=-4)}),
    ProductSpec("Bowl", Item("bowl-1", stock=7)),
    ProductSpec("Vase", Item("VASE-1", stock=None)),
    ProductSpec("Cup", Item("CUP-1", stock=2)),
    ProductSpec("Jug", Item("", stock=2)),
)
_TARGET = (
    ProductSpec("Teapot", Item("POT-1", stock=5)),
    ProductSpec("Mugs", sizes={"S": Item("MUG-S", stock=1), "L": Item("MUG-L", stock=6)}),
    ProductSpec("Bowl", Item("BOWL-1", stock=1)),
    ProductSpec("Vase", Item("VASE-1", stock=1)),
    ProductSpec("Cup", Item("CUP-1", stock=None)),
    ProductSpec("Only here", Item("HERE-1", stock=8)),
    ProductSpec("No SKU", Item("", stock=8)),
)


async def test_on_each_platform_the_stock_of_the_other_store_is_taken_over(store: PlatformStore) -> None:
    """Sets the same stock on both platforms; a test run writes nothing and a second run proposes nothing.

    See docs/design/templates-catalogue.md#sync-stock-between-stores.
    """
    _fill_source(store, *_SOURCE)
    store.stock(*_TARGET)
    automation = await store.set_up(NAME, _inputs(store, buffer=2))
    expected = [
        ("Teapot (POT-1)", {"Stock": (5, 7)}),
        ("Mugs, L (MUG-L)", {"Stock": (6, 0)}),
    ]
    tried = await store.run(automation, Mode.TEST)
    assert (tried.changes, store.writes()) == (expected, 0)
    came = await store.run(automation)
    assert (came.changes, set(came.outcomes)) == (expected, {"applied"})
    assert came.messages == ["Source stock 9.", "Source stock 0."]
    result = dict(came.result)
    refused = [(item["key"], item["code"]) for item in result.pop("refused_rows")]
    assert sorted(refused) == [
        ("BOWL-1", "sku_case_differs"),
        ("CUP-1", "untracked"),
        ("VASE-1", "untracked"),
    ]
    assert result == {
        "source_variants": 7,
        "matched": 3,
        "changed": 2,
        "unchanged": 1,
        "not_in_source": 1,
        "refused": 3,
    }
    assert (store.variants("Teapot")["POT-1"][2], store.variants("Only here")["HERE-1"][2]) == (7, 8)
    again = await store.run(automation)
    assert (again.changes, again.result["unchanged"]) == ([], 3)


async def test_a_source_that_is_empty_or_shrank_by_more_than_half_fails_the_run(store: PlatformStore) -> None:
    """Fails with `source_too_small` when less than half of the source's variants are left.

    See docs/design/templates-catalogue.md#sync-stock-between-stores.
    """
    store.stock(_TARGET[0])
    many = [ProductSpec(f"Pot {number}", Item(f"P-{number}")) for number in range(4)]
    _fill_source(store, *many)
    automation = await store.set_up(NAME, _inputs(store))
    assert (await store.run(automation)).run.status is RunStatus.SUCCEEDED
    for remaining, fails in ((many[:1], True), (many[:2], False), ([], True)):
        _fill_source(store, *remaining)
        run = (await store.run(automation)).run
        codes = [step["code"] for step in await store.shop.steps(run)]
        assert codes[:1] == (["source_too_small"] if fails else [None])


async def test_the_store_itself_and_what_is_no_store_are_refused(store: PlatformStore) -> None:
    """Refuses the store itself, other kinds of connections and unknown ones as the source.

    See docs/design/templates-catalogue.md#sync-stock-between-stores and docs/design/templates.md#rules.
    """
    for number in (store.number, store.both.number("teams"), 999_999):
        faults = await store.refused(NAME, {"source_integration_id": number})
        assert list(faults) == ["inputs.source_integration_id"]


async def test_with_several_locations_one_has_to_be_named(store: PlatformStore) -> None:
    """Requires the name of a location when a Shopify store has several, and sets the stock there.

    See docs/design/templates-catalogue.md#sync-stock-between-stores.
    """
    if store.platform == "woocommerce":
        assert await store.refused(NAME, _inputs(store, location="Anywhere")) == {}
        return
    harbour = store.fake.add_location("Harbour")
    await store.look_again()
    assert list(await store.refused(NAME, _inputs(store))) == ["inputs.location"]
    assert list(await store.refused(NAME, _inputs(store, location="Gone"))) == ["inputs.location"]
    store.stock(_TARGET[0], _TARGET[4])
    [item, _] = store.fake.of("InventoryItem")
    store.fake.add_level(item, harbour, 2)
    _fill_source(store, _SOURCE[0])
    came = await store.run(await store.set_up(NAME, _inputs(store, location="Harbour")))
    assert came.changes == [("Teapot (POT-1)", {"Stock": (2, 9)})]
    assert [record["available"] for record in store.fake.owned(item["id"])] == [5, 9]


# --- pairs


def _pair(target: Any, source: Any, *, buffer: int = 0, only_lower: bool = False, **more: Any) -> PairedStock:
    rules = PairRules("sku", buffer, only_lower)
    return pair(target, [SourceRow.of(item, "sku") for item in source], rules, **more)


def _codes(outcome: PairedStock) -> list[tuple[Any, Any]]:
    return [(refusal.key, refusal.code) for refusal in outcome.refused]


def test_a_sku_that_stands_twice_in_either_store_is_refused() -> None:
    """Refuses a SKU that either store has twice as `sku_ambiguous`.

    See docs/design/templates.md#e3-duplicate-skus.
    """
    two = [variant("1", "A", stock=1), variant("2", "A", stock=1)]
    other = [variant("9", "A", stock=7)]
    for found_paired_stock in (_pair(two, other), _pair(other, two)):
        assert (found_paired_stock.commands, _codes(found_paired_stock)) == ([], [("A", "sku_ambiguous")])


def test_outer_blanks_and_letter_forms_do_not_distinguish_skus() -> None:
    """Matches SKUs whatever their outer blanks and Unicode form.

    See docs/design/templates.md#e1-comparing-skus-and-barcodes.
    """
    pair = _pair([variant("1", "T\u00e9 1", stock=1)], [variant("9", "\u00a0Te\u0301 1 ", stock=7)])
    assert [command.quantity for command in pair.commands] == [7]


def test_two_that_differ_in_case_alone_are_no_near_match() -> None:
    """Counts a SKU as missing when two of the source's SKUs match it in other case.

    See docs/design/templates.md#e1-comparing-skus-and-barcodes.
    """
    pair = _pair([variant("1", "AB")], [variant("8", "ab"), variant("9", "aB")])
    assert (pair.refused, pair.not_in_source) == ([], 1)


@pytest.mark.parametrize(
    ("source", "present", "buffer", "only_lower", "new_level"),
    [
        (9, 5, 2, False, 7),
        (9, 5, 2, True, None),
        (3, 5, 2, True, 1),
        (1, 5, 2, False, 0),
        (-3, 5, 0, False, 0),
        (0, -3, 0, False, None),
        (4, -3, 0, False, 4),
        (5, 5, 0, False, None),
    ],
)
def test_the_new_number_is_the_sources_less_the_buffer(
    source: int, present: int, buffer: int, only_lower: bool, new_level: int | None
) -> None:
    """Sets the source's stock less the buffer, not below 0; with `only_lower` it never raises stock.

    See docs/design/templates-catalogue.md#sync-stock-between-stores.
    """
    target, rows = [variant("1", "A", stock=present)], [variant("9", "A", stock=source)]
    pair = _pair(target, rows, buffer=buffer, only_lower=only_lower)
    assert [command.quantity for command in pair.commands] == ([] if new_level is None else [new_level])
    assert pair.unchanged == (new_level is None)


def test_back_ordered_variants_are_refused_as_untracked() -> None:
    """Refuses a variant that can be back-ordered, in either store, as `untracked`.

    See docs/design/templates.md#e8-untracked-stock.
    """
    plain, odd = variant("1", "A", stock=3), variant("2", "A", stock=9, backorders_allowed=True)
    assert _codes(_pair([plain], [odd])) == _codes(_pair([odd], [plain])) == [("A", "untracked")]


def test_a_shared_number_that_would_get_two_values_is_refused() -> None:
    """Refuses two values for one stock that variations share as `stock_shared`.

    See docs/design/templates.md#e9-variants.
    """
    shared = {"stock_target": "3", "stock_managed_by_parent": True, "stock": 4}
    asks = [SetStock(variant(f"3/{location}", **shared), location) for location in (1, 2)]
    planned = SET_STOCK.plan(asks, integration_id=IntegrationId(1))
    assert ([problem.code for problem in planned.problems], planned.proposals) == (["stock_shared"] * 2, ())


async def test_an_event_sets_only_the_variant_it_names(store: PlatformStore) -> None:
    """Sets only the variant of the event, and still notices a second variant with its SKU.

    See docs/design/templates-catalogue.md#sync-stock-between-stores.
    """
    _fill_source(store, *_SOURCE)
    store.stock(*_TARGET)
    stage = await store.stage(TEMPLATE, _inputs(store))
    run = await stage.run(event=store.stock_event("Teapot", "POT-1"), approve=False)
    assert [proposal.object.label for proposal in run.proposals] == ["Teapot (POT-1)"]
    assert (run.result["source_variants"], run.result["not_in_source"]) == (1, 0)
    assert stage.memory.kept == {}
    for title, sku in (("Only here", "HERE-1"), ("No SKU", "")):
        run = await stage.run(event=store.stock_event(title, sku), approve=False)
        assert (run.failed, run.proposals, run.result["not_in_source"]) == (None, [], int(sku != ""))
    if store.platform == "shopify":  # the other platform has every SKU once
        store.stock(*_TARGET, ProductSpec("Copy", Item("POT-1", stock=1)))
        run = await stage.run(event=store.stock_event("Teapot", "POT-1"), approve=False)
        assert [row["code"] for row in run.result["refused_rows"]] == ["sku_ambiguous"]


def test_it_is_ready_once_there_are_two_stores() -> None:
    """Needs a second store, because it does not read the store that it runs on.

    See docs/design/api/connections.md#templates.
    """
    readinesses = [
        TEMPLATE.readiness(record) for record in ({"shopify": 1}, {"shopify": 1, "woocommerce": 1})
    ]
    assert [(readiness.ready, readiness.missing) for readiness in readinesses] == [
        (False, ("store",)),
        (True, ()),
    ]
