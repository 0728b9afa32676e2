"""Short ways to an organization whose people are told things."""

from functools import partial

from steward.accounts import organizations
from steward.accounts.organizations import CreateOrganization
from steward.database.engine.base import Engine
from steward.model.ids import OrgId
from tests.fake_clock import FakeClock


async def open_organization(engine: Engine, clock: FakeClock, name: str = "Northwind Tea") -> OrgId:
    """A new organization without people, in the zone of Berlin."""
    command = CreateOrganization(name, zone="Europe/Berlin")
    return (await engine.write(clock.now(), partial(organizations.create, ask=command))).id
