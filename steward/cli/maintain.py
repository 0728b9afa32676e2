"""migrate: brings the database to this release's schema (contract 7)."""

from steward.cli.command import Asked, Command, CommandFailed, Facts, option
from steward.store.migrate import SchemaDiffers, migrate


async def run_migrations(asked: Asked) -> Facts:
    """Applies pending migrations; with --check only looks, and fails when any is pending."""
    try:
        done = await migrate(asked.settings.database_url, asked.now(), only_look=asked.options.check)
    except SchemaDiffers as error:
        raise CommandFailed("schema_differs", str(error)) from error
    if asked.options.check and done.pending:
        names = ", ".join(done.pending)
        raise CommandFailed("migrations_pending", f"Migrations are pending ({names}): run steward migrate.")
    return {
        "engine": done.dialect,
        "from": done.before,
        "to": done.after,
        "applied": list(done.applied),
        "pending": list(done.pending),
    }


COMMANDS = [
    Command(
        "migrate",
        "apply pending migrations",
        run_migrations,
        (option("--check", action="store_true", help="only look; exit 1 when any is pending"),),
    ),
]
