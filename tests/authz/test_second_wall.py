"""Tests row-level security and the rights of the serving role on PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import asyncpg
import pytest

from steward.database.engine.base import Tx
from steward.database.engine.postgres import PostgresEngine, PostgresTx
from steward.database.runs import run_lists
from steward.model.ids import OrgId
from tests.authz.statements_without_org import open_wall, without_the_first_wall
from tests.authz.two_organizations import TwoOrganizations, make_two
from tests.fake_clock import FakeClock
from tests.source import owned_tables

# Tables that belong to no organization or are read before one is known; all others must have row-level
# security.
DIRECTORY = {
    "dir_orgs",
    "dir_clients",
    "dir_integrations",
    "dir_endpoints",
    "people",
    "sessions",
    "login_attempts",
    "failed_sign_ins",  # counted before it is known whose account was meant
    "rate_windows",
    "service_keys",
    "invitations",
    "password_resets",  # found by the hash of a link's token, before anybody is known
    "sign_in_states",  # found by the hash of a state, on the way back from an account's sign-in
    "time_zone_data",
    "workers",
    "api_processes",
    "fairness_orgs",  # one timestamp for each organization, which claims compare
    "fairness_clock",
    "deferred_rows",
    "service_stats",
    "schema_version",
}
OWNED = owned_tables() - DIRECTORY
# Filled by tests/authz/two_organizations.py for both organizations.
FILLED = {
    "organizations",
    "members",
    "credentials",
    "audit_heads",
    "audit_log",
    "connections",
    "connection_secrets",
    "automations",
    "automation_history",
    "schedules",
    "occurrences",
    "runs",
    "changes",
    "approvals",
}


@dataclass
class TwoRoleDatabase:
    """Holds both organizations, and the database as its owner and as the serving role see it."""

    two: TwoOrganizations
    superuser: Any
    app: Any

    async def entered(self, *orgs: int) -> None:
        """Sets the tenant context to these organizations."""
        await self.app.execute("SELECT set_config('app.orgs', $1, false)", ",".join(map(str, orgs)))


@pytest.fixture
async def walled(postgresql_url: str, clock: FakeClock) -> AsyncIterator[TwoRoleDatabase]:
    """Provides two populated organizations on PostgreSQL."""
    engine = await PostgresEngine.open(postgresql_url, size=2, clock=clock, test=True)
    two = await make_two(engine, clock)
    superuser, app = [await asyncpg.connect(postgresql_url) for _ in range(2)]
    await app.execute("SET ROLE steward_app")
    yield TwoRoleDatabase(two, superuser, app)
    await superuser.close()
    await app.close()
    await two.service.close()
    await engine.close()


async def test_every_table_stands_behind_row_level_security_or_in_the_directory(
    walled: TwoRoleDatabase,
) -> None:
    """Every table with an `org_id` has row-level security enabled and forced."""
    rows = await walled.superuser.fetch(
        "SELECT relname, relrowsecurity AND relforcerowsecurity AS walled FROM pg_class"
        " WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
    )
    results = {row["relname"]: row["walled"] for row in rows}
    walled_tables = {name for name, is_walled in results.items() if is_walled}
    assert walled_tables >= OWNED
    assert results.keys() - walled_tables - DIRECTORY == set()


async def test_each_organization_sees_its_own_rows_and_without_one_there_are_none(
    walled: TwoRoleDatabase,
) -> None:
    """Without a tenant context reads are refused or empty; with one they see its rows only."""
    ours = walled.two.ours.organization_id
    for table in sorted(FILLED):  # a table without rows has nothing to refuse
        with pytest.raises(asyncpg.UndefinedObjectError):
            await walled.app.fetch(f"SELECT 1 FROM {table}")
    for table in sorted(OWNED):
        await walled.entered()
        assert await walled.app.fetchval(f"SELECT count(*) FROM {table}") == 0, table
        await walled.entered(ours)
        seen = {row["org_id"] for row in await walled.app.fetch(f"SELECT org_id FROM {table}")}
        every = {row["org_id"] for row in await walled.superuser.fetch(f"SELECT org_id FROM {table}")}
        assert seen == every & {ours}, table
        if table in FILLED:
            assert len(every) == 2, table


async def test_no_row_is_written_into_another_organization(walled: TwoRoleDatabase) -> None:
    """A row of another organization can neither be inserted nor changed."""
    ours, theirs = walled.two.ours.organization_id, walled.two.theirs.organization_id
    await walled.entered(ours)
    for table in sorted(OWNED - {"audit_heads", "audit_log"}):
        count = f"SELECT count(*) FROM {table} WHERE org_id = $1"
        before = await walled.superuser.fetchval(count, theirs)
        assert await walled.app.execute(f"DELETE FROM {table} WHERE org_id = {theirs}") == "DELETE 0"
        moved = f"UPDATE {table} SET org_id = {ours} WHERE org_id = {theirs}"
        assert await walled.app.execute(moved) == "UPDATE 0"
        if await walled.app.fetchval(count, ours):
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
                await walled.app.execute(f"UPDATE {table} SET org_id = {theirs}")
        assert await walled.superuser.fetchval(count, theirs) == before
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        await walled.app.execute(
            "INSERT INTO audit_log SELECT (jsonb_populate_record(a,"
            f" jsonb_build_object('org_id', {theirs}))).* FROM audit_log AS a LIMIT 1"
        )


async def test_the_role_that_serves_may_read_and_write_rows_and_nothing_else(walled: TwoRoleDatabase) -> None:
    """The serving role cannot change the audit log, truncate, create tables or bypass security."""
    await walled.entered(walled.two.ours.organization_id)
    refused = [
        "UPDATE audit_log SET action = 'x'",
        "DELETE FROM audit_log",
        "DELETE FROM audit_heads",
        *(f"TRUNCATE {table} CASCADE" for table in sorted(OWNED)),
        "ALTER TABLE runs DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE runs NO FORCE ROW LEVEL SECURITY",
        "DROP POLICY tenant ON runs",
        "CREATE POLICY mine ON runs USING (true)",
        "CREATE TABLE public.mine (id bigint)",
        "CREATE FUNCTION public.mine() RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
        "CREATE OR REPLACE FUNCTION queue_full_orgs(cap bigint) RETURNS TABLE (org_id bigint) LANGUAGE sql"
        " AS 'SELECT 1::bigint'",
        "ALTER ROLE steward_app BYPASSRLS",
        "DROP TABLE runs",
        "COPY runs TO PROGRAM 'cat'",
    ]
    for statement in refused:
        with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.InvalidFunctionDefinitionError)):
            await walled.app.execute(statement)


async def test_the_roles_that_serve_own_nothing_and_pass_no_wall(walled: TwoRoleDatabase) -> None:
    """The roles have no login, no BYPASSRLS and own no tables."""
    rows = await walled.superuser.fetch(
        "SELECT rolname, rolcanlogin OR rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb AS mighty,"
        " (SELECT count(*) FROM pg_class AS c WHERE c.relowner = r.oid) AS owned"
        " FROM pg_roles AS r WHERE rolname IN ('steward_app', 'steward_queue')"
    )
    assert sorted((row["rolname"], row["mighty"], row["owned"]) for row in rows) == [
        ("steward_app", False, 0),
        ("steward_queue", False, 0),
    ]


async def test_the_hook_really_takes_the_first_wall_away(
    walled: TwoRoleDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test hook removes `org_id` from statements, so only row-level security remains."""
    service, ours, theirs = walled.two.service, walled.two.ours, walled.two.theirs
    both = [OrgId(ours.organization_id), OrgId(theirs.organization_id)]
    load = partial(run_lists.find, org=both[0], run_filter=run_lists.RunFilter(), limit=100, after=None)

    async def seen(orgs: list[OrgId]) -> set[bool]:
        rows = await service.context.engine.read(service.clock.now(), load, org=orgs)
        assert ours.run_id in {row["id"] for row in rows}
        return {theirs.run_id in {row["id"] for row in rows}}

    assert await seen(both) == {False}
    without_the_first_wall(monkeypatch)
    assert await seen(both) == {True}
    assert await seen(both[:1]) == {False}
    assert open_wall("SELECT 1 FROM runs AS r WHERE r.org_id = :org AND id = :run") == (
        "SELECT 1 FROM runs AS r WHERE TRUE AND id = :run"
    )


async def test_a_connection_handed_back_has_no_tenant(walled: TwoRoleDatabase) -> None:
    """A request's tenant context is cleared before its connection serves another."""
    service = walled.two.service
    engine = service.context.engine
    for name in ("owner", "stranger"):
        caller = await service.token(name)
        for path in ("/v1/automations/status", "/v1/automations", "/v1/automations/runs"):
            assert (await caller.get(path)).status == 200

            async def row_count(tx: Any) -> int:
                return int((await tx.first("SELECT count(*) AS seen FROM runs"))["seen"])

            for _ in range(2):
                assert await engine.read(service.clock.now(), row_count, small=True) == 0


async def test_a_read_cancelled_while_it_opens_the_wall_leaves_it_open_to_nobody(
    postgresql_url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read cancelled while the tenant context is being set leaves none set."""
    engine = await PostgresEngine.open(postgresql_url, size=1, clock=clock, test=True)
    real = PostgresTx.set_tenant

    async def cut(tx: PostgresTx, orgs: Collection[OrgId]) -> None:
        await real(tx, orgs)
        raise asyncio.CancelledError

    async def wall(tx: Tx) -> object:
        row = await tx.first("SELECT current_setting('app.orgs') AS orgs")
        return None if row is None else row["orgs"]

    with monkeypatch.context() as patched:
        patched.setattr(PostgresTx, "set_tenant", cut)
        with pytest.raises(asyncio.CancelledError):
            await engine.read(clock.now(), wall, org=OrgId(1), small=True)
    assert await engine.read(clock.now(), wall, small=True) == ""
    await engine.close()
