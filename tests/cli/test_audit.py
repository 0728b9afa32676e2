"""The operator's commands for the audit log, and the entries that operators' acts write."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from steward.database.engine.migrate import is_sqlite, sqlite_path
from tests.cli.test_copies import steward as run_command
from tests.cli.test_operator import PASSWORD, Steward, demo, steward

__all__ = ["steward"]


def actions(path: Path) -> list[str]:
    """Returns the actions of an export."""
    return [json.loads(line).get("action") for line in path.read_text("utf-8").splitlines()[:-1]]


def test_acts_of_the_operator_are_written_and_verified(
    steward: Steward, tmp_path: Path, database_url: str
) -> None:
    """Writes an entry for each act of the operator, exports the log privately and verifies it."""
    demo(steward)
    mia = ("--user", "mia@example.com")
    steward("org", "automations", "off", "--org", "Demo Shop")
    steward("org", "automations", "on", "--org", "Demo Shop")
    steward("user", "add-to-org", *mia, "--org", "Demo Shop", "--role", "owner")
    steward("user", "set-password", *mia, "--password-stdin", stdin=f"{PASSWORD} again")
    steward("user", "deactivate", *mia)
    steward("user", "activate", *mia)
    client = steward("credential", "issue", "--org", "Demo Shop", "--label", "till").facts
    client_id = ("--client-id", client["credential"]["client_id"])
    for verb in ("rotate", "disable", "enable"):
        assert steward("credential", verb, *client_id).status == 0
    target = tmp_path / "log.ndjson"
    exported = steward("audit", "export", "--org", "Demo Shop", "--to", str(target))
    assert exported.status == 0
    assert target.stat().st_mode & 0o077 == 0
    expected = [
        *("organization_created", "member_added", "automations_switched_off", "automations_switched_on"),
        *("role_changed", "password_set", "person_deactivated", "person_activated", "credential_issued"),
        *("credential_rotated", "credential_disabled", "credential_enabled", "audit_exported"),
    ]
    assert actions(target) == expected
    first = json.loads(target.read_text("utf-8").splitlines()[-2])
    assert first["words"] == "The operator exported the audit log"
    assert steward("audit", "export", "--org", "1", "--to", str(target)).refused == (1, "exists")
    [log] = steward("audit", "verify").facts["logs"]
    assert log["entries"] == exported.facts["entries"] == len(expected)
    assert steward("audit", "verify", "--file", str(target)).facts["last"] == len(expected)
    [head] = steward("audit", "head", "--org", "Demo Shop").facts["heads"]
    anchored = ("audit", "verify", "--org", "Demo Shop", "--anchor", head["anchor"])
    assert steward(*anchored).status == 0
    if is_sqlite(database_url):
        copy = str(tmp_path / "copy.db")
        assert steward("backup", "--to", copy).status == 0
        steward("org", "automations", "off", "--org", "Demo Shop")
        assert steward("restore", "--from", copy, "--force").status == 0
        table = tmp_path / "log.csv"
        steward("audit", "export", "--org", "1", "--to", str(table), "--format", "csv")
        rows = table.read_text("utf-8").splitlines()
        assert ["restored" in row for row in rows[-2:]] == [True, False]
        assert steward(*anchored).status == 0


def test_a_log_that_was_edited_fails_with_its_first_wrong_entry(sqlite_url: str, tmp_path: Path) -> None:
    """Fails with the first wrong entry in the database or against an anchor, and explains wrong usage."""
    environ = {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": sqlite_url,
        "STEWARD_DATA_DIR": str(tmp_path / "d"),
    }

    def call(*words: str) -> tuple[int, dict[str, Any]]:
        return run_command(environ, *words)

    assert call("org", "create", "--name", "Edited")[0] == 0
    for state in ("off", "on", "off"):
        assert call("org", "automations", state, "--org", "Edited")[0] == 0
    [head] = call("audit", "head")[1]["heads"]
    verify = ("audit", "verify", "--org", "Edited")
    assert call(*verify, "--anchor", head["anchor"])[0] == 0
    assert call(*verify, "--anchor", f"3:{'0' * 64}")[1]["logs"][0]["how"] == "anchor"
    with closing(sqlite3.connect(sqlite_path(sqlite_url))) as file:
        file.execute("DROP TRIGGER audit_log_no_delete")
        file.execute("DELETE FROM audit_log WHERE seq = 3")
        file.commit()
    status, facts = call("audit", "verify")
    assert (status, facts["error"]["code"]) == (1, "audit_broken")
    assert facts["error"]["message"] == "Entry 3 is missing."
    assert (facts["logs"][0]["wrong"], facts["logs"][0]["how"]) == (3, "missing")
    for wrong in (
        ("--anchor", head["anchor"]),
        ("--org", "Edited", "--anchor", "3"),
        ("--org", "1", "--file", "x"),
    ):
        assert call("audit", "verify", *wrong)[0] == 2
