"""The seeded shop: products, tags, orders, customers; equal seeds give equal shops."""

import random
from datetime import datetime, timedelta
from functools import lru_cache

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.seed import dice
from steward.fake_platforms.woocommerce import blank, orders, stock, terms
from steward.fake_platforms.woocommerce.shop import FakeShop, slug

PRODUCTS, VARIABLE, VARIATIONS, ORDERS, CUSTOMERS = 50, 10, 3, 40, 20
_CATEGORIES = ("Tea", "Coffee", "Mugs", "Books", "Gifts")
_KINDS = ("Green Tea", "Filter Coffee", "Stoneware Mug", "Brewing Guide", "Gift Box")
_LINES = ("Alder", "Birch", "Cedar", "Dune", "Elder", "Fjord", "Grove", "Harbour", "Iris", "Juniper")
_TAGS = ("Bestseller", "Clearance", "New", "Organic", "Seasonal")
_SIZES = ("Small", "Medium", "Large")
_FIRST = ("Ada", "Ben", "Cleo", "Dora", "Emil", "Fay", "Gus", "Hana", "Ivo", "Jule")
_LAST = ("Adler", "Brandt", "Castell", "Dietz", "Engel", "Falk", "Gruber", "Hauser", "Ibsen", "Jensen")
_TOWNS = (
    ("Berlin", "10115", "DE"),
    ("Hamburg", "20095", "DE"),
    ("Wien", "1010", "AT"),
    ("Lyon", "69001", "FR"),
)
_PAYMENTS = (("bacs", "Direct bank transfer"), ("paypal", "PayPal"), ("cod", "Cash on delivery"))
# The states of each ten orders, so that every template finds some orders.
_STATES: tuple[str, ...] = (
    "completed",
    "completed",
    "processing",
    "completed",
    "pending",
    "completed",
    "on-hold",
    "processing",
)
_STATES += ("cancelled", "completed")


def _aged(shop: FakeShop, row: Row, created_at: datetime) -> None:
    shop.mark_created(row, created_at)


def fill(shop: FakeShop, seed: int, start: datetime) -> None:
    """Fills an empty shop; all dates count back from `start`."""
    shop.load(_filled(shop.url, shop.zone.key, seed, start))


@lru_cache(maxsize=4)
def _filled(url: str, zone: str, seed: int, start: datetime) -> bytes:
    """Returns the data of a filled shop; making it takes ten times as long as loading it."""
    shop = FakeShop(url, lambda: start, zone=zone)
    for name in ("Uncategorized", *_CATEGORIES):
        terms.add(shop, "categories", {"name": name})
    for name in _TAGS:
        terms.add(shop, "tags", {"name": name})
    _fill_products(shop, dice(seed, "products"), start)
    _fill_customers(shop, dice(seed, "customers"), start)
    _fill_orders(shop, dice(seed, "orders"), start)
    return shop.dump()


def _price(chance: random.Random) -> str:
    return f"{chance.randint(4, 59)}.{chance.choice(('00', '25', '50', '90', '95'))}"


def _term(shop: FakeShop, kind: str, name: str) -> Row:
    category_or_tag = next(term for term in shop.terms[kind].values() if term["name"] == name)
    return {column: category_or_tag[column] for column in ("id", "name", "slug")}


def _fill_products(shop: FakeShop, chance: random.Random, start: datetime) -> None:
    for number in range(1, PRODUCTS + 1):
        index = (number - 1) % len(_CATEGORIES)
        row = blank.product()
        row["id"] = shop.next_id("post")
        row["name"] = f"{_LINES[(number - 1) // len(_CATEGORIES)]} {_KINDS[index]}"
        row["sku"] = f"{_CATEGORIES[index][:3].upper()}-{number:03d}"
        row["slug"] = slug(row["name"])
        row["permalink"] = f"{shop.url}/product/{row['slug']}/"
        row["categories"] = [_term(shop, "categories", _CATEGORIES[index])]
        row["tags"] = [
            _term(shop, "tags", name) for name in sorted(chance.sample(_TAGS, chance.randint(0, 2)))
        ]
        _aged(shop, row, start - timedelta(days=chance.randint(20, 400), seconds=chance.randint(0, 86_399)))
        if chance.random() < 0.8:
            row["description"] = f"{row['name']}, made in small batches."
            row["weight"] = f"0.{chance.randint(1, 9)}"
        if chance.random() < 0.7:
            row["global_unique_id"] = f"40{chance.randint(10**10, 10**11 - 1)}"
            row["images"] = [_image(shop, row)]
        shop.products[row["id"]] = row
        if number % (PRODUCTS // VARIABLE) == 0:
            _make_variable(shop, row, chance)
        else:
            _make_simple(row, chance, number)
        stock.derive(shop, row)


def _image(shop: FakeShop, row: Row) -> Row:
    dates = {name: row[name] for name in row if name.startswith("date_") and "sale" not in name}
    src = f"{shop.url}/wp-content/uploads/{row['slug']}.jpg"
    return {"id": shop.next_id("post"), **dates, "src": src, "name": row["slug"], "alt": ""}


def _make_simple(row: Row, chance: random.Random, number: int) -> None:
    prices = {"regular_price": _price(chance)}
    if number % 9 == 0:
        prices["sale_price"] = f"{float(prices['regular_price']) * 0.8:.2f}"
    stock.set_prices(row, prices)
    if number % 12 != 0:
        quantity = 0 if number % 8 == 0 else chance.randint(1, 60)
        stock.set_stock(row, {"manage_stock": True, "stock_quantity": quantity})


def _make_variable(shop: FakeShop, parent: Row, chance: random.Random) -> None:
    parent["type"] = "variable"
    size: Row = {"id": 0, "name": "Size", "slug": "Size", "position": 0, "visible": True, "variation": True}
    parent["attributes"] = [{**size, "options": list(_SIZES)}]
    base = float(_price(chance))
    for index, option in enumerate(_SIZES[:VARIATIONS]):
        row = blank.variation()
        row |= {"id": shop.next_id("post"), "parent_id": parent["id"], "name": option}
        row["sku"] = f"{parent['sku']}-{option[0]}"
        row["attributes"] = [{"id": 0, "name": "Size", "slug": "size", "option": option}]
        row["permalink"] = f"{parent['permalink']}?attribute_size={option}"
        row["menu_order"] = index + 1
        for name in ("date_created", "date_created_gmt", "date_modified", "date_modified_gmt"):
            row[name] = parent[name]
        stock.set_prices(row, {"regular_price": f"{base * (1 + index / 2):.2f}"})
        stock.set_stock(row, {"manage_stock": True, "stock_quantity": chance.randint(0, 30)})
        stock.derive(shop, row)
        shop.variations[row["id"]] = row
        parent["variations"].append(row["id"])


def _fill_customers(shop: FakeShop, chance: random.Random, start: datetime) -> None:
    for number in range(CUSTOMERS):
        row = blank.customer()
        first, last = _FIRST[number % len(_FIRST)], _LAST[(number * 3 + number // 10) % len(_LAST)]
        row["id"] = shop.next_id("user")
        row["username"] = f"{first}.{last}{number + 1}".lower()
        row["email"] = f"{row['username']}@shop.example"
        row["first_name"], row["last_name"] = first, last
        town, code, country = chance.choice(_TOWNS)
        index: Row = {"first_name": first, "last_name": last, "address_1": f"Example Street {number + 1}"}
        index |= {"city": town, "postcode": code, "country": country}
        row["billing"] = {
            **row["billing"],
            **index,
            "email": row["email"],
            "phone": f"+49 30 555 {number:04d}",
        }
        row["shipping"] = {**row["shipping"], **index}
        _aged(shop, row, start - timedelta(days=chance.randint(90, 700)))
        shop.customers[row["id"]] = row


def _fill_orders(shop: FakeShop, chance: random.Random, start: datetime) -> None:
    for number in range(ORDERS):
        # Oldest first, some on each of the last sixty days, the newest an hour ago.
        back = timedelta(hours=1 + (ORDERS - 1 - number) * 36, minutes=chance.randint(0, 59))
        add_order(shop, chance, start - back, status=_STATES[number % len(_STATES)])


def add_order(shop: FakeShop, chance: random.Random, created_at: datetime, *, status: str) -> Row:
    """Adds an order of an existing customer; leaves the stock alone, so that nothing else changes."""
    buyer = shop.customers[chance.choice(sorted(shop.customers))] if shop.customers else blank.customer()
    row = blank.order()
    row |= {"id": shop.next_id("post"), "customer_id": buyer["id"], "created_via": "checkout"}
    row["number"] = str(row["id"])
    row["billing"], row["shipping"] = dict(buyer["billing"]), dict(buyer["shipping"])
    row["payment_method"], row["payment_method_title"] = chance.choice(_PAYMENTS)
    row["order_key"] = f"wc_order_{chance.getrandbits(52):013x}"
    pay = f"{shop.url}/checkout/order-pay/{row['id']}/?pay_for_order=true&key={row['order_key']}"
    row["payment_url"] = pay
    _aged(shop, row, created_at)
    sellable = sorted(number for number, product in shop.products.items() if product["status"] == "publish")
    for product_id in chance.sample(sellable, min(len(sellable), chance.randint(1, 3))):
        choices = shop.products[product_id]["variations"]
        fields = {"product_id": product_id, "quantity": chance.randint(1, 4)}
        if choices:
            fields["variation_id"] = chance.choice(choices)
        row["line_items"].append(orders.line(shop, fields))
    _set_order_status(row, status, shop.stamp(created_at + timedelta(minutes=chance.randint(5, 50))))
    orders.derive(shop, row)
    if row["date_paid"] and buyer["id"]:
        buyer["is_paying_customer"] = True
    shop.orders[row["id"]] = row
    return row


def _set_order_status(row: Row, status: str, later: tuple[str, str]) -> None:
    row["status"] = status
    if status == "completed" or (status == "processing" and row["payment_method"] != "cod"):
        row["date_paid"], row["date_paid_gmt"] = later
    if status == "completed":
        row["date_completed"], row["date_completed_gmt"] = later
    if status in ("completed", "cancelled"):
        row["date_modified"], row["date_modified_gmt"] = later


def load_products(shop: FakeShop, count: int, seed: int, start: datetime) -> None:
    """Replaces the catalogue by `count` products, every tenth with three variations."""
    shop.products.clear()
    shop.variations.clear()
    chance = dice(seed, f"catalogue of {count}")
    category = [_term(shop, "categories", "Tea")]
    for number in range(1, count + 1):
        row = blank.product()
        row["id"] = shop.next_id("post")
        row["name"], row["sku"], row["slug"] = (
            f"Product {number:05d}",
            f"P-{number:05d}",
            f"product-{number:05d}",
        )
        row["permalink"] = f"{shop.url}/product/{row['slug']}/"
        row["categories"] = category
        _aged(shop, row, start - timedelta(minutes=count - number + 1))
        shop.products[row["id"]] = row
        if number % 10 == 0:
            _make_variable(shop, row, chance)
        else:
            _make_simple(row, chance, number)
        stock.derive(shop, row)


def priced(shop: FakeShop) -> list[Row]:
    """Returns all simple products and variations, by id."""
    simple = [row for row in shop.products.values() if row["type"] == "simple"]
    return sorted((*simple, *shop.variations.values()), key=lambda row: int(row["id"]))
