"""The tab orders are appended to.

Iits header, the orders it holds, rows for its columns (templates 5.6).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from typing import Any

from steward.connectors.base.queries import VALUES, ValuesQuery
from steward.connectors.base.records import Cell, Order, SheetTable
from steward.model.json import JsonObject
from steward.outbound.errors import RemoteNotFound
from steward.scheduling.zones import zone
from steward.steps.base import AccountAccess, StepFailed
from steward.steps.rows import is_blank
from steward.steps.skus import key_of

ORDER_ID, LINE_ID = "Order id", "Line id"
# Input `columns` and what stands above each.
HEADERS: Mapping[str, str] = {
    "number": "Number",
    "date": "Date",
    "customer": "Customer",
    "email": "E-mail",
    "items": "Items",
    "net": "Net",
    "tax": "Tax",
    "total": "Total",
    "currency": "Currency",
    "country": "Country",
    "status": "Status",
}
# With a row for each line these are the order's and stand in its first row, so that a sum is right.
_ONCE = ("net", "tax", "total")
CELL_CHARACTERS = 5_000


@dataclass(frozen=True, slots=True)
class OrderTab:
    """A tab as it is: its header (empty: the tab holds nothing), its last used row, the order ids in it."""

    title: str
    spreadsheet_id: str
    header: tuple[str, ...]
    last: int
    ids: frozenset[str]

    @classmethod
    def of(cls, kept: Any) -> "OrderTab":
        """From a step's output."""
        header, ids = tuple(kept["header"]), frozenset(kept["ids"])
        return cls(kept["title"], kept["spreadsheet_id"], header, kept["last"], ids)

    def kept(self) -> JsonObject:
        """As a step's output."""
        return {
            "title": self.title,
            "spreadsheet_id": self.spreadsheet_id,
            "header": list(self.header),
            "last": self.last,
            "ids": sorted(self.ids),
        }

    def missing(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """The columns wanted that the header does not name."""
        have = {key_of(name).casefold() for name in self.header}
        return tuple(name for name in wanted if name.casefold() not in have)


async def read_tab(account: AccountAccess, tab: str | None, spreadsheet_id: str | None) -> OrderTab:
    """The tab's first row and first column; of one that has both, nothing else is read.

    Raises StepFailed `tab_missing`, `wrong_header`, `column_repeated`.
    """
    head = await _area(account, tab, "1:1", spreadsheet_id)
    column = await _area(account, head.tab, "A:A", spreadsheet_id)
    first = head.rows[0].cells if head.rows and head.rows[0].number == 1 else ()
    header = tuple(key_of(cell) for cell in first)
    filled = [row for row in column.rows if row.cells and not is_blank(row.cells[0])]
    if not any(header) and not filled:
        rest = await _area(account, head.tab, None, spreadsheet_id)
        if any(not is_blank(cell) for row in rest.rows for cell in row.cells):
            raise _wrong(head.tab)
        return OrderTab(head.tab, head.spreadsheet_id, (), 0, frozenset())
    if not header or header[0].casefold() != ORDER_ID.casefold():
        raise _wrong(head.tab)
    names = [name.casefold() for name in header if name]
    for name in (ORDER_ID, LINE_ID, *HEADERS.values()):
        if names.count(name.casefold()) > 1:
            raise StepFailed("column_repeated", f"The tab {head.tab} has more than one column named {name}.")
    last = max((row.number for row in filled), default=1)
    ids = frozenset(key_of(row.cells[0]) for row in filled if row.number > 1)
    return OrderTab(head.tab, head.spreadsheet_id, header, last, ids)


def _wrong(tab: str) -> StepFailed:
    words = (
        f"The tab {tab} does not begin with a column named {ORDER_ID}, so nothing was written to it."
        " Name an empty tab, or one this automation began."
    )
    return StepFailed("wrong_header", words)


def names_of(columns: Sequence[str], *, lines: bool) -> tuple[str, ...]:
    """The header for the columns wanted, in their order, after the ids."""
    return (ORDER_ID, *((LINE_ID,) if lines else ()), *(HEADERS[name] for name in columns))


def rows_of(order: Order, columns: Sequence[str], *, lines: bool, zone_name: str) -> Iterator[list[Cell]]:
    """The cells of an order in the order of `names_of`: one row, or one for each of its lines."""
    own = _cells(order, zone_name)
    if not lines:
        yield [order.id, *(own[name] for name in columns)]
        return
    for at, line in enumerate(order.lines):
        items = _text(f"{line.quantity} × {line.title}")
        row: dict[str, Cell] = {**own, "items": items, **(dict.fromkeys(_ONCE) if at else {})}
        yield [order.id, line.id, *(row[name] for name in columns)]


def in_places(row: Sequence[Cell], names: Sequence[str], header: Sequence[str]) -> tuple[Cell, ...]:
    """The cells where the tab has their columns; columns of others stay empty."""
    by_name = dict(zip((name.casefold() for name in names), row, strict=True))
    return tuple(by_name.get(key_of(name).casefold()) for name in header)


def status_of(order: Order) -> str:
    """How far an order has come, in the word of the input `statuses`."""
    found = states_of(order)
    return next((name for name in ("fulfilled", "paid") if name in found), next(iter(found), ""))


def states_of(order: Order) -> frozenset[str]:
    """Which of the input `statuses` an order is in; none when its payment failed."""
    if order.cancelled_at is not None:
        return frozenset({"cancelled"})
    if order.payment.value == "refunded":
        return frozenset({"refunded"})
    found = {name for name, is_so in (("paid", order.paid), ("fulfilled", order.fulfilled)) if is_so}
    pending = order.payment.value != "voided"
    return frozenset(found or ({"pending"} if pending else ()))


def _cells(order: Order, zone_name: str) -> dict[str, Cell]:
    placed = order.created_at
    local = None if placed is None else placed.astimezone(zone(zone_name) or UTC)
    return {
        "number": _text(order.number),
        "date": None if local is None else local.date().isoformat(),
        "customer": _text(order.customer_name),
        "email": _text(order.email),
        "items": _text("; ".join(f"{line.quantity} × {line.title}" for line in order.lines)),
        "net": Decimal(order.net),
        "tax": Decimal(order.tax),
        "total": Decimal(order.total),
        "currency": order.currency,
        "country": order.country,
        "status": status_of(order),
    }


def _text(words: str) -> str | None:
    if len(words) > CELL_CHARACTERS:
        return words[: CELL_CHARACTERS - 1] + "…"
    return words or None


async def _area(
    account: AccountAccess, tab: str | None, area: str | None, spreadsheet_id: str | None
) -> SheetTable:
    ask = ValuesQuery(tab, area=area, spreadsheet_id=spreadsheet_id)
    try:
        async for page in account.reader.read(VALUES, ask):
            return page.items[0]
    except RemoteNotFound as gone:
        if tab is None:
            raise
        words = f"The sheet has no tab named {tab}. Name the tab it has now in the automation."
        raise StepFailed("tab_missing", words) from gone
    raise StepFailed("tab_missing", "The spreadsheet has no tab to write to.")
