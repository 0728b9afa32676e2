"""Tests what holds rows of several organizations together: the points that a second database would divide."""

from typing import Any

import asyncpg
import pytest

from tests.source import name_of, python_files

# Tables that say to whom a name, a client, an address of events or a store belongs.
DIRECTORY = {"dir_clients", "dir_endpoints", "dir_integrations", "dir_orgs"}
# What is looked up before the organization is known, and names that are added: each in one file.
LOOKED_UP_BY = {
    "FROM dir_clients": {"steward/database/accounts/credentials.py"},
    "FROM dir_endpoints": {"steward/database/events/endpoints.py"},
    "INTO dir_clients": {"steward/database/accounts/credentials.py"},
    "INTO dir_endpoints": {"steward/database/events/endpoints.py"},
    "INTO dir_orgs": {"steward/database/accounts/organizations.py"},
    "INTO people": {"steward/database/accounts/people.py"},
}
_FOREIGN_KEYS = """
SELECT child.relname AS child, parent.relname AS parent FROM pg_constraint AS c
JOIN pg_class AS child ON child.oid = c.conrelid JOIN pg_class AS parent ON parent.oid = c.confrelid
WHERE c.contype = 'f' AND c.conparentid = 0 AND child.relnamespace = 'public'::regnamespace
    AND parent.relname IN ('people', 'service_keys', 'dir_orgs')
"""


async def read(url: str, statement: str) -> list[Any]:
    """Returns the rows of a statement past the service."""
    owner: Any = await asyncpg.connect(url)
    try:
        return list(await owner.fetch(statement))
    finally:
        await owner.close()


async def test_few_tables_refer_to_what_organizations_share(postgresql_url: str) -> None:
    """Refers to accounts, keys and the list of organizations from these tables alone."""
    references = {(row["child"], row["parent"]) for row in await read(postgresql_url, _FOREIGN_KEYS)}
    to_people = ("inbox", "invitations", "members", "notification_preferences", "password_resets", "sessions")
    to_organizations = ("fairness_orgs", "invitations", "organizations", "sessions", "sign_in_states")
    assert references == {
        ("credentials", "service_keys"),
        *((table, "people") for table in to_people),
        *((table, "dir_orgs") for table in (*to_organizations, *(DIRECTORY - {"dir_orgs"}))),
    }


async def test_numbers_of_rows_come_from_four_sequences(postgresql_url: str) -> None:
    """Counts organizations, people, connections and workers; every other key is random or has one of them."""
    rows = await read(postgresql_url, "SELECT sequencename AS name FROM pg_sequences")
    assert {row["name"].removesuffix("_seq") for row in rows} == {
        *("dir_integrations_integration_id", "dir_orgs_org_id", "people_person_id", "workers_worker_id"),
    }


@pytest.mark.parametrize("statement", LOOKED_UP_BY)
def test_what_belongs_to_no_organization_is_read_and_written_in_one_place(statement: str) -> None:
    """Finds the organization of a client or an address, and adds names, in one file each."""
    places = {name_of(path) for path in python_files("steward") if statement in path.read_text("utf-8")}
    assert places == LOOKED_UP_BY[statement]
