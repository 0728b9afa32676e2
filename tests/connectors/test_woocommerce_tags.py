"""Tags whose names WordPress changes are applied and found again; a run reads tags once."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from steward.connectors.base.commands import SetTags
from steward.connectors.base.queries import PRODUCTS, TAGS, NoParameters, ProductsQuery
from steward.connectors.base.writing import WriteState
from steward.model.change import Outcome
from steward.model.run import RunStatus
from steward.steps.base import StoreAccess
from steward.steps.product_tags import has_tag, without_tag
from tests.connectors.fake_connections import Connection, FakePlatformsClient
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, open_shop

_AWKWARD = [
    "Tom & Jerry",
    "Tom &amp; Jerry",
    "A < B > C",
    "Sale <5>",
    "<b>Neu</b>",
    "<script>x</script>",
    "two  blanks",
    "&#8364; 5",
    "Hot \N{FIRE} deal",
    "\N{FIRE}",
    "50%ab",
]


@pytest.fixture
async def bare(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Yields a service with the fake shop connected."""
    opened = await open_shop(database_url, clock, tmp_path)
    woo = opened.world.described()["woocommerce"]
    keys = {name: woo[name] for name in ("url", "consumer_key", "consumer_secret")}
    await opened.connect("woocommerce", keys)
    yield opened
    await opened.service.close()


@pytest.mark.parametrize(("tag", "four_bytes"), [*((tag, True) for tag in _AWKWARD), (_AWKWARD[-3], False)])
async def test_a_tag_that_wordpress_would_change_is_put_on_and_found_again(
    shop: Connection, world: FakePlatformsClient, tag: str, four_bytes: bool
) -> None:
    """Applies the tag by the shop's response, plans no second change and finds the product by the tag."""
    world.world.state.shop.holds_four_bytes = four_bytes
    for number in ("1", "2"):
        [product] = await shop.all(PRODUCTS, ProductsQuery(ids=(number,)))
        known_by_name = {each_tag.name: each_tag.id for each_tag in await shop.all(TAGS, NoParameters())}
        [proposal] = shop.plan("product.set_tags", SetTags(product, (tag,), known_by_name)).proposals
        assert len(proposal.parts) == (2 if number == "1" else 1)
        assert set(await shop.apply([proposal])) == {WriteState.APPLIED}
        [after] = await shop.all(PRODUCTS, ProductsQuery(ids=(number,)))
        assert len(after.tags) == 1
        assert shop.plan("product.set_tags", SetTags(after, (tag,), known_by_name)).unchanged == (number,)
        products = await shop.all(PRODUCTS, ProductsQuery(tagged=(tag,)))
        assert number in [each_product.id for each_product in products]


async def test_tags_that_differ_by_an_emoji_are_different_tags(shop: Connection) -> None:
    """Keeps tags that differ only by an emoji apart on products and in searches."""
    sale, hot = "Sale", "Sale \N{FIRE}"
    for expected in ((sale, hot), (sale, hot, "New"), (hot, "New")):
        [product] = await shop.all(PRODUCTS, ProductsQuery(ids=("1",)))
        known_by_name = {each_tag.name: each_tag.id for each_tag in await shop.all(TAGS, NoParameters())}
        planned = shop.plan("product.set_tags", SetTags(product, expected, known_by_name))
        assert set(await shop.apply(planned.proposals)) == {WriteState.APPLIED}
        [product] = await shop.all(PRODUCTS, ProductsQuery(ids=("1",)))
        assert set(product.tags) == set(expected)
    [other] = await shop.all(PRODUCTS, ProductsQuery(ids=("2",)))
    known_by_name = {item.name: item.id for item in await shop.all(TAGS, NoParameters())}
    await shop.apply(shop.plan("product.set_tags", SetTags(other, (sale,), known_by_name)).proposals)
    for tag, numbers in ((sale, ["2"]), (hot, ["1"])):
        products = await shop.all(PRODUCTS, ProductsQuery(tagged=(tag,)))
        assert [each_product.id for each_product in products] == numbers


async def test_taking_a_tag_off_leaves_the_one_that_differs_by_an_emoji(shop: Connection) -> None:
    store = cast("StoreAccess", SimpleNamespace(changes=shop.connector.writes))
    [product] = await shop.all(PRODUCTS, ProductsQuery(ids=("1",)))
    sale, hot = "Sale", "Sale \N{FIRE}"
    both = replace(product, tags=(sale, hot))
    assert (without_tag(store, both, hot), without_tag(store, both, sale)) == ((sale,), (hot,))
    assert without_tag(store, replace(product, tags=(sale,)), hot) == ()  # as an older database stored it
    assert not has_tag(store, replace(product, tags=(hot,)), sale)


async def test_a_run_with_such_a_tag_ends_without_waiting_and_the_next_finds_nothing_to_do(
    bare: Shop,
) -> None:
    """Ends the run within seconds with every change applied, and proposes nothing in the next run."""
    for row in list(bare.world.state.shop.products.values())[4:]:
        row["status"] = "draft"
    inputs = {"tag": "<b>Tom &amp; Jerry</b> \N{FIRE}", "when": "price_range", "min_price": "0.01"}
    automation = await bare.set_up("tag-products-by-rule", inputs)
    waiting = await bare.waiting(automation)
    began = bare.clock.now()
    await bare.approve(waiting)
    await bare.drain()
    assert (await bare.run(waiting)).status is RunStatus.SUCCEEDED
    assert (bare.clock.now() - began).total_seconds() < 10
    assert {change.outcome for change in await bare.changes(waiting)} == {Outcome.APPLIED}
    again = await bare.run_and_drain(automation)
    assert (again.status, len(await bare.changes(again))) == (RunStatus.SUCCEEDED, 0)


async def test_the_shop_keeps_the_name_as_it_was_written(
    shop: Connection, world: FakePlatformsClient
) -> None:
    """Sends markup and entities so that the shop stores the name as written."""
    [product] = await shop.all(PRODUCTS, ProductsQuery(ids=("1",)))
    written = ("<b>Neu</b>", "Tom &amp; Jerry", "A < B", "R&D")
    planned = shop.plan("product.set_tags", SetTags(product, written))
    assert set(await shop.apply(planned.proposals)) == {WriteState.APPLIED}
    [after] = await shop.all(PRODUCTS, ProductsQuery(ids=("1",)))
    assert set(after.tags) == set(written)


async def test_a_tag_of_nothing_is_a_problem(shop: Connection) -> None:
    """Reports a tag as a problem when WordPress would remove all of its characters."""
    [product] = await shop.all(PRODUCTS, ProductsQuery(ids=("1",)))
    planned = shop.plan("product.set_tags", SetTags(product, ("%ab",)))
    assert [problem.code for problem in planned.problems] == ["not_a_tag"]


async def test_a_shop_that_creates_another_tag_is_reported_at_once(
    shop: Connection, world: FakePlatformsClient
) -> None:
    """Refuses with both names when the shop creates a tag of another name, and leaves nothing open."""
    [product] = await shop.all(PRODUCTS, ProductsQuery(ids=("1",)))
    [proposal] = shop.plan("product.set_tags", SetTags(product, ("Sale",))).proposals
    body = {"id": 77, "name": "Something else", "slug": "x", "description": "", "count": 0}
    fault = {"kind": "status", "status": 201, "method": "POST", "path": "/wp-json/wc/v3/products/tags"}
    world.world.state.faults.make({**fault, "body": body})
    [outcome] = await shop.send([proposal.parts[0]])
    assert outcome.state is WriteState.REFUSED
    assert outcome.reason is not None
    assert "“Something else”" in outcome.reason


async def test_tags_are_read_once_by_a_reader(shop: Connection, world: FakePlatformsClient) -> None:
    """Reads the list of tags once for all reads of one reader."""
    reader = shop.reader()
    readings = [
        [tag async for page in reader.read(TAGS, NoParameters()) for tag in page.items] for _ in range(3)
    ]
    assert readings[0] == readings[1] == readings[2]
    rows = [entry.as_row() for entry in world.world.state.ledger.entries(reads=True)]
    assert sum(row["path"].endswith("/products/tags") for row in rows) == 1


async def test_a_missing_tag_is_looked_up_and_made_once_for_all_products_of_a_run(bare: Shop) -> None:
    """Looks a missing tag up and creates it once for all products of a run."""
    inputs = {"tag": "new tag", "when": "price_range", "min_price": "0.01"}
    waiting = await bare.waiting(await bare.set_up("tag-products-by-rule", inputs))
    before = bare.world.state.ledger.last_seq
    await bare.approve(waiting)
    await bare.drain()
    changes = await bare.changes(waiting)
    assert len(changes) > 20
    assert {change.outcome for change in changes} == {Outcome.APPLIED}
    rows = [entry.as_row() for entry in bare.world.state.ledger.entries(before, reads=True)]
    on_tags = [row["method"] for row in rows if row["path"].endswith("/products/tags")]
    assert (on_tags.count("POST"), on_tags.count("GET") <= 3) == (1, True)
