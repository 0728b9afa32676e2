"""All settings: name, range, default and meaning; they are read once and used elsewhere."""

import difflib
import ipaddress
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from steward.setting_forms import (
    BARE_URL,
    DATABASE,
    ENVIRONMENT,
    HEADERS,
    HOSTS,
    LISTEN,
    LOG_LEVEL,
    MAIL_SENDER,
    MAIL_SERVER,
    MASTER_KEYS,
    METRICS_LISTEN,
    MONTH,
    NETWORKS,
    PATH,
    SHARE,
    SLACK_HOSTS,
    SWITCH,
    TEAMS_HOSTS,
    TEXT,
    URL,
    Environment,
    Form,
    HostPort,
    MailAddress,
    choice,
    whole,
)

PREFIX = "STEWARD_"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class SettingsError(Exception):
    """Raised for invalid settings; `problems` are sentences that name the variable and its range."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SettingSpec(NamedTuple):
    """The metadata of a field of Settings, apart from its name."""

    form: Form
    default: str | None
    meaning: str
    secret: bool


def _setting(form: Form, default: str | None, meaning: str, *, secret: bool = False) -> Any:
    return field(repr=not secret, metadata={"spec": SettingSpec(form, default, meaning, secret)})


# A field is named like its variable, in lower case and without the prefix.
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings with their values for this process."""

    env: Environment = _setting(ENVIRONMENT, "production", "What the service is run for")
    database_url: str = _setting(
        DATABASE,
        "sqlite:///./steward-data/steward.db",
        "The database. Of several PostgreSQL servers, separated by commas, the one that accepts writes is"
        " used. On PostgreSQL only `migrate` needs a role that may create roles and tables; the service"
        " itself runs as the role `steward_app`",
        secret=True,
    )
    database_pool: int = _setting(whole(1, 100), "8", "PostgreSQL connections per process")
    database_deadline_seconds: int = _setting(
        whole(2, 30), "8", "Seconds until a PostgreSQL statement is given up"
    )
    data_dir: Path = _setting(PATH, "./steward-data", "Folder for files besides the database")
    master_keys: tuple[tuple[str, bytes], ...] = _setting(
        MASTER_KEYS,
        None,
        "Key-encryption keys: the first wraps new keys, all unwrap. Required in production; elsewhere one is"
        " generated in the data folder. `steward keys new` prints one",
        secret=True,
    )
    base_url: str = _setting(
        BARE_URL, "http://127.0.0.1:8400", "Address of the API; https in production unless loopback"
    )
    auth_url: str = _setting(BARE_URL, None, "Address of the login; the base URL if unset")
    web_origin: str = _setting(BARE_URL, None, "Origin of the web app; the base URL if unset")
    listen: HostPort = _setting(LISTEN, "127.0.0.1:8400", "Where `serve` listens")
    metrics_listen: HostPort | None = _setting(METRICS_LISTEN, "127.0.0.1:9464", "Where metrics are served")
    trusted_proxies: tuple[Network, ...] = _setting(
        NETWORKS, "", "Proxies whose `X-Forwarded-For` is trusted"
    )
    processes: int = _setting(whole(1, 64), "1", "API processes of `serve`; more than 1 needs PostgreSQL")
    api_access: bool = _setting(SWITCH, "on", "off: login and tokens answer 503 `not_configured`")
    log_level: str = _setting(LOG_LEVEL, "info", "The lowest level that is logged")
    log_format: str = _setting(choice("json", "text"), "json", "Format of log lines")
    limit_person: int = _setting(whole(1, 1_000_000), "600", "Calls per minute for one person")
    limit_organization: int = _setting(whole(1, 1_000_000), "3000", "Calls per minute for one organization")
    limit_web: int = _setting(whole(1, 1_000_000), "1200", "Calls per minute from one person's web app")
    limit_login: int = _setting(whole(1, 10_000), "10", "Login attempts, and sign-in attempts, per 60 s")
    spread_max: int = _setting(
        whole(0, 9), "9", "Maximum minutes added to a new automation's slots; others keep their offset"
    )
    audit_anchor_hours: int = _setting(
        whole(1, 168), "24", "Hours between log lines with each audit log's head"
    )
    late_limit_minutes: int = _setting(
        whole(10, 1440), "10", "A slot that could not start within this many minutes is skipped as too late"
    )
    approval_hours: int = _setting(whole(1, 720), "72", "Hours until a pending approval expires")
    approval_seconds: int | None = _setting(
        whole(1, 3600), None, "Replaces the hours; only with STEWARD_ENV=test"
    )
    approver_not_starter: bool = _setting(SWITCH, "off", "on: nobody may decide on runs that they started")
    run_time_limit_seconds: int = _setting(
        whole(60, 86_400, test_floor=1), "3600", "How long a run may execute, not counting waits"
    )
    queue_limit_hours: int = _setting(whole(1, 168), "24", "Hours after which an unstarted run expires")
    lease_seconds: int = _setting(
        whole(5, 300, test_floor=1), "30", "Seconds until a silent worker's runs are recovered"
    )
    worker_concurrency: int = _setting(whole(1, 1000), "20", "Maximum concurrent runs per worker")
    organization_concurrency: int = _setting(whole(1, 1000), "50", "Maximum concurrent runs per organization")
    tick_seconds: int = _setting(whole(1, 15), "1", "Seconds between checks for due slots")
    confined_processes: int = _setting(
        whole(1, 64), "2", "Child processes for expressions and scripts of imported workflows"
    )
    unconfined_scripts: bool = _setting(
        SWITCH,
        "off",
        "on: in production, expressions and scripts of imported workflows also run on a machine that has"
        " neither a system-call filter nor namespaces; a flaw in their engine then exposes everything that"
        " the service's user can access",
    )
    max_waiting_events: int = _setting(
        whole(1, 200), "200", "Maximum waiting event-started runs per automation"
    )
    max_waiting_hand: int = _setting(whole(1, 1000), "1000", "Maximum waiting manual runs per automation")
    imports_kept: int = _setting(whole(1, 100), "100", "Imports that one organization may store")
    catch_up_minutes: int = _setting(
        whole(5, 1440, test_floor=1),
        "15",
        "Minutes between reads of subscribed stores for events that were not delivered",
    )
    run_history_days: int = _setting(
        whole(90, 3650), "400", "Days after which ended runs are deleted, with their steps and changes"
    )
    session_idle_minutes: int = _setting(whole(5, 1440), "30", "Minutes until an unused web session ends")
    session_hours: int = _setting(whole(1, 168), "12", "Hours until any web session ends")
    allow_private_hosts: tuple[str, ...] = _setting(
        HOSTS,
        "",
        "The only non-public addresses that connections may call, and the only ones over plain http",
    )
    outbound_timeout_seconds: int = _setting(
        whole(1, 120),
        "20",
        "Seconds that a read waits for the first byte, if longer than the platform's own limit (such as"
        " 60 s); with STEWARD_ENV=test the limit of every call",
    )
    undo_days: int = _setting(whole(1, 3615), "365", "Days after its end during which a run can be undone")
    settle_quiet_seconds: int = _setting(
        whole(30, 3600, test_floor=0),
        "120",
        "Seconds after its deadline before a write without a response is first read back",
    )
    google_client_id: str | None = _setting(TEXT, None, "OAuth client id at Google")
    google_client_secret: str | None = _setting(TEXT, None, "OAuth client secret at Google", secret=True)
    google_sheets_url: str = _setting(
        URL, "https://sheets.googleapis.com", "Sheets API; `/v4/spreadsheets/…` is appended"
    )
    google_gmail_url: str = _setting(URL, "https://gmail.googleapis.com", "Gmail API")
    google_drive_url: str = _setting(URL, "https://www.googleapis.com", "Google Drive API")
    google_token_url: str = _setting(URL, "https://oauth2.googleapis.com/token", "OAuth tokens at Google")
    google_authorize_url: str = _setting(
        URL, "https://accounts.google.com/o/oauth2/v2/auth", "OAuth authorization at Google"
    )
    microsoft_client_id: str | None = _setting(TEXT, None, "OAuth client id at Microsoft")
    microsoft_client_secret: str | None = _setting(
        TEXT, None, "OAuth client secret at Microsoft", secret=True
    )
    microsoft_graph_url: str = _setting(
        URL, "https://graph.microsoft.com", "Microsoft Graph API; `/v1.0/…` is appended"
    )
    microsoft_token_url: str = _setting(
        URL, "https://login.microsoftonline.com/common/oauth2/v2.0/token", "OAuth tokens at Microsoft"
    )
    microsoft_authorize_url: str = _setting(
        URL,
        "https://login.microsoftonline.com/common/oauth2/v2.0/authorize",
        "OAuth authorization at Microsoft",
    )
    teams_hosts: tuple[str, ...] = _setting(
        TEAMS_HOSTS,
        ".logic.azure.com, .environment.api.powerplatform.com",
        "Hosts that Teams webhook addresses may have",
    )
    slack_hosts: tuple[str, ...] = _setting(
        SLACK_HOSTS,
        "hooks.slack.com, slack.com",
        "Hosts that Slack addresses may have; the Slack API is at the first one that is not for webhooks",
    )
    smtp_url: MailAddress | None = _setting(
        MAIL_SERVER, None, "Mail server for notifications; without it no mail is sent", secret=True
    )
    mail_from: str | None = _setting(MAIL_SENDER, None, "Sender of mail; required with STEWARD_SMTP_URL")
    mail_per_day: int = _setting(
        whole(1, 1_000_000),
        "5000",
        "Mails per day for one organization; further ones wait until the next day",
    )
    notify_window_minutes: int = _setting(
        whole(1, 60, test_floor=0), "15", "Minutes in which a person or chat gets at most one message"
    )
    quiet_periods: int = _setting(
        whole(1, 50),
        "3",
        "Periods without a successful run after which people are notified about an automation",
    )
    traces_url: str | None = _setting(
        URL,
        None,
        "OTLP/HTTP endpoint for traces, such as `http://127.0.0.1:4318/v1/traces`; needs the extra `traces`",
    )
    traces_headers: tuple[tuple[str, str], ...] = _setting(
        HEADERS, "", "Headers sent to the traces endpoint, such as an API key", secret=True
    )
    traces_ratio: float = _setting(SHARE, "1", "Share of requests and of successful runs that is traced")
    shopify_api_version: str = _setting(MONTH, "2026-10", "Version of the Shopify API")
    shopify_url: str | None = _setting(URL, None, "Replaces `https://{shop_domain}`; refused in production")

    @property
    def is_production(self) -> bool:
        """Whether the service is run for merchants."""
        return self.env is Environment.PRODUCTION

    @property
    def is_test(self) -> bool:
        """Whether the service is run by tests."""
        return self.env is Environment.TEST


def spec_of(setting: "Field[Any]") -> SettingSpec:
    """Returns the metadata of a field of Settings, apart from its name."""
    spec: SettingSpec = setting.metadata["spec"]
    return spec


def default_of(name: str) -> Any:
    """Returns the default of a setting, for rules built without Settings."""
    spec: SettingSpec = Settings.__dataclass_fields__[name].metadata["spec"]
    return None if spec.default is None else spec.form.read(spec.default)


def variable(name: str) -> str:
    """Returns the variable that sets a field."""
    return PREFIX + name.upper()


def read(environ: Mapping[str, str]) -> Settings:
    """Reads the settings from `environ`. Raises SettingsError with all problems."""
    problems = _unknown(environ)
    values = _values(_texts(environ, problems), problems)
    if problems:
        raise SettingsError(problems)
    values["master_keys"] = values["master_keys"] or ()
    values["auth_url"] = values["auth_url"] or values["base_url"]
    values["web_origin"] = values["web_origin"] or values["base_url"]
    settings = Settings(**values)
    if problems := [*_rules(settings), *(_production_rules(settings) if settings.is_production else [])]:
        raise SettingsError(problems)
    return settings


def _texts(environ: Mapping[str, str], problems: list[str]) -> dict[str, str | None]:
    """Returns the text of every setting; adds problems for those that cannot be read."""
    texts: dict[str, str | None] = {}
    for setting in fields(Settings):
        try:
            texts[setting.name] = _text_of(environ, setting)
        except ValueError as problem:
            problems.append(str(problem))
    return texts


def _values(texts: Mapping[str, str | None], problems: list[str]) -> dict[str, Any]:
    """Parses the texts; adds a problem for each value out of its range."""
    try:
        environment = Environment(texts.get("env") or Environment.PRODUCTION)
    except ValueError:
        environment = Environment.PRODUCTION
    values: dict[str, Any] = {}
    for setting in fields(Settings):
        if setting.name not in texts:
            continue
        form, text = spec_of(setting).form.for_environment(environment), texts[setting.name]
        try:
            values[setting.name] = None if text is None else form.read(text)
        except ValueError:
            # The value is not repeated, because a mistyped secret would appear in the log.
            problems.append(f"{variable(setting.name)} must be {form.words}.")
    return values


def _unknown(environ: Mapping[str, str]) -> list[str]:
    names = {variable(setting.name) for setting in fields(Settings)}
    files = {f"{variable(setting.name)}_FILE" for setting in fields(Settings) if spec_of(setting).secret}
    problems = []
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in names | files:
            near = difflib.get_close_matches(name, names | files, n=1, cutoff=0.8)
            hint = f" Did you mean {near[0]}?" if near else ""
            problems.append(f"{name} is not a setting.{hint}")
    return problems


def _text_of(environ: Mapping[str, str], setting: "Field[Any]") -> str | None:
    """Returns the text of one setting: its variable, the content of its file, or its default."""
    name, spec = variable(setting.name), spec_of(setting)
    text, file = environ.get(name), environ.get(f"{name}_FILE") if spec.secret else None
    if text is not None and file is not None:
        raise ValueError(f"{name} and {name}_FILE are both given; give one of them.")
    if file is not None:
        try:
            return Path(file).read_text("utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{name}_FILE must be the path of a readable text file.") from error
    return spec.default if text is None else text


def _rules(settings: Settings) -> list[str]:
    """Returns problems with settings that depend on each other."""
    problems = []
    if settings.approval_seconds is not None and not settings.is_test:
        problems.append("STEWARD_APPROVAL_SECONDS may be set only with STEWARD_ENV=test.")
    if settings.smtp_url is not None and settings.mail_from is None:
        problems.append("STEWARD_MAIL_FROM is required with STEWARD_SMTP_URL.")
    if settings.traces_url is not None and not _is_private_or_https(settings.traces_url, settings):
        message = "must be https, unless loopback or among STEWARD_ALLOW_PRIVATE_HOSTS."
        problems.append(f"STEWARD_TRACES_URL {message}")
    if settings.processes > 1 and not settings.database_url.startswith("postgresql://"):
        problems.append("STEWARD_PROCESSES must be 1 on SQLite; more than 1 needs PostgreSQL.")
    return problems


def _is_private_or_https(url: str, settings: Settings) -> bool:
    address = urlsplit(url)
    host = f"{address.hostname}:{address.port or 80}"
    return (
        address.scheme == "https"
        or _is_loopback(address.hostname or "")
        or host in settings.allow_private_hosts
    )


def _production_rules(settings: Settings) -> list[str]:
    """Returns problems with settings that only production requires."""
    problems = []
    if not settings.master_keys:
        problems.append(
            "STEWARD_MASTER_KEYS is required with STEWARD_ENV=production, as a list of id:base64 of 32 bytes."
            " `steward keys new` prints one; `steward init` without --env-file makes one and writes it."
        )
    for name in ("base_url", "auth_url", "web_origin"):
        address = urlsplit(getattr(settings, name))
        if address.scheme != "https" and not _is_loopback(address.hostname or ""):
            problems.append(f"{variable(name)} must be https with STEWARD_ENV=production, unless loopback.")
    names = (
        *("google_drive_url", "google_gmail_url", "google_sheets_url", "google_token_url"),
        *("google_authorize_url", "microsoft_graph_url", "microsoft_token_url", "microsoft_authorize_url"),
    )
    for name in names:
        if urlsplit(getattr(settings, name)).scheme != "https":
            problems.append(f"{variable(name)} must be https with STEWARD_ENV=production.")
    if settings.shopify_url is not None:
        problems.append("STEWARD_SHOPIFY_URL is refused with STEWARD_ENV=production.")
    return problems


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
