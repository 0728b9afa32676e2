"""Variations read from one list, where a shop has it, equal those read product by product."""

from collections.abc import AsyncIterator
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from steward.connections.health import ConnectionChecks, check_due
from steward.connectors.base.deliveries import CHANGED, ChangedQuery
from steward.connectors.base.queries import PRODUCTS, VARIANTS, ProductsQuery
from steward.connectors.base.records import Product
from steward.connectors.woocommerce.pages import ListPages
from steward.connectors.woocommerce.responses import id_of
from steward.connectors.woocommerce.variations import VariationReader
from steward.database.accounts import connections
from steward.fake_platforms.woocommerce import products, variations
from tests.connectors.fake_connections import ORG, Connection, FakePlatformsClient
from tests.fake_clock import START, FakeClock
from tests.runs.shop import Shop, open_shop

_LISTED = {"lists_variations": True}


@pytest.fixture
def full(world: FakePlatformsClient) -> FakePlatformsClient:
    """Returns a shop of 230 products, every tenth with three variations in all states."""
    world.world.load_products(230)
    shop = world.world.state.shop
    rows = list(shop.variations.values())
    for row in (*shop.products.values(), *rows):
        shop.mark_created(row, START)
    for index, status in ((1, "draft"), (4, "private"), (7, "pending"), (10, "trash")):
        rows[index]["status"] = status
    rows[12] |= {"manage_stock": False, "stock_quantity": None}
    shop.products[rows[12]["parent_id"]] |= {"manage_stock": True, "stock_quantity": 9}
    rows[15]["sku"] = shop.products[rows[15]["parent_id"]]["sku"] = "SHARED"
    parents = list(dict.fromkeys(row["parent_id"] for row in rows))
    shop.products[parents[3]]["status"] = "draft"
    products.delete(shop, parents[5], force=False)
    # Variations created later have higher ids than those of products further on.
    late = variations.create(shop, parents[0], {"regular_price": "2.00"})
    shop.mark_created(shop.variations[late["id"]], START)
    return world


def _asks(world: FakePlatformsClient) -> dict[str, ProductsQuery]:
    shop = world.world.state.shop
    parents = [str(row["id"]) for row in shop.products.values() if row["type"] == "variable"]
    skus = tuple(row["sku"] for row in list(shop.variations.values())[:9] if row["sku"])
    return {
        "whole": ProductsQuery(),
        "published": ProductsQuery(published_only=True),
        "one": ProductsQuery(ids=(parents[0],)),
        "some": ProductsQuery(ids=(*parents[:4], "2", "999999")),
        "skus": ProductsQuery(skus=skus),
        "modified": ProductsQuery(modified_after=START.replace(year=2020)),
    }


def _requests(world: FakePlatformsClient, path: str = "") -> int:
    rows = [entry.as_row() for entry in world.world.state.ledger.entries(reads=True)]
    return sum("/wc/v3/" in row["path"] and path in row["path"] for row in rows)


@pytest.mark.parametrize("name", ["whole", "published", "one", "some", "skus", "modified"])
async def test_both_ways_give_the_same_products(full: FakePlatformsClient, name: str) -> None:
    """Returns equal products with equal variants in equal order by both ways, for each query."""
    query = _asks(full)[name]
    old, new = full.connection("woocommerce"), full.connection("woocommerce", facts=_LISTED)
    expected = await old.all(PRODUCTS, query)
    assert any(len(product.variants) > 1 for product in expected)
    assert await new.all(PRODUCTS, query) == expected
    assert await new.all(VARIANTS, query) == await old.all(VARIANTS, query)


async def test_a_whole_shop_costs_its_pages_of_products_and_of_variations(full: FakePlatformsClient) -> None:
    """Reads a shop in pages of 100 products and 100 variations, without a call for a single product."""
    shop = full.world.state.shop
    count, stored = len(shop.products) - 1, [v for v in shop.variations.values() if v["status"] != "trash"]
    await full.connection("woocommerce", facts=_LISTED).all(PRODUCTS, ProductsQuery())
    assert _requests(full, "/products/") == 0
    assert _requests(full) == ceil(count / 100) + ceil(len(stored) / 100)


@pytest.mark.parametrize(("held", "by_parents"), [(70, False), (69, True)])
async def test_a_shop_with_more_variations_than_are_kept_is_asked_page_by_page(
    full: FakePlatformsClient, held: int, by_parents: bool
) -> None:
    """Reads all variations at once up to the limit, and by the parents of a page one past it."""
    shop = full.connection("woocommerce", facts=_LISTED)
    state = full.world.state.shop
    parent = next(row["id"] for row in state.products.values() if row["type"] == "variable")
    while sum(row["status"] != "trash" for row in state.variations.values()) < 70:
        variations.create(state, parent, {"regular_price": "2.00"})
    http = full.outbound.read_client(ORG, shop.number, shop.connector.endpoint(shop.secrets))
    pages = ListPages(http)
    rows = [{"id": n, "type": row["type"]} for n, row in state.products.items() if row["type"] == "variable"]
    one_by_one = await VariationReader(pages, listed=False, reads_catalogue=True).of_page(rows)
    reader = VariationReader(pages, listed=True, reads_catalogue=True, max_variations=held)
    pages_read = [None async for _ in reader.load(rows[:9])]
    assert len(pages_read) == (0 if by_parents else 1)
    variation_pages = [await reader.of_page(part) for part in (rows[:9], rows[9:])]
    plain = {parent: [id_of(row) for row in own_values] for parent, own_values in one_by_one.items()}
    assert {
        p: [id_of(row) for row in variation_rows]
        for record in variation_pages
        for p, variation_rows in record.items()
    } == plain
    assert _requests(full, "/v3/variations") == (3 if by_parents else 1)


async def test_variations_created_while_reading_appear_once(full: FakePlatformsClient) -> None:
    """Reads a variation created meanwhile with its product, and each variation once."""
    state = full.world.state.shop
    shop = full.connection("woocommerce", facts=_LISTED)
    last = max(
        row["id"] for row in state.products.values() if row["variations"] and row["status"] == "publish"
    )
    gone, stored, *_ = state.products[last]["variations"]
    products: list[Product] = []
    new_count = 0
    async for page in shop.reader().read(PRODUCTS, ProductsQuery()):
        if page.items and not products:
            new_count = variations.create(state, last, {"regular_price": "3.00"})["id"]
            variations.delete(state, last, gone, force=True)
            variations.update(state, last, stored, {"regular_price": "8.88"})
        products += page.items
    variants = next(product for product in products if product.id == str(last)).variants
    ids = [variant.id for variant in variants]
    assert len(set(ids)) == len(ids)
    assert {f"{last}/{stored}", f"{last}/{new_count}"} <= set(ids)
    assert [variant.price for variant in variants if variant.id == f"{last}/{new_count}"] == ["3.00"]


async def test_a_shop_that_went_back_to_an_older_version_is_read_as_before(full: FakePlatformsClient) -> None:
    """Reads product by product when the list is missing again, as after a downgrade."""
    expected = await full.connection("woocommerce").all(PRODUCTS, ProductsQuery())
    full.world.state.shop.version = (10, 2)
    shop = full.connection("woocommerce", facts=_LISTED)
    assert await shop.all(PRODUCTS, ProductsQuery()) == expected
    changed = await full.connection("woocommerce").all(CHANGED, ChangedQuery("product", None))
    assert any(event.parent_id is not None for event in changed)
    assert await shop.all(CHANGED, ChangedQuery("product", None)) == changed


async def test_a_fill_is_the_same_and_a_changed_variation_is_found_by_itself(
    full: FakePlatformsClient,
) -> None:
    """Fills both ways alike and finds a changed variation whose product did not change."""
    state = full.world.state.shop
    old, new = full.connection("woocommerce"), full.connection("woocommerce", facts=_LISTED)

    async def filled(shop: Connection, **query: Any) -> dict[str | None, Any]:
        return {event.object_id: event for event in await shop.all(CHANGED, ChangedQuery("product", **query))}

    before = {number: (e.parent_id, e.payload, e.objects) for number, e in (await filled(old)).items()}
    after = {number: (e.parent_id, e.payload, e.objects) for number, e in (await filled(new)).items()}
    assert after.keys() == before.keys()
    assert {n: (p, o) for n, (p, _, o) in after.items()} == {n: (p, o) for n, (p, _, o) in before.items()}
    now = full.clock.now()
    await full.clock.advance(60)
    changed = next(row for row in state.variations.values() if row["status"] == "publish")
    variations.update(state, changed["parent_id"], changed["id"], {"regular_price": "9.99"})
    record = await filled(new, modified_after=now)
    assert list(record) == [f"{changed['parent_id']}/{changed['id']}"]


@pytest.fixture
async def bare(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Yields a service without a connection."""
    opened = await open_shop(database_url, clock, tmp_path)
    yield opened
    await opened.service.close()


async def test_checks_find_out_whether_the_shop_has_the_list(bare: Shop) -> None:
    """Records with each check whether the shop has the list, after updates and downgrades too."""
    woo = bare.world.described()["woocommerce"]
    keys = {name: woo[name] for name in ("url", "consumer_key", "consumer_secret")}
    bare.world.state.shop.version = (10, 2, 9)
    assert (await bare.connect("woocommerce", keys)).facts["lists_variations"] is False
    ctx = bare.service.worker_context
    upkeep = ConnectionChecks(ctx.engine, ctx.clock, ctx.vault, ctx.log)
    number = bare.connections["woocommerce"].integration_id
    for version, listed in (((10, 3), True), ((10, 2), False), ((11, 0, 1), True)):
        bare.world.state.shop.version = version
        await bare.clock.advance(6 * 3600)
        await check_due(upkeep)
        connection = await bare.read(partial(connections.get, org=bare.owner.org, integration=number))
        assert connection is not None
        assert connection.facts["lists_variations"] is listed
