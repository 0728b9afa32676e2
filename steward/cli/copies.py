"""The commands backup and restore for SQLite, and restored for PostgreSQL."""

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO

from steward.accounts.keys import open_ring
from steward.cli.command import CliArgs, Command, CommandFailed, Facts, WrongUsage, open_context, option
from steward.config import Settings
from steward.database.engine import backup as copies
from steward.database.engine.backup import BackupCopy, InvalidBackup
from steward.database.engine.migrate import SchemaDiffers, is_sqlite, migrate, migrations, sqlite_path
from steward.database.engine.private_files import make_folder
from steward.database.engine.sqlite import SqliteEngine, take_lock
from steward.model.instants import read_time, wire_time
from steward.platforms import operations
from steward.runs import restored
from steward.security.envelope import CannotOpen
from steward.startup import KEY_FILE, master_keys, restrict_files

_RESTORING = ".restoring"
# Allowed in the data folder of a fresh installation: master keys, which a backup lacks, and the lock.
_UNTOUCHED = frozenset({KEY_FILE})


async def backup(args: CliArgs) -> Facts:
    """Writes a consistent copy of the database while the service runs."""
    settings = args.settings
    source = _file(settings, "Keep base backups of PostgreSQL (pg_basebackup) and archive its WAL.")
    target = Path(args.options.to)
    _must_be_there(source, f"There is no database at {source}: nothing to copy.")
    try:
        copy = await asyncio.to_thread(copies.create, source, target, args.now())
    except FileExistsError as error:
        raise CommandFailed("exists", f"{target} exists already. Name another file.") from error
    except InvalidBackup as error:
        raise CommandFailed("damaged", f"The database is damaged: {error}") from error
    return {
        "file": str(target),
        "bytes": copy.size,
        "sha256": copy.sha256,
        "schema_version": copy.schema_version,
        "taken_at": wire_time(copy.taken_at),
    }


async def restore(args: CliArgs) -> Facts:
    """Replaces the database with a copy; its open writes are looked up before the service continues."""
    settings, source = args.settings, Path(args.options.source)
    target = _file(
        settings, "Restore PostgreSQL's base backup and WAL, then run: steward restored --at INSTANT."
    )
    _must_be_there(source, f"There is no file {source}.")
    with contextlib.closing(_locked(target)):
        if not args.options.force:
            _refuse_full(settings, target, source)
        restrict_files(settings)
        fresh = target.with_name(target.name + _RESTORING)
        with _removed_afterwards(fresh):
            try:
                copy = await asyncio.to_thread(copies.inspect, source)
                await asyncio.to_thread(copies.restore_copy, source, fresh)
                to_check = await _prepare(args, settings, fresh, copy)
            except InvalidBackup as error:
                raise CommandFailed("damaged", str(error)) from error
            except (SchemaDiffers, CannotOpen) as error:
                raise _not_ours(error) from error
            aside = f".before-{wire_time(args.now()).replace(':', '')}"
            await asyncio.to_thread(copies.replace_database, fresh, target, aside)
    return {
        "data_dir": str(settings.data_dir),
        "schema_version": max(migration.version for migration in migrations("sqlite")),
        "taken_at": wire_time(copy.taken_at),
        "runs_to_check": to_check,
    }


async def _prepare(args: CliArgs, settings: Settings, fresh: Path, copy: BackupCopy) -> int:
    """Migrates the copy, tests its keys and marks runs with open writes; returns the number of runs."""
    if copy.schema_version > max(migration.version for migration in migrations("sqlite")):
        raise SchemaDiffers("The copy was made by a newer release. Restore it with that one.")
    await migrate(f"sqlite:///{fresh}", args.now())
    engine = SqliteEngine(fresh, clock=args.clock)
    try:
        masters = master_keys(settings)
        await open_ring(engine, args.now(), masters, issuer=settings.auth_url, audience=settings.base_url)
        return await restored.prepare(engine, args.clock, operations(settings), taken_at=copy.taken_at)
    finally:
        await engine.close()


async def _prepare_restored(args: CliArgs) -> Facts:
    """Prepares a restored PostgreSQL database: open writes are looked up before the service continues."""
    taken_at = _instant(args)
    if is_sqlite(args.settings.database_url):
        raise CommandFailed("not_postgresql", "This command is for PostgreSQL. Use: steward restore.")
    async with open_context(args) as context:
        engine = context.engine
        if hosts := await restored.live_workers(engine, args.now()):
            raise CommandFailed(
                "still_running",
                f"Workers hold their lease on {', '.join(hosts)}. Stop every process of Steward and try"
                f" again; a lease ends within {args.settings.lease_seconds} seconds.",
            )
        if taken_at is None:
            await restored.accept(engine, args.now())
            return {"nothing_lost": True}
        await context.ring()
        writes = operations(args.settings)
        to_check = await restored.prepare(engine, args.clock, writes, taken_at=taken_at)
    return {"taken_at": wire_time(taken_at), "runs_to_check": to_check}


def _instant(args: CliArgs) -> datetime | None:
    """Returns the instant of `--at`, or None with `--nothing-lost`. Raises WrongUsage for both or neither."""
    text = args.options.at
    if (text is None) is not args.options.nothing_lost:
        raise WrongUsage("Give --at INSTANT after a restore, or --nothing-lost after a fail-over.")
    if text is None:
        return None
    instant = read_time(text)
    if instant is None:
        raise WrongUsage("--at takes an instant with its offset, such as 2026-11-23T14:05:00Z.")
    if instant > args.now():
        raise WrongUsage(f"{text} is in the future.")
    return instant


def _file(settings: Settings, otherwise: str) -> Path:
    if not is_sqlite(settings.database_url):
        raise CommandFailed("not_sqlite", f"This command is for SQLite. {otherwise}")
    return sqlite_path(settings.database_url)


def _must_be_there(path: Path, otherwise: str) -> None:
    if not path.is_file():
        raise CommandFailed("not_found", otherwise)


def _locked(target: Path) -> IO[str]:
    make_folder(target.parent)
    return take_lock(target)


def _refuse_full(settings: Settings, target: Path, source: Path) -> None:
    expected_names = {*_UNTOUCHED, target.name + ".lock"}
    sources = {source.resolve(), copies.hash_file(source).resolve()}
    folder = settings.data_dir
    entries = [*folder.iterdir()] if folder.exists() else []
    other_files = [
        path for path in entries if path.name not in expected_names and path.resolve() not in sources
    ]
    if other_files or target.exists():
        raise CommandFailed(
            "not_empty",
            f"There is data in {folder} already. Give --force to restore over it; the database there is kept"
            " beside the restored one.",
        )


def _not_ours(error: Exception) -> CommandFailed:
    if isinstance(error, SchemaDiffers):
        return CommandFailed("schema_differs", str(error))
    return CommandFailed(
        "wrong_master_keys",
        "The keys in the copy were wrapped by a master key that STEWARD_MASTER_KEYS does not"
        " contain. Give the"
        " key they were made with; a copy does not contain it.",
    )


@contextlib.contextmanager
def _removed_afterwards(fresh: Path) -> Iterator[None]:
    """Removes an incomplete copy, including one from an interrupted attempt."""
    ends = ("", "-wal", "-shm", ".lock")
    for end in ends:
        fresh.with_name(fresh.name + end).unlink(missing_ok=True)
    try:
        yield
    finally:
        for end in ends:
            fresh.with_name(fresh.name + end).unlink(missing_ok=True)


COMMANDS = [
    Command(
        "backup",
        backup,
        (
            option(
                "--to",
                required=True,
                metavar="FILE",
                help="where to write the copy; its SHA-256 goes into a file beside it",
            ),
        ),
    ),
    Command(
        "restore",
        restore,
        (
            option("--from", dest="source", required=True, metavar="FILE", help="the copy"),
            option(
                "--force",
                action="store_true",
                help="replace existing data, which is kept beside the restored file",
            ),
        ),
    ),
    Command(
        "restored",
        _prepare_restored,
        (
            option("--at", metavar="INSTANT", help="the moment it was restored to: 2026-11-23T14:05:00Z"),
            option("--nothing-lost", action="store_true", help="it failed over and lost nothing"),
        ),
    ),
]
