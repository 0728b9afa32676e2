"""Tests the export of orders to a spreadsheet: which orders are appended, each once, and in which columns.

See docs/design/templates-catalogue.md#order-export-to-spreadsheet.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from steward.connectors.base.queries import RecordPage
from steward.connectors.base.records import Payment, SheetRow, SheetTable
from steward.connectors.spreadsheet.operations import APPEND, WRITE
from steward.fake_platforms.sheets import FakeTab
from steward.model.run import Mode, RunStatus
from steward.outbound.errors import RemoteNotFound
from steward.steps.base import AccountAccess, StepContext
from steward.templates.order_export_to_spreadsheet import TEMPLATE
from tests.templates.order_stage import CHANGES, Orders, OrderStage, ago, line, order
from tests.templates.sales import LineSpec, Market, Sale
from tests.templates.sample_products import PlatformStore
from tests.templates.stage import NOW, SHEET, SHOP, connection
from tests.templates.two_platforms import ConnectedService

# (order, whether it is exported by the default statuses paid and fulfilled)
SALES: tuple[tuple[Sale, bool], ...] = (
    (
        Sale("A1", (LineSpec(quantity=2, total="40.00"), LineSpec("M", "Mug", total="9.50")), payment="paid"),
        True,
    ),
    (Sale("A2", sent="fulfilled", hours=2000), True),
    (Sale("A3"), False),
    (Sale("A4", payment="paid", cancelled=True), False),
    (Sale("A5", payment="refunded", refunded="20.00"), False),
    (Sale("=A6", payment="paid", buyer="=1+1"), True),
)


def _add_tab(market: Market, title: str) -> None:
    market.store.both.shop.world.state.google.books["sheet-prices"].tabs.append(FakeTab(77, title))


async def test_orders_are_appended_each_once(market: Market) -> None:
    """Appends each paid or fulfilled order once, with texts of the store as text.

    See docs/design/templates-catalogue.md#order-export-to-spreadsheet.
    """
    both = market.store.both
    market.people("=1+1")
    market.place(*(sale for sale, _ in SALES))
    _add_tab(market, "Orders")
    columns = ["number", "items", "total", "status", "customer"]
    automation = await market.set_up(
        "order-export-to-spreadsheet", sheet=both.sheet("Orders"), columns=columns
    )
    tried = await market.run(automation, Mode.TEST)
    assert (tried.result["appended"], both.cells("Orders")) == (3, [])
    came = await market.run(automation)
    assert came.run.status is RunStatus.SUCCEEDED
    assert both.cells("Orders") == [
        ["Order id", "Number", "Items", "Total", "Status", "Customer"],
        [str(market.ids["A1"]), "A1", "2 × Earl Grey; 1 × Mug", 49.5, "paid"],
        [str(market.ids["A2"]), "A2", "1 × Earl Grey", 20, "fulfilled"],
        [str(market.ids["=A6"]), "=A6", "1 × Earl Grey", 20, "paid", "=1+1"],
    ]
    assert came.result == {"read": 3, "already_there": 0, "appended": 3, "rows": 3, "first_row": 2}
    market.pay("A3")
    again = await market.run(automation)
    assert again.result["appended"] == 1
    assert [row[1] for row in both.cells("Orders")[1:]] == ["A1", "A2", "=A6", "A3"]
    assert (await market.run(automation)).result["rows"] == 0


async def test_a_sheet_that_cannot_be_written_or_does_not_respond(both: ConnectedService) -> None:
    """Fails with `sheet_not_writable` on a protected tab.

    After a lost response it reads the ids and appends the row only once.
    See docs/design/templates-catalogue.md#order-export-to-spreadsheet.
    """
    market = Market(PlatformStore("woocommerce", both))
    market.clear()
    market.place(Sale("B1", payment="paid"))
    _add_tab(market, "Orders")
    automation = await market.set_up("order-export-to-spreadsheet", sheet=both.sheet("Orders"))
    refusal = {"error": {"code": 400, "message": "You are trying to edit a protected cell or object."}}
    both.shop.fault("status", "POST", "**:append", status=400, body=refusal, count=1)
    came = await market.run(automation)
    assert came.run.status is RunStatus.FAILED
    [failed] = [step for step in await both.shop.steps(came.run) if step["status"] == "failed"]
    assert failed["code"] == "sheet_not_writable"
    assert failed["message"].startswith("Orders: 2 rows not written: The spreadsheet is protected there")
    both.shop.fault("drop_after", "POST", "**:append", count=1)
    came = await market.run(automation)
    assert (came.run.status, came.result["appended"]) == (RunStatus.SUCCEEDED, 1)
    assert [row[1] for row in both.cells("Orders")] == ["Number", "B1"]


# --- rules that need no service


@dataclass
class Log:
    """Holds a spreadsheet of one tab."""

    rows: list[list[Any]] = field(default_factory=list)

    async def read(self, op: Any, params: Any) -> Any:
        """Yields the tab, its first row or its first column as a spreadsheet's reader does."""
        if params.tab not in (None, "Log"):
            raise RemoteNotFound
        sheet_rows = [
            SheetRow(index, tuple(_cell(cell) for cell in row)) for index, row in enumerate(self.rows, 1)
        ]
        if params.area == "1:1":
            sheet_rows = sheet_rows[:1]
        if params.area == "A:A":
            sheet_rows = [SheetRow(row.number, row.cells[:1]) for row in sheet_rows]
        yield RecordPage((SheetTable("1AbC", "Log", tuple(sheet_rows)),))


def _cell(value: Any) -> Any:
    return Decimal(value) if isinstance(value, int) else value


class Stage(OrderStage):
    """Adds a spreadsheet that can be written to."""

    def _context(self, *args: Any) -> StepContext:
        context = super()._context(*args)
        changes = {op.name: op for op in (APPEND, WRITE)}
        sheet = AccountAccess(connection("spreadsheet", SHEET), self.sheet, changes)
        return replace(context, accounts={SHEET: sheet})


def _exporting(*orders: Any, rows: list[list[Any]] | None = None, **inputs: Any) -> Stage:
    return Stage(
        TEMPLATE,
        {"sheet": {"integration_id": int(SHEET), "tab": "Log"}, **inputs},
        shop=Orders(list(orders)),
        sheet=Log(rows or []),
        store=connection("shopify", SHOP),
        changes=CHANGES["shopify"],
    )


_PAID = order("1", paid=True, payment=Payment.PAID)


def _sent(run: Any) -> list[list[Any]]:
    """Returns every appended row, with numbers as text."""
    rows = [row for proposal in run.proposals for row in proposal.parts[0].arguments["rows"]]
    return [[cell["number"] if isinstance(cell, dict) else cell for cell in row] for row in rows]


async def test_columns_keep_their_place_and_missing_ones_go_to_the_right_end() -> None:
    """Finds columns whatever their case and blanks, and adds missing ones to the right.

    An id in a number cell counts as its digits.
    See docs/design/templates-catalogue.md#order-export-to-spreadsheet.
    """
    rows = [["order ID", " Total ", "My note", "number"], [7, 20, "call", "#7"]]
    run = await _exporting(
        _PAID, replace(_PAID, id="7"), rows=rows, columns=["number", "total", "currency"]
    ).run()
    [header, appended] = run.proposals
    assert header.parts[0].target == "'Log'!E1:E1"
    assert header.parts[0].arguments["rows"] == [["Currency"]]
    assert appended.parts[0].arguments["rows"] == [["1", {"number": "20.00"}, None, "#1", "EUR"]]
    assert run.result == {"read": 2, "already_there": 1, "appended": 1, "rows": 1, "first_row": 3}


async def test_a_row_for_each_line_has_the_sums_once() -> None:
    """Writes a row for each line, with the total of the order on the first one.

    See docs/design/templates-catalogue.md#order-export-to-spreadsheet.
    """
    lines = (line("A", id="81", title="Tea", quantity=2), line("B", id="82", title="Mug"))
    run = await _exporting(
        replace(_PAID, lines=lines), line_items=True, columns=["items", "total", "status"]
    ).run()
    assert _sent(run) == [
        ["Order id", "Line id", "Items", "Total", "Status"],
        ["1", "81", "2 × Tea", "20.00", "paid"],
        ["1", "82", "1 × Mug", None, "paid"],
    ]
    assert (run.result["appended"], run.result["rows"]) == (1, 2)
    assert run.proposals[0].parts[0].arguments["key_column"] == 1


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([["SKU", "Price"]], "wrong_header"),
        ([["", "Order id"]], "wrong_header"),
        ([[None, None], [None, "left over"]], "wrong_header"),
        ([["Order id", "Total", "total"]], "column_repeated"),
    ],
)
async def test_a_tab_of_something_else_is_not_written_to(rows: list[list[Any]], code: str) -> None:
    """Fails with `wrong_header` or `column_repeated` on a tab with other contents, and appends nothing.

    See docs/design/templates-catalogue.md#order-export-to-spreadsheet and
    docs/design/templates.md#e4-empty-sheets-and-columns.
    """
    run = await _exporting(_PAID, rows=rows).run()
    assert run.failed is not None
    assert (run.failed.code, run.proposals) == (code, [])


async def test_a_tab_that_is_gone_fails_the_run() -> None:
    """Fails the run with `tab_missing`. See docs/design/templates.md#rules."""
    stage = _exporting(_PAID)
    stage.inputs["sheet"] = {"integration_id": int(SHEET), "tab": "Gone"}
    run = await stage.run()
    assert run.failed is not None
    assert run.failed.code == "tab_missing"


async def test_rows_go_five_hundred_at_a_time_with_an_orders_lines_together() -> None:
    """Appends at most 500 rows in one change, and keeps the lines of an order together.

    See docs/design/templates-catalogue.md#order-export-to-spreadsheet.
    """
    lines = tuple(line(f"S{index}", id=f"l{index}") for index in range(3))
    many = [
        replace(
            _PAID,
            id=str(position),
            lines=tuple(replace(order_line, id=f"{position}-{order_line.id}") for order_line in lines),
        )
        for position in range(334)
    ]
    run = await _exporting(*many, rows=[["Order id", "Line id"]], line_items=True).run()
    appended = [
        proposal.parts[0] for proposal in run.proposals if proposal.parts[0].operation == "sheet.append_rows"
    ]
    assert [len(part.arguments["rows"]) for part in appended] == [498, 498, 6]
    assert all(part.after is not None for part in appended)
    assert (run.result["appended"], run.result["rows"]) == (334, 1002)


async def test_the_first_run_reads_all_orders_and_later_ones_what_changed() -> None:
    """Reads all orders first and later those changed since, less ten minutes.

    Other statuses read all orders again.
    See docs/design/templates-catalogue.md#order-export-to-spreadsheet.
    """
    stage = _exporting(replace(_PAID, modified_at=ago(9000)))
    assert (await stage.run()).result["appended"] == 1
    stage.now = NOW + timedelta(hours=1)
    stage.shop = Orders([replace(_PAID, id="2", modified_at=ago(1))])
    assert (await stage.run()).result["read"] == 0
    assert stage.shop.asks[-1].modified_after == NOW - timedelta(minutes=10)
    stage.inputs["statuses"] = ["pending", "paid"]
    assert (await stage.run()).result["read"] == 1


async def test_more_than_ten_thousand_rows_are_appended_by_several_runs() -> None:
    """Appends 10,000 rows in one run and the others in the next.

    Orders that the sheet has do not count.
    See docs/design/templates-catalogue.md#order-export-to-spreadsheet.
    """
    orders = [replace(_PAID, id=str(number)) for number in range(10_003)]
    stage = _exporting(*orders, columns=["number"])
    first = await stage.run()
    assert (first.result["rows"], first.messages[0]) == (10_000, "3 orders left for the next run.")
    stage.sheet.rows = [["Order id", "Number"], *([str(number), "#1"] for number in range(10_000))]
    second = await stage.run()
    assert [row[0] for row in _sent(second)] == ["10000", "10001", "10002"]
    assert second.result == {
        "read": 10_003, "already_there": 10_000, "appended": 3, "rows": 3, "first_row": 10_002,
    }  # fmt: skip
    third = await stage.run()
    assert (third.result["read"], stage.shop.asks[-1].modified_after) == (0, NOW - timedelta(minutes=10))


@pytest.mark.parametrize(("placed", "day"), [(22, "2026-11-20"), (23, "2026-11-21")])
async def test_dates_are_local_days(placed: int, day: str) -> None:
    """Writes the day in the store's zone: in Berlin a winter day begins at 23 UTC.

    See docs/design/templates.md#e16-days-and-windows.
    """
    order = replace(_PAID, created_at=datetime(2026, 11, 20, placed, tzinfo=NOW.tzinfo))
    run = await _exporting(order, columns=["date"]).run()
    assert _sent(run)[1] == ["1", day]
