"""Tests connecting the same account twice, one after the other and at the same time.

See docs/design/api/connections.md#connecting.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from steward.connections import account_check, connect
from steward.database.accounts import connections
from steward.database.automations import records as automations
from steward.database.engine.base import Tx
from steward.model.connection import ConnectionState
from steward.model.ids import AutomationId, new_id
from steward.model.refusals import ValidationFailed, WrongState
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, connect_all, open_shop


@pytest.fixture
async def bare(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Provides a service with nothing connected."""
    opened = await open_shop(database_url, clock, tmp_path)
    yield opened
    await opened.service.close()


def _keys(shop: Shop) -> dict[str, str]:
    woo = shop.world.described()["woocommerce"]
    return {name: woo[name] for name in ("url", "consumer_key", "consumer_secret")}


async def test_one_store_is_connected_once_however_many_ask_at_once(bare: Shop) -> None:
    """Of many simultaneous requests to connect one store, one succeeds.

    See docs/design/api/connections.md#connecting.
    """
    vault, org = bare.service.context.vault, bare.owner.org
    checked = await account_check.check_settings(
        vault, org, "woocommerce", submitted=_keys(bare), now=bare.clock.now()
    )

    async def ask() -> list[str]:
        keep = partial(connect.connect, actor=bare.owner, name="Shop", checked=checked, vault=vault)
        try:
            await bare.write(keep)
        except ValidationFailed as refusal:
            return list(refusal.errors or {})
        return []

    assert sorted(await asyncio.gather(*(ask() for _ in range(6)))) == [[]] + [["settings.url"]] * 5
    found_connections = await bare.read(partial(connections.find, org=org))
    assert [connection.state for connection in found_connections] == [ConnectionState.CONNECTED]


async def test_a_connected_connection_cannot_be_reconnected(bare: Shop) -> None:
    """Reconnecting a connected account answers wrong_state; a disconnected one keeps its id.

    See docs/design/api/connections.md#states.
    """
    connection = await bare.connect("woocommerce", _keys(bare))
    vault, org = bare.service.context.vault, bare.owner.org
    checked = await account_check.check_settings(
        vault, org, "woocommerce", submitted=_keys(bare), now=bare.clock.now()
    )
    number = connection.integration_id
    again = partial(connect.reconnect, actor=bare.owner, integration=number, checked=checked, vault=vault)
    with pytest.raises(WrongState):
        await bare.write(again)
    await bare.write(partial(connect.disconnect, actor=bare.owner, integration=number))
    assert await bare.read(partial(connections.secrets, org=org, integration=number)) == []
    back = await bare.write(again)
    assert (back.connection.integration_id, back.connection.state) == (number, ConnectionState.CONNECTED)


async def test_a_rename_meanwhile_is_followed(postgresql_url: str, clock: FakeClock, tmp_path: Path) -> None:
    """A store renamed between an update's read and its write, or before a create, keeps the new name.

    See docs/design/api/connections.md#connecting.
    """
    shop = await open_shop(postgresql_url, clock, tmp_path)
    await connect_all(shop)
    automation = await shop.hiding()
    store, org = shop.connections["woocommerce"].integration_id, shop.owner.org

    async def update(tx: Tx) -> None:
        before = await automations.get(tx, org, automation.id)
        await shop.write(partial(connect.rename, actor=shop.owner, integration=store, name="Renamed"))
        await automations.save(tx, org, replace(before, name="Another", version=2), expected_version=1)
        await automations.insert(tx, org, replace(before, id=AutomationId(new_id(clock.now()))))

    await shop.write(update)

    async def labels(tx: Tx) -> list[tuple[str, str]]:
        rows = await tx.all("SELECT name, store_label FROM automations WHERE org_id = :org", {"org": org})
        return sorted((row["name"], row["store_label"]) for row in rows)

    assert await shop.read(labels) == [("Another", "Renamed"), (automation.name, "Renamed")]
    await shop.service.close()
