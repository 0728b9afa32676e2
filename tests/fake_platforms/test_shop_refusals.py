"""Tests answers to unknown objects and parents, null values and wrong addresses.

The codes and statuses are those of WooCommerce 11's own controllers.
"""

from typing import Any

import httpx
import pytest

from steward.fake_platforms.application import FakePlatforms

pytestmark = pytest.mark.anyio

_UNKNOWN = 999_999


async def _status_and_code(response: httpx.Response) -> tuple[int, Any]:
    body = response.json()
    return response.status_code, body.get("code") if isinstance(body, dict) else body


async def _first_product(shop: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    rows = (await shop.get("products", params={"orderby": "id", "order": "asc", **query})).json()
    return dict(rows[0])


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "products/{}/variations", None, (200, [])),
        ("POST", "products/{}/variations", {"sku": "X"}, (500, "internal_server_error")),
        (
            *("POST", "products/{}/variations", {"attributes": [{"name": "Size", "option": "S"}]}),
            (404, "woocommerce_rest_product_variation_invalid_parent"),
        ),
        ("PUT", "products/{}/variations/1", {}, (404, "woocommerce_rest_product_variation_invalid_id")),
        ("GET", "orders/{}/notes", None, (404, "woocommerce_rest_shop_order_invalid_id")),
        ("POST", "orders/{}/notes", {"note": "n"}, (404, "woocommerce_rest_order_invalid_id")),
        ("GET", "orders/{}/notes/1", None, (404, "woocommerce_rest_order_invalid_id")),
        ("GET", "orders/{}/refunds", None, (200, [])),
        ("POST", "orders/{}/refunds", {"amount": "1.00"}, (500, "woocommerce_rest_invalid_order_id")),
        ("GET", "customers/{}", None, (404, "wc_user_invalid_id")),
        ("PUT", "customers/{}", {"first_name": "A"}, (404, "wc_user_invalid_id")),
        ("DELETE", "customers/{}", None, (404, "wc_user_invalid_id")),
        ("DELETE", "webhooks/{}", None, (501, "woocommerce_rest_trash_not_supported")),
    ],
)
async def test_an_unknown_parent_filters_lists_and_fails_other_requests(
    shop: httpx.AsyncClient, method: str, path: str, body: Any, expected: tuple[int, Any]
) -> None:
    """Takes the parent for a filter in lists, and answers other requests with WooCommerce's error codes."""
    response = await shop.request(method, path.format(_UNKNOWN), json=body)
    assert await _status_and_code(response) == expected


async def test_a_note_and_a_refund_of_another_order(shop: httpx.AsyncClient) -> None:
    """Answers 404 to an unknown note, and 500 to a refund of another order or a negative amount."""
    lines = [{"product_id": (await _first_product(shop))["id"], "quantity": 1}]
    first, other = [(await shop.post("orders", json={"line_items": lines})).json()["id"] for _ in range(2)]
    unknown = await shop.get(f"orders/{first}/notes/{_UNKNOWN}")
    assert await _status_and_code(unknown) == (404, "woocommerce_rest_invalid_id")
    refund = (await shop.post(f"orders/{first}/refunds", json={"amount": "0.10"})).json()["id"]
    wrong = await shop.get(f"orders/{other}/refunds/{refund}")
    assert await _status_and_code(wrong) == (500, "woocommerce_rest_invalid_order_refund_id")
    assert (await shop.get(f"orders/{first}/refunds/{refund}")).status_code == 200
    less = await shop.post(f"orders/{first}/refunds", json={"amount": "-1.00"})
    assert await _status_and_code(less) == (500, "woocommerce_rest_invalid_order_refund")


@pytest.mark.parametrize(
    ("fields", "stored"),
    [
        ({"regular_price": None}, {"regular_price": "", "price": ""}),
        ({"stock_quantity": None}, {"stock_quantity": 0, "stock_status": "outofstock"}),
        ({"low_stock_amount": None}, {"low_stock_amount": None}),
        ({"manage_stock": None}, {"manage_stock": False, "stock_quantity": None}),
        ({"status": None}, {"status": "draft"}),
        ({"tags": None}, {"tags": []}),
        ({"name": None}, {"name": ""}),
    ],
)
async def test_null_is_cast_and_not_refused(
    shop: httpx.AsyncClient, fields: dict[str, Any], stored: dict[str, Any]
) -> None:
    """Casts null to the argument's type in a single write, and ignores it in a batch."""
    number = (await _first_product(shop, type="simple"))["id"]
    await shop.put(f"products/{number}", json={"manage_stock": True, "stock_quantity": 4})
    before = (await shop.get(f"products/{number}")).json()
    batch = await shop.post("products/batch", json={"update": [{"id": number, **fields}]})
    assert {name: batch.json()["update"][0][name] for name in stored} == {
        name: before[name] for name in stored
    }
    response = await shop.put(f"products/{number}", json=fields)
    assert response.status_code == 200
    assert {name: response.json()[name] for name in stored} == stored


async def test_null_of_a_sale_date_is_left_out_and_an_empty_text_takes_it_away(
    shop: httpx.AsyncClient,
) -> None:
    """Ignores null for a sale date; an empty text removes the date."""
    number = (await _first_product(shop, type="simple"))["id"]
    await shop.put(f"products/{number}", json={"date_on_sale_to": "2030-01-02T00:00:00"})
    unchanged = await shop.put(f"products/{number}", json={"date_on_sale_to": None})
    assert unchanged.json()["date_on_sale_to"] == "2030-01-02T00:00:00"
    gone = await shop.put(f"products/{number}", json={"date_on_sale_to": ""})
    assert gone.json()["date_on_sale_to"] is None


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"email": "Taken@example.com"}, "registration-error-email-exists"),
        ({"email": "nobody"}, "registration-error-invalid-email"),
        ({"email": ""}, "registration-error-invalid-email"),
        ({"email": "other@example.com", "username": "TAKEN"}, "registration-error-username-exists"),
        ({"email": None}, "rest_missing_callback_param"),
    ],
)
async def test_an_account_that_cannot_be_made(
    shop: httpx.AsyncClient, fields: dict[str, Any], code: str
) -> None:
    """Refuses the account with the registration's code, alone and in a batch."""
    response = await shop.post("customers", json={"email": "taken@example.com", "username": "taken"})
    assert response.status_code == 201
    assert await _status_and_code(await shop.post("customers", json=fields)) == (400, code)
    if code.startswith("registration"):
        batch = (await shop.post("customers/batch", json={"create": [fields]})).json()["create"]
        assert (batch[0]["id"], batch[0]["error"]["code"]) == (0, code)


async def test_usernames_are_made_unlike_each_other_and_are_not_changed(shop: httpx.AsyncClient) -> None:
    """Derives unique usernames from the address, or its domain for common names, and refuses changes."""
    addresses = ("ann@a.example", "ann@b.example", "info@shop.example")
    customers = [(await shop.post("customers", json={"email": address})).json() for address in addresses]
    names = [customer["username"] for customer in customers]
    assert len(set(names)) == 3
    assert names[2] == "shop-example"
    response = await shop.put(f"customers/{customers[0]['id']}", json={"username": "else"})
    assert await _status_and_code(response) == (400, "woocommerce_rest_customer_invalid_argument")


@pytest.mark.parametrize("product", [{"product_id": _UNKNOWN}, {"product_id": "abc"}, {"sku": "NOT-THERE"}])
async def test_a_line_for_an_unknown_product_is_made_empty(
    shop: httpx.AsyncClient, product: dict[str, Any]
) -> None:
    """Makes a line for an unknown product with an empty name, and refuses a line that names no product."""
    response = await shop.post("orders", json={"line_items": [{**product, "quantity": 2}]})
    assert response.status_code == 201
    [line] = response.json()["line_items"]
    assert (line["name"], line["product_id"], line["quantity"], line["total"]) == ("", 0, 2, "0.00")
    assert line["sku"] is None
    nothing = await shop.post("orders", json={"line_items": [{"quantity": 2}]})
    assert await _status_and_code(nothing) == (400, "woocommerce_rest_required_product_reference")


async def test_a_cancelled_order_that_is_taken_up_again_takes_its_stock_again(
    shop: httpx.AsyncClient,
) -> None:
    """Takes the stock again when a cancelled order is reopened.

    An order without items is paid only once completed.
    """
    product = await _first_product(shop, stock_status="instock", type="simple")
    lines = [{"product_id": product["id"], "quantity": 1}]
    order = (await shop.post("orders", json={"status": "processing", "line_items": lines})).json()
    for status, reduction in (("cancelled", 0), ("processing", 1), ("cancelled", 0), ("on-hold", 1)):
        response = await shop.put(f"orders/{order['id']}", json={"status": status})
        assert response.json()["status"] == status
        now = (await shop.get(f"products/{product['id']}")).json()["stock_quantity"]
        assert now == product["stock_quantity"] - reduction
    empty = (await shop.post("orders", json={"status": "cancelled"})).json()["id"]
    taken_up = await shop.put(f"orders/{empty}", json={"status": "processing"})
    assert taken_up.json()["date_paid_gmt"] is None
    completed = await shop.put(f"orders/{empty}", json={"status": "completed"})
    assert completed.json()["date_paid_gmt"] is not None


async def test_a_trashed_order_is_read_changed_and_taken_back_but_not_trashed_twice(
    shop: httpx.AsyncClient,
) -> None:
    """Reads, changes and restores a trashed order. Only a batch may set the status `trash`."""
    number = (await shop.post("orders", json={"status": "processing"})).json()["id"]
    assert (await shop.delete(f"orders/{number}")).json()["status"] == "processing"
    again = await shop.delete(f"orders/{number}")
    assert await _status_and_code(again) == (410, "woocommerce_rest_already_trashed")
    noted = await shop.put(f"orders/{number}", json={"customer_note": "kept"})
    assert (noted.json()["status"], noted.json()["customer_note"]) == ("trash", "kept")
    assert number in [row["id"] for row in (await shop.get("orders", params={"status": "trash"})).json()]
    assert (await shop.put(f"orders/{number}", json={"status": "pending"})).json()["status"] == "pending"
    assert (await shop.put(f"orders/{number}", json={"status": "trash"})).status_code == 400
    batch = await shop.post("orders/batch", json={"update": [{"id": number, "status": "trash"}]})
    assert batch.json()["update"][0]["status"] == "trash"


async def test_a_trashed_product_takes_its_variations_along(shop: httpx.AsyncClient) -> None:
    """Removes the variations of a trashed product from its list and from the list of all variations."""
    parent = await _first_product(shop, type="variable")
    await shop.delete(f"products/{parent['id']}")
    assert (await shop.get(f"products/{parent['id']}/variations")).json() == []
    every = (await shop.get("variations", params={"per_page": 100})).json()
    assert not {row["id"] for row in every} & set(parent["variations"])


async def test_a_webhook_is_made_active_and_paused_only_later(shop: httpx.AsyncClient) -> None:
    """Ignores the status of a new webhook, and refuses an unknown status in a later change."""
    webhook = {"topic": "order.updated", "delivery_url": "https://steward.example/x", "status": "paused"}
    new_webhook = (await shop.post("webhooks", json=webhook)).json()
    assert new_webhook["status"] == "active"
    paused = await shop.put(f"webhooks/{new_webhook['id']}", json={"status": "paused"})
    assert paused.json()["status"] == "paused"
    unchanged = await shop.put(
        f"webhooks/{new_webhook['id']}", json={"status": None, "topic": "", "delivery_url": ""}
    )
    assert (unchanged.json()["status"], unchanged.json()["topic"]) == ("paused", "order.updated")
    batch = await shop.post("webhooks/batch", json={"update": [{"id": new_webhook["id"], "status": "on"}]})
    code = batch.json()["update"][0]["error"]["code"]
    assert code == "woocommerce_rest_shop_webhook_invalid_status"


@pytest.mark.parametrize("path", ["/shop/wp-json/wc/v3/products", "/wc/v3/products", "/nothing"])
async def test_a_wrong_base_path_returns_a_page(outside: httpx.AsyncClient, path: str) -> None:
    """Answers a path that no route of the site has with an HTML page."""
    response = await outside.get(path)
    assert response.status_code == 404
    assert response.headers["content-type"].startswith("text/html")


async def test_the_address_forms_of_a_site(outside: httpx.AsyncClient, platforms: FakePlatforms) -> None:
    """Serves the paths below index.php too.

    With plain permalinks only the query selects a route, without a key.
    """
    keys = platforms.state.keys
    pair = (keys.consumer_key, keys.consumer_secret)
    assert (await outside.get("/index.php/wp-json/wc/v3/products", auth=pair)).status_code == 200
    index = await outside.get("/", params={"rest_route": "/"})
    assert "wc/v3" in index.json()["namespaces"]
    unknown = await outside.get("/", params={"rest_route": "/wc/v3/nothing"})
    assert await _status_and_code(unknown) == (404, "rest_no_route")
    platforms.state.shop.plain_permalinks = True
    assert (await outside.get("/wp-json/")).headers["content-type"].startswith("text/html")
    listing = await outside.get("/", params={"rest_route": "/wc/v3/products"}, auth=pair)
    assert await _status_and_code(listing) == (401, "woocommerce_rest_cannot_view")


async def test_an_unknown_object_is_unknown_to_everybody(outside: httpx.AsyncClient) -> None:
    """Answers 404 to an unknown object before it checks the key; a list is refused."""
    path = "/wp-json/wc/v3/products"
    unknown = await outside.get(f"{path}/{_UNKNOWN}")
    assert await _status_and_code(unknown) == (404, "woocommerce_rest_product_invalid_id")
    assert await _status_and_code(await outside.get(f"{path}/1")) == (401, "woocommerce_rest_cannot_view")
    assert await _status_and_code(await outside.get(path)) == (401, "woocommerce_rest_cannot_view")


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("Tom & Jerry", "Tom &amp; Jerry"),
        ("Tom &amp; Jerry", "Tom &amp; Jerry"),
        ("A < B", "A &lt; B"),
        ("5 > 3", "5 &gt; 3"),
        ("<b>Neu</b>", "Neu"),
        ("<script>x</script>y", "y"),
        (" two   blanks\n", "two blanks"),
        ("50%ab", "50"),
        ("&lt;b&gt;", "&lt;b&gt;"),
    ],
)
async def test_a_terms_name_is_kept_as_wordpress_keeps_it(
    shop: httpx.AsyncClient, sent: str, stored: str
) -> None:
    """Removes markup, joins blanks and stores entities in a term's name, and refuses its duplicate."""
    response = await shop.post("products/tags", json={"name": sent})
    assert response.json()["name"] == stored
    again = await shop.post("products/tags", json={"name": sent})
    assert await _status_and_code(again) == (400, "term_exists")
    product = await _first_product(shop)
    tagged = await shop.put(f"products/{product['id']}", json={"tags": [{"name": sent}]})
    assert [tag["id"] for tag in tagged.json()["tags"]] == [response.json()["id"]]


async def test_a_term_of_nothing_is_refused_and_four_bytes_may_be_left_out(
    shop: httpx.AsyncClient, platforms: FakePlatforms
) -> None:
    """Refuses a name that is empty after cleaning, and drops four-byte characters if the shop stores none."""
    assert await _status_and_code(await shop.post("products/tags", json={"name": "<b></b>"})) == (
        400,
        "empty_term_name",
    )
    platforms.state.shop.holds_four_bytes = False
    response = await shop.post("products/tags", json={"name": "Hot \N{FIRE}"})
    assert response.json()["name"] == "Hot"
