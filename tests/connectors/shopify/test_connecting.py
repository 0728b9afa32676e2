"""Connecting a Shopify store: settings, tokens, rights and locations, and the pacing of calls."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from steward.connectors.base.queries import PRODUCTS, VARIANTS, ProductsQuery
from steward.connectors.base.settings import BadSettings
from steward.connectors.shopify.connector import Shopify
from steward.outbound.errors import MissingRight, Throttled, Unauthorized, WrongAddress
from tests.connectors.shopify.bench import StoreConnection
from tests.fake_clock import FakeClock
from tests.fakes.shopify.store import ShopifyFake

GOOD = {"shop_domain": "teapots.myshopify.com", "client_id": "abc", "client_secret": "shps_1"}
FIXED = {"shop_domain": "teapots.myshopify.com", "access_token": "shpat_fixed0123456789"}


@pytest.mark.parametrize(
    ("form", "fields"),
    [
        (GOOD, set()),
        (FIXED, set()),
        ({**FIXED, "webhook_secret": "shh"}, set()),
        ({**GOOD, "shop_domain": " Teapots.MyShopify.com "}, set()),
        ({}, {"shop_domain", "client_id"}),
        ({**GOOD, "access_token": "shpat_1"}, {"access_token"}),
        ({**GOOD, "webhook_secret": "x"}, {"webhook_secret"}),
        ({"shop_domain": GOOD["shop_domain"], "client_id": "abc"}, {"client_secret"}),
        ({"shop_domain": GOOD["shop_domain"], "client_secret": "abc"}, {"client_id"}),
        ({**GOOD, "extra": "x"}, {"extra"}),
        ({**GOOD, "client_secret": "a b"}, {"client_secret"}),
        ({**GOOD, "client_secret": "x" * 256}, {"client_secret"}),
        ({**GOOD, "client_id": 7}, {"client_id"}),
        *(
            ({**GOOD, "shop_domain": wrong}, {"shop_domain"})
            for wrong in (
                *(
                    "teapots.example",
                    "https://teapots.myshopify.com",
                    "-x.myshopify.com",
                    "x.myshopify.com/a",
                    "",
                ),
                *(
                    "x.myshopify.com.evil.example",
                    "127.0.0.1",
                    "x y.myshopify.com",
                    "ä.myshopify.com",
                    None,
                    7,
                ),
            )
        ),
    ],
)
def test_the_form_takes_an_app_or_a_token(form: dict[str, Any], fields: set[str]) -> None:
    """Accepts either an app or a token, and names the invalid fields of anything else.

    See docs/design/api/connections.md#connecting and docs/design/api/events.md#from-event-to-run.
    """
    connector = Shopify(version="2026-10", url=None, read_s=20.0)
    if not fields:
        settings = connector.settings(form)
        assert settings.domain == settings.subject == "teapots.myshopify.com"
        assert "shps_1" not in repr(settings)
        assert "client_secret" not in settings.plain
        return
    with pytest.raises(BadSettings) as refused:
        connector.settings(form)
    assert set(refused.value.errors) == fields


@pytest.mark.parametrize(
    "written",
    [
        "teapots.myshopify.com",
        "Teapots.MyShopify.COM",
        "  teapots.myshopify.com\t",
        "7.myshopify.com",
        "-teapots.myshopify.com",
        "tea pots.myshopify.com",
        "teapots.myshopify.com.evil.example",
        "https://teapots.myshopify.com",
        "teapots.myshopifyXcom",
        "",
        " ",
        f"{'a' * 241}.myshopify.com",
        f"  {'A' * 241}.myshopify.com  ",
        f"{'a' * 242}.myshopify.com",
    ],
)
def test_the_served_schema_takes_the_domains_the_service_takes(written: str) -> None:
    """Accepts by the served schema only domains that the service accepts, trimmed and in lower case.

    See docs/design/api/connections.md#connecting.
    """
    connector = Shopify(version="2026-10", url=None, read_s=20.0)
    schema: Any = connector.facts.settings_schema
    form = {**FIXED, "shop_domain": written}
    Draft202012Validator.check_schema(schema)
    if Draft202012Validator(schema).is_valid(form):
        settings = connector.settings(form)
        assert settings.subject == settings.domain == settings.plain["shop_domain"] == written.strip().lower()
    else:
        with pytest.raises(BadSettings):
            connector.settings(form)


async def test_a_check_reports_rights_locations_zone_and_currency(bench: StoreConnection) -> None:
    """Reads name, time zone, currency, channels, locations and rights in one check.

    See docs/design/connectors.md#interface.
    """
    health = await bench.check()
    assert (health.ok, health.name, health.zone, health.currency) == (True, "Teapots", "Europe/Berlin", "EUR")
    assert [location.name for location in health.channels] == ["Online Store", "Point of Sale"]
    assert [(position.name, position.active) for position in health.locations] == [("Warehouse", True)]
    assert health.missing_rights == ()
    assert health.warnings == ()
    assert bench.store.writes() == []


async def test_missing_rights_are_named_and_stop_only_what_needs_them(bench: StoreConnection) -> None:
    """Names missing rights at connecting and in the reads that need them, and stops nothing else.

    See docs/design/api/connections.md#connecting.
    """
    bench.store.app.scopes = ("read_products", "read_orders")
    health = await bench.check()
    assert health.ok
    assert "write_products" in health.missing_rights
    assert {warned.code for warned in health.warnings} == {"missing_rights", "recent_orders_only"}
    assert health.channels == ()
    with pytest.raises(MissingRight, match="read_publications"):
        await bench.all(PRODUCTS, ProductsQuery())


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, Unauthorized), (402, MissingRight), (403, MissingRight), (423, MissingRight), (404, WrongAddress)],
)
async def test_a_store_that_refuses_access_has_its_own_error(
    bench: StoreConnection, status: int, error: type[Exception]
) -> None:
    """Maps each status that refuses access to its error. See docs/design/connectors.md#errors."""
    bench.store.fault("status", status=status, count=-1)
    health = await bench.check()
    assert not health.ok
    assert isinstance(health.error, error)


async def test_another_store_than_the_one_named_is_refused(bench: StoreConnection) -> None:
    """Refuses a store that names another domain than the one entered.

    See docs/design/api/connections.md#connecting.
    """
    bench.store.domain = "other.myshopify.com"
    health = await bench.check()
    assert (health.ok, health.error_field) == (False, "shop_domain")


async def test_a_token_lasts_a_day_and_is_asked_for_once(bench: StoreConnection, clock: FakeClock) -> None:
    """Fetches one token for parallel calls and another one at 80 % of its day.

    See docs/design/connectors.md#shopify.
    """
    await asyncio.gather(*(bench.all(VARIANTS, ProductsQuery()) for _ in range(4)))
    assert bench.store.exchanges == 1
    await clock.advance(timedelta(hours=19).total_seconds())
    await bench.all(VARIANTS, ProductsQuery())
    assert bench.store.exchanges == 1
    await clock.advance(timedelta(hours=1).total_seconds())
    await bench.all(VARIANTS, ProductsQuery())
    assert bench.store.exchanges == 2


async def test_a_token_taken_back_is_replaced_and_an_app_that_is_gone_said_so(bench: StoreConnection) -> None:
    """Replaces a revoked token, and names the client id and secret when the app was removed.

    See docs/design/connectors.md#shopify and docs/design/connectors.md#errors.
    """
    await bench.all(VARIANTS, ProductsQuery())
    bench.store.tokens.clear()
    assert await bench.all(VARIANTS, ProductsQuery())
    bench.store.tokens.clear()
    bench.store.app.installed = False
    with pytest.raises(Unauthorized, match="client id and secret"):
        await bench.all(VARIANTS, ProductsQuery())


async def test_a_fixed_token_is_sent_as_it_is(clock: FakeClock, store: ShopifyFake) -> None:
    """Sends a fixed token without an exchange, and warns that events cannot be verified.

    See docs/design/connectors.md#shopify and docs/design/api/connections.md#connecting.
    """
    bench = StoreConnection(clock, store, given=FIXED)
    health = await bench.check()
    assert {warned.code for warned in health.warnings} == {"events_unverified"}
    assert health.facts == {"events_verified": False}
    assert store.exchanges == 0


async def test_no_secret_is_in_any_line(bench: StoreConnection) -> None:
    """Writes no secret into log lines or errors that the store echoes it in.

    See docs/design/connectors.md#redaction.
    """
    bench.store.fault("status", status=500, body={"errors": bench.store.app.client_secret}, count=-1)
    task = asyncio.create_task(bench.check())
    for _ in range(6):
        await bench.clock.settle()
        await bench.clock.advance(10)
    health = await task
    token = next(iter(bench.store.tokens))
    actual = "".join(bench.lines) + str(health.error) + str(health.error.platform_text)
    assert bench.store.app.client_secret not in actual
    assert token not in actual


async def test_calls_wait_for_the_points_they_need(bench: StoreConnection) -> None:
    """Waits until the store's bucket holds the points a call needs, of which it leaves 30 % to others.

    See docs/design/connectors.md#shopify.
    """
    bench.store.bucket.maximum, bench.store.bucket.rate = 2_000.0, 100.0
    bench.store.bucket.take(1_000.0)
    await bench.check()  # reads what the bucket holds
    begun = bench.clock.monotonic()
    task = asyncio.create_task(bench.all(VARIANTS, ProductsQuery()))
    while not task.done():
        await bench.clock.settle()
        await bench.clock.advance(1)
    assert await task
    # The call needs 720 points and leaves 600 to others: 320 more than there are, at 100 a second.
    assert 3 <= bench.clock.monotonic() - begun <= 5
    assert bench.store.bucket.available >= 600


async def test_a_throttled_read_waits_as_long_as_the_store_says_and_then_gives_up(
    bench: StoreConnection,
) -> None:
    """Waits as long as the store's throttle status implies, and raises Throttled in the end.

    See docs/design/connectors.md#shopify.
    """
    status = {"maximumAvailable": 2000, "currentlyAvailable": 20, "restoreRate": 100}
    cost = {"requestedQueryCost": 720, "actualQueryCost": None, "throttleStatus": status}
    body = {
        "errors": [{"message": "Throttled", "extensions": {"code": "THROTTLED"}}],
        "extensions": {"cost": cost},
    }
    bench.store.fault("status", "Variants", status=200, body=body, count=2)
    task = asyncio.create_task(bench.all(VARIANTS, ProductsQuery()))
    begun = bench.clock.monotonic()
    while not task.done():
        await bench.clock.settle()
        await bench.clock.advance(1)
    assert await task
    assert bench.clock.monotonic() - begun >= 14
    bench.store.fault("status", "Variants", status=200, body=body, count=-1)
    task = asyncio.create_task(bench.all(VARIANTS, ProductsQuery()))
    while not task.done():
        await bench.clock.settle()
        await bench.clock.advance(5)
    with pytest.raises(Throttled):
        await task
