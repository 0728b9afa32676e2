"""Tests the control surface: description, ledger, reset, seeds, seeded data and the page.

See docs/design/fake-platforms.md#process.
"""

import hashlib
from typing import Any

import httpx
import pytest

from steward.fake_platforms import application
from steward.fake_platforms.application import FakePlatforms
from tests.fake_clock import FakeClock

pytestmark = pytest.mark.anyio


async def _state(outside: httpx.AsyncClient) -> dict[str, Any]:
    return dict((await outside.get("/sandbox/state")).json())


async def test_the_fake_platforms_list_all_that_a_connection_needs(
    outside: httpx.AsyncClient, platforms: FakePlatforms
) -> None:
    """Returns address, seed and the credentials of every service.

    See docs/design/fake-platforms.md#control.
    """
    described = (await outside.get("/sandbox")).json()
    assert described == platforms.described()
    assert list(described) == [
        "url",
        "seed",
        "woocommerce",
        "spreadsheet",
        "teams",
        "slack",
        "webhook",
        "cloud_s3",
    ]
    assert set(described["woocommerce"]) == {
        "url",
        "consumer_key",
        "consumer_secret",
        "read_only_key",
        "read_only_secret",
    }
    assert described["spreadsheet"]["spreadsheet_ids"] == ["sheet-prices", "sheet-log"]
    assert described["spreadsheet"]["sheets_url"] == "https://shop.example/sheets"
    assert described["cloud_s3"]["bucket"] == "supplier"


async def test_the_seeded_shop_is_as_large_as_promised(outside: httpx.AsyncClient) -> None:
    """Seeds 50 products, 10 of them with 3 variations each, 40 orders and 20 customers.

    See docs/design/fake-platforms.md#services.
    """
    state = await _state(outside)
    variable = [row for row in state["products"] if row["type"] == "variable"]
    assert (len(state["products"]), len(variable)) == (50, 10)
    assert {len(row["variations"]) for row in variable} == {3}
    assert {row["parent_id"] for row in state["variations"]} == {row["id"] for row in variable}
    assert (len(state["orders"]), len(state["customers"]), state["webhooks"]) == (40, 20, [])
    assert any(row["tags"] for row in state["products"])
    skus = [row["sku"] for row in (*state["products"], *state["variations"])]
    assert len(set(skus)) == len(skus)


@pytest.mark.parametrize("seed", range(1, 21))
async def test_the_price_sheet_has_the_promised_rows_for_every_seed(seed: int, clock: FakeClock) -> None:
    """Has 10 other prices within 20 %, 8 equal ones, one unknown SKU and one empty price, for every seed.

    See docs/design/fake-platforms.md#services.
    """
    platforms = application.create(seed, "https://shop.example", clock.now)
    shop, book = platforms.state.shop, platforms.state.google.books["sheet-prices"]
    head, *rows = book.tab("Prices").values()
    assert (head, len(rows)) == (["SKU", "Price"], 20)
    counts = {"other": 0, "equal": 0, "unknown": 0, "empty": 0}
    for row in rows:
        products = list(shop.with_sku(row[0]))
        if not products:
            counts["unknown"] += 1
        elif len(row) == 1:
            counts["empty"] += 1
        else:
            price = float(products[0]["price"])
            counts["equal" if price == row[1] else "other"] += 1
            assert abs(row[1] - price) <= price * 0.2 + 1e-9
    assert counts == {"other": 10, "equal": 8, "unknown": 1, "empty": 1}
    lines = platforms.state.store.buckets["supplier"]["stock.csv"].content.decode().splitlines()
    known_lines = [line for line in lines[1:] if list(shop.with_sku(line.partition(",")[0]))]
    assert (len(lines), len(known_lines)) == (41, 38)


async def test_equal_seeds_give_equal_worlds_and_others_do_not(clock: FakeClock) -> None:
    """Gives the same data and keys for the same seed, and others for another seed.

    See docs/design/fake-platforms.md#process.
    """

    async def whole(seed: int) -> tuple[Any, Any]:
        platforms = application.create(seed, "https://shop.example", clock.now)
        transport = platforms.transport()
        async with httpx.AsyncClient(transport=transport, base_url="https://shop.example") as client:
            return (await client.get("/sandbox")).json(), await _state(client)

    first, again, other = await whole(1), await whole(1), await whole(2)
    assert first == again
    assert first[0]["woocommerce"]["consumer_key"] != other[0]["woocommerce"]["consumer_key"]
    assert first[1]["products"] != other[1]["products"]


async def test_a_reset_brings_back_the_start_with_the_keys_of_the_seed(
    shop: httpx.AsyncClient, outside: httpx.AsyncClient, platforms: FakePlatforms, clock: FakeClock
) -> None:
    """Restores data, ledger, faults, inboxes and webhooks, or starts with another seed.

    A wrong seed is 400. See docs/design/fake-platforms.md#control.
    """
    before, described = await _state(outside), platforms.described()
    await shop.post("products", json={"name": "New"})
    await shop.post("webhooks", json={"topic": "order.created", "delivery_url": "https://x.example/"})
    await outside.post("/sandbox/faults", json={"kind": "status", "status": 500})
    await outside.post(described["teams"]["webhook_url"], json={"type": "message", "text": "hello"})
    await clock.advance(3600)
    assert (await outside.post("/sandbox/reset")).json() == {"seed": 1}
    assert await _state(outside) == before
    ledger = (await outside.get("/sandbox/ledger", params={"reads": 1})).json()
    assert ledger == {"entries": [], "last_seq": 0, "writes_total": 0, "reads_total": 0}
    assert (await outside.get("/sandbox/faults")).json() == {"faults": []}
    assert (await outside.get("/sandbox/teams/ops")).json() == {"messages": []}
    assert (await outside.post("/sandbox/reset", json={"seed": 2})).json() == {"seed": 2}
    assert (await shop.get("products")).status_code == 401
    assert (await outside.post("/sandbox/reset", json={"seed": "x"})).status_code == 400


async def test_a_write_is_entered_with_what_it_changed(
    shop: httpx.AsyncClient, outside: httpx.AsyncClient, clock: FakeClock
) -> None:
    """Records a write with its key, marks, and the changed fields before and after.

    See docs/design/fake-platforms.md#control.
    """
    body = b'{"regular_price": "9.99", "meta_data": [{"key": "_steward_op", "value": "m-1"}]}'
    old = (await shop.get("products/1")).json()["regular_price"]
    headers = {"Idempotency-Key": "k-1", "Content-Type": "application/json"}
    await shop.put("products/1", params={"_fields": "id"}, content=body, headers=headers)
    (entry,) = (await outside.get("/sandbox/ledger")).json()["entries"]
    after = entry["objects"][0].pop("after")
    assert after["regular_price"] == "9.99"
    assert after["meta_data"][0]["value"] == "m-1"
    assert entry == {
        "seq": 2,
        "at": "2026-05-01T06:00:00.000Z",
        "service": "woocommerce",
        "kind": "write",
        "method": "PUT",
        "path": "/wp-json/wc/v3/products/1",
        "query": {"_fields": "id"},
        "body_sha256": hashlib.sha256(body).hexdigest(),
        "body": {"regular_price": "9.99", "meta_data": [{"key": "_steward_op", "value": "m-1"}]},
        "idempotency_key": "k-1",
        "marks": ["m-1"],
        "objects": [
            {
                "type": "product",
                "id": 1,
                "fields": ["regular_price", "meta_data"],
                "before": {"regular_price": old, "meta_data": []},
            }
        ],
        "applied": True,
        "answered": 200,
        "fault": None,
    }


async def test_stock_taken_by_an_order_stands_beside_it_in_the_entry(
    shop: httpx.AsyncClient, platforms: FakePlatforms
) -> None:
    """Records the product whose stock an order takes beside the order.

    See docs/design/fake-platforms.md#control.
    """
    product = (await shop.get("products", params={"stock_status": "instock", "type": "simple"})).json()[0]
    line = {"product_id": product["id"], "quantity": 1}
    response = await shop.post("orders", json={"status": "processing", "line_items": [line]})
    order, stock = platforms.state.ledger.writes()[0]["objects"]
    assert (order["type"], order["id"], order["before"]) == ("order", response.json()["id"], {})
    assert (stock["type"], stock["id"]) == ("product", product["id"])
    assert stock["before"]["stock_quantity"] == stock["after"]["stock_quantity"] + 1


async def test_refused_writes_are_entered_and_token_requests_are_not(
    shop: httpx.AsyncClient, outside: httpx.AsyncClient
) -> None:
    """Records refused writes as not applied, and no token requests.

    See docs/design/fake-platforms.md#control.
    """
    await shop.put("products/999999", json={"regular_price": "1.00"})
    await shop.post("products/batch", json={})
    await outside.post("/google/token", data={"grant_type": "nothing"})
    ledger = (await outside.get("/sandbox/ledger")).json()
    outcomes = [(entry["answered"], entry["applied"], entry["objects"]) for entry in ledger["entries"]]
    assert outcomes == [(400, False, []), (200, False, [])]


async def test_the_ledger_is_read_from_a_number_on_by_service_and_with_reads(
    shop: httpx.AsyncClient, outside: httpx.AsyncClient, platforms: FakePlatforms
) -> None:
    """Filters by number, service, reads and limit; the totals count every request.

    See docs/design/fake-platforms.md#control.
    """
    await shop.get("products/1")
    await shop.put("products/1", json={"regular_price": "1.00"})
    await outside.post(platforms.described()["teams"]["webhook_url"], json={"type": "message", "text": "x"})

    async def seqs(**query: Any) -> list[int]:
        response = (await outside.get("/sandbox/ledger", params=query)).json()
        assert (response["last_seq"], response["writes_total"], response["reads_total"]) == (3, 2, 1)
        return [entry["seq"] for entry in response["entries"]]

    assert await seqs() == [2, 3]
    assert await seqs(reads=1) == [1, 2, 3]
    assert await seqs(after=2) == [3]
    assert await seqs(service="teams") == [3]
    assert await seqs(limit=1) == [2]
    assert (await outside.get("/sandbox/ledger", params={"after": "x"})).status_code == 400


async def test_unknown_control_paths_return_404_with_a_message(outside: httpx.AsyncClient) -> None:
    """Answers unknown paths and methods with 404 and a message. See docs/design/fake-platforms.md#control."""
    for method, path in (("GET", "/sandbox/other"), ("DELETE", "/sandbox/faults/f9"), ("PUT", "/sandbox")):
        response = await outside.request(method, path)
        assert (response.status_code, list(response.json())) == (404, ["error"])


async def test_the_page_shows_everything_and_runs_nothing(
    shop: httpx.AsyncClient, outside: httpx.AsyncClient, platforms: FakePlatforms
) -> None:
    """Shows data, messages and faults on the page, with markup of the services escaped.

    See docs/design/fake-platforms.md#control.
    """
    await shop.put("products/1", json={"name": "<script>alert(1)</script>"})
    message = {"type": "message", "text": "<img src=x onerror=alert(1)>"}
    await outside.post(platforms.described()["teams"]["webhook_url"], json=message)
    await outside.post("/sandbox/faults", json={"kind": "status", "status": 500, "path": "/<b>"})
    page = await outside.get("/")
    assert page.headers["content-type"] == "text/html; charset=UTF-8"
    for text in ("TEA-011", "sheet-prices", "NOT-IN-SHOP", "Teams inbox", "PUT /wp-json/wc/v3/products/1"):
        assert text in page.text
    for unwanted in ("<script", "<img", "<b>"):
        assert unwanted not in page.text
