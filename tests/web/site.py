"""Runs a real service for the browser: fake platforms, SQLite, three roles, other organizations."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.processes.running import PASSWORD, Site, add_organization, open_site

OWN_ORGANIZATION, OTHER, THIRD = "Test Shop", "Other Shop", "Third Shop"
# Beside the owner: `visitor` signs in and out, so that nobody else's session ends.
ROLES = {"approver": "approver", "member": "member", "visitor": "member"}
# Owners of organizations of their own, made when they are first wanted: nothing is connected there, except
# where `stranger` sets up a shop on a site of its own.
ELSEWHERE = {"stranger": OTHER, "keeper": THIRD}


def unused(name: str) -> str:
    """Returns the name with an ending that no earlier try of the test has used: its records stay."""
    return f"{name}-{token_hex(3)}"


@dataclass
class UserSession:
    """A session of one of the users, outside any page."""

    cookie: str
    csrf: str
    client: httpx.AsyncClient

    async def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Sends a request of this user and returns its data; fails unless it succeeds."""
        headers = {"Cookie": f"steward={self.cookie}"}
        if method != "GET":
            headers["X-CSRF-Token"] = self.csrf
        response = await self.client.request(method, path, json=body, headers=headers)
        assert response.status_code in (200, 201), response.text
        data: dict[str, Any] = response.json()["data"]
        return data


@dataclass
class WebSite:
    """The service as a browser sees it, with helpers that bypass the page."""

    site: Site
    sessions: dict[str, UserSession] = field(default_factory=dict)
    _addresses: Any = field(default_factory=lambda: itertools.count(1))

    @property
    def origin(self) -> str:
        """Returns the origin of the pages."""
        return self.site.env["STEWARD_BASE_URL"]

    def address(self) -> str:
        """Returns an unused client address, because sign-in attempts are counted by address."""
        number = next(self._addresses)
        return f"203.0.{number // 250}.{number % 250 + 1}"

    def email(self, name: str) -> str:
        """Returns the e-mail address with which a user signs in."""
        return f"{name}@shop.example"

    async def sign_in(self, name: str) -> UserSession:
        """Signs a user in and returns the new session."""
        client = httpx.AsyncClient(base_url=self.origin, timeout=30)
        body = {"email": self.email(name), "password": PASSWORD}
        headers = {"X-Forwarded-For": self.address()}
        response = await client.post("/app/session", json=body, headers=headers)
        assert response.status_code == 200, response.text
        cookie = response.cookies["steward"]
        client.cookies.clear()
        return UserSession(cookie, response.json()["data"]["session"]["csrf_token"], client)

    async def session_of(self, name: str) -> UserSession:
        """Returns a user's shared session, which no test may end."""
        if name not in self.sessions:
            if name in ELSEWHERE:
                await add_organization(self.site.env, ELSEWHERE[name], name)
            self.sessions[name] = await self.sign_in(name)
        return self.sessions[name]

    async def new_owner(self) -> str:
        """Creates an organization and returns the name of its owner.

        For tests that connect what an organization connects once: what an earlier try of them has connected
        stays.
        """
        name = unused("owner")
        await add_organization(self.site.env, f"Shop of {name}", name)
        return name

    async def automation(self, name: str, **changes: Any) -> dict[str, Any]:
        """Creates an automation of the owner on the connected shop; daily unless changed."""
        owner = await self.session_of("owner")
        body = {
            "template_id": "hide-out-of-stock-products",
            "name": name,
            "inputs": {},
            "schedule": {"cadence": "daily", "run_at": "06:00"},
            "integration_id": self.site.store,
            **changes,
        }
        new_automation: dict[str, Any] = (await owner.call("POST", "/v1/automations", body))["automation"]
        return new_automation

    @asynccontextmanager
    async def service_down(self) -> AsyncIterator[None]:
        """Stops the service and starts it again at the end, also if the test fails: others share it."""
        await self.site.service.stop()
        try:
            yield
        finally:
            await self.site.serve_again()

    async def archive_automations(self) -> None:
        """Archives the automations of the test, so that none becomes due in another one."""
        owner = await self.session_of("owner")
        path = "/v1/automations"
        remaining = await owner.call("GET", f"{path}?state=draft,active,paused&limit=200")
        for each_automation in remaining["automations"]:
            response = await owner.client.post(
                f"{path}/{each_automation['id']}/archive",
                json={"version": each_automation["version"]},
                headers={"Cookie": f"steward={owner.cookie}", "X-CSRF-Token": owner.csrf},
            )
            # Anyone who is slower, this or the service, the next test's own automations are not these.
            assert response.status_code in (200, 409), response.text

    async def allow_unapproved_sends(self) -> None:
        """Sets what a new organization has: workflows may send without approval."""
        owner = await self.session_of("owner")
        await owner.call("PATCH", "/app/organization", {"send_without_approval": True})

    async def run(self, automation: str, key: str, mode: str = "live") -> dict[str, Any]:
        """Starts a run by hand and returns it once it waits or has ended."""
        owner = await self.session_of("owner")
        path = f"/v1/automations/{automation}/runs"
        # A test that is tried again has another automation, and so another key.
        body = {"idempotency_key": f"{key}-{automation}", "mode": mode}
        started = (await owner.call("POST", path, body))["run"]
        ends = ("waiting_approval", "succeeded", "failed", "refused", "expired", "cancelled")
        return await self.site.reaches(started["id"], *ends)


@asynccontextmanager
async def open_web_site(
    folder: Path, *, private_hosts: Sequence[str] = (), **settings: str
) -> AsyncIterator[WebSite]:
    """Starts the service and its users, and stops it at the end."""
    database = f"sqlite:///{folder / 'steward.db'}"
    site_settings = {
        "STEWARD_TRUSTED_PROXIES": "127.0.0.0/8",
        "STEWARD_IMPORTS_KEPT": "40",  # more than all tests leave behind, and few fill it
        # However long other tests take between two of the browser's.
        "STEWARD_SESSION_IDLE_MINUTES": "1440",
        "STEWARD_SESSION_HOURS": "168",
        # No worker is lost here, and no store silent: a slow machine is neither.
        "STEWARD_LEASE_SECONDS": "60",
        "STEWARD_OUTBOUND_TIMEOUT_SECONDS": "30",
        **settings,
    }
    async with open_site(database, folder, private_hosts=private_hosts, **site_settings) as site:
        web = WebSite(site)
        try:
            for name, role in ROLES.items():
                await _join(web, name, role)
            yield web
        finally:
            for signed in web.sessions.values():
                await signed.client.aclose()


async def _join(web: WebSite, name: str, role: str) -> None:
    """Invites a person as the owner and accepts the invitation."""
    owner = await web.session_of("owner")
    invited = await owner.call("POST", "/app/people", {"email": web.email(name), "role": role})
    token = urlsplit(invited["invite_url"]).fragment.partition("=")[2]
    names = {"first_name": "The", "last_name": name.title()}
    response = await owner.client.post(
        "/app/invitations/accept",
        json={"token": token, "password": PASSWORD, **names},
        headers={"X-Forwarded-For": web.address()},
    )
    assert response.status_code in (200, 201), response.text
    owner.client.cookies.clear()
