"""Counts the requests of a run on a whole shop: every page of what it decides on, once, and no more.

See docs/design/templates.md#e10-pages.
"""

import os
from math import ceil

import pytest

from steward.connectors.shopify.reader import BULK_THRESHOLD
from steward.model.run import Mode
from steward.outbound.errors import CallError
from steward.steps.base import TooManyChanges
from tests.fake_clock import FakeClock
from tests.templates.full_store import BY_ID, INPUTS, ORDERS, PLATFORMS, FullStore

# Enough for a second page; SHOP_PRODUCTS=5000 gives the figures of a shop of 5,000 products.
PRODUCTS = {"woocommerce": 101, "shopify": 57}
if "SHOP_PRODUCTS" in os.environ:
    PRODUCTS = dict.fromkeys(PLATFORMS, int(os.environ["SHOP_PRODUCTS"]))


def expected(count: int) -> dict[str, tuple[int | None, int | None]]:
    """Returns the requests to a WooCommerce shop and to a Shopify store of `count` products, by template."""
    # Lists hold 100 products or 100 variations. Every tenth product has three variations and the tag of
    # hidden products; the variations of tagged products are requested page by page.
    marked_pages = [min(count // 10 - start, 100) for start in range(0, count // 10, 100)]
    woo = ceil(count / 100) + ceil(count // 10 * 3 / 100)
    woo_marked = sum(1 + ceil(page * 3 / 100) for page in marked_pages)
    # The variations of named products are requested page by page as well.
    named_pages = [min(count - start, 100) // 10 for start in range(0, count, 100)]
    woo_named = sum(1 + ceil(each_page * 3 / 100) for each_page in named_pages)
    # Either 28 products a page with one more request for the variants of the page, or 100 variants a page,
    # where every fifth product has three. One more request asks for the number of products: above 5,000 a
    # bulk operation reads them, which is started and polled twice.
    products, marked = 2 * ceil(count / 28), 2 * ceil(count // 10 / 28)
    number = count + 2 * (count // 5)
    variants = ceil(number / 100)
    whole = 1 + (products if count <= BULK_THRESHOLD else 3)
    per_product = 1 + (variants if number <= BULK_THRESHOLD else 3)
    # Eight orders a page: all orders, and those of a day.
    orders, day = ceil(ORDERS / 8), 2
    # Templates that tag products list the tags of a WooCommerce shop with one more request.
    return {
        "low-stock-alert": (woo, whole),
        "price-update-from-spreadsheet": (woo, per_product),
        "tag-orders-by-rule": (1, day),
        "hide-out-of-stock-products": (1 + woo, whole),
        "show-back-in-stock-products": (1 + woo_marked, marked),
        "order-export-to-spreadsheet": (1, 1 + orders),
        "tag-customers-by-spend": (
            1 + 1,
            1 + 1,
        ),  # customers; orders, or their number
        "cancel-unpaid-orders": (1, orders),
        "high-risk-order-hold": (None, day),
        "sync-stock-between-stores": (2 * woo, per_product + variants),  # the other store, and this one
        "daily-sales-summary": (1 + 1 + 1, day + 2 + 1),  # the day, its best product, the day compared with
        "supplier-feed-import": (woo, variants),
        "sale-start": (1 + woo, whole),
        "sale-end": (woo_named, products),
        "missing-product-data-audit": (woo, whole),
        "duplicate-sku-check": (woo, per_product),
        "unfulfilled-order-alert": (1, orders),
        "tag-products-by-rule": (1 + woo, whole),
        "stock-report-across-stores": (woo, per_product),
        "sales-summary-across-stores": (1, day),
        "price-difference-report": (woo, per_product),
        "archive-fulfilled-orders": (None, orders),
        "slow-stock-markdown": (1 + woo, day + whole),
    }


def test_every_template_that_reads_a_store_is_counted() -> None:
    """Has a figure for every template on every platform that it runs on."""
    expected_value = expected(1)
    assert expected_value.keys() == INPUTS.keys() == BY_ID.keys() - {"spreadsheet-to-teams-digest"}
    for name, counts in expected_value.items():
        named = BY_ID[name].facts.platforms or PLATFORMS
        assert [
            platform for platform, count in zip(PLATFORMS, counts, strict=True) if count is not None
        ] == sorted(named)[::-1]


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_store_is_read_once_in_full_pages(platform: str, clock: FakeClock) -> None:
    """Makes exactly the expected requests for each template, and none of them twice.

    See docs/design/connectors.md#shopify and docs/design/connectors.md#woocommerce.
    """
    store = FullStore(platform, clock, PRODUCTS[platform])
    await store.fill()
    expected_value, requests_by_name = _of(platform, PRODUCTS[platform]), {}
    for name in expected_value:
        before = len(store.requests_seen())
        await clock.advance(60)  # far enough apart that no run waits for another one's requests
        run = await clock.through(store.stage(name).run(mode=Mode.TEST))  # restores a large store's points
        requests = store.requests_seen()[before:]
        # In a shop of 5,000 more may change than the limit allows, but all is read by then.
        failed = None if isinstance(run.failed, TooManyChanges) else run.failed
        assert (name, failed, store.written()) == (name, None, 0)
        once = [
            request
            for request in requests
            if "bulkOperationRun" in request or "gid://shopify/BulkOperation" not in request
        ]
        assert name == "sync-stock-between-stores" or len(set(once)) == len(once), name
        requests_by_name[name] = len(requests)
    assert requests_by_name == expected_value
    await store.close()


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_list_that_cannot_be_read_to_its_end_is_never_decided_on(
    platform: str, clock: FakeClock
) -> None:
    """Raises CallError when the last read of any template fails; nothing is proposed or sent.

    See docs/design/templates.md#e10-pages.
    """
    store = FullStore(platform, clock, 20)
    await store.fill()
    for name, count in _of(platform, 20).items():
        await clock.advance(60)
        fault = store.break_read(count - 1)
        with pytest.raises(CallError):
            await store.stage(name).run()
        assert (name, fault.hits, store.written()) == (name, 1, 0)
    await store.close()


def _of(platform: str, count: int) -> dict[str, int]:
    results = {name: both[PLATFORMS.index(platform)] for name, both in expected(count).items()}
    return {name: number for name, number in results.items() if number is not None}
