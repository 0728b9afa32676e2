"""Opens the database, master keys and log of the settings, for the service and operator commands.

It imports neither connectors nor the API, so that a command that needs only the database starts fast.
"""

import base64
import glob
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from steward.clock import Clock
from steward.config import Settings, SettingsError
from steward.database.engine.base import Engine
from steward.database.engine.migrate import is_sqlite, sqlite_path
from steward.database.engine.observer import UNOBSERVED, EngineObserver
from steward.database.engine.postgres import HEARTBEAT_DEADLINE, PostgresEngine
from steward.database.engine.private_files import close, is_foreign, make_folder
from steward.database.engine.sqlite import SqliteEngine
from steward.security.envelope import MasterKey
from steward.telemetry.database import DatabaseTelemetry
from steward.telemetry.log import Log, LogLevel, LogOrigin, Process
from steward.telemetry.redact import SecretRegister
from steward.telemetry.traces import NO_TRACES, Traces

if TYPE_CHECKING:
    from steward.telemetry.metrics import Metrics

KEY_FILE = "master.keys"
# For operator commands, in seconds, since they may scan whole tables.
COMMAND_DEADLINE = 60.0


async def open_engine(
    settings: Settings,
    clock: Clock,
    *,
    serve: bool,
    deadline: float | None = None,
    observer: EngineObserver = UNOBSERVED,
    traces: Traces = NO_TRACES,
) -> Engine:
    """Opens the database of the settings. Raises AlreadyServed, Unavailable.

    `deadline` replaces the setting, for commands that read more than the service does. Closing the engine
    closes `traces` first, which takes a few seconds at most to send waiting spans.
    """
    engine: Engine
    if is_sqlite(settings.database_url):
        path = sqlite_path(settings.database_url)
        engine = SqliteEngine(path, clock=clock, serve=serve, observer=observer)
    else:
        engine = await PostgresEngine.open(
            settings.database_url,
            size=settings.database_pool,
            deadline=settings.database_deadline_seconds if deadline is None else deadline,
            heartbeat_deadline=min(HEARTBEAT_DEADLINE, max(1.0, settings.lease_seconds / 3)),
            clock=clock,
            test=settings.is_test,
            observer=observer,
        )
    if not traces.is_on:
        return engine
    from steward.run_queue.ended_traces import (
        TracedEngine,  # imported late: commands send no traces
    )

    return TracedEngine(engine, traces)


def observe_database(metrics: "Metrics", log: Log, clock: Clock) -> EngineObserver:
    """Returns an observer that turns what an engine reports into metrics and log lines."""
    telemetry = DatabaseTelemetry(metrics, log, clock)
    return EngineObserver(
        batch_committed=telemetry.batch_committed,
        batch_split=telemetry.batch_split,
        connected=telemetry.connected,
        connection_lost=telemetry.connection_lost,
        commit_unknown=telemetry.commit_unknown,
        recovered=telemetry.recovered,
    )


def master_keys(settings: Settings) -> list[MasterKey]:
    """Returns the key-encryption keys from the settings or, outside production, from a generated file."""
    if settings.master_keys:
        return [MasterKey(key_id, key) for key_id, key in settings.master_keys]
    file = settings.data_dir / KEY_FILE
    if not file.exists():
        make_folder(settings.data_dir)
        new_key = base64.b64encode(secrets.token_bytes(32)).decode("ascii")
        write_private(file, f"local:{new_key}\n")
    key_id, _, text = file.read_text("ascii").strip().partition(":")
    return [MasterKey(key_id, base64.b64decode(text))]


def open_traces(settings: Settings, on_drop: Callable[[int], None] = lambda count: None) -> Traces:
    """Returns the exporter of spans. Raises SettingsError if its extra is not installed."""
    if settings.traces_url is None:
        return NO_TRACES
    try:
        from steward.telemetry.otlp import OtlpTraces
    except ImportError as error:
        message = "STEWARD_TRACES_URL needs the extra `traces`: install steward-automations[traces]."
        raise SettingsError([message]) from error
    return OtlpTraces(
        settings.traces_url,
        headers=dict(settings.traces_headers),
        ratio=settings.traces_ratio,
        on_drop=on_drop,
    )


def installation_files(settings: Settings) -> list[Path]:
    """Returns the installation's existing files: the data folder, master keys and SQLite files.

    The SQLite files include the log, lock and reserve, and databases that a restore kept. Links created by
    other accounts are left out, since they lead to foreign files.
    """
    files = [path for path in (settings.data_dir, settings.data_dir / KEY_FILE) if _is_there(path)]
    if is_sqlite(settings.database_url):
        file = sqlite_path(settings.database_url)
        beside = sorted(file.parent.glob(f"{glob.escape(file.name)}*"))
        files += [
            path for path in beside if _is_there(path) and path.is_file() and not _is_foreign_link(path)
        ]
    return files


def restrict_files(settings: Settings) -> list[Path]:
    """Restricts the installation's files to their owner; returns those that others can still read."""
    return close(installation_files(settings))


def _is_there(path: Path) -> bool:
    """Returns whether a path exists; False if this account may not look."""
    try:
        return path.exists()
    except PermissionError:
        return False


def _is_foreign_link(path: Path) -> bool:
    return path.is_symlink() and is_foreign(path)


def write_private(file: Path, text: str) -> None:
    """Writes a file that only its owner can read, unless another process has written it first."""
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as out:
        out.write(text)
    try:
        os.link(fresh, file)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()


def make_log(
    settings: Settings,
    clock: Clock,
    write: Callable[[str], object] = sys.stderr.write,
    *,
    process: Process = "cli",
) -> Log:
    """Returns the log of a process, which masks the secrets in the settings."""
    register = SecretRegister()
    register.add(*_secrets(settings))
    level = LogLevel[settings.log_level.upper()]
    origin = LogOrigin(process, is_traced=settings.traces_url is not None)
    if settings.log_format == "text":
        return Log(write, clock, register, level=level, form="text", origin=origin)
    return Log(write, clock, register, level=level, origin=origin)


def _secrets(settings: Settings) -> list[str]:
    """Returns the passwords and keys in the settings, in their original form."""
    password = urlsplit(settings.database_url).password
    keys_and_passwords = [base64.b64encode(key).decode("ascii") for _, key in settings.master_keys]
    if settings.smtp_url is not None and settings.smtp_url.password:
        keys_and_passwords.append(settings.smtp_url.password)
    return [
        secret
        for secret in (
            unquote(password or ""),
            password,
            settings.google_client_secret,
            settings.microsoft_client_secret,
            *(value for _, value in settings.traces_headers),
            *keys_and_passwords,
        )
        if secret
    ]
