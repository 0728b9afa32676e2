"""Orders as compact JSON and back, so that a step's output can be journaled (engine 10).

A table names its fields once. What no step decides on (notes, addresses, sums but the total) is left out.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from steward.connectors.base.records import (
    Fulfilment,
    FulfilmentOrder,
    Order,
    OrderLine,
    Payment,
    Refund,
    Risk,
)
from steward.model.json import JsonObject, JsonValue

_PLAIN = (
    *("id", "number", "status", "paid", "fulfilled", "total", "currency", "customer_id", "url"),
    *("customer_name", "country", "billing_country", "refunded", "returning"),
)
_TIMES = ("created_at", "modified_at", "cancelled_at", "paid_at", "fulfilled_at", "closed_at")
_WORDS = {"payment": Payment, "fulfilment": Fulfilment, "risk": Risk}
_LISTS = ("tags", "discount_codes", "risk_reasons")
_LINE = ("sku", "title", "quantity", "variant_id", "open_quantity", "ships")
FIELDS = (*_PLAIN, *_TIMES, *_WORDS, *_LISTS, "fulfilment_orders", "refunds", "lines")


def kept_orders(orders: Iterable[Order]) -> JsonObject:
    """Orders as a table."""
    return {"fields": list(FIELDS), "rows": [_row(order) for order in orders]}


def orders_of(kept: JsonValue) -> list[Order]:
    """Orders out of their table, in its order."""
    table: Any = kept
    return [_order(dict(zip(table["fields"], row, strict=True))) for row in table["rows"]]


def _row(order: Order) -> list[JsonValue]:
    return [
        *(getattr(order, name) for name in _PLAIN),
        *(_moment(getattr(order, name)) for name in _TIMES),
        *(getattr(order, name).value for name in _WORDS),
        *(list(getattr(order, name)) for name in _LISTS),
        [[each.id, each.status] for each in order.fulfilment_orders],
        [[each.id, each.amount, _moment(each.at)] for each in order.refunds],
        [[getattr(line, name) for name in _LINE] for line in order.lines],
    ]


def _order(row: Mapping[str, Any]) -> Order:
    fields: dict[str, Any] = {
        **{name: row[name] for name in _PLAIN},
        **{name: _instant(row[name]) for name in _TIMES},
        **{name: word(row[name]) for name, word in _WORDS.items()},
        **{name: tuple(row[name]) for name in _LISTS},
    }
    return Order(
        **fields,
        fulfilment_orders=tuple(FulfilmentOrder(*each) for each in row["fulfilment_orders"]),
        refunds=tuple(Refund(number, amount, _instant(at)) for number, amount, at in row["refunds"]),
        lines=tuple(_line(dict(zip(_LINE, each, strict=True))) for each in row["lines"]),
    )


def _line(row: Mapping[str, Any]) -> OrderLine:
    return OrderLine(id="", product_id=None, total="0", **row)


def _moment(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()


def _instant(kept: str | None) -> datetime | None:
    return None if kept is None else datetime.fromisoformat(kept)
