"""Prepares the fake shop and spreadsheet for a browser test: its own products under its own tag."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from tests.web.site import WebSite

SHOP = "/wp-json/wc/v3"
AT_ONCE = 100
_NUMBERS = itertools.count(1)


def _keys(web: WebSite) -> tuple[str, str]:
    shop = web.site.sandbox.facts["woocommerce"]
    return shop["consumer_key"], shop["consumer_secret"]


async def _batch(web: WebSite, path: str, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for index in range(0, len(items), AT_ONCE):
        part = list(items[index : index + AT_ONCE])
        response = await web.site.world.post(f"{SHOP}/{path}/batch", json={"create": part}, auth=_keys(web))
        assert response.status_code == 200, response.text
        records += response.json()["create"]
    assert all("error" not in record for record in records), [entry for entry in records if "error" in entry][
        :3
    ]
    return records


async def create_sold_out_products(web: WebSite, names: Sequence[str]) -> tuple[str, list[str]]:
    """Creates sold-out products with one new tag; returns the tag and the products' ids."""
    tag = f"only-{next(_NUMBERS)}"
    [stored] = await _batch(web, "products/tags", [{"name": tag}])
    items = [
        {
            "name": name,
            "sku": f"{tag}-{number}",
            "manage_stock": True,
            "stock_quantity": 0,
            "status": "publish",
            "tags": [{"id": stored["id"]}],
        }
        for number, name in enumerate(names)
    ]
    return tag, [str(record["id"]) for record in await _batch(web, "products", items)]


async def hiding(web: WebSite, name: str, products: Sequence[str], **changes: Any) -> dict[str, Any]:
    """Creates an automation that hides only these products; its `ids` are theirs."""
    tag, ids = await create_sold_out_products(web, products)
    inputs = {"products": {"tags_any": [tag]}, "limit": 5000}
    body = {"inputs": inputs, "schedule": {"cadence": "manual"}, **changes}
    return {**await web.automation(name, **body), "ids": ids}


async def set_visibility(web: WebSite, product: str, visibility: str) -> None:
    """Sets where the shop shows a product, as somebody else would."""
    path, body = f"{SHOP}/products/{product}", {"catalog_visibility": visibility}
    response = await web.site.world.put(path, json=body, auth=_keys(web))
    assert response.status_code == 200, response.text


async def hidden_products(web: WebSite) -> set[str]:
    """Returns the ids of the products that the shop hides."""
    state = (await web.site.world.get("/sandbox/state")).json()
    return {str(product["id"]) for product in state["products"] if product["catalog_visibility"] == "hidden"}


async def sheet(web: WebSite, spreadsheet: str) -> int:
    """Returns the connection to a fake spreadsheet; creates it at the first call."""
    owner = await web.session_of("owner")
    name = f"Sheet {spreadsheet}"
    there = (await owner.call("GET", "/app/connections?limit=200"))["connections"]
    integration_ids: list[int] = [item["integration_id"] for item in there if item["name"] == name]
    if integration_ids:
        return integration_ids[0]
    account = web.site.sandbox.facts["spreadsheet"]["service_account"]
    settings = {"service_account": account, "spreadsheet_id": spreadsheet}
    body = {"kind": "spreadsheet", "name": name, "settings": settings}
    number: int = (await owner.call("POST", "/app/connections", body))["connection"]["integration_id"]
    return number


async def pricing(web: WebSite, name: str) -> dict[str, Any]:
    """Creates an automation that takes ten different prices from the fake spreadsheet."""
    new_sheet = await sheet(web, "sheet-prices")
    inputs = {
        "sheet": {"integration_id": new_sheet, "tab": "Prices"},
        "sku_column": "SKU",
        "price_column": "Price",
    }
    return await web.automation(
        name,
        template_id="price-update-from-spreadsheet",
        inputs=inputs,
        schedule={"cadence": "manual"},
    )


async def order_statuses(web: WebSite) -> dict[str, str]:
    """Returns the status of each order by its id."""
    state = (await web.site.world.get("/sandbox/state")).json()
    return {str(order["id"]): order["status"] for order in state["orders"]}


async def set_order_status(web: WebSite, order: str, status: str) -> None:
    """Sets the status of an order, as somebody else would."""
    response = await web.site.world.put(f"{SHOP}/orders/{order}", json={"status": status}, auth=_keys(web))
    assert response.status_code == 200, response.text


async def written(web: WebSite) -> int:
    """Counts the writes to the shop, except webhooks, which follow other tests' automations."""
    return len([entry for entry in await web.site.ledger() if "/webhooks" not in entry["path"]])
