"""Checks of the database server, its disk, its clock and its standbys."""

import asyncio
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from steward.cli.doctor.installation import NOT_KNOWN, CheckFailed, Installation
from steward.database.engine.disk_space import write_obstacle
from steward.database.engine.migrate import (
    SchemaDiffers,
    is_sqlite,
    migrate,
    names_several_servers,
    sqlite_path,
)
from steward.database.operator import health, partitions
from steward.database.operator import status as stats
from steward.database.operator.health import Follower
from steward.model.refusals import Unavailable

_MIN_FREE = 0.10
_MAX_SKEW = timedelta(seconds=30)
_MAX_STANDBY_SKEW = timedelta(seconds=2)


async def check_database(installation: Installation) -> str:
    """Checks that the database server answers and can be used."""
    if installation.engine is None:
        raise CheckFailed(installation.why)
    if installation.engine.dialect == "sqlite":
        if obstacle := write_obstacle(sqlite_path(installation.settings.database_url)):
            raise CheckFailed(obstacle)
        if not installation.is_full:
            return "SQLite; the file can be read. `steward doctor --full` checks all of it."
        damage = await installation.read(health.damage_of_file)
        if damage is not None:
            raise CheckFailed(f"The file is damaged ({damage}). Restore the last copy.")
        return "SQLite; the file is sound."
    server_settings = await installation.read(health.settings_of_server)
    if installation.settings.env == "test":
        server_settings |= dict.fromkeys(health.DURABLE_IF_ON, "on")
    return server_result(
        server_settings, is_one_of_several=names_several_servers(installation.settings.database_url)
    )


def server_result(server_settings: Mapping[str, str], *, is_one_of_several: bool) -> str:
    """Returns a report on the server's settings. Raises CheckFailed if it may lose rows."""
    if off := [name for name in health.DURABLE_IF_ON if server_settings[name] == "off"]:
        raise CheckFailed(f"The server may lose what it confirmed: set {' and '.join(off)} to on.")
    if is_one_of_several and not server_settings["synchronous_standby_names"]:
        raise CheckFailed(
            "The server waits for no standby, so a fail-over may lose what it confirmed. Set Patroni's"
            " synchronous_mode and synchronous_mode_strict, or name only one server."
        )
    if server_settings["data_checksums"] == "on":
        return "PostgreSQL can be reached."
    no_checksums = "Its pages have no checksums, so it does not notice a disk that damages them"
    to_do = "stop it and run pg_checksums --enable"
    if is_one_of_several:
        raise CheckFailed(f"{no_checksums} and gives the damage to its standbys: {to_do} on each server.")
    return f"PostgreSQL can be reached. {no_checksums}: {to_do}."


async def check_migrations(installation: Installation) -> str:
    """Checks that the database's schema is that of this release."""
    try:
        state = await migrate(installation.settings.database_url, installation.now, dry_run=True)
    except SchemaDiffers as error:
        raise CheckFailed(str(error)) from error
    except Unavailable as error:
        raise CheckFailed(NOT_KNOWN) from error
    if state.pending:
        raise CheckFailed(f"Pending: {', '.join(state.pending)}. Run: steward migrate.")
    return f"The schema is at {state.after}, as this release needs it."


async def check_clock(installation: Installation) -> str:
    """Checks that the clocks of this host and of the database agree."""
    then = await installation.read(health.database_now)
    skew = abs(then - installation.now)
    if skew > _MAX_SKEW:
        raise CheckFailed(
            f"This host's clock is {skew.total_seconds():.0f} s from the database's. Keep both by NTP."
        )
    scheduler = await installation.read(stats.scheduler)
    if scheduler is not None and scheduler.written_at - installation.now > _MAX_SKEW:
        raise CheckFailed(
            f"The clock went back: the scheduler wrote at {scheduler.written_at:%Y-%m-%d %H:%M:%S} UTC."
        )
    return "This host's clock agrees with the database's."


async def check_free_space(installation: Installation) -> str:
    """Checks that the database's disk has room."""
    url = installation.settings.database_url
    folder = sqlite_path(url).parent if is_sqlite(url) else installation.settings.data_dir
    return await asyncio.to_thread(_space_of, folder)


def _space_of(folder: Path) -> str:
    while not folder.exists():
        folder = folder.parent
    usage = shutil.disk_usage(folder)
    if not usage.total:
        return "The file system does not report its free space."
    share = usage.free / usage.total
    words = f"{share:.0%} of the disk is free ({usage.free // 2**20:,} MiB)."
    if share < _MIN_FREE:
        raise CheckFailed(f"{words} Free some space: below 10 % runs are at risk.")
    return words


async def check_long_readers(installation: Installation) -> str:
    """Checks that no transaction has been open for too long."""
    now = await installation.read(health.database_now)
    transactions = await installation.read(health.open_transactions)
    readers = [transaction for transaction in transactions if now - transaction.since > health.LONG_READER]
    if readers:
        named = "; ".join(
            f"process {reader.process} of role {reader.role} ({reader.application or 'unnamed'})"
            f" since {reader.since:%H:%M:%S} UTC"
            for reader in readers[:5]
        )
        raise CheckFailed(
            f"Transactions are open for over a minute and slow the queue: {named}. End them, and see"
            " docs/guides/several-machines.md."
        )
    if not await installation.read(health.sees_sessions):
        raise CheckFailed(
            "The sessions of other roles cannot be seen, so a transaction that stays open and slows the queue"
            " would go unnoticed. As a superuser run: GRANT pg_read_all_stats TO steward_queue"
        )
    return "No transaction is open for over a minute."


async def check_standbys(installation: Installation) -> str:
    """Checks that standbys follow and that their clocks agree."""
    if is_sqlite(installation.settings.database_url):
        return "SQLite has no standbys."
    if not await installation.read(health.sees_sessions):
        return "Standbys are not visible to Steward; see the result of the check long_readers."
    followers = await installation.read(health.followers)
    server_settings = await installation.read(health.settings_of_server)
    are_waited_for = bool(server_settings["synchronous_standby_names"])
    if faults := standby_faults(followers, are_waited_for=are_waited_for):
        raise CheckFailed(f"{'; '.join(faults)}. See docs/guides/several-machines.md.")
    standbys = [follower for follower in followers if follower.kind == "standby"]
    synchronous = sum(standby.is_synchronous for standby in standbys)
    return f"{len(standbys)} standbys follow, {synchronous} of them synchronous."


def standby_faults(followers: Sequence[Follower], *, are_waited_for: bool) -> list[str]:
    """Returns descriptions of problems with a server's standbys and slots."""
    faults = []
    if are_waited_for and not any(follower.is_synchronous for follower in followers):
        faults.append("No synchronous standby follows, so writes wait for one")
    return faults + [fault for follower in followers for fault in _faults_of(follower)]


def _faults_of(follower: Follower) -> Iterator[str]:
    label, ahead = f"{follower.kind} {follower.name}", follower.clock_ahead
    if follower.rows_since is not None:
        yield (
            f"The {label} keeps dead rows for its readers, which slows the queue: set hot_standby_feedback"
            " to off on the standby"
        )
    if follower.state == "inactive":
        yield (
            f"The {label} of a standby that is gone keeps {follower.kept_bytes >> 20:,} MiB of the log: bring"
            " the standby back or drop the slot"
        )
    skew = follower.clock_skew
    if ahead is not None and skew is not None and skew > _MAX_STANDBY_SKEW:
        direction = "ahead" if ahead > timedelta() else "behind"
        yield (
            f"The clock of the {label} is {abs(ahead.total_seconds()):.0f} s {direction}, or it is silent:"
            " keep clocks by NTP"
        )


async def check_partitions(installation: Installation) -> str:
    """Checks that the partitions of the coming months exist."""
    if is_sqlite(installation.settings.database_url):
        return "SQLite has no partitions."
    if missing := await installation.read(partitions.missing):
        raise CheckFailed(
            f"Partitions are missing: {', '.join(missing)}. Is a worker running? It creates them every hour,"
            " except for a month whose rows are already in the default partition."
        )
    rows = await installation.read(health.rest_rows)
    if tables := [table for table, row_count in sorted(rows.items()) if row_count]:
        return (
            f"Partitions exist for this month and the next. The default partitions of {', '.join(tables)}"
            " hold rows that were written before their month's partition existed; nothing needs to be done."
        )
    return "Partitions exist for this month and the next, and every row is in one."


async def check_tenant_isolation(installation: Installation) -> str:
    """Checks that the database separates organizations."""
    if is_sqlite(installation.settings.database_url):
        return "SQLite has no row-level security; the service's own statements separate organizations."
    holes = await installation.read(health.row_security_gaps)
    if holes:
        raise CheckFailed(f"Row-level security or rights are not as migrated: {', '.join(holes)}.")
    return "Row-level security and the rights of the serving role are as migrated."
