"""migrate: updates the database to this release's schema and removes remains of the previous one."""

from contextlib import closing, nullcontext
from functools import partial
from typing import IO

from steward.cli.command import CliArgs, Command, CommandFailed, Facts, WrongUsage, open_context, option
from steward.database.engine.migrate import is_sqlite, migrate, sqlite_path
from steward.database.engine.private_files import make_folder
from steward.database.engine.sqlite import take_lock
from steward.database.operator import processes
from steward.startup import restrict_files
from steward.version import __version__


async def _run_migrations(args: CliArgs) -> Facts:
    """Applies pending migrations; with --check it applies none and fails if any is pending."""
    url, dry_run, cleans = args.settings.database_url, args.options.check, args.options.clean
    if dry_run and cleans:
        raise WrongUsage("Give --check or --clean, not both.")
    with hold_database_lock(url) if is_sqlite(url) and not dry_run else nullcontext():
        if not dry_run:
            restrict_files(args.settings)
        if cleans and not is_sqlite(url):
            await _refuse_while_others_serve(args)
        done = await migrate(url, args.now(), dry_run=dry_run, cleans=cleans)
    if args.options.check and done.pending:
        names = ", ".join(done.pending)
        raise CommandFailed("migrations_pending", f"Migrations are pending ({names}): run steward migrate.")
    return {
        "engine": done.dialect,
        "from": done.before,
        "to": done.after,
        "applied": list(done.applied),
        "pending": list(done.pending),
        "to_clean": list(done.to_clean),
    }


async def _refuse_while_others_serve(args: CliArgs) -> None:
    """Raises CommandFailed while a process of another release runs, which may use what is dropped."""
    async with open_context(args) as context:
        others = await context.write(partial(processes.of_other_releases, release=__version__))
    if others:
        raise CommandFailed(
            "still_running",
            f"Processes of another release than {__version__} still serve: {', '.join(others)}. Update or"
            " stop them and try again; a process that was killed counts for a minute.",
        )


def hold_database_lock(url: str) -> closing[IO[str]]:
    """Returns a context that holds the lock of the process serving the file. Raises AlreadyServed."""
    path = sqlite_path(url)
    make_folder(path.parent)
    return closing(take_lock(path))


COMMANDS = [
    Command(
        "migrate",
        _run_migrations,
        (
            option("--check", action="store_true", help="only check; exit 1 when migrations are pending"),
            option(
                "--clean",
                action="store_true",
                help="also drop what only the release before uses, once none of its processes is left",
            ),
        ),
    ),
]
