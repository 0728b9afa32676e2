"""The whole service in process: the cast over HTTP, the fake platforms connected, and a worker."""

import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from steward.fake_platforms.application import FakePlatforms
from steward.model.account import ROLE_SCOPES, Actor, CreatedVia, Role
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.fake_clock import START, FakeClock
from tests.runs.shop import MASTER_KEYS, Shop, connect_all, open_shop
from tests.service import Cast, Service, settle


@dataclass
class PopulatedService:
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


@dataclass(frozen=True)
class PopulatedRows:
    """The cast and the owner of a further organization, as they stand in a database."""

    cast: Cast
    further: Actor


async def create_populated(database_url: str) -> PopulatedRows:
    """Creates a populated service in a database that tests are given copies of."""
    clock = FakeClock()
    with tempfile.TemporaryDirectory() as folder:
        shop = await open_shop(database_url, clock, Path(folder), STEWARD_MASTER_KEYS=MASTER_KEYS)
        populated = await _populate(shop, clock, None)
        await populated.close()
    assert clock.now() == START
    service = populated.service
    return PopulatedRows(Cast(service.members, service.own, service.other), shop.owner)


async def open_populated_service(
    database_url: str,
    clock: FakeClock,
    folder: Path,
    *,
    rows: PopulatedRows | None = None,
    around: Callable[[FakePlatforms], None] | None = None,
) -> PopulatedService:
    """Opens a populated service; the organization of the stranger has nothing connected.

    With `rows`, the database was copied with them. `around` puts more beside the fake platforms.
    """
    further = rows and rows.further
    opened = await open_shop(database_url, clock, folder, owner=further, around=around)
    return await _populate(opened, clock, rows and rows.cast)


async def _populate(opened: Shop, clock: FakeClock, cast: Cast | None) -> PopulatedService:
    """Adds the cast and its connections to a service, unless the database was copied with the cast."""
    lines: list[str] = []
    context = replace(opened.service.context, log=Log(lines.append, clock, SecretRegister()))
    service = Service(context, clock, lines=lines, wake_hints=[])
    if cast is None:
        await service.write(lambda tx: settle(tx, service))
    else:
        service.members, service.own, service.other = dict(cast.members), cast.own, cast.other
    owner = service.members["owner"]
    actor = Actor(owner.org, owner.person.id, ROLE_SCOPES[Role.OWNER], CreatedVia.UI, role=Role.OWNER)
    shop = Shop(opened.service, clock, opened.world, actor, opened.environ)
    if cast is None:
        await connect_all(shop)
    else:
        await shop.look_up_connections()
    return PopulatedService(service, shop)


@pytest.fixture
async def populated(
    database_url: str, clock: FakeClock, tmp_path: Path, populated_rows: PopulatedRows
) -> AsyncIterator[PopulatedService]:
    """Provides the populated service beside the fake platforms, once on each engine."""
    opened = await open_populated_service(database_url, clock, tmp_path, rows=populated_rows)
    yield opened
    await opened.close()
