"""doctor: what it looks at, what it finds, and its exit code."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from steward.cli import doctor
from steward.clock import SystemClock
from steward.connectors.shopify import schema_table
from steward.database.engine.base import Tx
from steward.database.engine.migrate import is_sqlite, sqlite_path
from steward.database.engine.sqlite import SqliteEngine
from tests.cli.test_operator import Said, Steward, steward

__all__ = ["steward"]  # a fixture
NAMES = [
    "settings",
    "database",
    "migrations",
    "keys",
    "clock",
    "tz_data",
    "free_space",
    "files",
    "slots",
    "leases",
    "private_hosts",
    "put_off",
    "store_events",
    "mail",
    "notices",
    "walls",
    "confined",
    "built",
]
CLOCK = SystemClock()


def found(said: Said) -> dict[str, tuple[bool, str]]:
    """Each check's result and words."""
    return {check["name"]: (check["ok"], check["message"]) for check in said.facts["checks"]}


def wrong(said: Said) -> set[str]:
    """The checks that failed; the command says so by its exit code and error too."""
    names = {name for name, (is_ok, _) in found(said).items() if not is_ok}
    assert said.facts["ok"] is (not names)
    assert said.status == (1 if names else 0)
    assert ("error" in said.facts) is bool(names)
    return names - {"confined"}  # whose walls can stand is the machine's


def into(database_url: str, *statements: str) -> None:
    """Writes past everything, as anyone who owns the database."""

    async def sqlite() -> None:
        engine = SqliteEngine(sqlite_path(database_url), clock=CLOCK)

        async def act(tx: Tx) -> None:
            for statement in statements:
                await tx.execute(statement)

        await engine.write(CLOCK.now(), act)
        await engine.close()

    async def postgresql() -> None:
        owner: Any = await asyncpg.connect(database_url)
        for statement in statements:
            await owner.execute(statement)
        await owner.close()

    asyncio.run(sqlite() if is_sqlite(database_url) else postgresql())


def test_a_sound_installation_passes_every_check(steward: Steward) -> None:
    """Settings, database, migrations, keys, clock, tz data, free space, slots, leases, hosts."""
    steward("org", "create", "--name", "Demo Shop")
    steward("credential", "issue", "--org", "Demo Shop")
    said = steward("doctor")
    assert list(found(said)) == NAMES
    assert wrong(said) == set()
    words = steward("doctor", as_json=False).out.splitlines()
    shown = [["ok" if is_ok else "WRONG", name] for name, (is_ok, _) in found(said).items()]
    assert [line.split()[:2] for line in words if not line.startswith(" ")] == shown
    hosts = steward("doctor", STEWARD_ALLOW_PRIVATE_HOSTS="10.0.0.5:443")
    assert "10.0.0.5:443" in found(hosts)["private_hosts"][1]
    assert "filter of system calls" in found(said)["confined"][1]  #: which walls stand


def test_what_is_wrong_is_named_and_the_other_checks_go_on(steward: Steward, database_url: str) -> None:
    """What is wrong is named and the other checks go on."""
    steward("org", "create", "--name", "Demo Shop")
    steward("credential", "issue", "--org", "Demo Shop")
    far = int((CLOCK.now() - timedelta(hours=1)).timestamp() * 1000)
    into(
        database_url,
        "INSERT INTO workers (name, version, state, lease_until, started_at, slots)"
        f" VALUES ('gone|1|1', '0', 'alive', {far}, {far}, 1)",
        "INSERT INTO deferred_rows (task, key, failures, not_before, message, last_failed_at)"
        f" VALUES ('settle', 'R1', 5, {far}, 'no', {far}), ('settle', 'R2', 4, {far}, 'no', {far})",
    )
    said = steward("doctor")
    assert wrong(said) == {"leases", "put_off"}
    assert "settle R1" in found(said)["put_off"][1]
    assert "R2" not in found(said)["put_off"][1]
    other = steward("keys", "new").facts["key"]
    assert wrong(steward("doctor", STEWARD_MASTER_KEYS=other)) == {"leases", "put_off", "keys"}
    into(database_url, "DELETE FROM schema_version WHERE version = 1")
    assert "migrations" in wrong(steward("doctor"))


def test_a_slot_nobody_starts_is_told(steward: Steward, database_url: str) -> None:
    """Due for longer than the late limit and its grace."""
    steward("org", "create", "--name", "Demo Shop")
    late = int((CLOCK.now() - timedelta(minutes=16)).timestamp() * 1000)
    columns = (
        "id, org_id, version, kind, template_id, template_version, store_label, name, name_folded, state,"
        " inputs, schedule, timezone, spread_minutes, trigger_json, connections, bindings, created_at,"
        " updated_at"
    )
    into(
        database_url,
        f"INSERT INTO automations ({columns}) VALUES ('A1', 1, 1, 'template', 't', 1, '', 'n', 'n', 'active',"
        " '{}', '{}', 'UTC', 0, '{}', '[]', '[]', 0, 0)",
        "INSERT INTO schedules (org_id, automation_id, due_at, slots_after, consecutive_failures,"
        f" audited_until) VALUES (1, 'A1', {late}, 0, 0, 0)",
    )
    said = steward("doctor")
    assert wrong(said) == {"slots"}
    into(
        database_url,
        "UPDATE schedules SET due_at = NULL",
        "INSERT INTO occurrences (org_id, automation_id, slot_at, run_at, local_key, state, reason, version,"
        f" by_auditor, from_edit, updated_at) VALUES (1, 'A1', {late}, {late}, 'x', 'skipped',"
        f" 'skipped_too_late', 0, {'1, 0' if is_sqlite(database_url) else 'true, false'}, {late})",
    )
    assert "1 slots of the last 7 days" in found(steward("doctor"))["slots"][1]


def test_a_wall_that_stands_open_is_told(steward: Steward, postgresql_url: str) -> None:
    """Doctor checks row-level security, roles and rights."""
    environ = {"STEWARD_DATABASE_URL": postgresql_url}
    into(
        postgresql_url,
        "ALTER TABLE runs NO FORCE ROW LEVEL SECURITY",
        "GRANT DELETE ON audit_log TO steward_app",
    )
    said = steward("doctor", **environ)
    assert wrong(said) == {"walls"}
    assert {"runs", "audit_log"} <= set(found(said)["walls"][1].rstrip(".").split(": ")[1].split(", "))
    into(postgresql_url, "REVOKE DELETE ON audit_log FROM steward_app")


def test_an_installation_left_half_made_is_told(
    steward: Steward, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each check says what to do; without the table the import of a flow is a defect of ours."""
    schema_table.schema_table.cache_clear()
    table = tmp_path / "schema.json"
    monkeypatch.setattr(schema_table, "_TABLE", table)
    table.write_text('{"types": {}}')
    said = steward("doctor")
    assert "built" in wrong(said)
    assert found(said)["built"][1].count(";") == 1
    assert "fields of Shopify" in found(said)["built"][1]
    assert "make setup" in found(said)["built"][1]
    table.unlink()
    monkeypatch.setattr(doctor, "PACKAGE", tmp_path)
    told = found(steward("doctor"))["built"][1]
    assert all(what in told for what in ("fields of Shopify", "dates", "queries", "Markdown"))


def test_no_database_is_told_and_none_is_made(steward: Steward, tmp_path: Path) -> None:
    """Every check is answered, also without a database."""
    absent = tmp_path / "absent.db"
    said = steward("doctor", STEWARD_DATABASE_URL=f"sqlite:///{absent}")
    assert {"database", "slots", "leases"} <= wrong(said)
    assert list(found(said)) == NAMES
    assert not absent.exists()
    absent.write_bytes(b"this is no database, whatever it was before " * 100)
    assert "database" in wrong(steward("doctor", STEWARD_DATABASE_URL=f"sqlite:///{absent}"))
