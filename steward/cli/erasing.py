"""user erase, org erase and compact: removes personal data permanently."""

import asyncio

from steward.accounts import erasing, organizations
from steward.cli.command import ORGANIZATION, CliArgs, Command, CommandFailed, Facts, open_context, option
from steward.config import Settings
from steward.database.engine.base import Tx
from steward.database.engine.compaction import NotRewritten, compact
from steward.database.engine.migrate import is_sqlite, sqlite_path
from steward.database.engine.sqlite import AlreadyServed
from steward.database.operator.erasure import FORMER_MEMBER
from steward.model.account import Organization, Person
from steward.model.ids import OrgId


async def _erase_user(args: CliArgs) -> Facts:
    """Erases a person's name, address, password and sessions; the id remains."""

    async def act(tx: Tx) -> tuple[Person, set[OrgId]]:
        person, *invited = await erasing.people_named(tx, args.options.user)
        name = f"{person.first_name} {person.last_name}".strip()  # empty until the invitation is accepted
        names = (person.email, name) if name else (person.email,)
        _check_confirmed(args, names, f"{name} ({person.email})".strip())
        orgs = set(await erasing.erase_person(tx, person))
        for invitation in invited:
            orgs.update(await erasing.erase_person(tx, invitation))
        return person, orgs

    async with open_context(args) as context:
        person, orgs = await context.write(act)
    erased = {"id": person.id, "name": FORMER_MEMBER, "organizations": sorted(int(org) for org in orgs)}
    return {"user": erased, "file_rewritten": await _rewritten(args.settings)}


async def _erase_org(args: CliArgs) -> Facts:
    """Removes an organization and everything it owns; its id and the audit log remain."""

    async def load(tx: Tx) -> Organization:
        org = await organizations.resolve(tx, args.options.org)
        await tx.set_tenant([org])
        organization = await organizations.get(tx, org)
        _check_confirmed(args, (organization.name,), organization.name)
        return organization

    async with open_context(args) as context:
        organization = await context.write(load)
        done = await erasing.erase_organization(context.engine, args.clock, OrgId(organization.id))
    return {
        "organization": {"id": organization.id, "name": done.name},
        "removed": dict(done.removed),
        "people_anonymised": done.people,
        "subscriptions_left": [{"store": store, "topic": topic} for store, topic in done.subscriptions],
        "file_rewritten": await _rewritten(args.settings),
    }


async def _rewrite_file(args: CliArgs) -> Facts:
    """Rewrites the SQLite file so that it contains nothing that was removed."""
    settings = args.settings
    if not is_sqlite(settings.database_url):
        message = "Only an SQLite file is rewritten. PostgreSQL reuses the space itself; see VACUUM FULL."
        raise CommandFailed("wrong_engine", message)
    path = sqlite_path(settings.database_url)
    if not path.is_file():
        raise CommandFailed("not_found", f"There is no database at {path}.")
    try:
        await asyncio.to_thread(compact, path)
    except NotRewritten as error:
        message = f"The file was not rewritten ({error}). End other commands, or free space for a copy."
        raise CommandFailed("not_rewritten", message) from error
    return {"file": str(path), "bytes": path.stat().st_size}


def _check_confirmed(args: CliArgs, names: tuple[str, ...], known_as: str) -> None:
    """Raises CommandFailed unless --confirm repeats one of the names."""
    if args.options.confirm not in names:
        message = f"This cannot be undone. To erase {known_as}, repeat the name: --confirm '{names[0]}'."
        raise CommandFailed("not_confirmed", message)


async def _rewritten(settings: Settings) -> bool:
    """Rewrites the SQLite file; returns False if it is in use or cannot be rewritten, and for PostgreSQL."""
    if not is_sqlite(settings.database_url):
        return False
    try:
        await asyncio.to_thread(compact, sqlite_path(settings.database_url))
    except (AlreadyServed, NotRewritten):
        return False
    return True


COMMANDS = [
    Command(
        "user erase",
        _erase_user,
        (
            option("--user", required=True, metavar="ID|EMAIL", help="a person's id or e-mail address"),
            option("--confirm", required=True, metavar="NAME", help="their e-mail address or full name"),
        ),
    ),
    Command(
        "org erase",
        _erase_org,
        (
            ORGANIZATION,
            option("--confirm", required=True, metavar="NAME", help="its exact name"),
        ),
    ),
    Command("compact", _rewrite_file),
]
