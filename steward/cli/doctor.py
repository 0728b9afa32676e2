"""doctor: checks the installation and says what to do; changes nothing."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from steward.accounts import keys
from steward.cli import built_files
from steward.cli.command import CliArgs, Command, CommandFailed, Facts, option
from steward.cli.network_checks import (
    NO_MAIL_SERVER,
    NotReached,
    check_base_url,
    check_collector,
    check_mail_server,
)
from steward.cli.sandbox_warning import ISOLATION_REMEDY, missing_isolation
from steward.clock import SystemClock
from steward.closed_periods import health as closed_periods
from steward.config import Settings
from steward.connections import rotation
from steward.database.accounts import members, organizations
from steward.database.automations import schedules, slot_audits
from steward.database.engine.base import Act, Engine, T
from steward.database.engine.migrate import (
    SchemaDiffers,
    is_sqlite,
    migrate,
    names_several_servers,
    sqlite_path,
)
from steward.database.engine.private_files import is_open, is_shared
from steward.database.events import retention as events_kept
from steward.database.notifications import gauges
from steward.database.operator import health, partitions, processes
from steward.database.operator import status as stats
from steward.database.operator.health import Follower
from steward.model.ids import OrgId
from steward.model.refusals import Unavailable
from steward.notifications.status import mail_down_since
from steward.sandbox.pool import JAVASCRIPT, SandboxPool
from steward.sandbox.protocol import SandboxStopped
from steward.scheduling.zones import tzdata_version, use_packaged_zones
from steward.security.envelope import CannotOpen, MasterKey
from steward.startup import COMMAND_DEADLINE, KEY_FILE, master_keys, open_engine, own_files

_MIN_FREE = 0.10
_MAX_SKEW = timedelta(seconds=30)
_MAX_STANDBY_SKEW = timedelta(seconds=2)
_LOST_WITHIN = timedelta(days=7)
_INTERRUPTED_WITHIN = timedelta(days=1)
_GRACE = timedelta(minutes=5)
_POISONED = 5
_NOTICE_WITHIN = timedelta(seconds=60)
_NOT_KNOWN = "Not known: the database cannot be used."


class CheckFailed(Exception):
    """Raised for a failed check, with a message that says what to do."""


@dataclass(frozen=True, slots=True)
class _Installation:
    """The installation to check; without an engine, `why` says why the database could not be opened."""

    settings: Settings
    now: datetime
    masters: list[MasterKey]
    engine: Engine | None
    clock: SystemClock
    why: str = ""
    is_full: bool = False  # whether to read the whole SQLite file

    async def read(self, act: Act[T], org: OrgId | None = None) -> T:
        """Runs one read. Raises CheckFailed if the database is not usable."""
        if self.engine is None:
            raise CheckFailed(_NOT_KNOWN)
        try:
            return await self.engine.read(self.now, act, org=() if org is None else org)
        except Unavailable as error:
            raise CheckFailed(_NOT_KNOWN) from error


async def _settings(installation: _Installation) -> str:
    return f"Complete and in range; the environment is {installation.settings.env}."


async def _database(installation: _Installation) -> str:
    if installation.engine is None:
        raise CheckFailed(installation.why)
    if installation.engine.dialect == "sqlite":
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
            " synchronous_mode and synchronous_mode_strict, or name one server alone."
        )
    if server_settings["data_checksums"] == "on":
        return "PostgreSQL can be reached."
    no_checksums = "Its pages have no checksums, so it does not notice a disk that damages them"
    to_do = "stop it and run pg_checksums --enable"
    if is_one_of_several:
        raise CheckFailed(f"{no_checksums} and gives the damage to its standbys: {to_do} on each server.")
    return f"PostgreSQL can be reached. {no_checksums}: {to_do}."


async def _migrations(installation: _Installation) -> str:
    try:
        state = await migrate(installation.settings.database_url, installation.now, dry_run=True)
    except SchemaDiffers as error:
        raise CheckFailed(str(error)) from error
    except Unavailable as error:
        raise CheckFailed(_NOT_KNOWN) from error
    if state.pending:
        raise CheckFailed(f"Pending: {', '.join(state.pending)}. Run: steward migrate.")
    return f"The schema is at {state.after}, as this release needs it."


async def _keys(installation: _Installation) -> str:
    if not installation.masters:
        return "There is no master key yet; the first start makes one."
    try:
        count = await installation.read(partial(keys.openable, masters=installation.masters))
        older = 0
        for org in await installation.read(organizations.every):
            older += await installation.read(
                partial(rotation.under_others, org=org, masters=installation.masters), org
            )
    except CannotOpen as error:
        raise CheckFailed(
            "A key was wrapped by a master key that STEWARD_MASTER_KEYS does not contain. Add it at the end."
        ) from error
    if older:
        return (
            f"All can be opened; {older} data keys are under an older master key."
            " Run: steward keys rotate encryption."
        )
    return f"All can be opened; {count} of the service's own."


async def _clock(installation: _Installation) -> str:
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


async def _tz_data(installation: _Installation) -> str:
    use_packaged_zones()
    stored_version, version = await installation.read(slot_audits.time_zone_data), tzdata_version()
    if stored_version is not None and stored_version > version:
        raise CheckFailed(
            f"The slots follow time zones {stored_version}; this release carries the older {version}."
            " Update it."
        )
    if stored_version is not None and stored_version != version:
        return f"Time zones {version}; the next start brings the slots from {stored_version} to it."
    return f"Time zones {version}."


async def _free_space(installation: _Installation) -> str:
    url = installation.settings.database_url
    folder = sqlite_path(url).parent if is_sqlite(url) else installation.settings.data_dir
    return await asyncio.to_thread(_space_of, folder)


def _space_of(folder: Path) -> str:
    while not folder.exists():
        folder = folder.parent
    usage = shutil.disk_usage(folder)
    share = usage.free / usage.total
    words = f"{share:.0%} of the disk is free ({usage.free // 2**20:,} MiB)."
    if share < _MIN_FREE:
        raise CheckFailed(f"{words} Make room: below 10 % runs are at risk.")
    return words


async def _files(installation: _Installation) -> str:
    return await asyncio.to_thread(_check_files, installation.settings)


def _check_files(settings: Settings) -> str:
    """Reports shared folders without failing, since each file in them is checked on its own."""
    folder = settings.data_dir
    shared = [folder] if folder.exists() and is_open(folder) and is_shared(folder) else []
    reachable = [path for path in own_files(settings) if path not in shared and is_open(path)]
    if reachable:
        raise CheckFailed(
            f"Other accounts of this machine may open {', '.join(map(str, reachable))}. Start the service"
            " once, which closes them; if it may not, run `chmod go=` on them as their owner."
        )
    if shared:
        return f"Other accounts may enter {folder}, which is shared; the files in it are their owner's alone."
    return "The data folder and the files in it are their owner's alone."


async def _long_readers(installation: _Installation) -> str:
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


async def _standbys(installation: _Installation) -> str:
    if is_sqlite(installation.settings.database_url):
        return "SQLite has no standbys."
    if not await installation.read(health.sees_sessions):
        return "Standbys cannot be seen, as long_readers says."
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
    what, ahead = f"{follower.kind} {follower.name}", follower.clock_ahead
    if follower.rows_since is not None:
        yield (
            f"The {what} keeps dead rows for its readers, which slows the queue: set hot_standby_feedback"
            " to off on the standby"
        )
    if follower.state == "inactive":
        yield (
            f"The {what} of a standby that is gone keeps {follower.kept_bytes >> 20:,} MiB of the log: bring"
            " the standby back or drop the slot"
        )
    skew = follower.clock_skew
    if ahead is not None and skew is not None and skew > _MAX_STANDBY_SKEW:
        direction = "ahead" if ahead > timedelta() else "behind"
        yield (
            f"The clock of the {what} is {abs(ahead.total_seconds()):.0f} s {direction}, or it is silent:"
            " keep clocks by NTP"
        )


async def _partitions(installation: _Installation) -> str:
    if is_sqlite(installation.settings.database_url):
        return "SQLite has no partitions."
    if missing := await installation.read(partitions.missing):
        raise CheckFailed(
            f"There is no partition {', '.join(missing)}. Is a worker running? It creates them every hour,"
            " but not for a month whose rows came first."
        )
    rows = await installation.read(health.rest_rows)
    if tables := [table for table, row_count in sorted(rows.items()) if row_count]:
        return (
            f"This month and the next have their partitions. Rows of {', '.join(tables)} are in none, since"
            " they came before it was created; nothing needs to be done."
        )
    return "This month and the next have their partitions, and every row is in one."


async def _slots(installation: _Installation) -> str:
    limit = timedelta(minutes=installation.settings.late_limit_minutes) + _GRACE
    due = await installation.read(schedules.next_due)
    if due is not None and installation.now - due > limit:
        raise CheckFailed(
            f"A slot is due since {due:%Y-%m-%d %H:%M} UTC and nothing starts it. Is a worker running?"
        )
    lost = 0
    for org in await installation.read(organizations.every):
        lost += await installation.read(
            partial(health.lost_slots, org=org, since=installation.now - _LOST_WITHIN), org
        )
    if lost:
        raise CheckFailed(
            f"{lost} slots of the last 7 days had no record until the auditor wrote one. See the log."
        )
    return "Every slot of the last 7 days has its record."


async def _leases(installation: _Installation) -> str:
    leases = await installation.read(health.leases)
    if leases.expired and not leases.alive:
        raise CheckFailed(
            f"{leases.expired} workers are silent and none is alive. Start one: their runs wait for it."
        )
    interrupted = 0
    for org in await installation.read(organizations.every):
        recent = partial(health.interrupted_runs, org=org, since=installation.now - _INTERRUPTED_WITHIN)
        interrupted += await installation.read(recent, org)
    if interrupted:
        raise CheckFailed(
            f"{interrupted} runs of the last day were given up: three workers were lost with each. Find out"
            " why the service crashes; the log's lines run_interrupted name the runs."
        )
    words = f"{leases.alive} workers hold their lease{_of_releases(leases.releases)}"
    if leases.expired:
        words += f"; {leases.expired} are being taken over"
    if api := await installation.read(processes.api_releases):
        words += f"; {len(api)} API processes serve beside them{_of_releases(sorted({*api}))}"
    return f"{words}."


def _of_releases(releases: Sequence[str]) -> str:
    return f" (release {', '.join(releases)})" if releases else ""


async def _private_hosts(installation: _Installation) -> str:
    hosts = installation.settings.allow_private_hosts
    if not hosts:
        return "No private address can be reached."
    return f"Calls may reach {', '.join(hosts)} inside your network. Keep only what is needed."


async def _put_off(installation: _Installation) -> str:
    failing_rows = await installation.read(partial(health.failing_rows, at_least=_POISONED))
    if failing_rows:
        named = ", ".join(f"{tick} {key}" for tick, key in failing_rows[:5])
        raise CheckFailed(
            f"{len(failing_rows)} rows failed {_POISONED} times or more: {named}. The log says why."
        )
    return "No row keeps failing."


async def _store_events(installation: _Installation) -> str:
    poison = await installation.read(events_kept.with_poison)
    if poison:
        raise CheckFailed(f"{poison} store events could not be matched and were set aside. The log says why.")
    return "Every store event is matched, or will be."


async def _mail(installation: _Installation) -> str:
    """Connects to the mail server and signs in, without sending anything."""
    if installation.settings.smtp_url is None:
        return NO_MAIL_SERVER
    try:
        await check_mail_server(installation.settings, installation.clock)
    except NotReached as error:
        raise CheckFailed(str(error)) from error
    since = await installation.read(mail_down_since)
    if since is not None:
        raise CheckFailed(
            f"E-mail is not going out since {since:%Y-%m-%d %H:%M} UTC. The log's message_deferred says why."
        )
    return "The mail server can be reached and takes sign-ins; `steward mail test --to ADDRESS` sends a mail."


async def _notices(installation: _Installation) -> str:
    found = await installation.read(gauges.notices)
    if found.poison:
        raise CheckFailed(f"{found.poison} notices could not be read and were set aside. The log says why.")
    if found.oldest_new_at is not None and installation.now - found.oldest_new_at > _NOTICE_WITHIN:
        raise CheckFailed(
            f"A notice waits since {found.oldest_new_at:%Y-%m-%d %H:%M} UTC and nothing hands it on."
            " Is a worker running?"
        )
    if found.broken_routes:
        return f"Every notice was handed on; {found.broken_routes} routes are broken, as their owners see."
    return "Every notice was handed on."


async def _closings(installation: _Installation) -> str:
    wrong: list[str] = []
    for org in await installation.read(organizations.every):
        wrong += await installation.read(partial(closed_periods.problems, org=org, now=installation.now), org)
    if wrong:
        raise CheckFailed(f"Closed periods: {'; '.join(wrong[:5])}.")
    return "Closed periods close as they were made."


async def _walls(installation: _Installation) -> str:
    if is_sqlite(installation.settings.database_url):
        return "SQLite has the wall of signatures alone."
    holes = await installation.read(health.row_security_gaps)
    if holes:
        raise CheckFailed(f"Row-level security or rights are not as migrated: {', '.join(holes)}.")
    return "Row-level security and the rights of the serving role are as migrated."


async def _confined(installation: _Installation) -> str:
    sandbox_pool = SandboxPool(1)
    try:
        isolation = await sandbox_pool.probe_isolation(JAVASCRIPT)
    except (SandboxStopped, OSError) as error:
        raise CheckFailed(str(error)) from error
    finally:
        await sandbox_pool.close()
    network = (
        "and without a network" if isolation.network else "but the machine gives it no network of its own"
    )
    if not isolation.is_confined:
        raise CheckFailed(f"{missing_isolation(installation.settings)} {ISOLATION_REMEDY}")
    if not isolation.system_calls:
        raise CheckFailed(
            f"Foreign code runs within limits {network}; its system calls are not filtered."
            f" {ISOLATION_REMEDY}"
        )
    user = "" if isolation.unprivileged else ", as root: run the service as a user of its own"
    return f"Foreign code runs within limits, behind a filter of system calls {network}{user}."


async def _proxy(installation: _Installation) -> str:
    try:
        return await check_base_url(installation.settings)
    except NotReached as error:
        raise CheckFailed(str(error)) from error


async def _traces(installation: _Installation) -> str:
    try:
        return await check_collector(installation.settings)
    except NotReached as error:
        raise CheckFailed(str(error)) from error


async def _audit(installation: _Installation) -> str:
    """Reports the results of the worker's audit log checks; reads no entries itself."""
    broken = []
    for org in await installation.read(organizations.every):
        fault = await installation.read(partial(health.audit_fault, org=org), org)
        if fault is not None:
            broken.append(f"entry {fault.seq} of organization {org} ({fault.how})")
    if broken:
        raise CheckFailed(
            f"Audit logs are not as they were written: {'; '.join(broken[:5])}."
            " `steward audit verify` looks through all of them."
        )
    return "No check of an audit log found a fault."


async def _setup(installation: _Installation) -> str:
    """Reports organizations without an owner, including erased ones."""
    orgs = await installation.read(organizations.every)
    if not orgs:
        return "There is no organization yet. Run: steward init."
    ownerless = [
        org for org in orgs if not await installation.read(partial(members.has_joined_owner, org=org), org)
    ]
    if ownerless:
        named = ", ".join(map(str, ownerless[:5]))
        return f"Without an owner: {named}. `steward init --again --org ID` prints a new set-up link."
    return "Every organization has an owner."


async def _built(installation: _Installation) -> str:
    is_whole, words = await asyncio.to_thread(built_files.compare)
    if not is_whole:
        raise CheckFailed(words)
    return words


# To add a check, add a line.
CHECKS: Mapping[str, Callable[[_Installation], Awaitable[str]]] = {
    "settings": _settings,
    "database": _database,
    "migrations": _migrations,
    "keys": _keys,
    "clock": _clock,
    "tz_data": _tz_data,
    "free_space": _free_space,
    "files": _files,
    "long_readers": _long_readers,
    "standbys": _standbys,
    "partitions": _partitions,
    "slots": _slots,
    "leases": _leases,
    "private_hosts": _private_hosts,
    "put_off": _put_off,
    "store_events": _store_events,
    "mail": _mail,
    "notices": _notices,
    "closings": _closings,
    "walls": _walls,
    "confined": _confined,
    "built": _built,
    "setup": _setup,
    "proxy": _proxy,
    "traces": _traces,
    "audit": _audit,
}


async def doctor(args: CliArgs) -> Facts:
    """Runs all checks; fails if any of them fails."""
    settings = args.settings
    engine, why = await _opened(args, settings)
    try:
        installation = _Installation(
            settings, args.now(), _masters(settings), engine, args.clock, why, args.options.full
        )
        checks = [await _checked(installation, name) for name in CHECKS]
    finally:
        if engine is not None:
            await engine.close()
    failing = [str(check["name"]) for check in checks if not check["ok"]]
    facts: Facts = {"ok": not failing, "checks": checks}
    if failing:
        raise CommandFailed("check_failed", f"Not as it must be: {', '.join(failing)}.", facts)
    return facts


async def _opened(args: CliArgs, settings: Settings) -> tuple[Engine | None, str]:
    """Returns the database, or the reason it cannot be used; never creates the file."""
    if is_sqlite(settings.database_url) and not sqlite_path(settings.database_url).exists():
        return None, f"There is no file {sqlite_path(settings.database_url)}. Run: steward migrate."
    try:
        state = await migrate(settings.database_url, args.now(), dry_run=True)
        if state.before == 0:
            return None, "The database is empty. Run: steward migrate."
        return await open_engine(settings, args.clock, serve=False, deadline=COMMAND_DEADLINE), ""
    except (Unavailable, SchemaDiffers) as error:
        return None, str(error)


def _masters(settings: Settings) -> list[MasterKey]:
    """Returns the master keys; never creates any."""
    is_there = settings.master_keys or (settings.data_dir / KEY_FILE).exists()
    return master_keys(settings) if is_there else []


async def _checked(installation: _Installation, name: str) -> dict[str, object]:
    try:
        return {"name": name, "ok": True, "message": await CHECKS[name](installation)}
    except CheckFailed as wrong:
        return {"name": name, "ok": False, "message": str(wrong)}


def in_words(facts: Facts) -> str:
    """Returns the results as text, one line per check."""
    checks = facts["checks"]
    assert isinstance(checks, list)
    width = max(len(check["name"]) for check in checks)
    return "\n".join(
        f"{'ok   ' if check['ok'] else 'WRONG'}  {check['name']:{width}}  {check['message']}"
        for check in checks
    )


# Handled before the command line is parsed (steward/__main__.py); listed here for `--help`.
_QUICK = option("--quick", action="store_true", help="only ask the process here whether it answers")
_FULL = option("--full", action="store_true", help="also read the whole SQLite file and check it")
COMMANDS = [Command("doctor", "check the installation and say what to do", doctor, (_QUICK, _FULL), in_words)]
