"""People who work with the service while a campaign lets its hosts fail, and what the database then holds."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import httpx

from tests.fleet.history import History, Outcome
from tests.processes.running import CLOCK, PASSWORD, Site, eventually

CLIENTS = 6
PACE = 0.2
ANSWER_WITHIN = 12.0
BACK_WITHIN = 90.0


@dataclass
class Clients:
    """People who make automations all the time, and what they were told."""

    site: Site
    history: History
    begun: int = 0
    faulty: list[str] = field(
        default_factory=list
    )  # responses of 500 and more that are not 503 with Retry-After
    cut: int = 0  # connections that ended without a response

    async def go_on(self) -> None:
        """Creates one automation after another; without a response the outcome of one stays unknown."""
        while True:
            self.begun += 1
            await self._make(f"act {self.begun}")
            await CLOCK.sleep(PACE)

    async def _make(self, key: str) -> None:
        body = {
            "template_id": "hide-out-of-stock-products",
            "name": key,
            "inputs": {},
            "schedule": {"cadence": "manual"},
            "integration_id": self.site.store,
        }
        began, outcome = CLOCK.monotonic(), Outcome.UNKNOWN
        try:
            response = await self.site.web.post(
                "/v1/automations", json=body, headers=self.site.csrf, timeout=ANSWER_WITHIN
            )
            if response.status_code == 201:
                outcome = Outcome.ACKNOWLEDGED
            elif response.status_code < 500:
                outcome = Outcome.REFUSED
            elif response.status_code != 503 or "retry-after" not in response.headers:
                self.faulty.append(f"{key}: {response.status_code} {response.text[:200]}")
        except httpx.HTTPError:
            self.cut += 1
        finally:  # also of an act that the end of the campaign cuts off
            self.history.add(key, outcome, began, CLOCK.monotonic())

    async def are_back(self, since: float, within: float = BACK_WITHIN) -> float:
        """Seconds from the fault to the first acknowledgement of an act that began after it."""

        async def look() -> float | None:
            return self.history.first_acknowledged(since)

        return float(await eventually(look, within=within)) - since


@contextlib.asynccontextmanager
async def working(clients: Clients) -> AsyncIterator[None]:
    """While in force, the clients work."""
    tasks = [asyncio.create_task(clients.go_on()) for _ in range(CLIENTS)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def sign_in(site: Site) -> None:
    """Signs the owner in anew: a restore ends every session."""
    response = await site.web.post("/app/session", json={"email": "owner@shop.example", "password": PASSWORD})
    assert response.status_code == 200, response.text
    site.csrf = {"X-CSRF-Token": response.json()["data"]["session"]["csrf_token"]}


async def stored_acts(url: str) -> list[str]:
    """The keys of the acts that the database at `url` holds."""
    connection: Any = await asyncpg.connect(url)
    try:
        rows = await connection.fetch("SELECT name FROM automations WHERE name LIKE 'act %'")
    finally:
        await connection.close()
    return [row["name"] for row in rows]
