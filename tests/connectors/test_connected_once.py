"""An account of any kind is connected once in an organization; the refusal names the connection."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from steward.accounts import organizations
from steward.accounts.organizations import CreateOrganization
from steward.connections import connect
from steward.model.refusals import ValidationFailed
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, open_shop

Settings = dict[str, Any]


@pytest.fixture
async def bare(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Yields a service without a connection."""
    opened = await open_shop(database_url, clock, tmp_path)
    yield opened
    await opened.service.close()


def _woocommerce(world: Settings) -> tuple[Settings, Settings]:
    keys = {name: world["woocommerce"][name] for name in ("url", "consumer_key", "consumer_secret")}
    return keys, {**keys, "url": f"{keys['url']}/"}


def _spreadsheet(world: Settings) -> tuple[Settings, Settings]:
    settings = {
        "service_account": world["spreadsheet"]["service_account"],
        "spreadsheet_id": "sheet-prices",
    }
    return settings, dict(settings)


def _teams(world: Settings) -> tuple[Settings, Settings]:
    address = world["teams"]["webhook_url"]
    return {"webhook_url": address}, {"webhook_url": f" {address} "}


def _cloud_s3(world: Settings) -> tuple[Settings, Settings]:
    names = ("endpoint_url", "region", "bucket", "access_key_id", "secret_access_key")
    settings = {name: world["cloud_s3"][name] for name in names}
    return settings, {**settings, "endpoint_url": f"{settings['endpoint_url']}/"}


KINDS: dict[str, Callable[[Settings], tuple[Settings, Settings]]] = {
    "woocommerce": _woocommerce,
    "spreadsheet": _spreadsheet,
    "teams": _teams,
    "cloud_s3": _cloud_s3,
}


@pytest.mark.parametrize("kind", KINDS)
async def test_the_same_account_is_connected_once(bare: Shop, kind: str) -> None:
    """Refuses a second connection of the account, also in another spelling or after a disconnect.

    Another organization may connect it.
    """
    first_settings, again = KINDS[kind](bare.world.described())
    connection = await bare.connect(kind, first_settings)
    for settings in (first_settings, again):
        with pytest.raises(ValidationFailed) as refused:
            await bare.connect(kind, settings)
        assert refused.value.errors is not None
        [[words]] = refused.value.errors.values()
        assert words == f"This is connected already, as The {kind} (number {connection.integration_id})."
    other = await bare.write(partial(organizations.create, command=CreateOrganization("Other Shop")))
    actor = bare.owner
    bare.owner = replace(actor, org=other.id)
    await bare.connect(kind, first_settings)
    bare.owner = actor
    await bare.write(partial(connect.disconnect, actor=actor, integration=connection.integration_id))
    with pytest.raises(ValidationFailed) as refused:
        await bare.connect(kind, first_settings)
    assert refused.value.errors is not None
    [[words]] = refused.value.errors.values()
    assert words == f"This was The {kind} (number {connection.integration_id}). Reconnect that one."
