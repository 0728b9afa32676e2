"""The operator's commands on real files and databases."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from steward.cli import command
from steward.cli.run import run
from steward.database.engine.base import Dialect
from steward.database.engine.migrate import is_sqlite, migrations, sqlite_path

PASSWORD = "correct sparrow lantern"


@dataclass(frozen=True)
class CommandOutput:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def facts(self) -> Any:
        """Returns the JSON object on standard output."""
        return json.loads(self.out)

    @property
    def refused(self) -> tuple[int, str]:
        """Returns the exit code and the error's code."""
        return self.status, self.facts["error"]["code"]


Steward = Callable[..., CommandOutput]


@pytest.fixture
def steward(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steward:
    """Returns a function that runs a command line with --json over a migrated database."""
    environ = {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": database_url,
        "STEWARD_DATA_DIR": str(tmp_path / "data"),
    }

    def call(*words: str, stdin: str = "", as_json: bool = True, **more: str) -> CommandOutput:
        monkeypatch.setattr(command.sys, "stdin", io.StringIO(stdin))
        out, err = io.StringIO(), io.StringIO()
        argv = [*words, "--json"] if as_json else list(words)
        status = run(argv, {**environ, **more}, out=out, err=err)
        return CommandOutput(status, out.getvalue(), err.getvalue())

    return call


def demo(steward: Steward) -> tuple[int, int]:
    """Creates an organization with a person and returns both ids."""
    org = steward("org", "create", "--name", "Demo Shop").facts["organization"]["id"]
    words = ["--email", "mia@example.com", "--first-name", "Mia", "--last-name", "Member"]
    output = steward(
        "user", "create", *words, "--org", "Demo Shop", "--role", "member", "--password-stdin", stdin=PASSWORD
    )
    return org, output.facts["user"]["id"]


def test_an_organization_is_made_listed_and_switched(steward: Steward) -> None:
    """Creates, lists and switches organizations, by name or id."""
    output = steward("org", "create", "--name", "Demo Shop", "--timezone", "Europe/Berlin")
    organization = output.facts["organization"]
    assert output.status == 0
    assert organization.pop("created_at").endswith("Z")
    org = organization.pop("id")
    assert organization == {"name": "Demo Shop", "timezone": "Europe/Berlin", "automations_enabled": True}
    off = steward("org", "automations", "off", "--org", "Demo Shop")
    assert off.facts["organization"]["automations_enabled"] is False
    on = steward("org", "automations", "on", "--org", str(org))
    assert on.facts["organization"]["automations_enabled"] is True
    second = steward("org", "create", "--name", "Second", "--automations", "off").facts["organization"]
    assert (second["timezone"], second["automations_enabled"]) == ("UTC", False)
    assert [
        found_organization["name"] for found_organization in steward("org", "list").facts["organizations"]
    ] == [
        "Demo Shop",
        "Second",
    ]


def test_names_of_organizations_are_unique_however_they_are_written(steward: Steward) -> None:
    """Refuses a name that differs only in case or blanks from an existing one, and an unknown id."""
    steward("org", "create", "--name", "Demo Shop")
    assert steward("org", "create", "--name", " DEMO  shop").refused == (1, "validation_failed")
    assert steward("org", "automations", "on", "--org", "99").refused == (1, "not_found")
    assert len(steward("org", "list").facts["organizations"]) == 1


NO_ZONES = (
    "Mars/Base", "localtime", "Factory", "posixrules", "europe/berlin", "EUROPE/BERLIN", " UTC", "", "UTC+2",
    "posix/Europe/Berlin", "right/Europe/Berlin", "../UTC", "/usr/share/zoneinfo/UTC", "tzdata.zi",
)  # fmt: skip


def test_an_organization_has_a_zone_the_api_would_take(steward: Steward) -> None:
    """Refuses zones that are not exact IANA names or stand for the machine's own."""
    for zone in NO_ZONES:
        output = steward("org", "create", "--name", "Shop", "--timezone", zone)
        assert output.refused == (1, "validation_failed"), zone
        assert "Europe/Berlin" in output.facts["error"]["message"]
    assert steward("org", "list").facts["organizations"] == []


def test_a_person_is_made_with_an_organization(steward: Steward) -> None:
    """Creates a person with a default or given user name, and adds the person to organizations."""
    org, person = demo(steward)
    words = ["--email", " Bo@Example.com ", "--first-name", "Bo", "--last-name", "B", "--username", "bo"]
    user = steward("user", "create", *words, "--no-password").facts["user"]
    assert user == {
        "id": person + 1,
        "email": "Bo@Example.com",
        "username": "bo",
        "first_name": "Bo",
        "last_name": "B",
        "active": True,
        "organizations": [],
    }
    joined = steward("user", "add-to-org", "--user", "bo@example.COM", "--org", str(org), "--role", "owner")
    assert joined.facts["user"]["organizations"] == [{"id": org, "name": "Demo Shop", "role": "owner"}]
    changed = steward("user", "add-to-org", "--user", str(person), "--org", "Demo Shop", "--role", "approver")
    assert changed.facts["user"]["organizations"][0]["role"] == "approver"
    assert changed.facts["user"]["username"] == "Mia Member"


def test_e_mail_addresses_are_unique_and_nothing_is_kept_of_a_refused_person(steward: Steward) -> None:
    """Refuses a known address, and stores nothing of a person whose organization is unknown."""
    demo(steward)
    words = ["--first-name", "M", "--last-name", "M", "--no-password"]
    again = steward("user", "create", "--email", "MIA@example.com", *words)
    lost = steward(
        "user", "create", "--email", "new@example.com", *words, "--org", "Nowhere", "--role", "owner"
    )
    assert again.refused == (1, "validation_failed")
    assert lost.refused == (1, "not_found")
    assert steward("user", "deactivate", "--user", "new@example.com").refused == (1, "not_found")


@pytest.mark.parametrize("bad", ["short", "password1234", "mia is my name ok", "the demo shop password"])
def test_a_bad_password_is_refused(steward: Steward, bad: str) -> None:
    """Refuses passwords that are short, common or contain the person's or organization's name."""
    steward("org", "create", "--name", "Demo Shop")
    words = ["--email", "mia_is_my_name@example.com", "--first-name", "M", "--last-name", "M"]
    words += ["--org", "Demo Shop", "--role", "owner", "--password-stdin"]
    if bad.startswith("mia"):
        bad = "mia_is_my_name 9"
    assert steward("user", "create", *words, stdin=bad).refused == (1, "validation_failed")


def test_a_password_is_read_from_standard_input_alone(steward: Steward) -> None:
    """Reads a password from standard input alone and prints it nowhere."""
    demo(steward)
    assert steward("user", "set-password", "--user", "mia@example.com").refused == (2, "usage")
    done = steward(
        "user", "set-password", "--user", "mia@example.com", "--password-stdin", stdin="lantern sparrow 77\n"
    )
    assert done.status == 0
    assert "lantern" not in done.out + done.err


def test_a_person_is_switched_off_and_on(steward: Steward) -> None:
    """Deactivates and activates a person by id or address."""
    _, person = demo(steward)
    assert steward("user", "deactivate", "--user", str(person)).facts["user"]["active"] is False
    assert steward("user", "activate", "--user", "mia@example.com").facts["user"]["active"] is True


def test_a_credential_is_issued_rotated_and_switched(steward: Steward) -> None:
    """Shows a secret once; rotation keeps the client id and raises the epoch, as disabling does.

    See docs/design/command-line.md#commands and docs/design/api/sign-in.md#preconditions.
    """
    org, _ = demo(steward)
    issued = steward("credential", "issue", "--org", "Demo Shop", "--label", "SDK").facts
    credential, secret = issued["credential"], issued["client_secret"]
    client_id = credential["client_id"]
    assert (len(client_id), client_id[:3], len(secret), secret[:4]) == (19, "st_", 47, "stw_")
    assert (credential["organization_id"], credential["label"]) == (org, "SDK")
    assert (credential["enabled"], credential["epoch"], credential["rotated_at"]) == (True, 1, None)
    rotated = steward("credential", "rotate", "--client-id", client_id).facts
    assert rotated["client_secret"] != secret
    assert (rotated["credential"]["client_id"], rotated["credential"]["epoch"]) == (client_id, 2)
    assert rotated["credential"]["rotated_at"] is not None
    off = steward("credential", "disable", "--client-id", client_id).facts["credential"]
    on = steward("credential", "enable", "--client-id", client_id).facts["credential"]
    assert (off["enabled"], off["epoch"], on["enabled"], on["epoch"]) == (False, 3, True, 4)
    steward("credential", "issue", "--org", str(org))
    listed = steward("credential", "list")
    assert len(listed.facts["credentials"]) == 2
    assert secret not in listed.out
    assert rotated["client_secret"] not in listed.out
    assert steward("credential", "list", "--org", "Nowhere").refused == (1, "not_found")
    assert steward("credential", "rotate", "--client-id", "st_none").refused == (1, "not_found")


def test_the_signing_key_is_rotated(steward: Steward) -> None:
    """Rotates the signing key and lists the former one as retired."""
    first = steward("keys", "rotate", "signing").facts
    second = steward("keys", "rotate", "signing").facts
    assert first["kid"] in second["retired"]
    assert second["kid"] not in second["retired"]
    assert second["retires_at"].endswith("Z")


def test_a_new_master_key_changes_nothing_and_fits_its_setting(steward: Steward) -> None:
    """Creates a master key that fits its setting, without reading other settings."""
    key = steward("keys", "new").facts["key"]
    assert steward("org", "list", STEWARD_MASTER_KEYS=key).status == 0
    assert steward("keys", "new", STEWARD_ENV="nonsense").status == 0


def test_keys_wrapped_by_a_lost_master_key_are_reported_in_plain_words(steward: Steward) -> None:
    """Reports keys wrapped by another master key as `wrong_master_keys`."""
    steward("keys", "rotate", "signing")
    other = steward("keys", "new").facts["key"]
    assert steward("keys", "rotate", "signing", STEWARD_MASTER_KEYS=other).refused == (
        1,
        "wrong_master_keys",
    )


def test_migrations_are_listed_and_applied(steward: Steward, database_url: str, tmp_path: Path) -> None:
    """Reports and applies migrations; `--check` fails on a database without them and creates none."""
    done = steward("migrate")
    engine: Dialect = "sqlite" if is_sqlite(database_url) else "postgresql"
    newest = migrations(engine)[-1].version
    assert done.facts == {
        "engine": engine,
        "from": newest,
        "to": newest,
        "applied": [],
        "pending": [],
        "to_clean": [],
    }
    assert steward("migrate", "--check").status == 0
    fresh = f"sqlite:///{tmp_path / 'fresh' / 'steward.db'}"
    assert steward("migrate", "--check", STEWARD_DATABASE_URL=fresh).refused == (1, "migrations_pending")
    assert steward("org", "list", STEWARD_DATABASE_URL=fresh).refused == (1, "migrations_pending")
    assert not sqlite_path(fresh).exists()
    applied = steward("migrate", STEWARD_DATABASE_URL=fresh).facts
    assert (applied["from"], applied["applied"][0]) == (0, "0001_schema")
    assert steward("migrate", "--check", STEWARD_DATABASE_URL=fresh).facts["applied"] == []


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nonsense"],
        ["org"],
        ["org", "create"],
        ["org", "create", "--name"],
        ["org", "automations", "perhaps", "--org", "1"],
        ["user", "create", "--email", "a@b.c", "--first-name", "A", "--last-name", "B", "--org", "1"],
        ["org", "list", "--surplus"],
        ["org", "list", "--env-file"],
        ["serve", "--port", "65536"],
        ["serve", "--processes", "0"],
        ["worker", "--concurrency", "-1"],
        ["demo", "--port", "65535"],
    ],
)
def test_wrong_usage_ends_with_two(steward: Steward, words: list[str]) -> None:
    """Ends wrong usage with exit code 2."""
    assert steward("--json", *words, as_json=False).refused == (2, "usage")


def test_wrong_settings_end_with_two(steward: Steward, tmp_path: Path) -> None:
    """Ends wrong settings with exit code 2."""
    assert steward("org", "list", STEWARD_SURPLUS="1").refused == (2, "settings")
    assert steward("org", "list", STEWARD_PROCESSES="0").refused == (2, "settings")
    assert steward("org", "list", "--env-file", str(tmp_path / "none")).refused == (2, "settings")
    (tmp_path / "odd").write_text("no equals sign\n")
    assert steward("org", "list", f"--env-file={tmp_path / 'odd'}").refused == (2, "settings")


@pytest.mark.parametrize("url", ["postgresql://nobody@127.0.0.1:1/none", "sqlite:////proc/none/steward.db"])
def test_an_unreachable_database_is_reported_in_plain_words(steward: Steward, url: str) -> None:
    """Reports an unreachable database as `unavailable`."""
    output = steward("migrate", STEWARD_DATABASE_URL=url)
    assert output.refused == (1, "unavailable")
    name = "127.0.0.1:1" if "127.0.0.1" in url else "/proc/none"
    assert name in output.facts["error"]["message"]


def test_the_environment_file_stands_before_or_after_the_command(tmp_path: Path, sqlite_url: str) -> None:
    """Accepts `--env-file` before, between and after the words of a command."""
    file = tmp_path / "steward.env"
    file.write_text(
        f"# a comment\nexport STEWARD_ENV=test\n\nSTEWARD_DATABASE_URL='{sqlite_url}'\n"
        f'STEWARD_DATA_DIR="{tmp_path / "data"}"\nOTHER=ignored\n'
    )
    for argv in (
        ["--env-file", str(file), "--json", "org", "list"],
        ["org", "list", "--json", f"--env-file={file}"],
        ["org", "--json", "list", "--env-file", str(file)],
    ):
        out = io.StringIO()
        assert run(argv, {}, out=out, err=io.StringIO()) == 0
        assert json.loads(out.getvalue()) == {"organizations": []}


def test_without_json_the_same_is_printed_in_words(steward: Steward) -> None:
    """Prints the same facts and errors in words without --json."""
    output = steward("org", "create", "--name", "Demo Shop", as_json=False)
    refused = steward("org", "create", "--name", "Demo Shop", as_json=False)
    assert "name: Demo Shop" in output.out
    assert (refused.status, refused.out) == (1, "")
    assert "exists already" in refused.err
