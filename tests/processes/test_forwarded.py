"""Tests which client address counts behind proxies, by the limits and records of a served process."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx

from steward.database.engine.migrate import sqlite_path
from tests.processes.running import PASSWORD, run_forked, start_forked, steward

PROXY, SECOND_PROXY, NEAR, STRANGER = "127.0.0.2", "127.0.3.1", "127.0.0.1", "127.0.0.9"
LIMIT = 10
EMAIL = "owner@shop.example"


@asynccontextmanager
async def served(database_url: str, folder: Path) -> AsyncIterator[str]:
    """Serves a service that trusts two proxies and has one person; yields its address."""
    env = {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": database_url,
        "STEWARD_DATA_DIR": str(folder),
        "STEWARD_METRICS_LISTEN": "off",
        "STEWARD_TRUSTED_PROXIES": f"{PROXY}/32,127.0.3.0/24",
    }
    await run_forked("org", "create", "--name", "Test Shop", env=env)
    words = ["--email", EMAIL, "--first-name", "The", "--last-name", "Owner", "--org", "Test Shop"]
    await steward("user", "create", *words, "--role", "owner", "--password-stdin", env=env, stdin=PASSWORD)
    serving = await start_forked("serve", "--host", "0.0.0.0", "--port", "0", env=env)
    try:
        yield f"http://127.0.0.1:{serving.facts['listen'].rpartition(':')[2]}"
    finally:
        await serving.stop()


class LocalAddress:
    """Makes calls from one address of this machine."""

    def __init__(self, url: str, peer: str) -> None:
        transport = httpx.AsyncHTTPTransport(local_address=peer)
        self._client = httpx.AsyncClient(base_url=url, transport=transport, timeout=30)

    async def tries(self, count: int, **headers: str) -> list[int]:
        """Returns the statuses of this many logins; `{}` in a header is the number of the attempt."""
        statuses = []
        async with self._client as client:
            for number in range(count):
                header_fields = {
                    name.replace("_", "-"): value.format(number) for name, value in headers.items()
                }
                statuses.append(
                    (
                        await client.post("/v2/api/automations/login", json={}, headers=header_fields)
                    ).status_code
                )
        return statuses

    async def signs_in(self, **headers: str) -> int:
        """Returns the status of a sign-in to the web app."""
        header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._client as client:
            response = await client.post(
                "/app/session", json={"email": EMAIL, "password": PASSWORD}, headers=header_fields
            )
        return response.status_code


async def test_limits_and_sessions_know_the_client_behind_trusted_proxies(
    sqlite_url: str, tmp_path: Path
) -> None:
    """Counts the rightmost address that is not a trusted proxy, and not what a client claims itself."""
    spent = [422] * LIMIT + [429]
    async with served(sqlite_url, tmp_path) as url:
        # Each client behind the proxy has its own limit, whatever addresses it claims.
        assert (
            await LocalAddress(url, PROXY).tries(LIMIT + 1, X_Forwarded_For="9.9.9.{}, 198.51.100.1") == spent
        )
        assert await LocalAddress(url, PROXY).tries(1, X_Forwarded_For="198.51.100.1") == [429]
        assert await LocalAddress(url, SECOND_PROXY).tries(1, X_Forwarded_For="198.51.100.1, 127.0.0.2") == [
            429
        ]
        assert await LocalAddress(url, PROXY).tries(1, X_Forwarded_For="198.51.100.2") == [422]
        # A peer that is not a trusted proxy counts by its own address, whatever it sends.
        assert await LocalAddress(url, STRANGER).tries(LIMIT + 1, X_Forwarded_For="198.51.101.{}") == spent
        assert await LocalAddress(url, STRANGER).tries(1, X_Forwarded_For="127.0.0.2") == [429]
        # No other header is read, not even from a proxy.
        others = {
            "Forwarded": "for=198.51.102.{}",
            "X_Real_IP": "198.51.103.{}",
            "Client_IP": "1.1.1.{}",
        }
        assert await LocalAddress(url, PROXY).tries(LIMIT + 1, **others) == spent
        # One network of IPv6 counts as one client.
        address = "2001:db8:1:2:{}::1"
        assert await LocalAddress(url, PROXY).tries(LIMIT + 1, X_Forwarded_For=address) == spent
        assert await LocalAddress(url, PROXY).tries(1, X_Forwarded_For="2001:db8:1:3::1") == [422]
        assert await LocalAddress(url, PROXY).signs_in(X_Forwarded_For="9.9.9.9, 198.51.100.7") == 200
        assert (
            await LocalAddress(url, NEAR).signs_in(X_Forwarded_For="198.51.100.8", Forwarded="for=1.1.1.1")
            == 200
        )
    assert await asyncio.to_thread(_addresses, sqlite_url) == {"198.51.100.7", NEAR}


def _addresses(database_url: str) -> set[str]:
    with closing(sqlite3.connect(sqlite_path(database_url))) as database:
        return {str(address) for [address] in database.execute("SELECT ip_text FROM sessions")}
