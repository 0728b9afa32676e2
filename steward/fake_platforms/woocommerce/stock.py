"""Prices and stock of products and variations: fields that are derived from written ones."""

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce.shop import FakeShop, price_html, price_text


def number(text: str) -> float | None:
    """Returns a stored price as a number, or null."""
    try:
        return float(text)
    except ValueError:
        return None


def set_prices(row: Row, values: Row) -> None:
    """Sets regular and sale price; drops a sale price that is not lower."""
    if row["type"] == "variable":
        return
    for name in ("regular_price", "sale_price"):
        if name in values:
            row[name] = price_text(values[name])
    regular, sale = number(row["regular_price"]), number(row["sale_price"])
    if sale is not None and (regular is None or sale >= regular):
        row["sale_price"] = ""


def _derive_price(row: Row, *, today: str) -> None:
    """Sets price, on_sale and purchasable from the regular and the sale price."""
    starts, ends = row["date_on_sale_from_gmt"], row["date_on_sale_to_gmt"]
    within = (not starts or starts <= today) and (not ends or ends >= today)
    row["on_sale"] = row["sale_price"] != "" and within
    row["price"] = row["sale_price"] if row["on_sale"] else row["regular_price"]
    row["purchasable"] = row["price"] != ""


def set_stock(row: Row, values: Row) -> None:
    """Sets the stock fields; a quantity only counts if stock is managed, and then takes precedence."""
    if "manage_stock" in values:
        row["manage_stock"] = values["manage_stock"] is True
    if "backorders" in values:
        row["backorders"] = values["backorders"]
    if "low_stock_amount" in values:
        row["low_stock_amount"] = values["low_stock_amount"]
    if row["manage_stock"]:
        row["stock_quantity"] = values.get("stock_quantity", row["stock_quantity"]) or 0
    else:
        row |= {"stock_quantity": None, "low_stock_amount": None, "backorders": "no"}
        row["stock_status"] = values.get("stock_status", row["stock_status"])
    derive_stock(row)


def derive_stock(row: Row) -> None:
    """Sets stock_status and the backorder flags from the quantity."""
    row["backorders_allowed"] = row["backorders"] != "no"
    if row["manage_stock"]:
        is_available = (row["stock_quantity"] or 0) > 0
        short = "onbackorder" if row["backorders_allowed"] else "outofstock"
        row["stock_status"] = "instock" if is_available else short
    quantity = row["stock_quantity"] or 0
    row["backordered"] = row["backorders_allowed"] and row["manage_stock"] and quantity < 0


def _derive_parent(shop: FakeShop, parent: Row) -> None:
    """Sets a variable product's prices and stock status from its published variations."""
    rows = [shop.variations[variation_id] for variation_id in parent["variations"]]
    live = [row for row in rows if row["status"] == "publish"]
    prices = _sorted_prices(live)
    parent["price"] = prices[0] if prices else ""
    parent["regular_price"] = parent["sale_price"] = ""
    parent["on_sale"] = any(row["on_sale"] for row in live)
    parent["purchasable"] = True
    parent["has_options"] = True
    if not parent["manage_stock"] and live:
        parent["stock_status"] = _best_status(live)
    parent["price_html"] = _price_range_html(prices)


def _best_status(rows: list[Row]) -> str:
    states = {row["stock_status"] for row in rows}
    return next((status for status in ("instock", "onbackorder") if status in states), "outofstock")


def _price_range_html(prices: list[str]) -> str:
    """Returns the lowest and highest of sorted prices in the form of the shop's pages."""
    if not prices or prices[0] == prices[-1]:
        return price_html(prices[0] if prices else "")
    low, high = price_html(prices[0], hidden=True), price_html(prices[-1], hidden=True)
    return f'{low} <span aria-hidden="true">&ndash;</span> {high}'


def _sorted_prices(rows: list[Row]) -> list[str]:
    """Returns the numeric prices as written, lowest first."""
    priced = [(amount, row["price"]) for row in rows if (amount := number(row["price"])) is not None]
    return [price for _, price in sorted(priced)]


def derive(shop: FakeShop, row: Row) -> None:
    """Sets every derived field after a write of a product or a variation."""
    derive_stock(row)
    if row["type"] == "variable":
        _derive_parent(shop, row)
        return
    _derive_price(row, today=shop.stamp()[1])
    if "price_html" in row:
        row["price_html"] = price_html(row["price"])


def move_stock(shop: FakeShop, row: Row, by: int) -> bool:
    """Adds `by` to the stock for an order; returns False if stock is not managed."""
    holder = row
    if not row["manage_stock"] and row["type"] == "variation":
        holder = shop.products[row["parent_id"]]
    if not holder["manage_stock"]:
        return False
    before = dict(holder)
    holder["stock_quantity"] = (holder["stock_quantity"] or 0) + by
    derive_stock(holder)
    shop.mark_modified(holder)
    kind = "variation" if holder["type"] == "variation" else "product"
    shop.record_change(kind, holder["id"], before, holder, ("stock_quantity", "stock_status"))
    shop.record_event("product.updated", holder["id"])
    return True
