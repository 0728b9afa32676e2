"""Refresh tokens that a server replaces with each use: none is used twice and the newest is kept."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from steward.connections import connect, vault
from steward.connections.opening import RunAccess
from steward.connections.refresh_tokens import LEASE, StoredRefreshTokens
from steward.connections.vault import Vault, open_secrets
from steward.connectors.base.queries import HTTP, HttpQuery
from steward.database.accounts import connections
from steward.model.connection import Connection
from steward.outbound.client import Outbound
from steward.outbound.errors import CallRefused, PlatformUnavailable
from steward.outbound.transport import HttpTransport
from steward.telemetry.redact import Secret
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop
from tests.services.fakes import FakeService, SeenRequest, ServiceResponse
from tests.services.oauth_server import CLIENT_ID, CLIENT_SECRET, OAuthServer
from tests.services.running import shop_beside

API = "api.partner.example"
FORM = {
    "hosts": API,
    "person_client_id": CLIENT_ID,
    "person_client_secret": CLIENT_SECRET,
    "person_token_url": "https://auth.partner.example/token",
    "test_url": f"https://{API}/me",
}


@pytest.fixture
def server() -> OAuthServer:
    """Returns a server whose refresh tokens are valid once."""
    return OAuthServer("auth.partner.example", rotates=True)


@pytest.fixture
async def shop(
    database_url: str, clock: FakeClock, tmp_path: Path, server: OAuthServer
) -> AsyncIterator[Shop]:
    """Yields a service beside the server and an API that knows its tokens."""

    def respond(request: SeenRequest) -> ServiceResponse:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        return (200, {"ok": True}) if token in server.access_tokens else (401, {})

    services = FakeService(API, respond), server.service()
    async with shop_beside(database_url, clock, tmp_path, *services) as opened:
        yield opened


async def connected(shop: Shop, server: OAuthServer) -> Connection:
    """Connects the account by a pasted refresh token."""
    server.refresh_tokens.add("pasted")
    return await shop.connect("http_api", {**FORM, "refresh_token": "pasted"})


async def stored(shop: Shop, connection: Connection) -> str:
    """Returns the refresh token that is stored."""
    opened = await shop.read(partial(open_secrets, vault=shop.service.context.vault, connection=connection))
    return opened.sealed["refresh_token"].reveal()


async def ask(shop: Shop, connection: Connection, access: RunAccess | None = None) -> int:
    """Reads the API with the account and returns the status."""
    access = access or shop.service.worker_context.access
    reader = await access.reader(shop.owner.org, connection)
    [page] = [page async for page in reader.read(HTTP, HttpQuery("GET", f"https://{API}/me"))]
    return page.items[0].status


def another_process(shop: Shop) -> RunAccess:
    """Returns the access of another process: the same database with clients and tokens of its own."""
    vault = shop.service.context.vault
    log = shop.service.log
    wire = HttpTransport(shop.clock, vault.register, log, transport=shop.world.transport())
    other = Vault(vault.masters, vault.connectors, Outbound(wire), vault.register)
    wire.refresh_tokens = StoredRefreshTokens(shop.service.engine, shop.clock, other, log)
    return RunAccess(shop.service.engine, shop.clock, other)


async def test_each_token_is_used_once_and_the_newest_is_kept(shop: Shop, server: OAuthServer) -> None:
    """Uses each token once and stores its successor, also when two processes use the account."""
    connection = await connected(shop, server)
    assert server.spent == {"pasted"}
    other = another_process(shop)
    for _ in range(3):
        assert {await stored(shop, connection)} == server.refresh_tokens
        assert await ask(shop, connection) == 200
        assert await ask(shop, connection, other) == 200
        await shop.clock.advance(server.lifetime_s)
    assert len(server.spent) == 1 + 6 - 1  # the first process still had the access token of the check


async def test_two_processes_take_turns(shop: Shop, server: OAuthServer) -> None:
    """Serialises the exchanges of two processes by a lease, so that neither uses a spent token."""
    connection = await connected(shop, server)
    await shop.clock.advance(server.lifetime_s)
    both = asyncio.gather(
        ask(shop, connection), ask(shop, connection, another_process(shop)), return_exceptions=True
    )
    assert await shop.clock.through(both_of(both)) == [200, 200]
    assert {await stored(shop, connection)} == server.refresh_tokens


async def both_of(work: "asyncio.Future[list[int | BaseException]]") -> list[int | BaseException]:
    """Returns the results of both reads."""
    return await work


async def test_a_lease_of_a_process_that_died_ends(shop: Shop, server: OAuthServer) -> None:
    """Waits for the end of a dead process's lease and then exchanges."""
    connection = await connected(shop, server)
    await shop.clock.advance(server.lifetime_s)
    until = shop.clock.now() + LEASE
    take = partial(
        connections.lease_token, org=connection.org, integration=connection.integration_id, lease="dead",
        until=until,
    )  # fmt: skip
    assert await shop.write(take)
    assert await shop.clock.through(ask(shop, connection)) == 200
    assert shop.clock.now() >= until


async def test_a_lease_that_is_held_on_and_on_ends_in_words(shop: Shop, server: OAuthServer) -> None:
    """Raises PlatformUnavailable when another process holds the lease longer than a lease lasts."""
    connection = await connected(shop, server)
    tokens = StoredRefreshTokens(
        shop.service.engine, shop.clock, shop.service.context.vault, shop.service.log
    )
    take = partial(
        connections.lease_token, org=connection.org, integration=connection.integration_id, lease="other",
        until=shop.clock.now() + 2 * LEASE,
    )  # fmt: skip
    assert await shop.write(take)

    async def hold() -> None:
        async with tokens.leased(connection.org, connection.integration_id):
            raise AssertionError

    with pytest.raises(PlatformUnavailable, match="Another process"):
        await shop.clock.through(hold())


async def test_a_token_is_not_kept_over_other_keys(shop: Shop, server: OAuthServer) -> None:
    """Keeps the newer keys of a person who reconnected meanwhile; a disconnected account gets no lease."""
    connection = await connected(shop, server)
    tokens = StoredRefreshTokens(
        shop.service.engine, shop.clock, shop.service.context.vault, shop.service.log
    )
    number = connection.integration_id
    async with tokens.leased(connection.org, number) as held:
        keep = partial(
            vault.replace_secrets, vault=shop.service.context.vault, org=connection.org, integration=number,
            version=9,
            secrets={"refresh_token": Secret("of a person"), "person_client_secret": Secret("x")},
        )  # fmt: skip
        await shop.write(keep)
        await held.store(Secret("late"))
    assert await stored(shop, connection) == "of a person"
    await shop.write(partial(connect.disconnect, actor=shop.owner, integration=number))
    with pytest.raises(CallRefused, match="no sign-in"):
        async with tokens.leased(connection.org, number):
            pass


async def test_an_exchange_is_kept_when_nobody_waits_for_it(shop: Shop, server: OAuthServer) -> None:
    """Stores the new token of an exchange whose caller was cancelled."""
    connection = await connected(shop, server)
    await shop.clock.advance(server.lifetime_s)
    server.exchanged.clear()
    asking = asyncio.ensure_future(ask(shop, connection))
    await server.exchanged.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await shop.clock.through(ask(shop, connection)) == 200
    assert {await stored(shop, connection)} == server.refresh_tokens
