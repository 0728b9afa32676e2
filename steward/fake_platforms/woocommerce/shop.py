"""The fake shop's data: tables, numbers, clock, and the changes and events of the current request."""

import copy
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from steward.fake_platforms.exchange import FakeChange, Row
from steward.fake_platforms.woocommerce import errors
from steward.fake_platforms.woocommerce.listing import stamp

_CATALOGUE = ("products", "variations", "terms", "customers", "orders", "_numbers")
_CHANGE_ITEM = ["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class Key:
    """A consumer key: `rights` is read_write, read, write, or person (without rights to the shop)."""

    secret: str
    rights: str


@dataclass(frozen=True, slots=True)
class ShopEvent:
    """An event for webhooks: a topic and the object, or a ping of one webhook (`ping`)."""

    topic: str
    object_id: int


class FakeShop:
    """All data of one shop."""

    def __init__(self, url: str, now: Callable[[], datetime], *, zone: str = "Europe/Berlin") -> None:
        self.url = url
        self.now = now
        self.zone = ZoneInfo(zone)
        self.title = "Sample shop"
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
        self._changes: list[FakeChange] = []
        self._events: list[ShopEvent] = []
        self._packed: dict[str, msgspec.Raw] = {}

    # The catalogue as a whole

    def dump(self) -> bytes:
        """Returns products, terms, customers and orders, and the numbers they have used up."""
        return msgspec.msgpack.encode({name: getattr(self, name) for name in _CATALOGUE})

    def load(self, dump: bytes) -> None:
        """Replaces the catalogue by another shop's. Each table is decoded when it is first used."""
        self._packed = msgspec.msgpack.decode(dump, type=dict[str, msgspec.Raw])
        for name in self._packed:
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        """Decodes a table of the loaded catalogue. Called for attributes that are not there yet."""
        packed = self.__dict__.get("_packed", {}).pop(name, None)
        if packed is None:
            raise AttributeError(name)
        rows = msgspec.msgpack.decode(packed)
        setattr(self, name, rows)
        return rows

    # Numbers and time

    def next_id(self, kind: str) -> int:
        """Returns the next number of a kind: post, term, user, comment, webhook, meta, line."""
        self._numbers[kind] = self._numbers.get(kind, 0) + 1
        return self._numbers[kind]

    def set_next_id(self, kind: str, number: int) -> None:
        """Makes `number` the next one, to load a recorded shop."""
        self._numbers[kind] = number - 1

    def stamp(self, instant: datetime | None = None) -> tuple[str, str]:
        """Formats an instant, or now, as the shop does: local and GMT."""
        return stamp(instant or self.now(), self.zone)

    def mark_modified(self, row: Row, instant: datetime | None = None) -> None:
        """Sets an object's modified time."""
        row["date_modified"], row["date_modified_gmt"] = self.stamp(instant)

    def mark_created(self, row: Row, instant: datetime | None = None) -> None:
        """Sets an object's created and modified time."""
        row["date_created"], row["date_created_gmt"] = self.stamp(instant)
        self.mark_modified(row, instant)

    # Changes and events

    def record_change(
        self, kind: str, object_id: int, before: Row | None, after: Row | None, fields: Any
    ) -> None:
        """Records for the ledger that a write stored these fields of an object."""
        names = tuple(fields)
        old = {name: before[name] for name in names if name in before} if before else {}
        new = {name: after[name] for name in names if name in after} if after else {}
        self._changes.append(FakeChange(kind, object_id, names, copy.deepcopy(old), copy.deepcopy(new)))

    def record_event(self, topic: str, object_id: int) -> None:
        """Records an event for the webhooks, once per request and object."""
        event = ShopEvent(topic, object_id)
        if event not in self._events:
            self._events.append(event)

    def pop_changes(self) -> tuple[FakeChange, ...]:
        """Returns and clears the changes of the current request."""
        changes, self._changes = tuple(self._changes), []
        return changes

    def pop_events(self) -> tuple[ShopEvent, ...]:
        """Returns and clears the events of the current request."""
        events, self._events = tuple(self._events), []
        return events

    # Shared parts of objects

    def links(self, path: str, *, collection: str, up: str | None = None, allow: Any = _CHANGE_ITEM) -> Row:
        """Returns the `_links` of an object."""
        root = f"{self.url}/wp-json/wc/v3/"
        row: Row = {
            "self": [{"href": root + path, "targetHints": {"allow": list(allow)}}],
            "collection": [{"href": root + collection}],
        }
        return row | {"up": [{"href": root + up}]} if up else row

    def merge_meta(self, row: Row, entries: list[Row]) -> None:
        """Stores `meta_data`: replaces an existing key, removes it for null, and adds a new key."""
        stored: list[Row] = [dict(entry) for entry in row["meta_data"]]
        row["meta_data"] = stored
        for entry in entries:
            key, value = entry.get("key"), entry.get("value")
            same = _same_meta(stored, entry)
            if value is None:
                for old in same:
                    stored.remove(old)
            elif same:
                same[0].update(value=value, **({"key": key} if key else {}))
            elif key:
                stored.append({"id": self.next_id("meta"), "key": str(key), "value": value})

    def sellable(self, product_id: int, variation_id: int = 0) -> Row | None:
        """Returns the variation or product of an order line."""
        return self.variations.get(variation_id) if variation_id else self.products.get(product_id)

    def with_sku(self, sku: str) -> Iterator[Row]:
        """Yields every product and variation with this SKU, except in the trash."""
        for table in (self.products, self.variations):
            for row in table.values():
                if row["sku"] == sku and row["status"] != "trash":
                    yield row

    def refuse_taken_sku(self, sku: str, own_id: int) -> None:
        """Raises product_invalid_sku when another product or variation has the SKU."""
        other = next((row for row in self.with_sku(sku) if row["id"] != own_id), None) if sku else None
        if other is not None:
            number = 1
            while next(self.with_sku(f"{sku}-{number}"), None) is not None:
                number += 1
            raise errors.invalid_sku(other["id"], f"{sku}-{number}")


def _same_meta(stored: list[Row], entry: Row) -> list[Row]:
    """Returns the stored entries with the entry's id; if there are none, those with its key."""
    same_id = [meta for meta in stored if meta["id"] == entry.get("id")]
    return same_id or [meta for meta in stored if meta["key"] == entry.get("key")]


def slug(text: str) -> str:
    """Returns a name in the form that the shop uses in addresses."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


def price_text(value: str) -> str:
    """Returns a price as the shop stores it: `abc` becomes "", `-3` stays."""
    digits = re.sub(r"\.(?=[^.]*\.)|[^0-9.-]", "", value.strip())
    return digits if re.fullmatch(r"-?\d*\.?\d+|-?\d+\.", digits) else ""


def price_html(price: str, *, hidden: bool = False) -> str:
    """Returns a price in the form of the shop's pages."""
    if not price:
        return ""
    try:
        amount = f"{float(price):,.2f}"
    except ValueError:
        amount = price
    start = '<span class="woocommerce-Price-amount amount"' + (' aria-hidden="true">' if hidden else ">")
    symbol = '<span class="woocommerce-Price-currencySymbol" translate="no">&euro;</span>'
    return f"{start}<bdi>{symbol}{amount}</bdi></span>"
