"""Periodic checks of connections: refused keys lead to reconnecting after a second check."""

from collections.abc import AsyncIterator
from datetime import UTC
from functools import partial
from pathlib import Path

import pytest

from steward.connections.health import ConnectionChecks, check_due
from steward.connectors.woocommerce.connector import WooCommerceConnector
from steward.connectors.woocommerce.webhook_address import unreachable_reason
from steward.database.accounts import connections
from steward.model.connection import Connection, ConnectionState
from steward.model.run import RunStatus
from steward.scheduling.words import local_words
from tests.connectors.fake_connections import ORG, FakePlatformsClient
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, open_shop

HOURS = 3600


@pytest.fixture
async def bare(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Yields a service with the fake shop connected."""
    opened = await open_shop(database_url, clock, tmp_path)
    woo = opened.world.described()["woocommerce"]
    keys = {name: woo[name] for name in ("url", "consumer_key", "consumer_secret")}
    await opened.connect("woocommerce", keys)
    yield opened
    await opened.service.close()


async def looked(shop: Shop) -> Connection:
    """Runs the due checks once and returns the connection after them."""
    ctx = shop.service.worker_context
    await shop.clock.through(check_due(ConnectionChecks(ctx.engine, ctx.clock, ctx.vault, ctx.log)))
    number = shop.connections["woocommerce"].integration_id
    connection = await shop.read(partial(connections.get, org=shop.owner.org, integration=number))
    assert connection is not None
    return connection


async def test_a_good_connection_is_looked_at_every_six_hours(bare: Shop) -> None:
    """Checks a good connection every six hours, takes over its currency and writes nothing to the shop.

    See docs/design/api/connections.md#connecting.
    """
    first = bare.connections["woocommerce"].last_ok_at
    await bare.clock.advance(6 * HOURS - 1)
    assert (await looked(bare)).last_ok_at == first
    await bare.clock.advance(1)
    after = await looked(bare)
    assert after.last_ok_at == bare.clock.now()
    assert after.currency == "EUR"
    request = len(bare.world.state.ledger.writes())
    await looked(bare)
    assert len(bare.world.state.ledger.writes()) == request


async def test_a_key_taken_away_needs_reconnecting_after_a_second_no(bare: Shop) -> None:
    """Asks for reconnecting when a second check after 60 s is refused too, and not when it succeeds.

    See docs/design/connectors.md#errors.
    """
    stored = dict(bare.world.state.shop.keys)
    bare.world.state.shop.keys.clear()
    await bare.clock.advance(6 * HOURS)
    assert (await looked(bare)).state is ConnectionState.CONNECTED
    await bare.clock.advance(59)
    assert (await looked(bare)).state is ConnectionState.CONNECTED
    bare.world.state.shop.keys.update(stored)
    await bare.clock.advance(1)
    healed = await looked(bare)
    assert healed.state is ConnectionState.CONNECTED
    assert "doubted_at" not in healed.facts
    bare.world.state.shop.keys.clear()
    await bare.clock.advance(6 * HOURS)
    assert (await looked(bare)).state is ConnectionState.CONNECTED
    await bare.clock.advance(60)
    lost = await looked(bare)
    assert lost.state is ConnectionState.NEEDS_RECONNECTING
    assert lost.last_error
    assert bare.world.described()["woocommerce"]["consumer_secret"] not in repr(lost)


PAGE = "<html><head><title>Just a moment</title></head></html>"


@pytest.mark.parametrize("status", [200, 403, 404])
async def test_a_web_page_leaves_a_connection_as_it_is_unless_it_lasts_an_hour(
    bare: Shop, status: int
) -> None:
    """Keeps a connection that answers with a web page, and asks for reconnecting after an hour of it."""
    before = (await looked(bare)).facts
    bare.fault("status", "*", "/**", status=status, body=PAGE, count=-1)
    await bare.clock.advance(6 * HOURS)
    first = await looked(bare)
    assert first.state is ConnectionState.CONNECTED
    assert first.last_error
    assert status == 404 or "“Just a moment”" in first.last_error
    for _ in range(5):
        await bare.clock.advance(600)
        assert (await looked(bare)).state is ConnectionState.CONNECTED
    bare.world.state.faults.clear()
    await bare.clock.advance(600)
    healed = await looked(bare)
    assert (healed.state, healed.last_error, healed.facts) == (ConnectionState.CONNECTED, None, before)
    bare.fault("status", "*", "/**", status=status, body=PAGE, count=-1)
    await bare.clock.advance(6 * HOURS)
    for minutes in range(0, 60, 10):
        assert (await looked(bare)).state is ConnectionState.CONNECTED, minutes
        await bare.clock.advance(600)
    lost = await looked(bare)
    assert lost.state is ConnectionState.NEEDS_RECONNECTING
    assert lost.last_error


async def test_a_run_whose_key_is_refused_has_the_connection_looked_at(bare: Shop) -> None:
    """Checks a connection at once when a run's read or write finds its key refused.

    See docs/design/connectors.md#errors.
    """
    stored = dict(bare.world.state.shop.keys)
    automation = await bare.hiding()
    waiting = await bare.waiting(automation)
    bare.world.state.shop.keys.clear()
    await bare.approve(waiting)
    await bare.drain()
    assert (await bare.run(waiting)).status is RunStatus.FAILED
    assert "doubted_at" in (await looked(bare)).facts
    bare.world.state.shop.keys.update(stored)
    await bare.clock.advance(60)
    assert "doubted_at" not in (await looked(bare)).facts
    bare.world.state.shop.keys.clear()
    assert (await bare.run_and_drain(automation)).status is RunStatus.FAILED
    assert "doubted_at" in (await looked(bare)).facts
    await bare.clock.advance(60)
    assert (await looked(bare)).state is ConnectionState.NEEDS_RECONNECTING


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("https://steward.example", None),
        ("https://steward.example:8080", None),
        ("http://[2606:4700::1111]", None),
        ("https://steward.example:8443", "ports 80, 443 and 8080"),
        ("http://127.0.0.1:8400", "within a network"),
        ("http://10.1.2.3", "within a network"),
        ("http://[fd00::1]", "within a network"),
        ("http://localhost:8080", "within a network"),
        ("https://steward.shop.lan", "within a network"),
    ],
)
async def test_connecting_warns_of_a_shop_that_cannot_deliver_events(
    world: FakePlatformsClient, address: str, why: str | None
) -> None:
    """Warns at connecting when WordPress could not deliver to our address: private hosts and other ports.

    See docs/design/events.md#subscriptions.
    """
    assert (why or "") in (unreachable_reason(address) or "")
    shop = world.connection("woocommerce")
    http = world.outbound.management_client(ORG, shop.number, shop.connector.endpoint(shop.secrets))
    for near, expected in (((), why), (("127.0.0.1:8500",), None)):
        connector = WooCommerceConnector(private_hosts=near, read_s=20.0, own_address=address)
        health = await connector.check(http, shop.secrets)
        messages = [warned.message for warned in health.warnings if warned.code == "events_not_reached"]
        assert (health.ok, len(messages)) == (True, expected is not None)
        assert not messages or expected is None or expected in messages[0]


async def test_a_silent_shop_stays_connected_and_says_since_when(bare: Shop) -> None:
    """Keeps a silent shop connected and says after 24 hours since when it has not answered.

    See docs/design/connectors.md#errors.
    """
    since = bare.clock.now()
    bare.fault("status", "*", "/wp-json/**", status=500, count=-1)
    await bare.clock.advance(6 * HOURS)
    early = await looked(bare)
    await bare.clock.advance(18 * HOURS)
    late = await looked(bare)
    assert early.state is late.state is ConnectionState.CONNECTED
    assert early.last_error is not None
    assert "since" not in early.last_error
    assert late.last_error is not None
    assert f"since {local_words(since, UTC)} UTC" in late.last_error
