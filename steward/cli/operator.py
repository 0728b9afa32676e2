"""org, user and credential: manages accounts on behalf of the operator."""

from steward.accounts import credentials, organizations, people
from steward.accounts.credentials import IssuedCredential
from steward.accounts.organizations import CreateOrganization
from steward.accounts.passwords import PasswordHasher
from steward.accounts.people import CreatePerson
from steward.cli.command import (
    ORGANIZATION,
    CliArgs,
    Command,
    CommandContext,
    Facts,
    WrongUsage,
    open_context,
    option,
    password,
)
from steward.database.engine.base import Tx
from steward.model.account import Credential, Organization, Person, Role
from steward.model.ids import OrgId
from steward.model.instants import wire_time, wire_time_or_none
from steward.security.passwords import PRODUCTION, SMALL

_USER = option("--user", required=True, metavar="ID|EMAIL", help="a person's id or e-mail address")
_CLIENT = option("--client-id", required=True, metavar="ID", help="the credential's client id")
_ROLES = [str(role) for role in Role]


async def _create_org(args: CliArgs) -> Facts:
    """Creates an organization."""
    command = CreateOrganization(args.options.name, args.options.timezone, args.options.automations == "on")
    async with open_context(args) as context:
        organization = await context.write(lambda tx: organizations.create(tx, command))
    return {"organization": _organization(organization)}


async def _list_orgs(args: CliArgs) -> Facts:
    """Lists all organizations."""
    async with open_context(args) as context:
        all_organizations = await context.write(organizations.every)
    return {"organizations": [_organization(organization) for organization in all_organizations]}


async def _switch_org(args: CliArgs) -> Facts:
    """Enables or disables an organization's automations."""

    async def act(tx: Tx) -> Organization:
        org = await organizations.resolve(tx, args.options.org)
        return await organizations.switch(tx, org, args.options.state == "on")

    async with open_context(args) as context:
        return {"organization": _organization(await context.write(act))}


async def _create_user(args: CliArgs) -> Facts:
    """Creates a person, and adds them to an organization if one is named."""
    options = args.options
    if (options.org is None) != (options.role is None):
        raise WrongUsage("Give --org and --role together.")
    if options.password_stdin and options.no_password:
        raise WrongUsage("Give --password-stdin or --no-password, not both.")
    plain = None if options.no_password else password(args)
    async with open_context(args) as context:
        org_name = await _name_of(context, options.org)
        hashed = None
        if plain is not None:
            people.check_password(plain, options.email, [org_name] if org_name else [])
            hashed = await _hashed(args, plain)
        command = CreatePerson(options.email, options.first_name, options.last_name, options.username, hashed)

        async def act(tx: Tx) -> Facts:
            person = await people.create(tx, command)
            if options.org is not None:
                org = await organizations.resolve(tx, options.org)
                await people.add_to_organization(tx, person, org, Role(options.role))
            return await _user(tx, person)

        return {"user": await context.write(act)}


async def _set_password(args: CliArgs) -> Facts:
    """Sets a password and ends the person's sessions."""
    plain = password(args)

    async def load(tx: Tx) -> tuple[Person, list[str]]:
        person = await people.resolve(tx, args.options.user)
        memberships = await people.organizations_of(tx, person.id)
        return person, [membership.organization_name for membership in memberships]

    async with open_context(args) as context:
        person, names = await context.write(load)
        people.check_password(plain, person.email, names)
        hashed = await _hashed(args, plain)

        async def act(tx: Tx) -> Facts:
            await people.set_password(tx, person, hashed)
            return await _user(tx, person)

        return {"user": await context.write(act)}


async def activate(args: CliArgs) -> Facts:
    """Activates an account in all organizations."""
    return await _set_active(args, True)


async def deactivate(args: CliArgs) -> Facts:
    """Deactivates an account in all organizations."""
    return await _set_active(args, False)


async def _set_active(args: CliArgs, active: bool) -> Facts:
    async def act(tx: Tx) -> Facts:
        person = await people.resolve(tx, args.options.user)
        return await _user(tx, await people.set_active(tx, person, active))

    async with open_context(args) as context:
        return {"user": await context.write(act)}


async def _add_to_org(args: CliArgs) -> Facts:
    """Adds a person as a member, or changes their role."""

    async def act(tx: Tx) -> Facts:
        person = await people.resolve(tx, args.options.user)
        org = await organizations.resolve(tx, args.options.org)
        await people.add_to_organization(tx, person, org, Role(args.options.role))
        return await _user(tx, person)

    async with open_context(args) as context:
        return {"user": await context.write(act)}


async def issue(args: CliArgs) -> Facts:
    """Creates a credential; its secret is shown only this once."""
    async with open_context(args) as context:
        ring = await context.ring()

        async def act(tx: Tx) -> IssuedCredential:
            org = await organizations.resolve(tx, args.options.org)
            return await credentials.issue(tx, ring, org, args.options.label)

        return _issued(await context.write(act))


async def rotate(args: CliArgs) -> Facts:
    """Creates a new secret for the same client id."""
    async with open_context(args) as context:
        ring = await context.ring()
        return _issued(await context.write(lambda tx: credentials.rotate(tx, ring, args.options.client_id)))


async def enable(args: CliArgs) -> Facts:
    """Enables a credential."""
    return await _set_enabled(args, True)


async def disable(args: CliArgs) -> Facts:
    """Disables a credential."""
    return await _set_enabled(args, False)


async def _set_enabled(args: CliArgs, enabled: bool) -> Facts:
    async with open_context(args) as context:
        credential = await context.write(
            lambda tx: credentials.set_enabled(tx, args.options.client_id, enabled)
        )
        return {"credential": _credential(credential)}


async def _list_credentials(args: CliArgs) -> Facts:
    """Lists the credentials of one organization or of all, without secrets."""

    async def act(tx: Tx) -> list[Credential]:
        if args.options.org is not None:
            orgs = [await organizations.resolve(tx, args.options.org)]
        else:
            orgs = [OrgId(organization.id) for organization in await organizations.every(tx)]
        return await credentials.every(tx, orgs)

    async with open_context(args) as context:
        return {"credentials": [_credential(credential) for credential in await context.write(act)]}


async def _name_of(context: CommandContext, id_or_name: str | None) -> str | None:
    if id_or_name is None:
        return None

    async def load(tx: Tx) -> str | None:
        org = await organizations.resolve(tx, id_or_name)
        matching = [organization for organization in await organizations.every(tx) if organization.id == org]
        return matching[0].name if matching else None

    return await context.write(load)


async def _hashed(args: CliArgs, plain: str) -> str:
    hashing = PasswordHasher(PRODUCTION if args.settings.is_production else SMALL)
    try:
        return await hashing.hash(plain)
    finally:
        hashing.close()


async def _user(tx: Tx, person: Person) -> Facts:
    memberships = await people.organizations_of(tx, person.id)
    return {
        "id": person.id,
        "email": person.email,
        "username": person.username,
        "first_name": person.first_name,
        "last_name": person.last_name,
        "active": person.active,
        "organizations": [
            {"id": membership.org, "name": membership.organization_name, "role": str(membership.role)}
            for membership in memberships
        ],
    }


def _organization(organization: Organization) -> Facts:
    return {
        "id": organization.id,
        "name": organization.name,
        "timezone": organization.zone,
        "automations_enabled": organization.automations_on,
        "created_at": wire_time(organization.created_at),
    }


def _credential(credential: Credential) -> Facts:
    return {
        "client_id": credential.client_id,
        "organization_id": credential.org,
        "label": credential.label,
        "enabled": credential.enabled,
        "epoch": credential.epoch,
        "created_at": wire_time(credential.created_at),
        "rotated_at": wire_time_or_none(credential.rotated_at),
    }


def _issued(issued: IssuedCredential) -> Facts:
    return {"credential": _credential(issued.credential), "client_secret": issued.secret}


_PASSWORD = option("--password-stdin", action="store_true", help="read the password from standard input")

COMMANDS = [
    Command(
        "org create",
        _create_org,
        (
            option("--name", required=True),
            option("--timezone", default="UTC", metavar="ZONE"),
            option("--automations", choices=["on", "off"], default="on"),
        ),
    ),
    Command("org list", _list_orgs),
    Command(
        "org automations",
        _switch_org,
        (option("state", choices=["on", "off"]), ORGANIZATION),
    ),
    Command(
        "user create",
        _create_user,
        (
            option("--email", required=True),
            option("--first-name", required=True),
            option("--last-name", required=True),
            option("--username"),
            option("--org", metavar="ID|NAME"),
            option("--role", choices=_ROLES),
            _PASSWORD,
            option("--no-password", action="store_true", help="the person cannot sign in to the web app"),
        ),
    ),
    Command("user set-password", _set_password, (_USER, _PASSWORD)),
    Command("user deactivate", deactivate, (_USER,)),
    Command("user activate", activate, (_USER,)),
    Command(
        "user add-to-org",
        _add_to_org,
        (_USER, ORGANIZATION, option("--role", required=True, choices=_ROLES)),
    ),
    Command(
        "credential issue",
        issue,
        (ORGANIZATION, option("--label", default="", help="what the credential is for")),
    ),
    Command("credential rotate", rotate, (_CLIENT,)),
    Command("credential disable", disable, (_CLIENT,)),
    Command("credential enable", enable, (_CLIENT,)),
    Command("credential list", _list_credentials, (option("--org", metavar="ID|NAME"),)),
]
