"""The settings: every range at both ends and one past, every rule, and no secret in any text."""

import base64
from dataclasses import fields
from ipaddress import ip_network
from pathlib import Path

import pytest

from steward.cli.command import read_settings
from steward.cli.env_file import read_env_file
from steward.cli.settings_page import settings_page
from steward.config import Settings, SettingsError, read
from steward.setting_forms import Environment, HostPort

KEY = base64.b64encode(bytes(range(32))).decode()
OTHER = base64.b64encode(bytes(32)).decode()
SECRETS = (
    *("database_url", "master_keys", "google_client_secret", "microsoft_client_secret", "smtp_url"),
    "traces_headers",
)
PRODUCTION = {"STEWARD_MASTER_KEYS": f"k1:{KEY}"}

# Name, lowest, highest, lowest under STEWARD_ENV=test, default: the settings once more, by hand.
NUMBERS = [
    ("AUDIT_ANCHOR_HOURS", 1, 168, 1, 24),
    ("DATABASE_POOL", 1, 100, 1, 8),
    ("DATABASE_DEADLINE_SECONDS", 2, 30, 2, 8),
    ("PROCESSES", 1, 64, 1, 1),
    ("LIMIT_PERSON", 1, 1_000_000, 1, 600),
    ("LIMIT_ORGANIZATION", 1, 1_000_000, 1, 3000),
    ("LIMIT_WEB", 1, 1_000_000, 1, 1200),
    ("LIMIT_LOGIN", 1, 10_000, 1, 10),
    ("SPREAD_MAX", 0, 9, 0, 9),
    ("LATE_LIMIT_MINUTES", 10, 1440, 10, 10),
    ("APPROVAL_HOURS", 1, 720, 1, 72),
    ("RUN_TIME_LIMIT_SECONDS", 60, 86_400, 1, 3600),
    ("QUEUE_LIMIT_HOURS", 1, 168, 1, 24),
    ("LEASE_SECONDS", 5, 300, 1, 30),
    ("WORKER_CONCURRENCY", 1, 1000, 1, 20),
    ("ORGANIZATION_CONCURRENCY", 1, 1000, 1, 50),
    ("TICK_SECONDS", 1, 15, 1, 1),
    ("CONFINED_PROCESSES", 1, 64, 1, 2),
    ("MAX_WAITING_EVENTS", 1, 200, 1, 200),
    ("MAX_WAITING_HAND", 1, 1000, 1, 1000),
    ("IMPORTS_KEPT", 1, 100, 1, 100),
    ("CATCH_UP_MINUTES", 5, 1440, 1, 15),
    ("RUN_HISTORY_DAYS", 90, 3650, 90, 400),
    ("UNDO_DAYS", 1, 3615, 1, 365),
    ("SESSION_IDLE_MINUTES", 5, 1440, 5, 30),
    ("SESSION_HOURS", 1, 168, 1, 12),
    ("OUTBOUND_TIMEOUT_SECONDS", 1, 120, 1, 20),
    ("SETTLE_QUIET_SECONDS", 30, 3600, 0, 120),
    ("MAIL_PER_DAY", 1, 1_000_000, 1, 5000),
    ("NOTIFY_WINDOW_MINUTES", 1, 60, 0, 15),
    ("QUIET_PERIODS", 1, 50, 1, 3),
]


def value(environ: dict[str, str], name: str) -> object:
    """One setting as read; on PostgreSQL, so that every number of processes is allowed."""
    settings = read({"STEWARD_DATABASE_URL": "postgresql://db/steward"} | PRODUCTION | environ)
    return getattr(settings, name.lower())


def refused(environ: dict[str, str]) -> str:
    """The words of the refusal."""
    with pytest.raises(SettingsError) as caught:
        read(PRODUCTION | environ)
    return str(caught.value)


@pytest.mark.parametrize(("name", "low", "high", "floor", "default"), NUMBERS, ids=lambda part: str(part))
def test_every_number_is_held_to_its_range(name: str, low: int, high: int, floor: int, default: int) -> None:
    """A value out of its range stops the start, naming variable and range.

    See docs/design/command-line.md#settings.
    """
    variable = f"STEWARD_{name}"
    test = {"STEWARD_ENV": "test"}
    assert value({}, name) == default
    for number in (low, high):
        assert value({variable: str(number)}, name) == number
    assert value(test | {variable: str(floor)}, name) == floor
    for text in (str(low - 1), str(high + 1)):
        words = refused({variable: text})
        assert variable in words
        assert f"from {low} to {high}" in words
    assert variable in refused(test | {variable: str(floor - 1)})
    assert variable in refused(test | {variable: str(high + 1)})


@pytest.mark.parametrize("text", ["", " 5", "5 ", "+5", "5.0", "0x5", "5_0", "٥", "five"])
def test_a_number_is_plain_digits(text: str) -> None:
    """Type. See docs/design/command-line.md#settings."""
    assert "STEWARD_TICK_SECONDS must be" in refused({"STEWARD_TICK_SECONDS": text})


def test_every_setting_of_the_table_is_tested_here_or_below() -> None:
    """A setting is one line and its test. See docs/guides/contributors.md#conventions."""
    others = {
        "env", "database_url", "data_dir", "master_keys", "base_url", "auth_url", "web_origin", "listen",
        "metrics_listen", "trusted_proxies", "api_access", "log_level", "log_format", "approval_seconds",
        "approver_not_starter", "allow_private_hosts", "google_client_id", "google_client_secret",
        "google_drive_url", "google_gmail_url", "google_sheets_url", "google_token_url",
        "google_authorize_url", "microsoft_client_id", "microsoft_client_secret", "microsoft_graph_url",
        "microsoft_token_url", "microsoft_authorize_url", "teams_hosts",
        "slack_hosts", "shopify_api_version", "shopify_url", "unconfined_scripts", "smtp_url", "mail_from",
        "traces_url", "traces_headers", "traces_ratio",
    }  # fmt: skip
    assert {field.name for field in fields(Settings)} == others | {name.lower() for name, *_ in NUMBERS}


def test_the_defaults_are_those_of_the_contract() -> None:
    """See docs/design/command-line.md#settings."""
    settings = read(PRODUCTION)
    assert settings.env is Environment.PRODUCTION
    assert settings.database_url == "sqlite:///./steward-data/steward.db"
    assert settings.data_dir == Path("steward-data")
    assert settings.base_url == settings.auth_url == settings.web_origin == "http://127.0.0.1:8400"
    assert settings.listen == HostPort("127.0.0.1", 8400)
    assert settings.metrics_listen == HostPort("127.0.0.1", 9464)
    assert (settings.api_access, settings.approver_not_starter) == (True, False)
    assert not settings.unconfined_scripts
    assert (settings.log_level, settings.log_format) == ("info", "json")
    assert settings.trusted_proxies == settings.allow_private_hosts == ()
    assert settings.google_sheets_url == "https://sheets.googleapis.com"
    assert settings.google_token_url == "https://oauth2.googleapis.com/token"
    assert settings.google_authorize_url == "https://accounts.google.com/o/oauth2/v2/auth"
    assert settings.teams_hosts == (".logic.azure.com", ".environment.api.powerplatform.com")
    assert settings.slack_hosts == ("hooks.slack.com", "slack.com")
    unset = (settings.approval_seconds, settings.shopify_url, settings.google_client_id)
    assert unset == (None, None, None)
    assert settings.google_client_secret is None
    assert settings.smtp_url is settings.mail_from is None


@pytest.mark.parametrize(
    ("variable", "good", "bad"),
    [
        ("ENV", ["production", "demo", "test"], ["", "Production", "staging"]),
        ("API_ACCESS", ["on", "off"], ["", "true", "ON", "1"]),
        ("APPROVER_NOT_STARTER", ["on", "off"], ["yes"]),
        ("LOG_LEVEL", ["debug", "info", "warning", "error"], ["trace", "INFO", ""]),
        ("LOG_FORMAT", ["json", "text"], ["xml", ""]),
        ("DATABASE_URL", ["sqlite:///x.db", "sqlite:////var/x.db", "postgresql://u:p@h:5/n",
                          "postgresql://u:p@h,h2:5433,[::1]:5/n?sslmode=require"],
         ["", "sqlite:///", "sqlite://x", "sqlite:///x?mode=ro", "mysql://h/n", "postgresql://", "x.db",
          "postgresql://u:p@h,,h2/n", "postgresql://u:p@h,h2:99999/n"]),
        ("DATA_DIR", ["/var/lib/steward", "here"], ["", " x"]),
        ("LISTEN", ["0.0.0.0:1", "localhost:65535", "[::1]:8400"],
         ["", "8400", ":8400", "h:0", "h:65536", "h:", "::1:80", "[x]:80", "off"]),
        ("METRICS_LISTEN", ["off", "127.0.0.1:9464"], ["", "on", "h:0"]),
        ("BASE_URL", ["https://a.example", "https://a.example:8443", "https://a.example/"],
         ["", "a.example", "ftp://a.example", "https://", "https://a.example/v1", "https://u:p@a.example",
          "https://a.example?x=1", "https://a.example#x", "https://a.example:99999"]),
        ("AUTH_URL", ["https://login.a.example"], ["https://a.example/login"]),
        ("WEB_ORIGIN", ["https://app.a.example"], ["https://a.example/app", "*"]),
        ("TRUSTED_PROXIES", ["", "10.0.0.0/8, fd00::/8", "127.0.0.1"],
         ["10.0.0.1/8", "proxy", "10.0.0.0/8,10.0.0.0/8", "10.0.0.0/33", ","]),
        ("ALLOW_PRIVATE_HOSTS", ["", "127.0.0.1:8401,shop.local:80"],
         ["127.0.0.1", "*:80", "h:80,h:80", "https://h:80"]),
        ("TEAMS_HOSTS", [".logic.azure.com", "127.0.0.1:8401"], ["logic.azure.com", ".", "..x", "x:0"]),
        ("SLACK_HOSTS", ["slack.com", "hooks.slack.com, .slack-gov.com", "127.0.0.1:8401"],
         ["slack", "x..y", "x:0"]),
        ("GOOGLE_CLIENT_ID", ["id.apps"], ["", " id"]),
        ("GOOGLE_CLIENT_SECRET", ["s"], ["", "s\n"]),
        ("GOOGLE_SHEETS_URL", ["https://s.example/sheets"], ["s.example", "https://s.example/?a=b"]),
        ("GOOGLE_GMAIL_URL", ["https://s.example/gmail"], ["s.example", "https://s.example/?a=b"]),
        ("GOOGLE_DRIVE_URL", ["https://s.example/drive"], ["s.example", "https://s.example/?a=b"]),
        ("GOOGLE_TOKEN_URL", ["https://s.example/google/token"], ["", "file:///etc/passwd"]),
        ("GOOGLE_AUTHORIZE_URL", ["https://s.example/authorize"], ["javascript:x"]),
        ("MICROSOFT_CLIENT_ID", ["id"], ["", " id"]),
        ("MICROSOFT_CLIENT_SECRET", ["s"], ["", "s\n"]),
        ("MICROSOFT_GRAPH_URL", ["https://s.example/graph"], ["s.example", "https://s.example/?a=b"]),
        ("MICROSOFT_TOKEN_URL", ["https://s.example/token"], ["", "file:///etc/passwd"]),
        ("MICROSOFT_AUTHORIZE_URL", ["https://s.example/authorize"], ["javascript:x"]),
        ("SHOPIFY_API_VERSION", ["2026-01", "2026-10", "2027-12"], ["", "2026-13", "2026-00", "2026-1"]),
    ],
)  # fmt: skip
def test_every_other_value_is_held_to_its_form(variable: str, good: list[str], bad: list[str]) -> None:
    """A value out of its range stops the start, naming the variable.

    See docs/design/command-line.md#settings.
    """
    for text in good:
        assert read(PRODUCTION | {f"STEWARD_{variable}": text})
    for text in bad:
        assert f"STEWARD_{variable} must be" in refused({f"STEWARD_{variable}": text}), text


def test_values_arrive_in_the_types_of_their_use() -> None:
    """See docs/design/command-line.md#settings."""
    settings = read(
        {
            "STEWARD_ENV": "test",
            "STEWARD_LISTEN": "[::1]:80",
            "STEWARD_METRICS_LISTEN": "off",
            "STEWARD_TRUSTED_PROXIES": "10.0.0.0/8,fd00::/8",
            "STEWARD_ALLOW_PRIVATE_HOSTS": "127.0.0.1:8401, Shop.Local:80",
            "STEWARD_BASE_URL": "https://a.example/",
            "STEWARD_MASTER_KEYS": f"new:{KEY},old:{OTHER}",
        }
    )
    assert settings.listen == HostPort("::1", 80)
    assert settings.metrics_listen is None
    assert settings.trusted_proxies == (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    assert settings.allow_private_hosts == ("127.0.0.1:8401", "shop.local:80")
    assert settings.base_url == settings.auth_url == settings.web_origin == "https://a.example"
    assert settings.master_keys == (("new", bytes(range(32))), ("old", bytes(32)))


@pytest.mark.parametrize(
    "text",
    ["", KEY, f":{KEY}", f"k 1:{KEY}", f"{'k' * 41}:{KEY}", "k1:", "k1:AAAA", f"k1:{KEY[:-1]}",
     f"k1:{base64.b64encode(bytes(31)).decode()}", f"k1:{base64.b64encode(bytes(33)).decode()}",
     f"k1:{KEY},k1:{OTHER}", f"k1:{KEY},", f"k1:{KEY}!"],
)  # fmt: skip
def test_a_master_key_is_an_id_and_32_bytes(text: str) -> None:
    """See docs/design/command-line.md#settings."""
    with pytest.raises(SettingsError, match="STEWARD_MASTER_KEYS must be"):
        read({"STEWARD_ENV": "test", "STEWARD_MASTER_KEYS": text})


def test_production_asks_for_master_keys_and_a_demo_does_not() -> None:
    """Required in production. See docs/design/command-line.md#settings."""
    with pytest.raises(
        SettingsError, match=r"STEWARD_MASTER_KEYS is required.* `steward keys new` prints one;"
    ):
        read({})
    assert read({"STEWARD_ENV": "demo"}).master_keys == ()
    assert read({"STEWARD_ENV": "test"}).master_keys == ()


@pytest.mark.parametrize("name", ["BASE_URL", "AUTH_URL", "WEB_ORIGIN"])
def test_production_is_served_by_https_unless_on_loopback(name: str) -> None:
    """See docs/design/command-line.md#settings."""
    variable = f"STEWARD_{name}"
    words = refused({variable: "http://steward.example"})
    assert f"{variable} must be https" in words
    assert f"{variable} must be https" in refused({variable: "http://127.0.0.1.example"})
    for loopback in ("http://127.8.9.1:80", "http://localhost:8400", "http://[::1]:8400"):
        assert read(PRODUCTION | {variable: loopback})
    assert read({"STEWARD_ENV": "demo", variable: "http://steward.example"})


@pytest.mark.parametrize(
    "name",
    [
        "GOOGLE_DRIVE_URL",
        "GOOGLE_GMAIL_URL",
        "GOOGLE_SHEETS_URL",
        "GOOGLE_TOKEN_URL",
        "GOOGLE_AUTHORIZE_URL",
        "MICROSOFT_GRAPH_URL",
        "MICROSOFT_TOKEN_URL",
        "MICROSOFT_AUTHORIZE_URL",
    ],
)
def test_production_refuses_outbound_addresses_without_https(name: str) -> None:
    """See docs/design/command-line.md#settings."""
    variable = f"STEWARD_{name}"
    assert f"{variable} must be https" in refused({variable: "http://127.0.0.1:8401/x"})
    assert read(PRODUCTION | {variable: "https://other.example/x"})
    assert read({"STEWARD_ENV": "test", variable: "http://127.0.0.1:8401/x"})


def test_production_refuses_another_shopify() -> None:
    """See docs/design/command-line.md#settings."""
    assert "STEWARD_SHOPIFY_URL is refused" in refused({"STEWARD_SHOPIFY_URL": "https://s.example"})
    settings = read({"STEWARD_ENV": "demo", "STEWARD_SHOPIFY_URL": "http://127.0.0.1:8401/shopify/"})
    assert settings.shopify_url == "http://127.0.0.1:8401/shopify"


def test_an_approval_of_seconds_is_for_tests() -> None:
    """See docs/design/command-line.md#settings."""
    for text in ("1", "3600"):
        settings = read({"STEWARD_ENV": "test", "STEWARD_APPROVAL_SECONDS": text})
        assert settings.approval_seconds == int(text)
    for text in ("0", "3601"):
        words = refused({"STEWARD_ENV": "test", "STEWARD_APPROVAL_SECONDS": text})
        assert "STEWARD_APPROVAL_SECONDS must be" in words
    for environment in ("production", "demo"):
        words = refused({"STEWARD_ENV": environment, "STEWARD_APPROVAL_SECONDS": "5"})
        assert "STEWARD_APPROVAL_SECONDS may be set only with STEWARD_ENV=test" in words


MAIL_FROM = {"STEWARD_MAIL_FROM": "Steward <steward@tea.example>"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("smtp://mail.example:587", ("smtp://mail.example:587", None, None)),
        ("smtps://u%40tea:p%3Aw@mail.example:465", ("smtps://mail.example:465", "u@tea", "p:w")),
    ],
)
def test_a_mail_server_is_an_address_with_its_sign_in(text: str, expected: tuple[str | None, ...]) -> None:
    """See docs/design/notifications.md#e-mail."""
    settings = read(PRODUCTION | MAIL_FROM | {"STEWARD_SMTP_URL": text})
    assert settings.smtp_url == expected
    assert settings.mail_from == "Steward <steward@tea.example>"


@pytest.mark.parametrize(
    "text",
    ["", "mail.example:587", "https://mail.example:587", "smtp://mail.example", "smtp://u@mail.example:25",
     "smtp://mail.example:25/x", "smtp://mail.example:25?x", "smtp://:25", "smtp://mail.example:99999"],
)  # fmt: skip
def test_another_form_of_a_mail_server_is_refused(text: str) -> None:
    """The address is not repeated, for it holds a password."""
    words = refused(MAIL_FROM | {"STEWARD_SMTP_URL": text})
    assert words.startswith("STEWARD_SMTP_URL must be smtp://")


def test_a_mail_server_needs_a_sender() -> None:
    """And a sender is an address, or a name and an address."""
    words = refused({"STEWARD_SMTP_URL": "smtp://mail.example:587"})
    assert words == "STEWARD_MAIL_FROM is required with STEWARD_SMTP_URL."
    assert read(PRODUCTION | {"STEWARD_MAIL_FROM": "steward@tea.example"}).mail_from
    for text in ("", "Steward", "Steward <>", "a@b, c@d", "Tea <a@b> x", "Tea\r\nBcc: x@y <a@b>"):
        assert "STEWARD_MAIL_FROM must be" in refused({"STEWARD_MAIL_FROM": text})


def test_several_processes_need_postgresql() -> None:
    """See docs/design/command-line.md#settings."""
    assert "STEWARD_PROCESSES must be 1 on SQLite" in refused({"STEWARD_PROCESSES": "2"})
    assert value({"STEWARD_PROCESSES": "2"}, "processes") == 2


def test_an_unknown_variable_stops_the_start_by_its_name() -> None:
    """A variable that is not in the table stops the start. See docs/design/command-line.md#settings."""
    words = refused({"STEWARD_LEASE_SECOND": "5", "STEWARDSHIP": "x", "PATH": "/bin"})
    assert words == "STEWARD_LEASE_SECOND is not a setting. Did you mean STEWARD_LEASE_SECONDS?"
    assert "STEWARD_BASE_URL_FILE is not a setting" in refused({"STEWARD_BASE_URL_FILE": "/x"})
    assert "STEWARD_ is not a setting" in refused({"STEWARD_": "x"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("DATABASE_URL", "postgresql://u:p@h/n"),
        ("GOOGLE_CLIENT_SECRET", "hush"),
        ("MASTER_KEYS", f"k9:{KEY}"),
    ],
)
def test_a_secret_may_come_from_a_file_but_not_from_both(tmp_path: Path, name: str, text: str) -> None:
    """NAME_FILE; both at once stop the start. See docs/design/command-line.md#settings."""
    file = tmp_path / "secret"
    file.write_text(text + "\n")
    environ = {"STEWARD_ENV": "test", f"STEWARD_{name}_FILE": str(file)}
    direct = {"STEWARD_ENV": "test", f"STEWARD_{name}": text}
    assert getattr(read(environ), name.lower()) == getattr(read(direct), name.lower())
    words = refused(environ | direct)
    assert f"STEWARD_{name} and STEWARD_{name}_FILE are both given" in words
    file.unlink()
    with pytest.raises(SettingsError, match=f"STEWARD_{name}_FILE must be the path of a readable"):
        read(environ)


def test_no_secret_shows_in_the_settings_or_in_a_refusal() -> None:
    """Secrets are in no log. See docs/design/security.md#logs-and-redaction."""
    environ = {
        "STEWARD_DATABASE_URL": "postgresql://u:hush1@h/n",
        "STEWARD_GOOGLE_CLIENT_SECRET": "hush2",
        "STEWARD_MASTER_KEYS": f"k1:{KEY}",
    }
    text = repr(read(environ))
    assert "hush" not in text
    assert KEY not in text
    assert repr(bytes(range(32))) not in text
    words = refused({"STEWARD_DATABASE_URL": "mysql://u:hush3@h/n", "STEWARD_MASTER_KEYS": "k1:hush4"})
    assert "hush" not in words
    assert words.count("must be") == 2


def test_all_wrong_settings_are_reported_together() -> None:
    """See docs/design/command-line.md#settings."""
    with pytest.raises(SettingsError) as caught:
        read({"STEWARD_TICK_SECONDS": "0", "STEWARD_ENV": "staging", "STEWARD_X": "1"})
    assert len(caught.value.problems) == 3


def test_a_file_of_variables_is_read_line_by_line(tmp_path: Path) -> None:
    """--env-file PATH. See docs/design/command-line.md#commands."""
    file = tmp_path / "steward.env"
    file.write_text(
        "# the shop\n\nSTEWARD_ENV=demo\nexport STEWARD_LOG_LEVEL = \"debug\"\nX='a b'\nY=a=b#c\nZ=\nQ=\"x'\n"
    )
    expected = {
        "STEWARD_ENV": "demo", "STEWARD_LOG_LEVEL": "debug", "X": "a b", "Y": "a=b#c", "Z": "", "Q": "\"x'",
    }  # fmt: skip
    assert read_env_file(file) == expected
    assert read(read_env_file(file)).env is Environment.DEMO


@pytest.mark.parametrize("bad", ["A=1\nB\n", "A=1\nA=2\n", "A=1\n1A=2\n"])
def test_a_bad_line_is_named(tmp_path: Path, bad: str) -> None:
    """--env-file PATH. See docs/design/command-line.md#commands."""
    file = tmp_path / "steward.env"
    file.write_text(bad)
    with pytest.raises(SettingsError, match="line 2"):
        read_settings({}, file)
    with pytest.raises(SettingsError, match="readable"):
        read_settings({}, tmp_path / "absent")


def test_the_environment_precedes_the_file_in_either_form(tmp_path: Path) -> None:
    """A variable and its `_FILE` form are one setting. See docs/design/command-line.md#settings."""
    secret, file = tmp_path / "secret", tmp_path / "steward.env"
    secret.write_text("sqlite:////of/the/secret.db\n")
    file.write_text(f"STEWARD_ENV=test\nSTEWARD_DATABASE_URL_FILE={secret}\n")
    assert read_settings({}, file).database_url == "sqlite:////of/the/secret.db"
    given = {"STEWARD_DATABASE_URL": "sqlite:////given.db"}
    assert read_settings(given, file).database_url == "sqlite:////given.db"
    file.write_text("STEWARD_ENV=test\nSTEWARD_DATABASE_URL=sqlite:////of/the/file.db\n")
    given = {"STEWARD_DATABASE_URL_FILE": str(secret)}
    assert read_settings(given, file).database_url == "sqlite:////of/the/secret.db"


def test_the_page_lists_every_setting_once() -> None:
    """Docs/settings.md comes from the dataclass. See docs/guides/contributors.md#conventions."""
    page = settings_page()
    for field in fields(Settings):
        mark = " (S)" if field.name in SECRETS else ""
        assert page.count(f"| STEWARD_{field.name.upper()}{mark} |") == 1
    assert page.count(" (S) |") == len(SECRETS)
    assert "with STEWARD_ENV=test from 0" in page
