"""Reads of Shopify Flow: paths compiled to queries that every version accepts, and read completely."""

import random
from typing import Any

import pytest
from graphql import parse, validate

from steward.connectors.base.queries import FLOW_OBJECT, FLOW_OBJECTS, FlowObjectQuery, FlowObjectsQuery
from steward.connectors.shopify import flow_reads
from steward.connectors.shopify.connector import VERSIONS
from steward.connectors.shopify.hydration import (
    FETCHED,
    MAX_QUERY_COST,
    OBJECTS,
    Recipe,
    RecipeReads,
    compile_document,
    compile_read,
    compiled,
    recipe_of,
    sort_order,
    variables_of,
)
from steward.connectors.shopify.schema_table import LISTS, FieldShape, schema_table
from steward.model.plan import Patched
from steward.outbound.errors import CallRefused, Invalid, RemoteNotFound, ResponseTooLarge
from tests.connectors.shopify.bench import NUMBER, ORG, StoreConnection
from tests.fakes.shopify import cost
from tests.fakes.shopify.goods import number
from tests.fakes.shopify.schema import schema_of

SEED = 20_261_122
TIER = Patched("Customer", "loyaltyTier", "custom", "tier")


def walked(chance: random.Random, root: str) -> str:
    """Returns a path that the schema has, chosen by a random walk."""
    table, kind, names = schema_table(), {**OBJECTS, **FETCHED}[root], [root]
    for _ in range(chance.randint(1, 5)):
        name = chance.choice(table.names(kind))
        field = table.field(kind, name)
        assert field is not None
        if field.shape is FieldShape.METAFIELD:
            continue
        names.append(name)
        if field.shape in (FieldShape.LEAF, FieldShape.LEAVES):
            break
        kind = field.type
    return ".".join(names)


def test_every_query_is_valid_in_every_version_and_within_what_one_may_cost() -> None:
    """Compiles random paths to queries that are valid in each version and within 1,000 points.

    See docs/design/imports-shopify-flow.md#reading-objects and docs/design/connectors.md#shopify.
    """
    assert schema_table().versions == VERSIONS
    chance = random.Random(SEED)
    dear = 0
    for root in (*OBJECTS, *FETCHED) * 2:
        paths = [walked(chance, root) for _ in range(chance.randint(1, 6))]
        compiled = compile_read(root, paths)
        text = parse(compiled.query)
        for version in VERSIONS:
            assert [
                each_graph_qlerror.message for each_graph_qlerror in validate(schema_of(version), text)
            ] == [], (paths, compiled.query)
        requested = cost.requested(schema_of("2026-10"), text, {})
        assert requested <= compiled.cost
        if compiled.problems:
            dear += 1
        else:
            assert compiled.cost <= MAX_QUERY_COST
            assert compile_document(recipe_of(root, paths)).max_cost == compiled.cost
    assert dear < 5


def test_unreadable_paths_are_each_reported() -> None:
    """Reports each path that cannot be read, compiles the others, and puts no given text into the query.

    See docs/design/imports-shopify-flow.md#reading-objects.
    """
    paths = (
        *("order.name", "order.bogus.x", "order.name.x", "order.metafields.tgg.breadcrumb", "product.title"),
        *("order.customer.loyaltyTier.value", "order.lineItems.product.tags", "order.lineItems.size"),
        "order." + ".".join(["customer", "lastOrder"] * 7),
        "order.tags} } mutation { x",
    )
    compiled = compile_read("order", paths, [TIER])
    assert {path for path, _ in compiled.problems} == {paths[1], paths[2], paths[3], paths[4], *paths[8:]}
    assert compiled.lists == ("order.lineItems", "order.metafields")
    assert compiled.types["order.name"] == compiled.types["order.customer.loyaltyTier.value"] == "String"
    assert "mutation" not in compiled.query
    assert '"' not in compiled.query
    recipe = recipe_of("order", ["order.customer.loyaltyTier.value"], [TIER, TIER])
    assert set(variables_of(recipe).values()) == {"custom", "tier"}
    assert [path for path, _ in compile_read("checkout", ["checkout.id"]).problems] == ["checkout.id"]
    with pytest.raises(ValueError, match="bogus"):
        compile_document(recipe_of("order", ["order.bogus"]))
    many = [f"order.x{index}" for index in range(1_001)]
    assert len(compile_read("order", many).problems) == 1
    assert len(compile_read("order", many[1:]).problems) == 1_000


async def test_an_object_is_read_as_a_flow_sees_it(bench: StoreConnection) -> None:
    """Reads an object with Flow's names, plain lists read to the end and metafields under their handles.

    See docs/design/imports-shopify-flow.md#environment.
    """
    store = bench.store
    person = store.add_customer("Ann", email="ann@shop.example")
    store.make("Metafield", owner=person["id"], namespace="custom", key="tier", type="text", value="gold")
    product = store.add_product("Bowl", tags=["presale"])
    variants = [*store.owned(product["id"]), *store.of("ProductVariant")[:8]] * 7
    order = store.add_order(variants, customer=person, note="soon")
    paths = (
        *("order.note", "order.totalPrice", "order.customer.loyaltyTier.value", "order.customer.displayName"),
        *(
            "order.lineItems.product.tags",
            "order.lineItems.title",
            "order.lineItems.product.collections.title",
        ),
        *("order.refunds.id", "order.totalPriceSet.shopMoney.amount"),
    )
    query = FlowObjectQuery("order", str(number(order)), paths, (TIER,))
    before = len(store.documents)
    [results] = await bench.all(FLOW_OBJECT, query)
    assert results["note"] == "soon"
    assert results["customer"]["loyaltyTier"]["value"] == "gold"
    assert [item["title"] for item in results["lineItems"]] == [
        each_item["title"] for each_item in order["lineItems"]
    ]
    assert results["lineItems"][0]["product"]["tags"] == ["presale"]
    assert results["refunds"] == []
    assert set(store.documents[before:]) == {"FlowObject", "FlowMore"}
    assert store.writes() == []
    with pytest.raises(RemoteNotFound):
        await bench.all(FLOW_OBJECT, FlowObjectQuery("order", "7", paths, (TIER,)))
    [shop] = await bench.all(FLOW_OBJECT, FlowObjectQuery("shop", "", ("shop.name", "shop.currencyCode")))
    assert (shop["name"], shop["currencyCode"]) == ("Teapots", "EUR")


async def test_of_a_list_250_are_read_and_no_more_calls_are_made_than_are_bounded(
    bench: StoreConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads at most 250 items of a list, and refuses a read that needs too many calls.

    See docs/design/imports-shopify-flow.md#reading-objects and docs/design/connectors.md#shopify.
    """
    many = bench.store.add_product("Many", options=tuple(f"Size {index}" for index in range(251)))
    few = bench.store.add_product("Few", options=tuple(f"Size {position}" for position in range(250)))
    for row, length in ((many, 250), (few, 250)):
        query = FlowObjectQuery(
            "product", str(number(row)), ("product.variants.title", "product.variants.id")
        )
        [results] = await bench.all(FLOW_OBJECT, query)
        assert len(results["variants"]) == length
    monkeypatch.setattr(flow_reads, "MAX_CALLS", 0)
    paths = ("product.variants.title", "product.collections.products.variants.sku")
    with pytest.raises(ResponseTooLarge):
        await bench.all(FLOW_OBJECT, FlowObjectQuery("product", str(number(many)), paths))


async def test_lists_are_fetched_in_the_order_and_number_asked_for(bench: StoreConnection) -> None:
    """Fetches lists by query, sort and maximum, in that order.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    for index in range(110):
        bench.store.add_product(f"More {index:03}", tags=["fresh"])
    paths = ("products.title", "products.variants.sku")
    products = await bench.all(
        FLOW_OBJECTS, FlowObjectsQuery("products", paths, "tag:fresh", "TITLE desc", 105)
    )
    assert [record["title"] for record in products] == [
        f"More {position:03}" for position in range(109, 9, -1)
    ]
    some = await bench.all(FLOW_OBJECTS, FlowObjectsQuery("products", paths, "tag:fresh", "title", 3))
    assert [entry["title"] for entry in some] == ["More 000", "More 001", "More 002"]
    with pytest.raises(Invalid):
        await bench.all(FLOW_OBJECTS, FlowObjectsQuery("products", paths, "", "price"))
    assert [
        sort_order("orders", text) for text in ("", "created_at:desc", "UPDATED_AT_ASC", "x", "id up")
    ] == [*(("ID", False), ("CREATED_AT", True), ("UPDATED_AT", False), None, None)]


@pytest.mark.parametrize(
    "recipe", [Recipe(RecipeReads.OBJECT, "order", ("order.x",)), "query A { shop { name } }"]
)
async def test_only_what_the_compiler_makes_is_sent(bench: StoreConnection, recipe: Any) -> None:
    """Refuses to send anything but a query that the compiler makes.

    See docs/design/connectors.md#test-mode.
    """
    http = bench.outbound.read_client(ORG, NUMBER, bench.connector.endpoint(bench.secrets))
    with pytest.raises((CallRefused, AttributeError)):
        await http.execute_compiled(recipe, {})
    assert bench.store.documents == []
    assert all(field in LISTS or field for field in FieldShape)
    assert compiled(Recipe(RecipeReads.SHOP, "shop", ("shop.email",))).cost <= 2
