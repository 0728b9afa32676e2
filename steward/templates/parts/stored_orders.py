"""Orders in a step's output: a compact table without notes, addresses and most sums."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from steward.connectors.base.records import (
    Fulfilment,
    FulfilmentOrder,
    Order,
    OrderLine,
    Payment,
    Refund,
    Risk,
)
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.base import RecordTable

_UNCONVERTED = (
    *("id", "number", "status", "paid", "fulfilled", "total", "currency", "customer_id", "url"),
    *("customer_name", "country", "billing_country", "refunded", "returning"),
)
_TIMES = ("created_at", "modified_at", "cancelled_at", "paid_at", "fulfilled_at", "closed_at")
_ENUMS = {"payment": Payment, "fulfilment": Fulfilment, "risk": Risk}
_LISTS = ("tags", "discount_codes", "risk_reasons")
_LINE = ("sku", "title", "quantity", "variant_id", "open_quantity", "ships")
_FIELDS = (*_UNCONVERTED, *_TIMES, *_ENUMS, *_LISTS, "fulfilment_orders", "refunds", "lines")


class OrderTable(RecordTable[Order]):
    """Orders in a step's output."""

    @staticmethod
    def encode(records: Iterable[Order]) -> JsonObject:
        """Returns the orders as a table."""
        return {"fields": list(_FIELDS), "rows": [_row(order) for order in records]}

    @staticmethod
    def decode(table: Mapping[str, AnyJson]) -> Iterable[Order]:
        """Yields the orders of a table."""
        return (_order(dict(zip(table["fields"], row, strict=True))) for row in table["rows"])


def _row(order: Order) -> list[JsonValue]:
    return [
        *(getattr(order, name) for name in _UNCONVERTED),
        *(_time_text(getattr(order, name)) for name in _TIMES),
        *(getattr(order, name).value for name in _ENUMS),
        *(list(getattr(order, name)) for name in _LISTS),
        [[part.id, part.status] for part in order.fulfilment_orders],
        [[refund.id, refund.amount, _time_text(refund.created_at)] for refund in order.refunds],
        [[getattr(line, name) for name in _LINE] for line in order.lines],
    ]


def _order(row: Mapping[str, AnyJson]) -> Order:
    fields: dict[str, AnyJson] = {
        **{name: row[name] for name in _UNCONVERTED},
        **{name: _time(row[name]) for name in _TIMES},
        **{name: enum(row[name]) for name, enum in _ENUMS.items()},
        **{name: tuple(row[name]) for name in _LISTS},
    }
    return Order(
        **fields,
        fulfilment_orders=tuple(FulfilmentOrder(*part) for part in row["fulfilment_orders"]),
        refunds=tuple(
            Refund(refund_id, amount, _time(made_at)) for refund_id, amount, made_at in row["refunds"]
        ),
        lines=tuple(_line(dict(zip(_LINE, line, strict=True))) for line in row["lines"]),
    )


def _line(row: Mapping[str, AnyJson]) -> OrderLine:
    return OrderLine(id="", product_id=None, total="0", **row)


def _time_text(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
