"""Shortcuts to an organization whose people receive notices."""

import json
from functools import partial
from typing import Any

from steward.accounts import organizations, people
from steward.accounts.organizations import CreateOrganization
from steward.accounts.people import CreatePerson
from steward.database.engine.base import Engine, Tx
from steward.database.notifications import notices
from steward.model.account import Person, Role
from steward.model.ids import AutomationId, OrgId, RunId
from steward.model.notice import Notice, Preferences, Topic, facts_of, preferences_to_json
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop


async def open_organization(engine: Engine, clock: FakeClock, name: str = "Northwind Tea") -> OrgId:
    """Creates an organization without people in the Berlin time zone."""
    command = CreateOrganization(name, zone="Europe/Berlin")
    return (await engine.write(clock.now(), partial(organizations.create, command=command))).id


async def told(shop: Shop) -> list[dict[str, Any]]:
    """Returns every notice of the shop's organization, oldest first."""

    async def read(tx: Tx) -> list[dict[str, Any]]:
        query = "SELECT * FROM notices WHERE org_id = :org ORDER BY created_at, id"
        rows = await tx.all(query, {"org": shop.owner.org})
        return [{**dict(row), "facts": json.loads(row["facts"])} for row in rows]

    return await shop.read(read)


async def join(shop: Shop, name: str, role: Role = Role.OWNER) -> Person:
    """Creates a person who is an active member of the shop's organization."""
    command = CreatePerson(f"{name}@tea.example", name, name.title(), "Person")

    async def act(tx: Tx) -> Person:
        person = await people.create(tx, command)
        await people.add_to_organization(tx, person, shop.owner.org, role)
        return person

    return await shop.write(act)


async def prefer(shop: Shop, person: Person, preferences: Preferences) -> None:
    """Stores the person's preferences."""
    await shop.tamper(
        "INSERT INTO notification_preferences (org_id, person_id, preferences, updated_at)"
        " VALUES (:org, :person, :preferences, 0)",
        person=person.id,
        preferences=json.dumps(preferences_to_json(preferences)),
    )


async def rows_of(shop: Shop, table: str) -> list[dict[str, Any]]:
    """Returns every row of a table that belongs to the shop's organization."""

    async def read(tx: Tx) -> list[dict[str, Any]]:
        rows = await tx.all(f"SELECT * FROM {table} WHERE org_id = :org", {"org": shop.owner.org})
        return [dict(row) for row in rows]

    return await shop.read(read)


def failed(number: int, *, automation: str = "a1") -> Notice:
    """Returns a notice of a failed run."""
    return Notice(
        topic=Topic.RUN_FAILED,
        dedupe=f"run_failed|{number}",
        facts=facts_of(automation=f"Automation {automation}", store="Shop", code="step_failed"),
        automation=AutomationId(automation),
        run=RunId(f"run{number}"),
    )


async def tell(shop: Shop, *added: Notice) -> None:
    """Stores the notices."""

    async def add(tx: Tx) -> None:
        for notice in added:
            await notices.add(tx, shop.owner.org, notice)

    await shop.write(add)
