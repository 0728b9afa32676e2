"""doctor: its checks, what they find, and the exit code."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import asyncpg
import pytest

from steward import built
from steward.cli import built_files
from steward.cli.doctor.database_checks import server_result, standby_faults
from steward.cli.doctor.installation import CheckFailed
from steward.clock import SystemClock
from steward.connectors.shopify import schema_table
from steward.database.engine.base import Tx
from steward.database.engine.migrate import is_sqlite, sqlite_path
from steward.database.engine.sqlite import SqliteEngine
from steward.database.operator import health
from steward.database.operator.health import Follower
from steward.version import __version__
from tests.cli.test_operator import CommandOutput, Steward, steward
from tests.databases import HIDE_SESSIONS

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
    "long_readers",
    "standbys",
    "partitions",
    "slots",
    "leases",
    "private_hosts",
    "put_off",
    "store_events",
    "mail",
    "notices",
    "closings",
    "walls",
    "confined",
    "built",
    "setup",
    "proxy",
    "traces",
    "audit",
]
CLOCK = SystemClock()


def check_results(output: CommandOutput) -> dict[str, tuple[bool, str]]:
    """Returns the result and message of each check."""
    return {check["name"]: (check["ok"], check["message"]) for check in output.facts["checks"]}


def wrong(output: CommandOutput) -> set[str]:
    """Returns the checks that failed, which exit code and error must reflect."""
    names = {name for name, (is_ok, _) in check_results(output).items() if not is_ok}
    assert output.facts["ok"] is (not names)
    assert output.status == (1 if names else 0)
    assert ("error" in output.facts) is bool(names)
    return names - {"confined"}  # which confinement works depends on the machine


def into(database_url: str, *statements: str) -> None:
    """Executes statements as the owner of the database, past the service."""

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
    """Passes every check on a sound installation and lists them in order, in JSON and in words."""
    steward("org", "create", "--name", "Demo Shop")
    steward("credential", "issue", "--org", "Demo Shop")
    output = steward("doctor")
    assert list(check_results(output)) == NAMES
    assert wrong(output) == set()
    words = steward("doctor", as_json=False).out.splitlines()
    displayed = [["ok" if is_ok else "WRONG", name] for name, (is_ok, _) in check_results(output).items()]
    assert [line.split()[:2] for line in words if not line.startswith(" ")] == displayed
    hosts = steward("doctor", STEWARD_ALLOW_PRIVATE_HOSTS="10.0.0.5:443")
    assert "10.0.0.5:443" in check_results(hosts)["private_hosts"][1]
    assert "filter of system calls" in check_results(output)["confined"][1]  # the confinement that works


def test_damage_of_the_file_is_found_by_the_full_form(steward: Steward, database_url: str) -> None:
    """Finds a damaged page of the SQLite file with --full and not without."""
    steward("org", "create", "--name", "Demo Shop")
    output = steward("doctor", "--full")
    assert wrong(output) == set()
    if not is_sqlite(database_url):
        return
    assert check_results(output)["database"][1] == "SQLite; the file is sound."
    with sqlite_path(database_url).open("r+b") as file:
        header = file.read(32)
        page_size, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
        file.seek(28)
        file.write((pages + 1).to_bytes(4, "big"))
        file.seek(pages * page_size)
        file.write(bytes(page_size))
    assert wrong(steward("doctor")) == set()
    output = steward("doctor", "--full")
    assert wrong(output) == {"database"}
    assert "The file is damaged (" in check_results(output)["database"][1]


def test_several_servers_without_a_synchronous_standby_are_named(steward: Steward, database_url: str) -> None:
    """Fails for several servers of which none is a synchronous standby, which would lose writes."""
    if is_sqlite(database_url):
        pytest.skip("SQLite has one file")
    host = database_url.partition("@")[2].partition("/")[0]
    output = steward(
        "doctor", STEWARD_DATABASE_URL=database_url.replace(f"@{host}/", f"@127.0.0.1:1,{host}/")
    )
    assert wrong(output) == {"database"}
    assert "waits for no standby" in check_results(output)["database"][1]


def test_a_long_reader_is_named_and_never_its_query(
    steward: Steward, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names a long reader by process, role and application and never its query."""
    if is_sqlite(database_url):
        pytest.skip("SQLite's readers hold nothing back for long")
    monkeypatch.setattr(health, "LONG_READER", timedelta(0))

    async def look() -> tuple[int, CommandOutput]:
        reader: Any = await asyncpg.connect(
            database_url, server_settings={"application_name": "weekly report"}
        )
        try:
            async with reader.transaction():
                await reader.fetchval("SELECT 4711")
                return reader.get_server_pid(), await asyncio.to_thread(steward, "doctor")
        finally:
            await reader.close()

    process, output = asyncio.run(look())
    assert wrong(output) == {"long_readers"}
    assert (
        f"process {process} of role steward (weekly report) since "
        in check_results(output)["long_readers"][1]
    )
    assert "4711" not in check_results(output)["long_readers"][1]


def test_faults_of_standbys_and_slots_are_named() -> None:
    """Names a missing synchronous standby, kept rows, the log of one that is gone, and a differing clock."""
    second = timedelta(seconds=1)
    well = Follower("standby", "db2", "sync", None, -9 * second, 0)
    slot = Follower("slot", "db2", "active", None, None, 5 << 20)
    assert standby_faults([well, slot], are_waited_for=True) == []
    assert standby_faults([], are_waited_for=False) == []
    [waits] = standby_faults([replace(well, state="async")], are_waited_for=True)
    assert waits == "No synchronous standby follows, so writes wait for one"
    for follower, words in (
        (replace(well, rows_since=700), "The standby db2 keeps dead rows for its readers"),
        (replace(slot, name="db3", state="inactive"), "The slot db3 of a standby that is gone keeps 5 MiB"),
        (replace(well, clock_ahead=3 * second), "The clock of the standby db2 is 3 s ahead"),
        (replace(well, clock_ahead=-15 * second), "The clock of the standby db2 is 15 s behind"),
    ):
        [fault] = standby_faults([well, follower], are_waited_for=True)
        assert words in fault


def test_settings_of_the_server_that_lose_rows_are_named() -> None:
    """Fails for each setting that loses rows; where pages have no checksums only in a cluster."""
    settings = dict.fromkeys((*health.DURABLE_IF_ON, "synchronous_standby_names", "data_checksums"), "on")
    assert server_result(settings, is_one_of_several=True) == "PostgreSQL can be reached."
    unchecked = settings | {"data_checksums": "off"}
    assert "run pg_checksums --enable" in server_result(unchecked, is_one_of_several=False)
    for faulty, words in (
        (settings | {"fsync": "off"}, "set fsync to on"),
        (settings | {"synchronous_standby_names": ""}, "waits for no standby"),
        (unchecked, "run pg_checksums --enable"),
    ):
        with pytest.raises(CheckFailed, match=words):
            server_result(faulty, is_one_of_several=True)


def test_a_missing_grant_to_see_long_readers_is_named(steward: Steward, database_url: str) -> None:
    """Fails when the right to see long readers is missing, since none could be found."""
    if is_sqlite(database_url):
        pytest.skip("SQLite has no sessions of other roles")
    into(database_url, HIDE_SESSIONS)
    output = steward("doctor")
    assert wrong(output) == {"long_readers"}
    assert "GRANT pg_read_all_stats TO steward_queue" in check_results(output)["long_readers"][1]


def test_a_missing_partition_fails_and_rows_without_one_are_named(
    steward: Steward, database_url: str
) -> None:
    """Fails while a partition of the next month is missing; names tables whose rows are in no partition."""
    if is_sqlite(database_url):
        pytest.skip("SQLite has no partitions")
    into(
        database_url,
        "SET session_replication_role = replica;"
        " INSERT INTO event_bodies (org_id, event_id, body) VALUES (1, '7ZZZZZZZZZZZZZZZZZZZZZZZZZ', '{}')",
    )
    output = steward("doctor")
    assert wrong(output) == set()
    assert "The default partitions of event_bodies hold rows" in check_results(output)["partitions"][1]
    into(
        database_url,
        "DO $$ BEGIN EXECUTE 'DROP TABLE steps' ||"
        " to_char(steward_month_start(steward_now()) + interval '1 month', '_YYYY_MM'); END $$",
    )
    output = steward("doctor")
    assert wrong(output) == {"partitions"}
    assert "Partitions are missing: steps_20" in check_results(output)["partitions"][1]


def test_a_failed_check_is_named_and_the_others_run(steward: Steward, database_url: str) -> None:
    """Names each failure and runs the other checks."""
    steward("org", "create", "--name", "Demo Shop")
    steward("credential", "issue", "--org", "Demo Shop")
    far = int((CLOCK.now() - timedelta(hours=1)).timestamp() * 1000)
    into(
        database_url,
        "INSERT INTO workers (name, version, state, lease_until, started_at, slots)"
        f" VALUES ('gone|1|1', '0', 'alive', {far}, {far}, 1)",
        "INSERT INTO deferred_rows (task, key, failures, not_before, message, last_failed_at)"
        f" VALUES ('settle', 'R1', 5, {far}, 'no', {far}), ('settle', 'R2', 4, {far}, 'no', {far})",
        "INSERT INTO notices (org_id, id, topic, dedupe, count, facts, created_at, state, not_before)"
        f" VALUES (1, 'N1', 'run_failed', 'N1', 1, '{{}}', {far}, 'new', {far})",
    )
    output = steward("doctor")
    assert wrong(output) == {"leases", "put_off", "notices"}
    assert "UTC and was not passed to its channels." in check_results(output)["notices"][1]
    into(database_url, "UPDATE notices SET state = 'fanned_out'")
    output = steward("doctor")
    assert wrong(output) == {"leases", "put_off"}
    assert check_results(output)["notices"] == (True, "Every notice was passed to its channels.")
    assert "settle R1" in check_results(output)["put_off"][1]
    assert "R2" not in check_results(output)["put_off"][1]
    other = steward("keys", "new").facts["key"]
    assert wrong(steward("doctor", STEWARD_MASTER_KEYS=other)) == {"leases", "put_off", "keys"}
    into(database_url, "DELETE FROM schema_version WHERE version = 1")
    assert "migrations" in wrong(steward("doctor"))


def test_the_releases_of_live_processes_are_reported_and_keep_cleaning_back(
    steward: Steward, database_url: str
) -> None:
    """Lists the releases of workers and API processes whose lease is current; while others live, nothing is
    cleaned.
    """
    now = int(CLOCK.now().timestamp() * 1000)
    hour = 3_600_000
    rows = [("1.0", now + hour), ("1.1", now + hour), ("1.1", now + hour), ("0.9", now - hour)]
    values = ", ".join(
        f"('elsewhere|{pid}|1', '{release}', 'alive', {until}, 0, 1)"
        for pid, (release, until) in enumerate(rows)
    )
    into(
        database_url,
        f"INSERT INTO workers (name, version, state, lease_until, started_at, slots) VALUES {values}",
    )
    into(
        database_url,
        f"INSERT INTO api_processes (name, version, lease_until) VALUES ('web|1|1', '1.2', {now + hour}),"
        f" ('web|2|1', '1.1', {now + hour}), ('web|3|1', '0.9', {now - hour})",
    )
    words = (
        "3 workers hold their lease (release 1.0, 1.1); 1 are being taken over;"
        " 2 API processes serve beside them (release 1.1, 1.2)."
    )
    assert check_results(steward("doctor"))["leases"] == (True, words)
    if database_url.startswith("sqlite"):  # whose lock says that no process serves
        assert steward("migrate", "--clean").facts["applied"] == []
        return
    output = steward("migrate", "--clean")
    assert output.refused == (1, "still_running")
    for process in ("worker on elsewhere (1.0)", "API process on web (1.2)"):
        assert process in output.facts["error"]["message"]
    into(database_url, f"UPDATE workers SET version = '{__version__}'", "DELETE FROM api_processes")
    assert steward("migrate", "--clean").facts["applied"] == []


def test_a_database_of_the_release_after_next_is_refused(steward: Steward, database_url: str) -> None:
    """Serves a database that the next release migrated and refuses that of the one after."""
    columns = "INSERT INTO schema_version (version, applied_at, sha256, serves_from) VALUES"
    into(database_url, f"{columns} (2, 0, 'next', 1)")
    assert steward("org", "list").status == 0
    into(database_url, f"{columns} (3, 0, 'after', 2)")
    for words in (["org", "list"], ["migrate"]):
        assert steward(*words).refused == (1, "schema_differs")
    assert "migrated to 0003 by a later release" in check_results(steward("doctor"))["migrations"][1]


def test_overdue_and_late_slots_are_reported(steward: Steward, database_url: str) -> None:
    """Fails for a slot that is due for longer than the late limit, and counts slots skipped as late."""
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
    output = steward("doctor")
    assert wrong(output) == {"slots"}
    into(
        database_url,
        "UPDATE schedules SET due_at = NULL",
        "INSERT INTO occurrences (org_id, automation_id, slot_at, run_at, local_key, state, reason, version,"
        f" by_auditor, from_edit, updated_at) VALUES (1, 'A1', {late}, {late}, 'x', 'skipped',"
        f" 'skipped_too_late', 0, {'1, 0' if is_sqlite(database_url) else 'true, false'}, {late})",
    )
    assert "1 slots of the last 7 days" in check_results(steward("doctor"))["slots"][1]


def test_doctor_reports_a_closed_period_that_has_no_effect(steward: Steward, database_url: str) -> None:
    """Fails for a closed period with an unknown zone, one that dispatch overlooks, and overdue rewriting."""
    steward("org", "create", "--name", "Demo Shop")
    steward("credential", "issue", "--org", "Demo Shop")
    now = int(CLOCK.now().timestamp() * 1000)
    columns = "org_id, id, version, valid_from, name, scope_kind, stops, kind, when_json, timezone, made_at"
    row = f"1, 'P1', 1, {now}, 'Stop', 'organization', 'changes', 'freeze', '{{\"kind\":\"freeze\"}}'"
    into(
        database_url,
        f"INSERT INTO closed_periods ({columns}) VALUES ({row}, 'Mars/Olympus', {now})",
        f"INSERT INTO closing_work (org_id, requested_at) VALUES (1, {now - 61_000})",
    )
    output = steward("doctor")
    assert wrong(output) == {"closings"}
    for words in ("Mars/Olympus", "looks open", "not rewritten since"):
        assert words in check_results(output)["closings"][1]
    into(
        database_url,
        "UPDATE closed_periods SET timezone = 'UTC'",
        f"UPDATE organizations SET closed_from = {now}",
        "DELETE FROM closing_work",
    )
    assert wrong(steward("doctor")) == set()


def test_missing_row_level_security_is_reported(steward: Steward, postgresql_url: str) -> None:
    """Fails for open row-level security and for a right that the application must not have."""
    environ = {"STEWARD_DATABASE_URL": postgresql_url}
    into(
        postgresql_url,
        "ALTER TABLE runs NO FORCE ROW LEVEL SECURITY",
        "GRANT DELETE ON audit_log TO steward_app",
    )
    output = steward("doctor", **environ)
    assert wrong(output) == {"walls"}
    assert {"runs", "audit_log"} <= set(
        check_results(output)["walls"][1].rstrip(".").split(": ")[1].split(", ")
    )
    into(postgresql_url, "REVOKE DELETE ON audit_log FROM steward_app")


def test_a_half_finished_installation_is_reported(
    steward: Steward, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Says which built files are missing and what to run."""
    schema_table.schema_table.cache_clear()
    table = tmp_path / "schema.json"
    monkeypatch.setattr(schema_table, "_TABLE", table)
    table.write_text('{"types": {}}')
    output = steward("doctor")
    assert "built" in wrong(output)
    assert check_results(output)["built"][1].count(";") == 1
    assert "fields of Shopify" in check_results(output)["built"][1]
    assert "make setup" in check_results(output)["built"][1]
    table.unlink()
    monkeypatch.setattr(built_files, "PACKAGE", tmp_path)
    actual = check_results(steward("doctor"))["built"][1]
    assert all(what in actual for what in ("fields of Shopify", "dates", "queries", "Markdown"))


def test_an_organization_without_an_owner_is_named(steward: Steward) -> None:
    """Names organizations without an owner and the command that prints a new set-up link."""
    assert "steward init" in check_results(steward("doctor"))["setup"][1]
    org = steward("org", "create", "--name", "Demo Shop").facts["organization"]["id"]
    assert f"Without an owner: {org}." in check_results(steward("doctor"))["setup"][1]
    words = ("--first-name", "M", "--last-name", "M", "--org", str(org), "--role", "owner", "--no-password")
    steward("user", "create", "--email", "mia@example.com", *words)
    assert check_results(steward("doctor"))["setup"] == (True, "Every organization has an owner.")


def test_a_changed_built_file_is_named(
    steward: Steward, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names built files that were changed, removed or added since the list was written."""
    package = tmp_path / "package"
    for name in (*built_files.BUILT, "static/index.html", "static/pages.json"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("as built")
    built.write_list(package)
    monkeypatch.setattr(built_files, "PACKAGE", package)
    assert check_results(steward("doctor"))["built"] == (
        True,
        "All built files are present and unchanged.",
    )
    (package / "static/index.html").write_text("changed")
    (package / "static/pages.json").unlink()
    (package / "static/added.js").touch()
    is_ok, words = check_results(steward("doctor"))["built"]
    assert not is_ok
    assert "static/added.js, static/index.html, static/pages.json." in words


def test_a_build_under_way_is_never_seen_half_done(tmp_path: Path) -> None:
    """Reads the list of built files whole while `make` rewrites it."""
    for number in range(100):
        file = tmp_path / f"static/{number}.js"
        file.parent.mkdir(exist_ok=True)
        file.touch()
    built.write_list(tmp_path)
    ended = threading.Event()

    def build() -> None:
        while not ended.is_set():
            built.write_list(tmp_path)

    building = threading.Thread(target=build)
    building.start()
    try:
        differences = [built.differences(tmp_path) for _ in range(40)]
    finally:
        ended.set()
        building.join()
    assert differences == [[]] * 40


def test_a_missing_database_is_reported_and_not_created(steward: Steward, tmp_path: Path) -> None:
    """Answers every check without a database and creates none."""
    absent = tmp_path / "absent.db"
    output = steward("doctor", STEWARD_DATABASE_URL=f"sqlite:///{absent}")
    assert {"database", "slots", "leases"} <= wrong(output)
    assert list(check_results(output)) == NAMES
    assert not absent.exists()
    absent.write_bytes(b"this is no database, whatever it was before " * 100)
    assert "database" in wrong(steward("doctor", STEWARD_DATABASE_URL=f"sqlite:///{absent}"))


class _HealthServer(BaseHTTPRequestHandler):
    """Answers GET with a chosen status as `/healthz` does, and accepts every POST."""

    status = 200

    def do_GET(self) -> None:
        """Answers with the health body."""
        self._response(self.status, b'{"status": "ok"}')

    def do_POST(self) -> None:
        """Accepts traces."""
        self._response(200, b"")

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing."""

    def _response(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def answering() -> Iterator[str]:
    """Yields the address of a local server that does not look local."""
    with ThreadingHTTPServer(("127.0.0.2", 0), _HealthServer) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.2:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_the_proxy_and_the_collector_are_asked(steward: Steward) -> None:
    """Fails for an address that answers otherwise and reports one that cannot be reached."""
    with answering() as address:
        output = steward("doctor", STEWARD_BASE_URL=address, STEWARD_TRACES_URL=f"{address}/v1/traces")
        assert not wrong(output) & {"proxy", "traces"}
        assert "leads to Steward. STEWARD_TRUSTED_PROXIES is empty" in check_results(output)["proxy"][1]
        assert check_results(output)["traces"] == (True, "The collector of traces answers.")
        _HealthServer.status = 502
        try:
            assert "proxy" in wrong(steward("doctor", STEWARD_BASE_URL=address))
        finally:
            _HealthServer.status = 200
    output = steward("doctor", STEWARD_BASE_URL=address, STEWARD_TRACES_URL="http://127.0.0.1:9/v1/traces")
    assert wrong(output) >= {"traces"}
    assert "cannot be reached from here" in check_results(output)["proxy"][1]


def test_a_broken_audit_log_is_named(steward: Steward, database_url: str) -> None:
    """Names the broken entry that the worker's last check found."""
    steward("org", "create", "--name", "Demo Shop")
    assert check_results(steward("doctor"))["audit"][0]
    into(database_url, "UPDATE audit_heads SET broken_seq = 1, broken_how = 'altered'")
    output = steward("doctor")
    assert wrong(output) == {"audit"}
    assert "entry 1 of organization 1 (altered)" in check_results(output)["audit"][1]
