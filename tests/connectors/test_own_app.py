"""A person signs in to an HTTP API in the browser with their own app there."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from steward.connections import connect, sign_in
from steward.connections.sign_in import SignedIn, SignInExchange, SignInFailed
from steward.model.connection import Auth, Connection, ConnectionState
from steward.model.ids import IntegrationId
from steward.model.refusals import ValidationFailed
from tests.connectors.test_refresh_tokens import API, FORM, ask, stored
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop
from tests.services.fakes import FakeService, SeenRequest, ServiceResponse
from tests.services.oauth_server import OAuthServer
from tests.services.running import shop_beside

SESSION = "5" * 64
SIGN_IN = {**FORM, "authorize_url": "https://auth.partner.example/authorize", "scope": "orders:read"}


@pytest.fixture
def server() -> OAuthServer:
    """Returns the partner's OAuth server."""
    return OAuthServer("auth.partner.example", rotates=True)


@pytest.fixture
async def shop(
    database_url: str, clock: FakeClock, tmp_path: Path, server: OAuthServer
) -> AsyncIterator[Shop]:
    """Yields a service beside the server and an API that knows its tokens."""

    def respond(request: SeenRequest) -> ServiceResponse:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        is_known = token in server.access_tokens and not server.rejects
        return (200, {"ok": True}) if is_known else (401, {})

    services = FakeService(API, respond), server.service()
    async with shop_beside(database_url, clock, tmp_path, *services) as opened:
        yield opened


async def begun(shop: Shop, form: dict[str, Any], integration: IntegrationId | None = None) -> str:
    """Begins a sign-in and returns the address that the browser opens."""
    context = shop.service.context
    return await shop.write(
        partial(
            sign_in.start_sign_in, actor=shop.owner, session_hash=SESSION, kind="http_api", name="Partner",
            integration=integration, apps=context.rules.sign_in, vault=context.vault, form=form,
        )
    )  # fmt: skip


async def finished(shop: Shop, back: dict[str, str]) -> SignedIn:
    """Finishes a sign-in with what the partner's page sent back."""
    context = shop.service.context
    exchange = SignInExchange(context.engine, context.clock, context.vault, context.rules.sign_in)
    return await exchange.finish(shop.owner, SESSION, state=back["state"], code=back["code"])


async def signed_in(shop: Shop, server: OAuthServer, **more: str) -> Connection:
    """Signs in and stores the connection."""
    signed = await finished(shop, server.consent(await begun(shop, {**SIGN_IN, **more})))
    vault = shop.service.context.vault
    connected = await shop.write(
        partial(connect.connect, actor=shop.owner, name="Partner", checked=signed.checked, vault=vault)
    )
    return connected.connection


@pytest.mark.parametrize("client_in", ["body", "header"])
async def test_a_signed_in_account_reads_and_its_tokens_are_kept(
    shop: Shop, server: OAuthServer, client_in: str
) -> None:
    """Exchanges the code with PKCE, keeps the refresh token that replaced the used one, and reads the API."""
    server.has_basic_auth = client_in == "header"
    connection = await signed_in(shop, server, client_in=client_in)
    assert (connection.auth, connection.state) == (Auth.USER_SIGN_IN, ConnectionState.CONNECTED)
    assert {await stored(shop, connection)} == server.refresh_tokens
    await shop.clock.advance(server.lifetime_s)
    assert await ask(shop, connection) == 200
    assert {await stored(shop, connection)} == server.refresh_tokens


async def test_a_connection_signs_in_again_to_the_same_account(shop: Shop, server: OAuthServer) -> None:
    """Signs a disconnected connection in again under the same number."""
    connection = await signed_in(shop, server)
    number = connection.integration_id
    await shop.write(partial(connect.disconnect, actor=shop.owner, integration=number))
    signed = await finished(shop, server.consent(await begun(shop, SIGN_IN, number)))
    vault = shop.service.context.vault
    again = await shop.write(
        partial(connect.reconnect, actor=shop.owner, integration=number, checked=signed.checked, vault=vault)
    )
    assert again.connection.state is ConnectionState.CONNECTED
    assert await ask(shop, again.connection) == 200


async def test_an_access_token_that_lasts_is_enough(shop: Shop, server: OAuthServer) -> None:
    """Accepts an access token without a lifetime and without a refresh token."""
    server.gives_refresh = False
    connection = await signed_in(shop, server)
    assert await ask(shop, connection) == 200


async def test_a_server_that_refuses_the_code_connects_nothing(shop: Shop, server: OAuthServer) -> None:
    """Connects nothing with a wrong code or with tokens that the API refuses."""
    back = server.consent(await begun(shop, SIGN_IN))
    with pytest.raises(SignInFailed, match="exchange"):
        await finished(shop, {**back, "code": "other"})
    back = server.consent(await begun(shop, SIGN_IN))
    server.rejects = True  # the API refuses all tokens
    with pytest.raises(SignInFailed, match="exchange"):
        await finished(shop, back)


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({**SIGN_IN, "authorize_url": "http://auth.partner.example/authorize"}, "settings.authorize_url"),
        ({**SIGN_IN, "authorize_url": "javascript:alert(1)"}, "settings.authorize_url"),
        ({**SIGN_IN, "person_token_url": "https://127.0.0.1/token"}, "settings.person_token_url"),
        ({**SIGN_IN, "person_client_secret": ""}, "settings.person_client_secret"),
        ({**SIGN_IN, "hosts": ""}, "settings.hosts"),
        ({**SIGN_IN, "refresh_token": "x"}, "settings.refresh_token"),
        ({}, "settings.authorize_url"),
    ],
)
async def test_a_form_that_cannot_be_signed_in_with_is_refused(
    shop: Shop, form: dict[str, Any], field: str
) -> None:
    """Names the invalid field before the browser leaves."""
    with pytest.raises(ValidationFailed) as refused:
        await begun(shop, form)
    assert field in refused.value.errors


async def test_a_sign_in_with_the_operators_app_takes_no_settings(shop: Shop) -> None:
    """Refuses settings for a sign-in with the operator's app."""
    context = shop.service.context
    start = partial(
        sign_in.start_sign_in, actor=shop.owner, session_hash=SESSION, kind="gmail", name="x",
        integration=None, apps=context.rules.sign_in, vault=context.vault, form={"hosts": "x"},
    )  # fmt: skip
    with pytest.raises(ValidationFailed) as refused:
        await shop.write(start)
    assert "settings" in refused.value.errors
