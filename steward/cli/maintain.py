"""migrate: brings the database to this release's schema."""

from contextlib import closing, nullcontext
from typing import IO

from steward.cli.command import CliArgs, Command, CommandFailed, Facts, option
from steward.database.engine.migrate import is_sqlite, migrate, sqlite_path
from steward.database.engine.private_files import make_folder
from steward.database.engine.sqlite import take_lock
from steward.startup import close_files


async def _run_migrations(args: CliArgs) -> Facts:
    """Applies pending migrations; with --check only looks, and fails when any is pending."""
    url, only_look = args.settings.database_url, args.options.check
    with stopped(url) if is_sqlite(url) and not only_look else nullcontext():
        if not only_look:
            close_files(args.settings)
        done = await migrate(url, args.now(), only_look=only_look)
    if args.options.check and done.pending:
        names = ", ".join(done.pending)
        raise CommandFailed("migrations_pending", f"Migrations are pending ({names}): run steward migrate.")
    return {
        "engine": done.dialect,
        "from": done.before,
        "to": done.after,
        "applied": list(done.applied),
        "pending": list(done.pending),
    }


def stopped(url: str) -> closing[IO[str]]:
    """Takes the lock of a process that serves the file. Raises AlreadyServed."""
    path = sqlite_path(url)
    make_folder(path.parent)
    return closing(take_lock(path))


COMMANDS = [
    Command(
        "migrate",
        "apply pending migrations",
        _run_migrations,
        (option("--check", action="store_true", help="only check; exit 1 when migrations are pending"),),
    ),
]
