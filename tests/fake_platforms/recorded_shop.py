"""Loads the state that a recording shows into a fake shop, using only the recorded responses."""

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from steward.fake_platforms.woocommerce import blank, stock
from steward.fake_platforms.woocommerce.shop import FakeShop

Row = dict[str, Any]

_KINDS = (
    ("variation", r"products/(?P<parent>\d+)/variations(/(?P<id>\d+|batch))?"),
    ("variation", r"variations(?P<id>)"),
    ("tag", r"products/tags(/(?P<id>\d+|batch))?"),
    ("category", r"products/categories(/(?P<id>\d+|batch))?"),
    ("product", r"products(/(?P<id>\d+|batch))?"),
    ("note", r"orders/(?P<parent>\d+)/notes(/(?P<id>\d+))?"),
    ("refund", r"orders/(?P<parent>\d+)/refunds(/(?P<id>\d+))?"),
    ("order", r"orders(/(?P<id>\d+|batch))?"),
    ("customer", r"customers(/(?P<id>\d+|batch))?"),
    ("webhook", r"webhooks(/(?P<id>\d+|batch))?"),
)
NUMBERS = {
    "product": "post",
    "variation": "post",
    "order": "post",
    "refund": "post",
    "tag": "term",
    "category": "term",
    "customer": "user",
    "note": "comment",
    "webhook": "webhook",
}
_NOT_STORED = ("_links", "permalink_template", "generated_slug", "order_id")


@dataclass(frozen=True, slots=True)
class Target:
    """Describes what a path leads to: a kind of object, its number and its parent's."""

    kind: str
    id: int | None
    parent: int | None
    is_batch: bool


def target(path: str) -> Target | None:
    """Returns the kind of object that a path of the shop leads to; None for anything else."""
    inner = path.removeprefix("/wp-json/wc/v3/").strip("/")
    for kind, pattern in _KINDS:
        match = re.fullmatch(pattern, inner)
        if match:
            parts = match.groupdict()
            number, parent = parts["id"], parts.get("parent")
            is_batch = number == "batch"
            object_id = int(number) if number and not is_batch else None
            return Target(kind, object_id, int(parent) if parent else None, is_batch)
    return None


@dataclass(frozen=True, slots=True)
class View:
    """Holds one object as one answer showed it."""

    kind: str
    id: int
    row: Row
    method: str
    is_new: bool


def views(exchange: Row) -> Iterator[View]:
    """Yields every object that a response shows."""
    request, response = exchange["request"], exchange["response"]
    addressed, body = target(request["path"]), response.get("body")
    if addressed is None or response["status"] >= 300 or body is None:
        return
    method = request["method"]
    rows: list[tuple[Row, bool]]
    if isinstance(body, list):
        rows = [(row, False) for row in body]
    elif addressed.is_batch:
        listed = [
            (row, name == "create") for name, held in body.items() if isinstance(held, list) for row in held
        ]
        rows = [(row, is_new) for row, is_new in listed if isinstance(row, dict) and "error" not in row]
    else:
        rows = [(body, method == "POST" and response["status"] == 201)]
    for row, is_new in rows:
        if isinstance(row, dict) and isinstance(row.get("id"), int):
            kind = "variation" if row.get("type") == "variation" else addressed.kind
            named = {"product": "parent_id", "variation": "parent_id"}.get(kind, "order_id")
            parent = {named: addressed.parent} if addressed.parent else {}
            yield View(kind, int(row["id"]), {**parent, **row}, method, is_new)


# Refusals because another account has an e-mail address or a username, with the field they are about.
_CUSTOMER_FIELDS = {
    "registration-error-email-exists": "email",
    "woocommerce_rest_customer_invalid_email": "email",
    "registration-error-username-exists": "username",
}


@dataclass(slots=True)
class ObjectHistory:
    """Holds what the responses of a folder show of one object."""

    fullest: Row = field(default_factory=dict)
    made_in: set[str] = field(default_factory=set)
    first_in: dict[str, View] = field(default_factory=dict)


class Recording:
    """Reads a folder of exchange files (data/woocommerce/README.md) and what they show of the shop."""

    def __init__(self, folder: Path) -> None:
        self.files: dict[str, Row] = {}
        for path in sorted(folder.glob("*.json")):
            content = json.loads(path.read_text("utf-8"))
            if isinstance(content, dict) and "exchanges" in content:
                self.files[path.name] = content
        self._histories: dict[tuple[str, int], ObjectHistory] = {}
        self._unseen = itertools.count(1_000_000)  # numbers for objects whose own number no response shows
        for name, content in self.files.items():
            for exchange in content["exchanges"]:
                for view in views(exchange):
                    self._learn(name, view)

    def _learn(self, name: str, view: View) -> None:
        history = self._histories.setdefault((view.kind, view.id), ObjectHistory())
        if len(view.row) > len(history.fullest):
            history.fullest = view.row
        if view.is_new:
            history.made_in.add(name)
        history.first_in.setdefault(name, view)

    def load(self, shop: FakeShop, name: str) -> None:
        """Fills an empty shop with what was there before the first exchange of the file `name`."""
        addressed = set()
        for exchange in self.files[name]["exchanges"]:
            addressed_object = target(exchange["request"]["path"])
            if addressed_object is not None and addressed_object.id is not None:
                addressed.add((addressed_object.kind, addressed_object.id))
            if addressed_object is not None and addressed_object.parent is not None:
                addressed.add(
                    ("product" if addressed_object.kind == "variation" else "order", addressed_object.parent)
                )
        for (kind, number), history in sorted(self._histories.items()):
            is_met = name in history.first_in or (kind, number) in addressed
            if name in history.made_in or (history.made_in and not is_met):
                continue
            row = dict(history.fullest)
            first = history.first_in.get(name)
            if first is not None and first.method in ("GET", "DELETE"):
                row |= first.row
            put(shop, kind, row)
        for kind, row in self._mentioned(name):
            known_here = self._histories.get((kind, int(row["id"])))
            is_made_here = known_here is not None and name in known_here.made_in
            if not is_made_here and not is_held(shop, kind, int(row["id"])):
                put(shop, kind, row)
        complete(shop)

    def _mentioned(self, name: str) -> Iterator[tuple[str, Row]]:
        """Yields the objects that have a SKU, name, e-mail address or username already, as refusals tell."""
        for exchange in self.files[name]["exchanges"]:
            addressed, body = target(exchange["request"]["path"]), exchange["response"].get("body")
            body_sent = exchange["request"].get("body")
            for code, details in _refusals(body):
                if code == "product_invalid_sku":
                    sku = details["unique_sku"].rpartition("-")[0]
                    yield "product", {"id": details["resource_id"], "sku": sku}
                elif code in _CUSTOMER_FIELDS and isinstance(body_sent, dict):
                    field = _CUSTOMER_FIELDS[code]
                    value = body_sent.get(field)
                    if isinstance(value, str) and not self._shows_customer(name, field, value):
                        yield "customer", {"id": next(self._unseen), field: value}
                elif code == "term_exists" and addressed is not None and isinstance(body_sent, dict):
                    yield (
                        addressed.kind,
                        {"id": details["resource_id"], "name": body_sent["name"], "description": ""},
                    )

    def _shows_customer(self, name: str, field: str, value: str) -> bool:
        """Returns whether a response of the file shows a customer with this e-mail address or username."""
        rows = (view.row for exchange in self.files[name]["exchanges"] for view in views(exchange))
        return any(str(row.get(field, "")).casefold() == value.casefold() for row in rows)


def _refusals(body: Any) -> Iterator[tuple[str, Row]]:
    if isinstance(body, dict):
        if "code" in body and isinstance(body.get("data"), dict):
            yield body["code"], body["data"]
        for value in body.values():
            yield from _refusals(value)
    elif isinstance(body, list):
        for item in body:
            yield from _refusals(item)


def is_held(shop: FakeShop, kind: str, number: int) -> bool:
    """Returns whether the shop has the product, variation or term already."""
    terms = shop.terms["tags"] if kind == "tag" else shop.terms["categories"]
    return number in (terms if kind in ("tag", "category") else {**shop.products, **shop.variations})


def put(shop: FakeShop, kind: str, row: Row) -> None:
    """Stores an object as a response showed it, with defaults for the fields that the response lacks."""
    stored = {key: value for key, value in row.items() if key not in _NOT_STORED}
    number = int(row["id"])
    match kind:
        case "product":
            shop.products[number] = blank.product() | {"variations": []} | stored
        case "variation":
            if stored.get("manage_stock") == "parent":
                stored |= {"manage_stock": False, "stock_quantity": None}
            fields = set(blank.variation())
            variation_fields = {key: value for key, value in stored.items() if key in fields}
            shop.variations[number] = blank.variation() | variation_fields
        case "tag" | "category":
            table = shop.terms["tags" if kind == "tag" else "categories"]
            table[number] = {key: value for key, value in stored.items() if key != "count"}
        case "order":
            shop.orders[number] = blank.order() | {"number": str(number)} | stored
        case "refund":
            shop.refunds[number] = {**stored, "order_id": row["order_id"]}
        case "note":
            shop.notes.setdefault(row["order_id"], []).append(stored)
        case "customer":
            shop.customers[number] = blank.customer() | stored
        case "webhook":
            shop.webhooks[number] = {"resource": "", "event": "", "hooks": [], "topic": ""} | stored
            shop.webhook_secrets[number] = "recorded"


def complete(shop: FakeShop) -> None:
    """Adds what objects only mention, such as terms and variations, and sets the next numbers."""
    for product in shop.products.values():
        for kind in ("tags", "categories"):
            for term in product[kind]:
                whole = {"parent": 0, "display": "default", "image": None, "menu_order": 0}
                extra = whole if kind == "categories" else {}
                shop.terms[kind].setdefault(term["id"], {**term, "description": "", **extra})
    for number, row in list(shop.variations.items()):
        parent = shop.products.get(row["parent_id"])
        if parent is None:
            del shop.variations[number]
        elif number not in parent["variations"]:
            parent["variations"] = sorted([*parent["variations"], number])
    for product in shop.products.values():
        product["variations"] = [
            variation_id for variation_id in product["variations"] if variation_id in shop.variations
        ]
    for table in (shop.products, shop.variations, shop.orders, shop.customers):
        for row in table.values():
            for name in ("date_created", "date_modified"):
                stamp = row[f"{name}_gmt"]
                moment = datetime.fromisoformat(stamp).replace(tzinfo=UTC) if stamp else None
                row[name], row[f"{name}_gmt"] = shop.stamp(moment)
    for kind in set(NUMBERS.values()) | {"meta", "line"}:
        shop.set_next_id(kind, 100_000)


def catch_up(shop: FakeShop, exchange: Row) -> None:
    """Changes the shop as it was changed between the recorded exchanges.

    A read shows the whole object; an answered write shows price and quantity that it did not write.
    """
    request = exchange["request"]
    written = request.get("body") if isinstance(request.get("body"), dict) else {}
    tables = {"product": shop.products, "variation": shop.variations, "order": shop.orders}
    tables |= {"customer": shop.customers, "webhook": shop.webhooks}
    for view in views(exchange):
        held = tables.get(view.kind, {}).get(view.id)
        if held is None or view.row.get("manage_stock") == "parent":
            continue
        if view.method == "GET":
            held.update({key: value for key, value in view.row.items() if key in held})
            # A product names variations that no response showed; the shop does not have those.
            if "variations" in held:
                held["variations"] = [
                    variation_id for variation_id in held["variations"] if variation_id in shop.variations
                ]
        elif view.method == "PUT" and view.kind in ("product", "variation"):
            for name in ("regular_price", "stock_quantity"):
                if name not in written and view.row.get(name) not in (None, "") and held[name] is not None:
                    held[name] = view.row[name]
            stock.derive_stock(held)
