"""Signing in to Google Sheets: PKCE, a state for one use and session, refresh and revocation."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from steward.connections import connect, sign_in
from steward.connections.connect import CheckedConnection
from steward.connections.sign_in import SignedIn, SignInExchange, SignInFailed
from steward.connections.vault import open_secrets
from steward.connectors.base.queries import TABS, VALUES, TabsQuery, ValuesQuery
from steward.database.accounts import connections
from steward.fake_platforms.application import create
from steward.model.connection import Auth, Connection, ConnectionState
from steward.model.ids import IntegrationId
from steward.model.refusals import NotConfigured, ValidationFailed, WrongState
from tests.fake_clock import FakeClock
from tests.runs.shop import HOST, Shop, open_shop

SESSION = "5" * 64


@pytest.fixture
async def bare(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Yields a service whose operator configured the sign-in."""
    spreadsheet = create(1, f"http://{HOST}", clock.now).described()["spreadsheet"]
    opened = await open_shop(
        database_url,
        clock,
        tmp_path,
        STEWARD_GOOGLE_CLIENT_ID=spreadsheet["client_id"],
        STEWARD_GOOGLE_CLIENT_SECRET=spreadsheet["client_secret"],
        STEWARD_GOOGLE_AUTHORIZE_URL=spreadsheet["authorize_url"],
    )
    yield opened
    await opened.service.close()


def apps(shop: Shop) -> sign_in.SignInApps:
    """Returns the configured sign-in apps."""
    return shop.service.context.rules.sign_in


async def begun(shop: Shop, integration: IntegrationId | None = None) -> dict[str, str]:
    """Begins a sign-in and returns the query that Google's page sends back."""
    vault = shop.service.context.vault
    address = await shop.write(
        partial(
            sign_in.start_sign_in, actor=shop.owner, session_hash=SESSION, name="My sheets",
            integration=integration, apps=apps(shop), vault=vault,
        )
    )  # fmt: skip
    query = parse_qs(urlsplit(address).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["access_type"] == ["offline"]
    async with httpx.AsyncClient(transport=shop.world.transport()) as browser:
        response = await browser.get(address)
    target = urlsplit(response.headers["location"])
    assert target.path == "/app/connections/sign-in/callback"
    return {name: values[0] for name, values in parse_qs(target.query).items()}


async def finished(shop: Shop, back: dict[str, str], session: str = SESSION) -> SignedIn:
    """Finishes a sign-in in a session."""
    context = shop.service.context
    sign_in_exchange = SignInExchange(context.engine, context.clock, context.vault, apps(shop))
    return await sign_in_exchange.finish(shop.owner, session, state=back["state"], code=back.get("code"))


async def signed_in(shop: Shop) -> Connection:
    """Connects by sign-in and returns the connection."""
    signed = await finished(shop, await begun(shop))
    vault = shop.service.context.vault
    connected: CheckedConnection = await shop.write(
        partial(connect.connect, actor=shop.owner, name=signed.name, checked=signed.checked, vault=vault)
    )
    return connected.connection


async def test_a_signed_in_account_reads_the_spreadsheet_a_step_names(bare: Shop) -> None:
    """Reads the spreadsheet that a step names, refreshes the token, and reconnects after a revocation.

    See docs/design/api/connections.md#sign-in and docs/design/connectors.md#google-sheets.
    """
    new_connection = await signed_in(bare)
    assert (new_connection.auth, new_connection.state) == (Auth.USER_SIGN_IN, ConnectionState.CONNECTED)
    access = bare.service.worker_context.access
    for _ in range(2):
        reader = await access.reader(bare.owner.org, new_connection)
        pages = reader.read(VALUES, ValuesQuery("Prices", spreadsheet_id="sheet-prices"))
        [table] = [table async for page in pages for table in page.items]
        assert (table.spreadsheet_id, table.tab) == ("sheet-prices", "Prices")
        await bare.clock.advance(3600)
    with pytest.raises(Exception, match="does not name a spreadsheet"):
        _ = [page async for page in reader.read(TABS, TabsQuery())]
    tokens = bare.world.state.google
    tokens.revoke()
    await bare.clock.advance(3600)
    load = partial(connections.get, org=bare.owner.org, integration=new_connection.integration_id)
    connection = await bare.read(load)
    assert connection is not None
    opened = await bare.read(partial(open_secrets, vault=bare.service.context.vault, connection=connection))
    health = await connect.check_again(bare.service.context.vault, connection, opened)
    assert not health.ok
    after = await bare.write(
        partial(
            connect.record_check, org=bare.owner.org, integration=new_connection.integration_id, health=health
        )
    )
    assert after.connection.state is ConnectionState.NEEDS_RECONNECTING
    signed = await finished(bare, await begun(bare, new_connection.integration_id))
    assert signed.integration == new_connection.integration_id
    back = await bare.write(
        partial(
            connect.reconnect, actor=bare.owner, integration=new_connection.integration_id,
            checked=signed.checked,
            vault=bare.service.context.vault,
        )
    )  # fmt: skip
    assert back.connection.state is ConnectionState.CONNECTED


async def test_a_state_is_good_once_for_ten_minutes_and_for_its_session(bare: Shop) -> None:
    """Accepts a state once, within ten minutes and in its own session; names what failed.

    See docs/design/api/connections.md#sign-in.
    """
    back = await begun(bare)
    with pytest.raises(SignInFailed, match="state"):
        await finished(bare, back, session="6" * 64)
    with pytest.raises(SignInFailed, match="state"):  # the wrong session used the state up
        await finished(bare, back)
    with pytest.raises(SignInFailed, match="denied"):
        await finished(bare, {"state": (await begun(bare))["state"]})
    old = await begun(bare)
    await bare.clock.advance(601)
    with pytest.raises(SignInFailed, match="state"):
        await finished(bare, old)
    with pytest.raises(SignInFailed, match="exchange"):
        await finished(bare, {**await begun(bare), "code": "4/of-another"})
    with pytest.raises(SignInFailed, match="state"):
        await finished(bare, {"state": "never-made", "code": "x"})


async def test_a_sign_in_begins_only_where_it_can_end(bare: Shop) -> None:
    """Refuses a sign-in without the operator's app, for an unknown or connected account and another kind.

    See docs/design/api/connections.md#sign-in.
    """
    vault, owner = bare.service.context.vault, bare.owner
    start = partial(sign_in.start_sign_in, actor=owner, session_hash=SESSION, name="x", vault=vault)
    with pytest.raises(NotConfigured):
        await bare.write(partial(start, integration=None, apps=sign_in.SignInApps()))
    with pytest.raises(ValidationFailed):
        await bare.write(partial(start, integration=IntegrationId(999), apps=apps(bare)))
    connection = await signed_in(bare)
    with pytest.raises(WrongState):
        await bare.write(partial(start, integration=connection.integration_id, apps=apps(bare)))
    woo = bare.world.described()["woocommerce"]
    keys = {name: woo[name] for name in ("url", "consumer_key", "consumer_secret")}
    other = await bare.connect("woocommerce", keys)
    with pytest.raises(ValidationFailed):
        await bare.write(partial(start, integration=other.integration_id, apps=apps(bare)))
