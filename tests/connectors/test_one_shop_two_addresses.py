"""A shop is one connection however its address is spelled; an unusable address is explained."""

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from steward.connections import account_check, connect
from steward.connections.health import ConnectionChecks, check_due
from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.model.connection import Connection
from steward.model.refusals import ValidationFailed
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, open_shop


@pytest.fixture
async def bare(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Yields a service without a connection."""
    opened = await open_shop(database_url, clock, tmp_path)
    yield opened
    await opened.service.close()


def _keys(shop: Shop, suffix: str = "") -> dict[str, str]:
    woo = shop.world.described()["woocommerce"]
    keys = {name: woo[name] for name in ("url", "consumer_key", "consumer_secret")}
    return {**keys, "url": f"{keys['url']}{suffix}"}


async def _refused(shop: Shop, suffix: str) -> str:
    with pytest.raises(ValidationFailed) as refusal:
        await shop.connect("woocommerce", _keys(shop, suffix))
    assert refusal.value.errors is not None
    [[words]] = [refusal.value.errors["settings.url"]]
    return str(words)


async def _count(shop: Shop) -> int:
    return len(await shop.read(partial(connections.find, org=shop.owner.org, kind="woocommerce")))


@pytest.mark.parametrize(("first", "second"), [("", "/index.php"), ("/index.php", ""), ("", "/")])
async def test_a_second_spelling_of_its_address_is_the_same_shop(bare: Shop, first: str, second: str) -> None:
    """Refuses a second spelling by the address that the shop states, and names the connection."""
    connection = await bare.connect("woocommerce", _keys(bare, first))
    words = await _refused(bare, second)
    assert "connected already" in words
    assert f"number {connection.integration_id}" in words
    assert await _count(bare) == 1


async def test_another_shop_at_another_path_is_another_connection(bare: Shop) -> None:
    """Connects a second shop at another path of the same host, as in a WordPress network of sites."""
    await bare.connect("woocommerce", _keys(bare))
    bare.world.state.shop.url += "/second"
    await bare.connect("woocommerce", _keys(bare, "/index.php"))
    assert await _count(bare) == 2


async def test_a_shop_is_connected_again_under_another_spelling(bare: Shop) -> None:
    """Reconnects a shop under another spelling of its address."""
    connection = await bare.connect("woocommerce", _keys(bare))
    number = connection.integration_id

    async def disconnected(tx: Tx) -> Connection:
        return await connect.disconnect(tx, bare.owner, number)

    await bare.write(disconnected)
    vault, now = bare.service.context.vault, bare.clock.now()
    org, settings = bare.owner.org, _keys(bare, "/index.php")
    checked = await account_check.check_settings(vault, org, "woocommerce", submitted=settings, now=now)
    again = partial(connect.reconnect, actor=bare.owner, integration=number, checked=checked, vault=vault)
    assert (await bare.write(again)).connection.facts["identity"] == connection.facts["identity"]


async def test_a_connection_of_before_learns_its_shops_address_with_its_next_check(bare: Shop) -> None:
    """Learns the stated address of an older connection with its next check."""
    connection = await bare.connect("woocommerce", _keys(bare, "/index.php"))
    number = connection.integration_id

    async def forgotten(tx: Tx) -> None:
        found_connection = await connections.get(tx, bare.owner.org, number)
        assert found_connection is not None
        facts = {name: value for name, value in found_connection.facts.items() if name != "identity"}
        fresh = replace(found_connection, facts=facts, version=found_connection.version + 1)
        assert await connections.save(tx, bare.owner.org, fresh, expected_version=found_connection.version)

    await bare.write(forgotten)
    await bare.clock.advance(6 * 3600)
    ctx = bare.service.worker_context
    await check_due(ConnectionChecks(ctx.engine, ctx.clock, ctx.vault, ctx.log))
    assert "connected already" in await _refused(bare, "")


async def test_plain_permalinks_are_reported_with_how_to_change_them(bare: Shop) -> None:
    """Explains how to change plain permalinks when the shop answers only in the query form."""
    bare.world.state.shop.plain_permalinks = True
    words = await _refused(bare, "")
    assert "Plain permalinks" in words
    assert "Settings, Permalinks" in words
    bare.world.state.shop.plain_permalinks = False
    await bare.connect("woocommerce", _keys(bare))


async def test_an_address_without_a_shop_is_not_taken_for_plain_permalinks(bare: Shop) -> None:
    """Reports a path without WordPress as an address that does not answer."""
    words = await _refused(bare, "/somewhere")
    assert "does not answer under this address" in words
    assert "uses Plain" not in words
