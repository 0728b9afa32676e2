"""Connecting the same account twice, one after the other and at once (connectors 10, contract 6.4)."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from steward.connections import connect
from steward.model.connection import ConnectionState
from steward.model.refusals import ValidationFailed, WrongState
from steward.store import connections
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, open_shop


@pytest.fixture
async def bare(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """A service beside the pretend shop, nothing connected."""
    opened = await open_shop(database_url, clock, tmp_path)
    yield opened
    await opened.service.close()


def _keys(shop: Shop) -> dict[str, str]:
    woo = shop.world.described()["woocommerce"]
    return {name: woo[name] for name in ("url", "consumer_key", "consumer_secret")}


async def test_one_store_is_connected_once_however_many_ask_at_once(bare: Shop) -> None:
    """connectors 10: the same store twice is refused within the organisation"""
    vault, org = bare.service.fittings.vault, bare.owner.org
    tried = await connect.try_settings(vault, org, "woocommerce", given=_keys(bare), now=bare.clock.now())

    async def ask() -> list[str]:
        keep = partial(connect.connect, actor=bare.owner, name="Shop", tried=tried, vault=vault)
        try:
            await bare.write(keep)
        except ValidationFailed as refusal:
            return list(refusal.errors or {})
        return []

    assert sorted(await asyncio.gather(*(ask() for _ in range(6)))) == [[]] + [["settings.url"]] * 5
    found = await bare.read(partial(connections.find, org=org))
    assert [one.state for one in found] == [ConnectionState.CONNECTED]


async def test_a_connected_connection_cannot_be_reconnected(bare: Shop) -> None:
    """contract 4.5: any other pair answers wrong_state; a disconnected one keeps its number"""
    made = await bare.connect("woocommerce", _keys(bare))
    vault, org = bare.service.fittings.vault, bare.owner.org
    tried = await connect.try_settings(vault, org, "woocommerce", given=_keys(bare), now=bare.clock.now())
    number = made.integration_id
    again = partial(connect.reconnect, actor=bare.owner, integration=number, tried=tried, vault=vault)
    with pytest.raises(WrongState):
        await bare.write(again)
    await bare.write(partial(connect.disconnect, actor=bare.owner, integration=number))
    assert await bare.read(partial(connections.secrets, org=org, integration=number)) == []
    back = await bare.write(again)
    assert (back.connection.integration_id, back.connection.state) == (number, ConnectionState.CONNECTED)
