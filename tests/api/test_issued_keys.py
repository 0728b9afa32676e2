"""A shop connects by keys that it issues itself after the owner agrees on the shop's page.

See docs/design/api/connections.md#keys-issued-by-the-shop.
"""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from steward.database.engine.base import Tx
from tests.people import Caller
from tests.populated_service import PopulatedService, populated

__all__ = ["populated"]  # the fixture

PUBLIC = "https://steward.example"
AUTHORIZE_PATH = "/app/connections/woocommerce/authorize"


@pytest.fixture
async def owner(populated: PopulatedService) -> Caller:
    """Returns an owner at a public address whose shop can reach the service; only the cast is connected."""
    populated.service.restart(base_url=PUBLIC, web_origin=PUBLIC)
    populated.shop.world.set_webhook_transport(httpx.ASGITransport(app=populated.service.app))
    return await populated.service.web("owner")


async def disconnected(populated: PopulatedService, owner: Caller) -> tuple[int, str]:
    """Disconnects the shop of the cast and returns its number and address."""
    number = populated.number("woocommerce")
    assert (await owner.post(f"/app/connections/{number}/disconnect", {})).status == 200
    return number, populated.shop.world.described()["woocommerce"]["url"]


async def at_the_shop(populated: PopulatedService, page: str) -> httpx.Response:
    """Allows the access on the shop's page and returns what the browser ends with."""
    async with httpx.AsyncClient(transport=populated.shop.world.transport()) as browser:
        return await browser.get(page)


async def state_of(owner: Caller, number: int) -> str:
    """Returns the state of a connection."""
    listed = (await owner.get("/app/connections?limit=200")).data["connections"]
    return next(item["state"] for item in listed if item["integration_id"] == number)


def begun(number: int, url: str) -> dict[str, Any]:
    """Returns the body that requests keys of the shop of the cast."""
    return {"url": url, "name": "Northwind Tea", "integration_id": number}


async def test_a_shop_is_connected_without_copying_a_key(populated: PopulatedService, owner: Caller) -> None:
    """Connects the shop with the keys that it sends, returns the browser, and accepts a state once."""
    number, url = await disconnected(populated, owner)
    page = (await owner.post(AUTHORIZE_PATH, begun(number, url))).data["authorize_url"]
    query = {name: values[0] for name, values in parse_qs(urlsplit(page).query).items()}
    assert query["scope"] == "read_write"
    back = await at_the_shop(populated, page)
    assert back.status_code == 302, back.text
    assert back.headers["location"].startswith(f"{PUBLIC}/connections?from=shop&success=1")
    assert await state_of(owner, number) == "connected"
    again = await at_the_shop(populated, page)
    assert again.status_code == 401, "a state serves once, and the shop deletes the keys nobody took"


async def test_keys_that_do_not_open_the_shop_connect_nothing(
    populated: PopulatedService, owner: Caller
) -> None:
    """Connects nothing with keys that the shop refuses; a wrong or used state is 404 and a long body 413."""
    number, url = await disconnected(populated, owner)
    page = (await owner.post(AUTHORIZE_PATH, begun(number, url))).data["authorize_url"]
    [state], [callback] = (parse_qs(urlsplit(page).query)[name] for name in ("user_id", "callback_url"))
    path = urlsplit(callback).path
    offered = {"user_id": state, "consumer_key": "ck_0", "consumer_secret": "cs_0"}
    stranger = populated.service.nobody()
    assert (await stranger.post(path, {**offered, "user_id": "another"})).status == 404
    assert (await stranger.post(path, {**offered, "more": "x" * 5000})).status == 413
    assert (await stranger.post(f"{path[:-1]}{'A' if path[-1] != 'A' else 'B'}", offered)).status == 404
    refused = await stranger.post(path, offered)
    assert (refused.status, refused.code) == (422, "validation_failed")
    assert await state_of(owner, number) == "disconnected"
    assert (await stranger.post(path, offered)).status == 404


@pytest.mark.parametrize("what", ["late", "no owner"])
async def test_the_one_who_began_must_be_in_time_and_an_owner(
    populated: PopulatedService, owner: Caller, what: str
) -> None:
    """Refuses the keys after ten minutes, or when the person is no longer an owner; the shop deletes them."""
    number, url = await disconnected(populated, owner)
    page = (await owner.post(AUTHORIZE_PATH, begun(number, url))).data["authorize_url"]
    person = populated.service.members["owner"]

    async def demote(tx: Tx) -> None:
        await tx.execute(
            "UPDATE members SET role = 'member' WHERE org_id = :org AND person_id = :person",
            {"org": person.org, "person": person.person.id},
        )

    if what == "late":
        populated.service.clock.tick(601)
    else:
        await populated.service.write(demote, org=person.org)
    keys = set(populated.shop.world.state.shop.keys)
    assert (await at_the_shop(populated, page)).status_code == 401
    assert set(populated.shop.world.state.shop.keys) == keys


async def test_a_private_address_is_asked_for_keys_instead(populated: PopulatedService) -> None:
    """Tells an owner at a private address to enter keys, on the attempt and in the list of kinds."""
    owner = await populated.service.web("owner")
    refused = await owner.post(AUTHORIZE_PATH, {"url": "https://shop.example", "name": "Shop"})
    assert refused.status == 422
    assert "Enter the keys" in refused.errors["url"][0]
    kinds = (await owner.get("/app/connections/kinds")).data["kinds"]
    shop = next(kind for kind in kinds if kind["kind"] == "woocommerce")
    assert shop["issues_keys"]
    assert shop["no_keys_reason"] == refused.errors["url"][0]
