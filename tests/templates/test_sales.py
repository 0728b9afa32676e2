"""Tests the sales of a day: what counts, when, and how it is reported, on both platforms.

See docs/design/templates-catalogue.md#daily-sales-summary.
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from steward.model.refusals import ValidationFailed
from steward.model.run import Mode, RunStatus
from steward.templates.parts.ages import day_window
from steward.templates.parts.sales import PlacedOrder, SalesWindow, SoldLine, add_up, top_products
from tests.fake_clock import FakeClock
from tests.templates.orders_of import OrderSpec, in_shopify, in_woocommerce
from tests.templates.two_platforms import ConnectedService, lines_of, open_both

ZONE = "Europe/Berlin"


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-{text}").replace(tzinfo=UTC)


# Yesterday in Berlin is from 22:00 on the 29th to 22:00 on the 30th.
ORDERS = [
    OrderSpec(_utc("04-29T10:00:00"), (("Cup", 4, "40.00"),), refunds=(("7.25", _utc("04-30T12:00:00")),)),
    OrderSpec(_utc("04-29T21:59:59"), (("Cup", 1, "10.00"),)),
    OrderSpec(_utc("04-29T22:00:00"), (("Cup", 2, "20.00"),), refunds=(("1.00", _utc("04-30T22:00:00")),)),
    OrderSpec(_utc("04-30T09:00:00"), (("Cup", 1, "5.00"), ("Gone", 1, "4.00")), "pending"),
    OrderSpec(_utc("04-30T10:00:00"), (("Pot", 9, "900.00"),), "cancelled"),
    OrderSpec(_utc("04-30T11:00:00"), (("Pot", 9, "900.00"),), "failed"),
    OrderSpec(_utc("04-30T21:59:59"), (("Pot", 1, "30.50"),)),
    OrderSpec(_utc("04-30T22:00:00"), (("Pot", 1, "30.50"),)),
]
EXPECTED = {
    "day": "2026-04-30",
    "orders": 3,
    "sales": "59.50",
    "refunds": "7.25",
    "currency": "EUR",
    "compared_sales": "50.00",
    "top": [
        {"label": "Pot", "quantity": 1, "sales": "30.50"},
        {"label": "Cup", "quantity": 3, "sales": "25.00"},
        {"label": "Gone", "quantity": 1, "sales": "4.00"},
    ],
}


def _populate(both: ConnectedService) -> None:
    """Puts the same orders into both stores, and deletes one of the products afterwards."""
    woo = both.shop.world.state.shop
    in_woocommerce(woo, ORDERS)
    in_shopify(both.store, ORDERS)
    for number in [number for number, row in woo.products.items() if row["name"] == "Gone"]:
        del woo.products[number]
    [gone] = [row for row in both.store.of("Product") if row["title"] == "Gone"]
    for order in both.store.of("Order"):
        for line in order["lineItems"]:
            if line["product"] == gone["id"]:
                line["product"] = line["variant"] = None
    for row in [*both.store.owned(gone["id"]), gone]:
        del both.store.rows[row["id"]]


@pytest.mark.parametrize("platform", ["woocommerce", "shopify"])
async def test_yesterday_is_reported_alike_on_both_platforms(both: ConnectedService, platform: str) -> None:
    """Counts orders of the local day and refunds on their own day.

    Leaves out cancelled and failed orders. See docs/design/templates-catalogue.md#daily-sales-summary.
    """
    _populate(both)
    automation = await both.set_up("daily-sales-summary", {"teams": both.teams()}, on=platform)
    tried = await both.run(automation, Mode.TEST)
    assert (tried.status, tried.result, both.written()) == (RunStatus.SUCCEEDED, EXPECTED, [])
    run = await both.run(automation)
    assert (run.status, run.result) == (RunStatus.SUCCEEDED, EXPECTED)
    [message] = both.posted()
    assert lines_of(message)[2:] == [
        "Orders: 3",
        "Sales: 59.50 EUR",
        "Refunds: 7.25 EUR",
        "The day before: 50.00 EUR (+19.0 %)",
        "1. Pot: 1 sold for 30.50 EUR",
        "2. Cup: 3 sold for 25.00 EUR",
        "3. Gone: 1 sold for 4.00 EUR",
    ]


async def test_a_day_without_orders_is_reported_without_a_comparison(both: ConnectedService) -> None:
    """Reports 0 orders, and leaves out the percentage when the other day had none.

    See docs/design/templates-catalogue.md#daily-sales-summary.
    """
    in_woocommerce(both.shop.world.state.shop, [])
    inputs = {"teams": both.teams(), "compare": "week_before", "currency_note": False}
    run = await both.run(await both.set_up("daily-sales-summary", inputs, on="woocommerce"))
    assert run.result is not None
    assert (run.result["orders"], run.result["sales"], run.result["compared_sales"]) == (0, "0.00", "0.00")
    assert lines_of(both.posted()[0])[1:] == [
        "Orders: 0",
        "Sales: 0.00",
        "Refunds: 0.00",
        "The same day a week before: 0.00",
    ]


async def test_stores_are_reported_in_order_and_totalled(
    database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Lists the stores in their order and rounds the total once.

    A currency without a rate is not added.
    See docs/design/templates-catalogue.md#sales-summary-across-stores.
    """
    both = await open_both(database_url, clock, tmp_path)
    _populate(both)
    inputs = {"teams": both.teams(), "currency": "USD", "rates": {"EUR": "1.15005"}}
    reads = ("shopify", "woocommerce")
    automation = await both.set_up("sales-summary-across-stores", inputs, reads=reads, timezone=ZONE)
    assert (await both.run(automation, Mode.TEST)).status is RunStatus.SUCCEEDED
    assert both.written() == []
    run = await both.run(automation)
    figures = {"orders": 3, "sales": "59.50", "refunds": "7.25", "currency": "EUR"}
    labels = ["The shopify", "The woocommerce"]
    # 119.00 at 1.15005 is 136.85595.
    assert run.result == {
        "day": "2026-04-30",
        "stores": [{"label": label, **figures} for label in labels],
        "total": "136.86",
        "currency": "USD",
        "apart": 0,
    }
    assert lines_of(both.posted()[0]) == [
        "Sales of Thursday 30 April 2026",
        "Added up with 1 EUR as 1.15005 USD.",
        "The shopify: 3 orders, sales 59.50 EUR, refunds 7.25 EUR",
        "The woocommerce: 3 orders, sales 59.50 EUR, refunds 7.25 EUR",
        "Together: 136.86 USD",
    ]
    bare = {**inputs, "rates": {}}
    apart = await both.run(await both.set_up("sales-summary-across-stores", bare, reads=reads, timezone=ZONE))
    assert apart.result is not None
    assert (apart.result["total"], apart.result["apart"]) == ("0.00", 2)
    await both.shop.service.close()


async def test_a_store_that_cannot_be_read_fails_the_run_by_name(both: ConnectedService) -> None:
    """Fails the run with the name of the store and sends no partial sum.

    See docs/design/templates-catalogue.md#sales-summary-across-stores and
    docs/design/templates.md#e10-pages.
    """
    inputs = {"teams": both.teams(), "currency": "EUR"}
    reads = ("woocommerce", "shopify")
    automation = await both.set_up("sales-summary-across-stores", inputs, reads=reads, timezone=ZONE)
    both.store.fault("status", status=500, count=1000)
    run = await both.shop.until_settled(await both.shop.run_now(automation), minutes=200)
    assert run.status is RunStatus.FAILED
    assert str(run.message).startswith("The shopify could not be read.")
    assert both.posted() == []


async def test_a_currency_is_worth_itself(both: ConnectedService) -> None:
    """Refuses a rate other than 1 for the currency of the sum.

    See docs/design/templates-catalogue.md#sales-summary-across-stores.
    """
    inputs = {"teams": both.teams(), "currency": "EUR", "rates": {"EUR": "1.1"}}
    reads = ("woocommerce", "shopify")
    with pytest.raises(ValidationFailed) as refused:
        await both.set_up("sales-summary-across-stores", inputs, reads=reads)
    assert list(refused.value.errors) == ["inputs.rates"]
    same = {**inputs, "rates": {"EUR": "1.0"}}
    automation = await both.set_up("sales-summary-across-stores", same, reads=reads)
    assert automation.inputs["rates"] == {"EUR": "1.0"}


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-05-01", 24)])
def test_a_day_has_the_hours_the_clocks_give_it(day: str, hours: int) -> None:
    """A day has 23, 24 or 25 hours, by the clock changes of its zone.

    See docs/design/templates.md#e16-days-and-windows.
    """
    start, end = day_window(date.fromisoformat(day), ZONE)
    assert (end - start).total_seconds() == hours * 3600


def test_a_midnight_the_clocks_leave_out_begins_the_day_an_hour_later() -> None:
    """Days follow each other without a gap, also in a zone whose clock skips midnight.

    See docs/design/templates.md#e16-days-and-windows.
    """
    before = day_window(date(2026, 4, 24), "Africa/Cairo")
    after = day_window(date(2026, 4, 25), "Africa/Cairo")
    assert before[0] == datetime(2026, 4, 23, 22, 0, tzinfo=UTC)
    assert before[1] == after[0]
    assert (before[1] - before[0]).total_seconds() == 23 * 3600


def test_sums_of_other_currencies_stand_apart() -> None:
    """Counts orders in other currencies without adding their sums.

    See docs/design/templates.md#e13-currencies.
    """
    lines = (SoldLine("7", "Cup", 1, Decimal(5)),)
    orders = (PlacedOrder("EUR", Decimal(5), lines), PlacedOrder("USD", Decimal(9), lines))
    sums = add_up(SalesWindow("EUR", orders, (("USD", Decimal(1)), ("EUR", Decimal(2)))))
    assert (sums.orders, sums.sales, sums.refunds, sums.other_currencies) == (
        2,
        Decimal(5),
        Decimal(2),
        {"USD": 1},
    )
    assert [sold_line.sales for sold_line in sums.lines] == [Decimal(5)]


def test_variants_are_added_up_under_their_product() -> None:
    """Adds up variants under their product, and lines of deleted products under the name on the order.

    See docs/design/templates-catalogue.md#daily-sales-summary and docs/design/templates.md#e9-variants.
    """
    lines = [
        SoldLine("7", "Shirt, red", 1, Decimal(10)),
        SoldLine("7", "Shirt, blue", 2, Decimal(20)),
        SoldLine("8", "Old hat", 1, Decimal(25)),
        SoldLine("8", "Older hat", 1, Decimal(1)),
        SoldLine(None, "Gift", 3, Decimal(2)),
    ]
    found_best: Any = top_products(lines, {"7": "Shirt", "8": None}, 3)
    assert [(item.title, item.quantity, item.sales) for item in found_best] == [
        ("Shirt", 3, Decimal(30)),
        ("Old hat", 1, Decimal(25)),
        ("Gift", 3, Decimal(2)),
    ]
