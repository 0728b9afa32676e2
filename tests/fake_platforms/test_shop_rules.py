"""Tests keys, rights, limits and oddities of the fake shop. See docs/design/fake-platforms.md#services."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from steward.fake_platforms.application import FakePlatforms
from tests.fake_clock import FakeClock

pytestmark = pytest.mark.anyio


async def _first(shop: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    rows = (await shop.get("products", params={"orderby": "id", "order": "asc", **query})).json()
    return dict(rows[0])


async def test_a_wrong_secret_is_reported_and_an_unknown_key_reveals_nothing(
    platforms: FakePlatforms, outside: httpx.AsyncClient
) -> None:
    """Answers a wrong secret and an unknown key with the codes of the recording.

    See docs/design/fake-platforms.md#services.
    """
    path, key = "/wp-json/wc/v3/products", platforms.state.keys.consumer_key
    wrong = await outside.get(path, auth=(key, "cs_wrong"))
    unknown = await outside.get(path, auth=("ck_wrong", "cs_wrong"))
    assert [wrong.status_code, unknown.status_code] == [401, 401]
    assert wrong.json()["code"] == "woocommerce_rest_authentication_error"
    assert unknown.json()["code"] == "woocommerce_rest_cannot_view"


async def test_a_read_only_key_reads_but_does_not_write(
    platforms: FakePlatforms, outside: httpx.AsyncClient
) -> None:
    """Refuses every write with a read-only key as 401, also an empty batch.

    See docs/design/fake-platforms.md#services.
    """
    keys = platforms.state.keys
    pair = (keys.read_only_key, keys.read_only_secret)
    assert (await outside.get("/wp-json/wc/v3/products", auth=pair)).status_code == 200
    for path in ("products/1", "products/batch"):
        refused = await outside.post(f"/wp-json/wc/v3/{path}", json={}, auth=pair)
        assert refused.status_code == 401
        assert refused.json()["code"] == "woocommerce_rest_authentication_error"
    assert [row["applied"] for row in platforms.state.ledger.writes()] == [False, False]


async def test_the_shop_takes_basic_authentication_over_plain_http(
    platforms: FakePlatforms, outside: httpx.AsyncClient
) -> None:
    """Accepts basic authentication over http, unlike a real shop.

    See docs/design/fake-platforms.md#services.
    """
    pair = (platforms.state.keys.consumer_key, platforms.state.keys.consumer_secret)
    response = await outside.get("http://shop.example/wp-json/wc/v3/products", auth=pair)
    assert response.status_code == 200


@pytest.mark.parametrize(("size", "status"), [(1, 200), (100, 200), (101, 400), (0, 400)])
async def test_a_page_holds_one_to_a_hundred(shop: httpx.AsyncClient, size: int, status: int) -> None:
    """Accepts 1 to 100 items a page and answers `rest_invalid_param` to others.

    See docs/design/fake-platforms.md#services.
    """
    response = await shop.get("products", params={"per_page": size})
    assert response.status_code == status
    if status == 400:
        assert response.json()["code"] == "rest_invalid_param"
        assert list(response.json()["data"]["params"]) == ["per_page"]
    else:
        assert len(response.json()) == min(size, 50)
        assert response.headers["x-wp-total"] == "50"


async def test_a_batch_of_a_hundred_is_done_and_one_more_does_nothing(
    shop: httpx.AsyncClient, platforms: FakePlatforms
) -> None:
    """Answers 413 to a batch of 101 items and writes nothing. See docs/design/fake-platforms.md#services."""
    item = {"id": (await _first(shop))["id"], "regular_price": "3.00"}
    over = await shop.post("products/batch", json={"update": [item] * 101})
    assert over.status_code == 413
    assert over.json()["code"] == "woocommerce_rest_request_entity_too_large"
    assert (await _first(shop))["regular_price"] != "3.00"
    done = await shop.post("products/batch", json={"update": [item] * 100})
    assert len(done.json()["update"]) == 100
    assert [row["applied"] for row in platforms.state.ledger.writes()] == [False, True]


async def test_a_failing_item_of_a_batch_fails_alone_and_in_its_place(shop: httpx.AsyncClient) -> None:
    """Answers 200 with an error in the place of the failing item, and writes the others.

    See docs/design/fake-platforms.md#services.
    """
    product = await _first(shop)
    items = [{"id": 999_999, "regular_price": "1.00"}, {"id": product["id"], "regular_price": "1.25"}]
    response = (await shop.post("products/batch", json={"update": items})).json()["update"]
    assert response[0]["error"]["code"] == "woocommerce_rest_product_invalid_id"
    assert response[1]["regular_price"] == "1.25"


async def test_fields_on_a_batch_empty_the_response_though_all_is_written(shop: httpx.AsyncClient) -> None:
    """Answers an empty list to a batch with `_fields`, as recorded, and writes the prices."""
    product = await _first(shop)
    body = {"update": [{"id": product["id"], "regular_price": "1.75"}]}
    assert (await shop.post("products/batch", params={"_fields": "id"}, json=body)).json() == []
    assert (await _first(shop))["regular_price"] == "1.75"


@pytest.mark.parametrize(("sent", "stored"), [("abc", ""), ("-3", "-3"), ("", ""), ("7.10", "7.10")])
async def test_a_price_is_stored_with_200_whatever_it_is(
    shop: httpx.AsyncClient, sent: str, stored: str
) -> None:
    """Stores a price that is not a number as an empty text. See docs/design/fake-platforms.md#services."""
    product = await _first(shop)
    response = await shop.put(f"products/{product['id']}", json={"regular_price": sent})
    assert (response.status_code, response.json()["regular_price"]) == (200, stored)


async def test_a_price_sent_as_a_number_is_refused(shop: httpx.AsyncClient) -> None:
    """Refuses a price that is a JSON number with `rest_invalid_param` and its field, as recorded."""
    product = await _first(shop)
    response = await shop.put(f"products/{product['id']}", json={"regular_price": 7.1})
    assert (response.status_code, response.json()["code"]) == (400, "rest_invalid_param")
    assert response.json()["data"]["params"] == {"regular_price": "regular_price is not of type string."}


@pytest.mark.parametrize("sent", ["1.2.3", "-", ".", "1-2", "--4"])
async def test_a_price_is_stored_as_a_number_or_as_nothing(shop: httpx.AsyncClient, sent: str) -> None:
    """Stores odd prices as a number or as nothing, so that sorting by price works.

    See docs/design/fake-platforms.md#services.
    """
    product = await _first(shop)
    stored = (await shop.put(f"products/{product['id']}", json={"regular_price": sent})).json()[
        "regular_price"
    ]
    assert stored == "" or float(stored)
    assert (await shop.get("products", params={"orderby": "price"})).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("products/1", {"name": "New", "tags": [{"id": "x"}]}),
        ("products/1", {"name": "New", "images": [{"src": 5}]}),
        ("products/1", {"name": "New", "dimensions": {"length": 5}}),
        ("orders", {"line_items": [{"product_id": 1, "quantity": "two"}]}),
        ("customers/1", {"first_name": "New", "billing": {"city": 5}}),
    ],
)
async def test_a_wrong_part_of_an_object_refuses_the_whole_write(
    shop: httpx.AsyncClient, outside: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    """Refuses the whole write with `rest_invalid_param` and changes nothing.

    See docs/design/fake-platforms.md#services.
    """
    before = (await outside.get("/sandbox/state")).json()
    response = await shop.post(path, json=body)
    assert (response.status_code, response.json()["code"]) == (400, "rest_invalid_param")
    assert (await outside.get("/sandbox/state")).json() == before


async def test_a_sale_price_not_below_the_regular_one_is_dropped_without_a_word(
    shop: httpx.AsyncClient,
) -> None:
    """Drops a sale price that is not below the regular one, as recorded."""
    product = await _first(shop)
    await shop.put(f"products/{product['id']}", json={"regular_price": "10.00", "sale_price": "9.99"})
    assert (await _first(shop))["price"] == "9.99"
    response = await shop.put(f"products/{product['id']}", json={"sale_price": "10.00"})
    assert response.status_code == 200
    assert (response.json()["sale_price"], response.json()["price"]) == ("", "10.00")


async def test_a_taken_sku_and_a_taken_tag_are_refused_naming_the_holder(shop: httpx.AsyncClient) -> None:
    """Names the product or tag that has the SKU or name already.

    See docs/design/fake-platforms.md#services.
    """
    product = await _first(shop)
    sku = await shop.post("products", json={"name": "Another", "sku": product["sku"]})
    assert (sku.status_code, sku.json()["code"]) == (400, "product_invalid_sku")
    assert sku.json()["data"]["resource_id"] == product["id"]
    tag = await shop.post("products/tags", json={"name": "Low"})
    again = await shop.post("products/tags", json={"name": "LOW"})
    assert (again.status_code, again.json()["code"]) == (400, "term_exists")
    assert again.json()["data"]["resource_id"] == tag.json()["id"]


async def test_idempotency_keys_mean_nothing_to_the_shop(shop: httpx.AsyncClient) -> None:
    """Creates two orders for two requests with the same idempotency key.

    See docs/design/fake-platforms.md#services.
    """
    ids = set()
    for _ in range(2):
        response = await shop.post("orders", json={}, headers={"Idempotency-Key": "one"})
        ids.add(response.json()["id"])
    assert len(ids) == 2


async def test_a_write_that_changes_nothing_moves_the_modified_time_of_products(
    shop: httpx.AsyncClient, clock: FakeClock
) -> None:
    """Changes the modified time of a product even when the written price is the same.

    See docs/design/connectors.md#woocommerce.
    """
    product = await _first(shop)
    await clock.advance(5)
    response = await shop.put(f"products/{product['id']}", json={"regular_price": product["regular_price"]})
    assert response.json()["date_modified_gmt"] == clock.now().strftime("%Y-%m-%dT%H:%M:%S")


@pytest.mark.parametrize("own_tables", [False, True])
async def test_metadata_alone_moves_an_orders_modified_time_only_in_tables_of_its_own(
    shop: httpx.AsyncClient, platforms: FakePlatforms, clock: FakeClock, own_tables: bool
) -> None:
    """Changes an order's modified time for metadata alone only when orders have their own tables.

    See docs/design/connectors.md#woocommerce.
    """
    platforms.state.shop.orders_in_own_tables = own_tables
    order = (await shop.get("orders")).json()[0]
    await clock.advance(5)
    body = {"meta_data": [{"key": "steward_tags", "value": ["x"]}]}
    response = (await shop.put(f"orders/{order['id']}", json=body)).json()
    assert (response["date_modified_gmt"] != order["date_modified_gmt"]) is own_tables


async def test_modified_after_is_local_time_unless_said_otherwise(
    shop: httpx.AsyncClient, clock: FakeClock
) -> None:
    """Reads `modified_after` as the shop's local time, unless `dates_are_gmt` is set.

    See docs/design/connectors.md#woocommerce.
    """
    product = await _first(shop)
    await shop.put(f"products/{product['id']}", json={"regular_price": "2.00"})

    async def modified_after(after: timedelta, **query: str) -> list[int]:
        text = (clock.now() + after).strftime("%Y-%m-%dT%H:%M:%S")
        rows = (await shop.get("products", params={"modified_after": text, **query})).json()
        return [row["id"] for row in rows]

    minute = timedelta(minutes=1)
    assert await modified_after(-minute, dates_are_gmt="true") == [product["id"]]
    assert await modified_after(minute, dates_are_gmt="true") == []
    assert await modified_after(timedelta(hours=2) - minute) == [product["id"]]
    assert await modified_after(timedelta(hours=2) + minute) == []


async def test_stock_taken_by_an_order_is_given_back_once(shop: httpx.AsyncClient) -> None:
    """Returns the stock of a cancelled order once, also when it is cancelled again.

    See docs/design/connectors.md#woocommerce.
    """
    product = await _first(shop, stock_status="instock", type="simple")
    number, stock = product["id"], product["stock_quantity"]
    body = {"status": "processing", "line_items": [{"product_id": number, "quantity": 1}]}
    order = (await shop.post("orders", json=body)).json()

    async def quantity() -> int:
        return int((await shop.get(f"products/{number}")).json()["stock_quantity"])

    assert await quantity() == stock - 1
    for _ in range(2):
        await shop.put(f"orders/{order['id']}", json={"status": "cancelled"})
        assert await quantity() == stock


async def test_stock_of_a_variation_managed_by_its_parent_says_so(shop: httpx.AsyncClient) -> None:
    """Answers `parent` in `manage_stock`, and the parent's number.

    See docs/design/connectors.md#common-records.
    """
    parent = await _first(shop, type="variable")
    path = f"products/{parent['id']}"
    variation_id = parent["variations"][0]
    await shop.put(f"{path}/variations/{variation_id}", json={"manage_stock": False})
    await shop.put(path, json={"manage_stock": True, "stock_quantity": 17})
    variation = (await shop.get(f"{path}/variations/{variation_id}")).json()
    assert (variation["manage_stock"], variation["stock_quantity"]) == ("parent", 17)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"status": "any"}, 50),
        ({"stock_status": "outofstock"}, "stock_status"),
        ({"sku": "TEA-001,GIF-005-S,NOT-THERE"}, 2),
        ({"include": "1,2,999999"}, 2),
        ({"type": "variable"}, 10),
    ],
)
async def test_filters_leave_what_matches(
    shop: httpx.AsyncClient, query: dict[str, str], expected: int | str
) -> None:
    """Filters by status, stock, SKU of products and variations, ids and type.

    See docs/design/fake-platforms.md#services.
    """
    rows = (await shop.get("products", params={"per_page": 100, **query})).json()
    if isinstance(expected, int):
        assert len(rows) == expected
    else:
        assert rows
        assert {row[expected] for row in rows} == {query[expected]}


async def test_tags_and_categories_filter_products_and_count_them(shop: httpx.AsyncClient) -> None:
    """Counts the products of each tag and category as the filters list them.

    See docs/design/fake-platforms.md#services.
    """
    for kind, name in (("tags", "tag"), ("categories", "category")):
        for term in (await shop.get(f"products/{kind}", params={"per_page": 100})).json():
            products = await shop.get("products", params={name: term["id"]})
            assert int(products.headers["x-wp-total"]) == term["count"]


async def test_a_page_past_the_end_is_empty_and_links_lead_to_the_neighbours(
    shop: httpx.AsyncClient,
) -> None:
    """Links to the neighbouring pages, and answers an empty list past the end.

    See docs/design/connectors.md#woocommerce.
    """
    middle = await shop.get("products", params={"per_page": 20, "page": 2, "_fields": "id"})
    assert 'rel="prev"' in middle.headers["link"]
    assert 'rel="next"' in middle.headers["link"]
    assert all(list(row) == ["id"] for row in middle.json())
    past = await shop.get("products", params={"per_page": 20, "page": 4})
    assert (past.status_code, past.json()) == (200, [])


async def test_five_thousand_products_can_be_loaded_and_paged(
    shop: httpx.AsyncClient, platforms: FakePlatforms
) -> None:
    """Lists each of 5,000 products once over all pages."""
    platforms.load_products(5000)
    seen: list[int] = []
    for page in range(1, 51):
        query = {"per_page": 100, "page": page, "orderby": "id", "order": "asc", "_fields": "id,sku"}
        response = await shop.get("products", params=query)
        assert response.headers["x-wp-total"] == "5000"
        seen += [row["id"] for row in response.json()]
    assert len(set(seen)) == 5000
    assert seen == sorted(seen)
    assert len(platforms.state.shop.variations) == 1500
