"""The pretend shop's memory: its tables, numbers, clock, and what happened that others want to hear of."""

import copy
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from steward.fake_platforms.exchange import Row, Touched
from steward.fake_platforms.woocommerce import errors
from steward.fake_platforms.woocommerce.listing import stamp

CHANGE_ITEM = ["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class Key:
    """A consumer key: `rights` is read_write, read, write, or person (one without shop rights)."""

    secret: str
    rights: str


@dataclass(frozen=True, slots=True)
class Happened:
    """Something a webhook may tell: a topic and the object, or a ping of one hook (`ping`)."""

    topic: str
    object_id: int


class Shop:
    """All of one shop; every method that changes something is called within one request."""

    def __init__(self, url: str, now: Callable[[], datetime], *, zone: str = "Europe/Berlin") -> None:
        self.url = url
        self.now = now
        self.zone = ZoneInfo(zone)
        self.title = "Pretend shop"
        self.orders_in_own_tables = False
        self.version = (11, 0, 1)
        self.plain_permalinks = False
        self.holds_four_bytes = True
        self.keys: dict[str, Key] = {}
        self.products: dict[int, Row] = {}
        self.variations: dict[int, Row] = {}
        self.terms: dict[str, dict[int, Row]] = {"tags": {}, "categories": {}}
        self.orders: dict[int, Row] = {}
        self.refunds: dict[int, Row] = {}
        self.notes: dict[int, list[Row]] = {}
        self.customers: dict[int, Row] = {}
        self.webhooks: dict[int, Row] = {}
        self.webhook_secrets: dict[int, str] = {}
        self.webhook_failures: dict[int, int] = {}
        self._numbers: dict[str, int] = {}
        self._touched: list[Touched] = []
        self._happened: list[Happened] = []

    # Numbers and time

    def next_id(self, kind: str) -> int:
        """The next number of a kind: post, term, user, comment, webhook, meta, line."""
        self._numbers[kind] = self._numbers.get(kind, 0) + 1
        return self._numbers[kind]

    def set_next_id(self, kind: str, number: int) -> None:
        """Makes `number` the next one given out: for loading a recorded shop."""
        self._numbers[kind] = number - 1

    def stamp(self, at: datetime | None = None) -> tuple[str, str]:
        """Now, or `at`, as the shop shows it: local and GMT."""
        return stamp(at or self.now(), self.zone)

    def mark_modified(self, row: Row, at: datetime | None = None) -> None:
        """Moves an object's modified time."""
        row["date_modified"], row["date_modified_gmt"] = self.stamp(at)

    def mark_created(self, row: Row, at: datetime | None = None) -> None:
        """Sets an object's created and modified time."""
        row["date_created"], row["date_created_gmt"] = self.stamp(at)
        self.mark_modified(row, at)

    # What happened

    def touch(self, kind: str, object_id: int, before: Row | None, after: Row | None, fields: Any) -> None:
        """Notes for the ledger that a write stored these fields of an object."""
        names = tuple(fields)
        old = {name: before[name] for name in names if name in before} if before else {}
        new = {name: after[name] for name in names if name in after} if after else {}
        self._touched.append(Touched(kind, object_id, names, copy.deepcopy(old), copy.deepcopy(new)))

    def tell(self, topic: str, object_id: int) -> None:
        """Notes for the webhooks that something happened; once per request and object."""
        happened = Happened(topic, object_id)
        if happened not in self._happened:
            self._happened.append(happened)

    def take_touched(self) -> tuple[Touched, ...]:
        """What the request just served has stored; empties the note."""
        taken, self._touched = tuple(self._touched), []
        return taken

    def take_happened(self) -> tuple[Happened, ...]:
        """What the request just served has caused; empties the note."""
        taken, self._happened = tuple(self._happened), []
        return taken

    # Shared parts of objects

    def links(self, path: str, *, collection: str, up: str | None = None, allow: Any = CHANGE_ITEM) -> Row:
        """The `_links` of an object."""
        root = f"{self.url}/wp-json/wc/v3/"
        row: Row = {
            "self": [{"href": root + path, "targetHints": {"allow": list(allow)}}],
            "collection": [{"href": root + collection}],
        }
        return row | {"up": [{"href": root + up}]} if up else row

    def merge_meta(self, row: Row, entries: list[Row]) -> None:
        """`meta_data` as written: the same key replaces, null removes, another key is added (recorded)."""
        held: list[Row] = [dict(entry) for entry in row["meta_data"]]
        row["meta_data"] = held
        for entry in entries:
            key, value = entry.get("key"), entry.get("value")
            same = [h for h in held if h["id"] == entry.get("id")] or [h for h in held if h["key"] == key]
            if value is None:
                for old in same:
                    held.remove(old)
            elif same:
                same[0].update(value=value, **({"key": key} if key else {}))
            elif key:
                held.append({"id": self.next_id("meta"), "key": str(key), "value": value})

    def sellable(self, product_id: int, variation_id: int = 0) -> Row | None:
        """The variation or product an order line means."""
        return self.variations.get(variation_id) if variation_id else self.products.get(product_id)

    def with_sku(self, sku: str) -> Iterator[Row]:
        """Every product and variation that has this SKU, the trash left out."""
        for table in (self.products, self.variations):
            for row in table.values():
                if row["sku"] == sku and row["status"] != "trash":
                    yield row

    def refuse_taken_sku(self, sku: str, own_id: int) -> None:
        """Raises product_invalid_sku when another product or variation has it."""
        other = next((row for row in self.with_sku(sku) if row["id"] != own_id), None) if sku else None
        if other is not None:
            number = 1
            while next(self.with_sku(f"{sku}-{number}"), None) is not None:
                number += 1
            raise errors.invalid_sku(other["id"], f"{sku}-{number}")


def slug(text: str) -> str:
    """A name as the shop writes it in addresses."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


def price_text(value: str) -> str:
    """A price as the shop stores it: `abc` becomes "", `-3` stays (recorded)."""
    kept = re.sub(r"\.(?=[^.]*\.)|[^0-9.-]", "", value.strip())
    return kept if re.fullmatch(r"-?\d*\.?\d+|-?\d+\.", kept) else ""


def price_html(price: str, *, hidden: bool = False) -> str:
    """A price as the shop's pages show it."""
    if not price:
        return ""
    try:
        shown = f"{float(price):,.2f}"
    except ValueError:
        shown = price
    start = '<span class="woocommerce-Price-amount amount"' + (' aria-hidden="true">' if hidden else ">")
    symbol = '<span class="woocommerce-Price-currencySymbol" translate="no">&euro;</span>'
    return f"{start}<bdi>{symbol}{shown}</bdi></span>"
