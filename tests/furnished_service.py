"""The whole service in process: the cast over HTTP, the fake platforms connected, and a worker."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from steward.fake_platforms.application import FakePlatforms
from steward.model.account import ROLE_SCOPES, Actor, CreatedVia, Role
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, connect_all, open_shop
from tests.service import Service, settle


@dataclass
class FurnishedService:
    """A service with its cast, and the cast's organization with everything connected."""

    service: Service
    shop: Shop

    def number(self, kind: str) -> int:
        """The integration id of the organization's connection of a kind."""
        return self.shop.connections[kind].integration_id

    async def close(self) -> None:
        """Ends clients, threads and connections."""
        await self.service.close()
        await self.shop.service.close()


async def open_whole(
    database_url: str,
    clock: FakeClock,
    folder: Path,
    *,
    around: Callable[[FakePlatforms], None] | None = None,
) -> FurnishedService:
    """A fresh one over a fresh database; the stranger's organization has nothing connected.

    `around` puts more beside the fake platforms.
    """
    opened = await open_shop(database_url, clock, folder, around=around)
    lines: list[str] = []
    context = replace(opened.service.context, log=Log(lines.append, clock, SecretRegister()))
    service = Service(context, clock, lines=lines, wake_hints=[])
    await service.write(lambda tx: settle(tx, service))
    owner = service.members["owner"]
    actor = Actor(owner.org, owner.person.id, ROLE_SCOPES[Role.OWNER], CreatedVia.UI, role=Role.OWNER)
    shop = Shop(opened.service, clock, opened.world, actor, opened.environ)
    await connect_all(shop)
    return FurnishedService(service, shop)


@pytest.fixture
async def whole(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[FurnishedService]:
    """The service beside the fake platforms, once on each engine."""
    opened = await open_whole(database_url, clock, tmp_path)
    yield opened
    await opened.close()
