"""A real service with the cast for the browser: sandbox, SQLite, three roles, one of another organisation."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.processes.running import PASSWORD, Site, open_site, steward

OWN, OTHER, THIRD = "Test Shop", "Other Shop", "Third Shop"
# name → (organisation, role); `visitor` signs in and out, so that nobody else's session ends; `keeper` finds
# no spreadsheet connected, whatever other tests have connected.
CAST = {
    "approver": (OWN, "approver"),
    "member": (OWN, "member"),
    "visitor": (OWN, "member"),
    "stranger": (OTHER, "owner"),
    "keeper": (THIRD, "owner"),
}


@dataclass
class Signed:
    """A session of one of the cast, outside any page."""

    cookie: str
    csrf: str
    client: httpx.AsyncClient

    async def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """A call of this person; its data. Fails unless it is answered with success."""
        headers = {"Cookie": f"steward={self.cookie}"}
        if method != "GET":
            headers["X-CSRF-Token"] = self.csrf
        answer = await self.client.request(method, path, json=body, headers=headers)
        assert answer.status_code in (200, 201), answer.text
        data: dict[str, Any] = answer.json()["data"]
        return data


@dataclass
class WebSite:
    """The service as a browser sees it, and short ways around the page."""

    site: Site
    kept: dict[str, Signed] = field(default_factory=dict)
    _addresses: Any = field(default_factory=lambda: itertools.count(1))

    @property
    def origin(self) -> str:
        """Where the pages are."""
        return self.site.env["STEWARD_BASE_URL"]

    def address(self) -> str:
        """An address nobody came from yet: attempts are counted by it."""
        number = next(self._addresses)
        return f"203.0.{number // 250}.{number % 250 + 1}"

    def email(self, name: str) -> str:
        """The e-mail one of the cast signs in with."""
        return f"{name}@shop.example"

    async def sign_in(self, name: str) -> Signed:
        """A new session of one of the cast."""
        client = httpx.AsyncClient(base_url=self.origin, timeout=30)
        body = {"email": self.email(name), "password": PASSWORD}
        headers = {"X-Forwarded-For": self.address()}
        answer = await client.post("/app/session", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        cookie = answer.cookies["steward"]
        client.cookies.clear()
        return Signed(cookie, answer.json()["data"]["session"]["csrf_token"], client)

    async def signed(self, name: str) -> Signed:
        """The session of one of the cast that all tests share; none may end it."""
        if name not in self.kept:
            self.kept[name] = await self.sign_in(name)
        return self.kept[name]

    async def automation(self, name: str, **changes: Any) -> dict[str, Any]:
        """An automation of the owner on the connected shop; daily unless changed."""
        owner = await self.signed("owner")
        body = {
            "template_id": "hide-out-of-stock-products",
            "name": name,
            "inputs": {},
            "schedule": {"cadence": "daily", "run_at": "06:00"},
            "integration_id": self.site.store,
            **changes,
        }
        made: dict[str, Any] = (await owner.call("POST", "/v1/automations", body))["automation"]
        return made

    async def run(self, automation: str, key: str, mode: str = "live") -> dict[str, Any]:
        """A run started by hand, once it waits or has ended."""
        owner = await self.signed("owner")
        path = f"/v1/automations/{automation}/runs"
        started = (await owner.call("POST", path, {"idempotency_key": key, "mode": mode}))["run"]
        ends = ("waiting_approval", "succeeded", "failed", "refused", "expired", "cancelled")
        return await self.site.reaches(started["id"], *ends)


@asynccontextmanager
async def open_web_site(folder: Path, **settings: str) -> AsyncIterator[WebSite]:
    """The whole of it, ended afterwards."""
    database = f"sqlite:///{folder / 'steward.db'}"
    async with open_site(database, folder, STEWARD_TRUSTED_PROXIES="127.0.0.0/8", **settings) as site:
        for organization in (OTHER, THIRD):
            await steward("org", "create", "--name", organization, env=site.env)
        await asyncio.gather(*(_person(site, name) for name in CAST))
        web = WebSite(site)
        try:
            yield web
        finally:
            for signed in web.kept.values():
                await signed.client.aclose()


async def _person(site: Site, name: str) -> None:
    organization, role = CAST[name]
    words = ["--email", f"{name}@shop.example", "--first-name", "The", "--last-name", name.title()]
    place = ["--org", organization, "--role", role, "--password-stdin"]
    await steward("user", "create", *words, *place, env=site.env, stdin=PASSWORD + "\n")
