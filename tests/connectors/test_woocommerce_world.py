"""WooCommerce over the fake shop: reads, plans, writes, and the outcome of writes that break."""

import string
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steward.connectors.base.commands import Keep, SetPrice, SetStock, SetTags, SetVisible
from steward.connectors.base.connector import merge_proposals
from steward.connectors.base.queries import (
    PRODUCTS,
    TAGS,
    VARIANT,
    VARIANTS,
    ById,
    NoParameters,
    ProductsQuery,
)
from steward.connectors.base.records import Product, Variant
from steward.connectors.base.writing import WriteState
from steward.connectors.woocommerce.operations import SET_PRICE, SET_STOCK, SET_TAGS
from steward.model.change import Action, Proposal
from steward.outbound.errors import CallError, RemoteNotFound
from tests.connectors.fake_connections import SHOP, Connection, FakePlatformsClient

APPLIED, UNKNOWN, NOT_SENT = WriteState.APPLIED, WriteState.UNKNOWN, WriteState.NOT_SENT
PLAIN = Variant(
    id="9",
    product_id="9",
    product_title="Tea",
    title="",
    sku="T",
    barcode="",
    price="7.90",
    compare_at=None,
    currency="EUR",
    stock=5,
    tracked=True,
    backorders_allowed=False,
    stock_target="9",
    product_type="simple",
    status="publish",
    visible=True,
    regular_price="7.90",
)


async def variants(shop: Connection) -> list[Variant]:
    """Returns every variant of the shop."""
    return await shop.all(VARIANTS, ProductsQuery())


async def test_a_whole_shop_is_read_in_the_order_of_ids_and_nothing_is_written(
    shop: Connection, world: FakePlatformsClient
) -> None:
    """Reads a whole shop in the order of ids with all variants, and writes nothing.

    See docs/design/connectors.md#common-records and docs/design/connectors.md#test-mode.
    """
    world.world.load_products(230)
    products = await shop.all(PRODUCTS, ProductsQuery())
    assert [int(product.id) for product in products] == sorted({int(product.id) for product in products})
    assert len(products) == 230
    assert sum(product.kind == "variable" for product in products) == 23
    assert all(len(product.variants) > 1 for product in products if product.kind == "variable")
    assert world.written() == []


async def test_one_variant_one_sku_and_only_published_ones_can_be_asked_for(shop: Connection) -> None:
    """Reads one variant, variants by SKU, and published products; other ids are not found.

    See docs/design/connectors.md#common-records.
    """
    every = await variants(shop)
    own_variant = next(variant for variant in every if "/" in variant.id)
    assert await shop.all(VARIANT, ById(own_variant.id)) == [own_variant]
    skus = (own_variant.sku, every[0].sku)
    assert {each_variant.id for each_variant in await shop.all(VARIANTS, ProductsQuery(skus=skus))} == {
        own_variant.id,
        every[0].id,
    }
    published = await shop.all(PRODUCTS, ProductsQuery(published_only=True))
    assert all(product.status == "publish" for product in published)
    with pytest.raises(RemoteNotFound):
        await shop.all(VARIANT, ById("999999"))
    with pytest.raises(RemoteNotFound):
        await shop.all(VARIANT, ById("../orders/1"))


async def test_prices_of_simple_products_and_variations_are_set_in_one_call_each(
    shop: Connection, world: FakePlatformsClient
) -> None:
    """Sets prices of simple products in one call and of variations in one call a product.

    See docs/design/connectors.md#operations.
    """
    every = await variants(shop)
    parents = list(dict.fromkeys(variant.product_id for variant in every if "/" in variant.id))[:2]
    chosen = [each_variant for each_variant in every if "/" not in each_variant.id][:5]
    chosen += [item for item in every if "/" in item.id and item.product_id in parents]
    planned = shop.plan("variant.set_price", *(SetPrice(element, "12.34") for element in chosen))
    assert set(await shop.apply(planned.proposals)) == {APPLIED}
    writes = world.written()
    assert [entry["path"].removeprefix("/wp-json/wc/v3") for entry in writes] == [
        "/products/batch",
        *(f"/products/{parent}/variations/batch" for parent in parents),
    ]
    assert len({entry["idempotency_key"] for entry in writes}) == 3
    now = {each.id: each.price for each in await variants(shop)}
    assert all(now[each.id] == "12.34" for each in chosen)
    current = await shop.reader().current([part for proposal in planned.proposals for part in proposal.parts])
    assert all(
        SET_PRICE.same(current_value.part.after, current_value.value) and not current_value.is_gone
        for current_value in current
    )


def test_a_batch_holds_a_hundred_items_of_one_product() -> None:
    """Groups parts by product in order, at most 100 a call. See docs/design/connectors.md#woocommerce."""
    ids = [str(number) for number in range(1, 202)] + ["7/1", "8/1", "7/2"]
    asks = [SetPrice(replace(PLAIN, id=each), "9.00") for each in ids]
    parts = [
        part for proposal in SET_PRICE.plan(asks, integration_id=SHOP).proposals for part in proposal.parts
    ]
    groups = SET_PRICE.group(parts)
    assert [len(group) for group in groups] == [100, 100, 1, 2, 1]
    assert [part.target for group in groups for part in group] == [*ids[:201], "7/1", "7/2", "8/1"]


@pytest.mark.parametrize(
    ("price", "compare", "code"),
    [
        ("abc", None, "not_a_number"),
        ("-1", None, "not_a_number"),
        ("1e3", None, "not_a_number"),
        ("1,50", None, "not_a_number"),
        ("", None, "not_a_number"),
        ("1234567890", None, "not_a_number"),
        ("1.23456", None, "not_a_number"),
        (" 1", None, "not_a_number"),
        ("١", None, "not_a_number"),
        ("1.001", None, "too_many_decimals"),
        ("0", None, "price_zero"),
        ("0.00", None, "price_zero"),
        ("5", "5", "compare_at_not_above"),
        ("5", "4.99", "compare_at_not_above"),
        ("5", "x", "not_a_number"),
        ("5", "6.001", "too_many_decimals"),
    ],
)
def test_a_bad_price_is_a_problem_and_nothing_is_planned(price: str, compare: str | None, code: str) -> None:
    """Reports each invalid price as a problem with its code and plans nothing.

    See docs/design/connectors.md#operations.
    """
    planned = SET_PRICE.plan([SetPrice(PLAIN, price, compare)], integration_id=SHOP)
    assert planned.proposals == ()
    assert [problem.code for problem in planned.problems] == [code]


def test_decimals_follow_the_currency_and_trailing_zeros_do_not_count() -> None:
    """Allows as many decimals as the currency has, without counting trailing zeros.

    See docs/design/connectors.md#operations and docs/design/templates.md#e6-decimals.
    """
    for currency, price, good in (
        ("JPY", "8", True),
        ("JPY", "8.0", True),
        ("JPY", "8.5", False),
        ("KWD", "8.125", True),
        ("KWD", "8.1255", False),
        ("EUR", "8.5000", True),
        ("EUR", "999999999.99", True),
    ):
        planned = SET_PRICE.plan([SetPrice(replace(PLAIN, currency=currency), price)], integration_id=SHOP)
        assert bool(planned.proposals) is good, (currency, price)


def test_a_price_change_is_shown_in_the_shops_own_fields() -> None:
    """Shows a price change in the shop's regular and sale price fields, with a note on sale dates.

    See docs/design/templates.md#change-rows.
    """
    [plain] = SET_PRICE.plan([SetPrice(PLAIN, "8.40")], integration_id=SHOP).proposals
    assert [(field.field, field.label, field.before, field.after) for field in plain.fields] == [
        ("regular_price", "Price", "7.90", "8.40")
    ]
    assert plain.parts[0].after == {"regular_price": "8.40", "sale_price": ""}
    [sale] = SET_PRICE.plan([SetPrice(PLAIN, "6.00", "7.90")], integration_id=SHOP).proposals
    assert [
        (each_field.field, each_field.label, each_field.before, each_field.after)
        for each_field in sale.fields
    ] == [
        ("sale_price", "Price", "7.90", "6.00"),
        ("regular_price", "Compare-at price", None, "7.90"),
    ]
    assert sale.parts[0].after == {"regular_price": "7.90", "sale_price": "6.00"}
    on_sale = replace(
        PLAIN, price="6.00", compare_at="7.90", sale_price="6.00", sale_to="2026-12-24T00:00:00"
    )
    [proposal] = SET_PRICE.plan([SetPrice(on_sale, "5.00", Keep.KEEP)], integration_id=SHOP).proposals
    assert proposal.parts[0].after == {"regular_price": "7.90", "sale_price": "5.00"}
    assert proposal.message == "The sale dates stay: … to 2026-12-24 00:00 UTC."
    [ended] = SET_PRICE.plan([SetPrice(on_sale, "5.00", None)], integration_id=SHOP).proposals
    assert ended.message == "Its sale of … to 2026-12-24 00:00 UTC is taken back."


def test_equal_values_are_dropped_and_plans_are_deterministic() -> None:
    """Drops values that are equal already, and plans the same changes with the same hashes every time.

    See docs/design/connectors.md#change-operations.
    """
    asks = [
        SetPrice(PLAIN, "7.9"),
        SetPrice(replace(PLAIN, id="10"), "8"),
        SetPrice(replace(PLAIN, id="11"), "x"),
    ]
    first, again = (SET_PRICE.plan(asks, integration_id=SHOP) for _ in range(2))
    assert first == again
    assert (first.unchanged, len(first.proposals), len(first.problems)) == (("9",), 1, 1)
    assert first.proposals[0].item_hash() == again.proposals[0].item_hash()


TEXT = st.one_of(
    st.text(max_size=12),
    st.text(alphabet=string.digits + ".,-+eE ", max_size=14),
    st.decimals(min_value=-5, max_value=10**10, allow_nan=False).map(str),
)


@settings(max_examples=2_000, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(TEXT, st.none() | TEXT, st.sampled_from(["EUR", "JPY", "KWD", None]))
def test_no_price_that_is_invalid_is_ever_planned(
    price: str, compare: str | None, currency: str | None
) -> None:
    """Plans only prices that are valid numbers above zero with the sale below the regular price.

    See docs/design/connectors.md#tests.
    """
    query = SetPrice(replace(PLAIN, currency=currency), price, compare)
    for proposal in SET_PRICE.plan([query], integration_id=SHOP).proposals:
        value: Any = proposal.parts[0].after
        regular, sale = value["regular_price"], value["sale_price"]
        assert all(set(text) <= set("0123456789.") for text in (regular, sale))
        assert Decimal(sale or regular) > 0
        assert not sale or Decimal(sale) < Decimal(regular)
        proposal.item_hash()


@settings(max_examples=1_000, deadline=None)
@given(st.integers(), st.booleans(), st.none() | st.integers(-50, 50))
def test_no_stock_that_is_invalid_is_ever_planned(quantity: int, tracked: bool, stock: int | None) -> None:
    """Plans only stock of tracked variants from 0 to 1,000,000; each request has exactly one result.

    See docs/design/connectors.md#operations.
    """
    query = SetStock(replace(PLAIN, tracked=tracked, stock=stock), quantity)
    planned = SET_STOCK.plan([query], integration_id=SHOP)
    for proposal in planned.proposals:
        assert tracked
        assert stock is not None
        assert proposal.parts[0].after == {"stock_quantity": quantity}
        assert 0 <= quantity <= 1_000_000
    assert len(planned.proposals) + len(planned.problems) + len(planned.unchanged) == 1


def test_stock_is_written_from_nothing_to_a_million() -> None:
    """Plans stock of 0 and 1,000,000 and refuses one below and one above.

    See docs/design/connectors.md#operations.
    """
    for quantity, good in ((-1, False), (0, True), (1_000_000, True), (1_000_001, False)):
        assert bool(SET_STOCK.plan([SetStock(PLAIN, quantity)], integration_id=SHOP).proposals) is good


def test_a_shared_stock_is_written_once_and_never_to_two_numbers() -> None:
    """Writes a stock shared by variations once, and refuses to set it to two numbers.

    See docs/design/templates.md#e9-variants.
    """
    first = replace(PLAIN, id="75/76", stock_target="75", stock_managed_by_parent=True)
    second = replace(first, id="75/77")
    same = SET_STOCK.plan([SetStock(first, 7), SetStock(second, 7)], integration_id=SHOP)
    assert [proposal.parts[0].target for proposal in same.proposals] == ["75"]
    split = SET_STOCK.plan([SetStock(first, 7), SetStock(second, 8)], integration_id=SHOP)
    assert [problem.code for problem in split.problems] == ["stock_shared", "stock_shared"]
    assert split.proposals == ()


async def test_stock_is_set_and_read_back(shop: Connection) -> None:
    """Sets the stock of tracked variants and reads the new numbers back.

    See docs/design/connectors.md#operations.
    """
    tracked = [variant for variant in await variants(shop) if variant.tracked][:4]
    planned = shop.plan(
        "inventory.set", *(SetStock(each_variant, (each_variant.stock or 0) + 3) for each_variant in tracked)
    )
    assert set(await shop.apply(planned.proposals)) == {APPLIED}
    now = {item.id: item.stock for item in await variants(shop)}
    assert all(now[entry.id] == max(entry.stock or 0, 0) + 3 for entry in tracked if (entry.stock or 0) >= 0)


async def hidden(shop: Connection, product: Product, marker: str = "auto-hidden") -> Proposal:
    """Returns one change that hides a product and puts the marker tag on it.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    known_by_name = {tag.name: tag.id for tag in await shop.all(TAGS, NoParameters())}
    hide = shop.plan("product.set_visible", SetVisible(product, False)).proposals
    mark = shop.plan("product.set_tags", SetTags(product, (*product.tags, marker), known_by_name)).proposals
    return merge_proposals([*hide, *mark], action=Action.UNPUBLISH)


async def test_hiding_and_marking_is_one_change_of_several_parts(
    shop: Connection, world: FakePlatformsClient
) -> None:
    """Hides and marks a product in one change, creates a missing tag first, and restores the visibility.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    product = (await shop.all(PRODUCTS, ProductsQuery(published_only=True)))[0]
    change = await hidden(shop, product)
    operations = [part.operation for part in change.parts]
    assert operations == ["product.set_visible", "product_tag.create", "product.set_tags"]
    assert [(field.field, field.after) for field in change.fields] == [
        ("catalog_visibility", False),
        ("tags", sorted([*product.tags, "auto-hidden"])),
    ]
    for part in change.parts:
        assert [outcome.state for outcome in await shop.send([part])] == [APPLIED]
    [now] = await shop.all(PRODUCTS, ProductsQuery(ids=(product.id,)))
    assert not now.visible
    assert "auto-hidden" in now.tags
    second = (await shop.all(PRODUCTS, ProductsQuery(published_only=True)))[1]
    assert [part.operation for part in (await hidden(shop, second)).parts] == [
        "product.set_visible",
        "product.set_tags",
    ]
    back = shop.plan("product.set_visible", SetVisible(now, True, restore="search")).proposals
    assert await shop.apply(back) == [APPLIED]
    assert (await shop.all(PRODUCTS, ProductsQuery(ids=(product.id,))))[0].visibility == "search"
    assert len(world.written()) == 4


@pytest.mark.parametrize("tag", ["", " a", "a ", "a,b", "x" * 256, "\u00a0a"])
async def test_a_bad_tag_is_a_problem(shop: Connection, tag: str) -> None:
    """Reports an invalid tag as a problem and accepts one of 255 characters.

    See docs/design/connectors.md#operations.
    """
    [product] = await shop.all(PRODUCTS, ProductsQuery(ids=("1",)))
    planned = SET_TAGS.plan([SetTags(product, (tag,))], integration_id=SHOP)
    assert [problem.code for problem in planned.problems] == ["not_a_tag"]
    assert SET_TAGS.plan([SetTags(product, ("x" * 255,))], integration_id=SHOP).proposals


async def test_tags_are_sets_without_regard_to_case(shop: Connection) -> None:
    """Compares tags as sets without regard to case. See docs/design/connectors.md#change-operations."""
    [product] = await shop.all(PRODUCTS, ProductsQuery(ids=("1",)))
    tagged = replace(product, tags=("Sale",), tag_ids=(("Sale", "7"),))
    assert SET_TAGS.plan([SetTags(tagged, ("sale", "SALE"))], integration_id=SHOP).unchanged == ("1",)
    [change] = SET_TAGS.plan([SetTags(tagged, ())], integration_id=SHOP).proposals
    assert change.parts[-1].after == {"tags": []}
    assert not SET_TAGS.same({"tags": ["a"]}, {"tags": ["a", "b"]})


async def test_a_product_that_is_not_published_cannot_be_made_visible(shop: Connection) -> None:
    """Refuses to make a draft visible and to restore an unknown visibility.

    See docs/design/connectors.md#operations.
    """
    [product] = await shop.all(PRODUCTS, ProductsQuery(ids=("1",)))
    draft = replace(product, status="draft", visible=False)
    planned = shop.plan("product.set_visible", SetVisible(draft, True))
    assert [problem.code for problem in planned.problems] == ["not_published"]
    odd = shop.plan(
        "product.set_visible", SetVisible(replace(product, visible=False), True, restore="hidden")
    )
    assert [problem.code for problem in odd.problems] == ["not_a_visibility"]


CASES = [
    ({"kind": "drop_before"}, UNKNOWN, NOT_SENT),
    ({"kind": "drop_after"}, UNKNOWN, APPLIED),
    ({"kind": "status", "status": 500}, UNKNOWN, NOT_SENT),
    ({"kind": "status_after", "status": 500}, UNKNOWN, APPLIED),
    ({"kind": "status_after", "status": 502, "body": "<html>"}, UNKNOWN, APPLIED),
    ({"kind": "status_after", "status": 200, "body": []}, UNKNOWN, APPLIED),
    ({"kind": "status_after", "status": 200, "body": "<html>"}, UNKNOWN, APPLIED),
    ({"kind": "throttle", "retry_after": 7}, NOT_SENT, NOT_SENT),
    ({"kind": "status", "status": 301}, WriteState.REFUSED, NOT_SENT),
    (
        {"kind": "status", "status": 403, "body": {"code": "woocommerce_rest_cannot_edit"}},
        WriteState.REFUSED,
        NOT_SENT,
    ),
]


@pytest.mark.parametrize(("fault", "state", "settled"), CASES, ids=[str(case[0]) for case in CASES])
@pytest.mark.parametrize(
    "operation", ["variant.set_price", "inventory.set", "product.set_visible", "product.set_tags"]
)
async def test_a_write_that_breaks_arrives_once_and_is_settled_by_reading(
    shop: Connection,
    world: FakePlatformsClient,
    operation: str,
    fault: dict[str, Any],
    state: WriteState,
    settled: WriteState,
) -> None:
    """Sends a breaking write once and settles it by reading.

    See docs/design/writes.md#protocol-of-one-write and docs/design/writes.md#idempotency-classes.
    """
    [product] = await shop.all(PRODUCTS, ProductsQuery(ids=("1",)))
    known_by_name = {tag.name: tag.id for tag in await shop.all(TAGS, NoParameters())}
    asks: dict[str, Any] = {
        "variant.set_price": SetPrice(product.variants[0], "99.99"),
        "inventory.set": SetStock(product.variants[0], 777),
        "product.set_visible": SetVisible(product, False),
        "product.set_tags": SetTags(product, (next(iter(known_by_name)),), known_by_name),
    }
    [proposal] = shop.plan(operation, asks[operation]).proposals
    [part] = proposal.parts
    world.world.state.faults.make({"method": "*", "path": "/wp-json/wc/v3/products/**", **fault})
    [outcome] = await shop.send([part])
    assert outcome.state is state
    assert outcome.wait_s == (7 if fault["kind"] == "throttle" else None)
    assert len(world.written()) == 1
    await world.clock.advance(60)  # after a failure the pacing holds the next call back
    assert (await shop.reader().confirm(part)).state is settled
    assert len(world.written()) == 1


async def test_somebody_elses_value_is_a_conflict_and_an_unreadable_shop_unknown(
    shop: Connection, world: FakePlatformsClient
) -> None:
    """Settles another person's value or a missing object as a conflict, and an unreadable shop as unknown.

    See docs/design/writes.md#idempotency-classes.
    """
    [product] = await shop.all(PRODUCTS, ProductsQuery(ids=("1",)))
    [expected] = shop.plan("variant.set_price", SetPrice(product.variants[0], "50.00")).proposals
    [other] = shop.plan("variant.set_price", SetPrice(product.variants[0], "60.00")).proposals
    await shop.send(other.parts)
    assert (await shop.reader().confirm(expected.parts[0])).state is WriteState.CONFLICT
    [gone] = await shop.reader().current([replace(expected.parts[0], target="999999")])
    assert gone.is_gone
    assert (await shop.reader().confirm(gone.part)).state is WriteState.CONFLICT
    world.world.state.faults.make(
        {"method": "GET", "path": "/**", "kind": "status", "status": 403, "count": -1}
    )
    assert (await shop.reader().confirm(expected.parts[0])).state is UNKNOWN
    with pytest.raises(CallError):
        await shop.reader().current(expected.parts)


async def test_a_read_only_key_reads_and_is_refused_to_write(world: FakePlatformsClient) -> None:
    """Reads with a read-only key and gets its writes refused as forbidden.

    See docs/design/connectors.md#errors.
    """
    keys = world.world.described()["woocommerce"]
    settings = {"consumer_key": keys["read_only_key"], "consumer_secret": keys["read_only_secret"]}
    shop = world.connection("woocommerce", settings)
    assert (await shop.check()).missing_rights == ("write",)
    [product] = await shop.all(PRODUCTS, ProductsQuery(ids=("1",)))
    [proposal] = shop.plan("variant.set_price", SetPrice(product.variants[0], "50.00")).proposals
    [outcome] = await shop.send(proposal.parts)
    assert (outcome.state, outcome.error) == (WriteState.REFUSED, "forbidden")


async def test_no_secret_of_the_shop_reaches_a_line(shop: Connection, world: FakePlatformsClient) -> None:
    """Writes no key of the shop into a log line. See docs/design/connectors.md#redaction."""
    await shop.check()
    world.world.state.faults.make(
        {"method": "GET", "path": "/**", "kind": "status", "status": 507, "count": 1}
    )
    with pytest.raises(CallError):
        await variants(shop)
    keys = world.world.described()["woocommerce"]
    text = "".join(world.lines)
    assert "call" in text
    assert not any(keys[name] in text for name in ("consumer_key", "consumer_secret"))
