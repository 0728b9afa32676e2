"""doctor: checks the installation and says what to do; changes nothing."""

from collections.abc import Awaitable, Callable, Mapping

from steward.cli.command import CliArgs, Command, CommandFailed, Facts, option
from steward.cli.doctor.database_checks import (
    check_clock,
    check_database,
    check_free_space,
    check_long_readers,
    check_migrations,
    check_partitions,
    check_standbys,
    check_tenant_isolation,
)
from steward.cli.doctor.installation import CheckFailed, Installation
from steward.cli.doctor.installation_checks import (
    check_built,
    check_files,
    check_mail,
    check_master_keys,
    check_private_hosts,
    check_proxy,
    check_sandbox,
    check_settings,
    check_setup,
    check_traces,
)
from steward.cli.doctor.work_checks import (
    check_audit,
    check_closings,
    check_deferred_rows,
    check_leases,
    check_notices,
    check_slots,
    check_store_events,
    check_tz_data,
)
from steward.config import Settings
from steward.database.engine.base import Engine
from steward.database.engine.migrate import (
    SchemaDiffers,
    is_sqlite,
    migrate,
    sqlite_path,
)
from steward.model.refusals import Unavailable
from steward.security.envelope import MasterKey
from steward.startup import COMMAND_DEADLINE, KEY_FILE, master_keys, open_engine

# To add a check, add a line.
CHECKS: Mapping[str, Callable[[Installation], Awaitable[str]]] = {
    "settings": check_settings,
    "database": check_database,
    "migrations": check_migrations,
    "keys": check_master_keys,
    "clock": check_clock,
    "tz_data": check_tz_data,
    "free_space": check_free_space,
    "files": check_files,
    "long_readers": check_long_readers,
    "standbys": check_standbys,
    "partitions": check_partitions,
    "slots": check_slots,
    "leases": check_leases,
    "private_hosts": check_private_hosts,
    "put_off": check_deferred_rows,
    "store_events": check_store_events,
    "mail": check_mail,
    "notices": check_notices,
    "closings": check_closings,
    "walls": check_tenant_isolation,
    "confined": check_sandbox,
    "built": check_built,
    "setup": check_setup,
    "proxy": check_proxy,
    "traces": check_traces,
    "audit": check_audit,
}


async def doctor(args: CliArgs) -> Facts:
    """Runs all checks; fails if any of them fails."""
    settings = args.settings
    engine, why = await _opened(args, settings)
    try:
        installation = Installation(
            settings, args.now(), _masters(settings), engine, args.clock, why, args.options.full
        )
        checks = [await _checked(installation, name) for name in CHECKS]
    finally:
        if engine is not None:
            await engine.close()
    failing = [str(check["name"]) for check in checks if not check["ok"]]
    facts: Facts = {"ok": not failing, "checks": checks}
    if failing:
        raise CommandFailed("check_failed", f"Failed checks: {', '.join(failing)}.", facts)
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


async def _checked(installation: Installation, name: str) -> dict[str, object]:
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
COMMANDS = [Command("doctor", doctor, (_QUICK, _FULL), in_words)]
