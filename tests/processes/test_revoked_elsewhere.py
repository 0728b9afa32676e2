"""Tests two API processes over one PostgreSQL: both refuse at once what one of them has ended."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.processes.ports import free_port
from tests.processes.running import PASSWORD, Site, open_site, run_forked, start_forked

EMAIL = "owner@shop.example"
STATUS, SESSION = "/v1/automations/status", "/app/session"


@pytest.fixture
async def two(
    postgresql_url: str, tmp_path: Path
) -> AsyncIterator[tuple[Site, httpx.AsyncClient, httpx.AsyncClient]]:
    """Provides a served site and clients without cookies, of its process and of a second one."""
    async with open_site(postgresql_url, tmp_path, STEWARD_LIMIT_LOGIN="10000") as site:
        listen = f"127.0.0.1:{free_port()}"
        second = await start_forked("serve", env={**site.env, "STEWARD_LISTEN": listen})
        try:
            async with (
                httpx.AsyncClient(base_url=site.env["STEWARD_BASE_URL"], timeout=30) as here,
                httpx.AsyncClient(base_url=f"http://{listen}", timeout=30) as there,
            ):
                yield site, here, there
        finally:
            await second.stop()


async def token_of(client: httpx.AsyncClient, credential: dict[str, str], secret: str) -> dict[str, str]:
    """Signs in with a credential and returns the headers of a call."""
    body = {
        "username": "The Owner",
        "email": EMAIL,
        "organization_name": "Test Shop",
        "client_id": credential["client_id"],
        "client_secret": secret,
    }
    response = await client.post("/v2/api/automations/login", json=body)
    assert response.status_code == 200, response.text
    return {"authorization": f"Bearer {response.json()['access_token']}"}


async def test_ended_credentials_are_refused_by_every_process(
    two: tuple[Site, httpx.AsyncClient, httpx.AsyncClient],
) -> None:
    """Refuses rotated and disabled credentials, ended sessions and deactivated people in both processes."""
    site, current, there = two
    issued = await run_forked("credential", "issue", "--org", "Test Shop", env=site.env)
    credential, secret = issued["credential"], issued["client_secret"]

    async def by_token(headers: dict[str, str]) -> list[int]:
        return [(await client.get(STATUS, headers=headers)).status_code for client in (current, there)]

    async def by_session(headers: dict[str, str]) -> list[int]:
        return [(await client.get(SESSION, headers=headers)).status_code for client in (current, there)]

    async def sign_in(client: httpx.AsyncClient) -> dict[str, str]:
        response = await client.post(SESSION, json={"email": EMAIL, "password": PASSWORD})
        assert response.status_code == 200, response.text
        cookie = "; ".join(f"{name}={value}" for name, value in response.cookies.items())
        client.cookies.clear()
        return {"cookie": cookie, "X-CSRF-Token": response.json()["data"]["session"]["csrf_token"]}

    client_id = ("--client-id", credential["client_id"])
    token = await token_of(there, credential, secret)
    assert await by_token(token) == [200, 200]
    secret = (await run_forked("credential", "rotate", *client_id, env=site.env))["client_secret"]
    assert await by_token(token) == [401, 401]
    token = await token_of(current, credential, secret)
    await run_forked("credential", "disable", *client_id, env=site.env)
    assert await by_token(token) == [401, 401]
    await run_forked("credential", "enable", *client_id, env=site.env)
    token = await token_of(there, credential, secret)
    session = await sign_in(there)
    assert await by_session(session) == [200, 200]
    assert (await current.delete(SESSION, headers=session)).status_code == 200
    assert await by_session(session) == [401, 401]
    session = await sign_in(current)
    assert await by_session(session) == [200, 200]
    await run_forked("user", "deactivate", "--user", EMAIL, env=site.env)
    assert await by_token(token) == [401, 401]
    assert await by_session(session) == [401, 401]
