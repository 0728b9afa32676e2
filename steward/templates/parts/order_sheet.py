"""The tab to which orders are appended: its header, its orders, and rows for its columns."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from decimal import Decimal

from steward.connectors.base.queries import VALUES, ValuesQuery
from steward.connectors.base.records import Cell, Order, SheetTable
from steward.outbound.errors import RemoteNotFound
from steward.scheduling.zones import zone
from steward.steps.base import AccountAccess, StepFailed, StepOutput
from steward.steps.rows import is_blank
from steward.steps.skus import key_of

ORDER_ID, LINE_ID = "Order id", "Line id"
# The options of the input `columns` with their headers.
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
# With one row per line, only the order's first row has its sums, so that column totals are right.
_ONCE = ("net", "tax", "total")
_CELL_CHARACTERS = 5_000


class OrderTab(StepOutput, frozen=True):
    """A tab: its header (empty for an empty tab), its last used row, and the order ids in it."""

    title: str
    spreadsheet_id: str
    header: tuple[str, ...]
    last_row: int
    ids: frozenset[str]

    def missing(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Returns the columns that the header lacks."""
        present = {key_of(name).casefold() for name in self.header}
        return tuple(name for name in columns if name.casefold() not in present)


async def read_tab(account: AccountAccess, tab: str | None, spreadsheet_id: str | None) -> OrderTab:
    """Reads the tab's first row and first column; when both are empty, also the other cells.

    Raises StepFailed `tab_missing`, `wrong_header`, `column_repeated`.
    """
    first_row = await _area(account, tab, "1:1", spreadsheet_id)
    title = first_row.tab
    id_column = await _area(account, title, "A:A", spreadsheet_id)
    header = _header(first_row)
    id_rows = [row for row in id_column.rows if row.cells and not is_blank(row.cells[0])]
    if not any(header) and not id_rows:
        other_cells = await _area(account, title, None, spreadsheet_id)
        if _holds_something(other_cells):
            raise _wrong_header(title)
        return OrderTab(title, first_row.spreadsheet_id, (), 0, frozenset())
    _check_header(header, title)
    last_row = max((row.number for row in id_rows), default=1)
    ids = frozenset(key_of(row.cells[0]) for row in id_rows if row.number > 1)
    return OrderTab(title, first_row.spreadsheet_id, header, last_row, ids)


def _holds_something(table: SheetTable) -> bool:
    return any(not is_blank(cell) for row in table.rows for cell in row.cells)


def _header(table: SheetTable) -> tuple[str, ...]:
    has_header = table.rows and table.rows[0].number == 1
    return tuple(key_of(cell) for cell in table.rows[0].cells) if has_header else ()


def _check_header(header: Sequence[str], title: str) -> None:
    """Raises StepFailed `wrong_header`, `column_repeated`."""
    if not header or header[0].casefold() != ORDER_ID.casefold():
        raise _wrong_header(title)
    names = [name.casefold() for name in header if name]
    for name in (ORDER_ID, LINE_ID, *HEADERS.values()):
        if names.count(name.casefold()) > 1:
            raise StepFailed("column_repeated", f"The tab {title} has more than one column named {name}.")


def _wrong_header(title: str) -> StepFailed:
    message = (
        f"The tab {title} does not begin with a column named {ORDER_ID}, so nothing was written to it."
        " Name an empty tab, or one this automation began."
    )
    return StepFailed("wrong_header", message)


def header_of(columns: Sequence[str], *, lines: bool) -> tuple[str, ...]:
    """Returns the header: the ids, then the columns in their order."""
    return (ORDER_ID, *((LINE_ID,) if lines else ()), *(HEADERS[name] for name in columns))


def rows_of(order: Order, columns: Sequence[str], *, lines: bool, zone_name: str) -> Iterator[list[Cell]]:
    """Yields an order's cells in the order of `header_of`: one row, or one for each of its lines."""
    cells = _cells(order, zone_name)
    if not lines:
        yield [order.id, *(cells[name] for name in columns)]
        return
    for index, line in enumerate(order.lines):
        items = _text(f"{line.quantity} × {line.title}")
        row: dict[str, Cell] = {**cells, "items": items, **(dict.fromkeys(_ONCE) if index else {})}
        yield [order.id, line.id, *(row[name] for name in columns)]


def arrange(row: Sequence[Cell], names: Sequence[str], header: Sequence[str]) -> tuple[Cell, ...]:
    """Returns the row's cells in the order of the tab's header; other columns stay empty."""
    by_name = dict(zip((name.casefold() for name in names), row, strict=True))
    return tuple(by_name.get(key_of(name).casefold()) for name in header)


def _status_of(order: Order) -> str:
    """Returns the state of an order, as an option of the input `statuses`."""
    states = states_of(order)
    return next((name for name in ("fulfilled", "paid") if name in states), next(iter(states), ""))


def states_of(order: Order) -> frozenset[str]:
    """Returns which of the input's `statuses` an order has; none when its payment failed."""
    if order.cancelled_at is not None:
        return frozenset({"cancelled"})
    if order.payment.value == "refunded":
        return frozenset({"refunded"})
    states = {name for name, is_so in (("paid", order.paid), ("fulfilled", order.fulfilled)) if is_so}
    pending = order.payment.value != "voided"
    return frozenset(states or ({"pending"} if pending else ()))


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
        "status": _status_of(order),
    }


def _text(words: str) -> str | None:
    if len(words) > _CELL_CHARACTERS:
        return words[: _CELL_CHARACTERS - 1] + "…"
    return words or None


async def _area(
    account: AccountAccess, tab: str | None, area: str | None, spreadsheet_id: str | None
) -> SheetTable:
    query = ValuesQuery(tab, area=area, spreadsheet_id=spreadsheet_id)
    try:
        async for page in account.reader.read(VALUES, query):
            return page.items[0]
    except RemoteNotFound as error:
        if tab is None:
            raise
        message = f"The sheet has no tab named {tab}. Name the tab it has now in the automation."
        raise StepFailed("tab_missing", message) from error
    raise StepFailed("tab_missing", "The spreadsheet has no tab to write to.")
