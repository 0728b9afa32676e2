"""keys: creates master and signing keys, and rewraps data keys."""

import base64
import secrets
from functools import partial

from steward.accounts import keys
from steward.cli.command import CliArgs, Command, CommandContext, CommandFailed, Facts, open_context, option
from steward.connections import rotation
from steward.database.accounts import connections, organizations
from steward.database.automations import static_data
from steward.database.imports import records as imports
from steward.database.notifications import links, routes
from steward.model.ids import OrgId, new_id
from steward.model.instants import wire_time
from steward.security.envelope import KEY_BYTES, CannotOpen

_NOT_HELD = (
    "A data key was wrapped by a master key that STEWARD_MASTER_KEYS does not contain. Give that key too,"
    " after the one that is to wrap from now on."
)


async def new(args: CliArgs) -> Facts:
    """Returns a new key for STEWARD_MASTER_KEYS without changing anything."""
    name = f"k{new_id(args.now())[:10].lower()}"
    key = base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode("ascii")
    return {"key": f"{name}:{key}"}


async def rotate_signing(args: CliArgs) -> Facts:
    """Creates a signing key; older ones verify until their last token has expired."""
    async with open_context(args) as context:
        await context.ring()
        rotated = await context.write(lambda tx: keys.rotate_signing(tx, context.masters))
    return {
        "kid": rotated.kid,
        "retired": list(rotated.retired),
        "retires_at": wire_time(rotated.retires_at),
    }


async def _rotate_encryption(args: CliArgs) -> Facts:
    """Rewraps every data key with the first master key; with --data it also replaces them and reseals.

    It commits row by row, so that the service can run meanwhile and an interrupted command can be repeated.
    """
    async with open_context(args) as context:
        await context.ring()
        masters = context.masters
        try:
            wrapped = await context.write(lambda tx: keys.rewrap(tx, masters))
            resealed = 0
            for org in await context.write(organizations.every):
                wrapped += await context.write(partial(rotation.rewrap, org=org, masters=masters), org)
                if args.options.data:
                    resealed += await _seal_anew(context, org)
        except CannotOpen as error:
            raise CommandFailed("wrong_master_keys", _NOT_HELD) from error
    return {"wrapped": wrapped, "reencrypted": resealed, "kek_id": masters[0].id}


async def _seal_anew(context: CommandContext, org: OrgId) -> int:
    masters = context.masters
    number = await context.write(partial(rotation.new_key, org=org, masters=masters), org)
    if number is None:
        return 0
    held = await context.write(partial(connections.sealed_under_others, org=org, number=number), org)
    resealed = 0
    for integration, secret in held:
        sealed = rotation.SealedSecret(integration, secret)
        act = partial(rotation.seal_anew, org=org, masters=masters, sealed_secret=sealed, number=number)
        resealed += await context.write(act, org)
    for import_id in await context.write(partial(imports.sealed_under_others, org=org, number=number), org):
        reseal = partial(
            rotation.seal_import_anew, org=org, masters=masters, import_id=import_id, number=number
        )
        resealed += await context.write(reseal, org)
    stale = partial(static_data.sealed_under_others, org=org, number=number)
    for automation in await context.write(stale, org):
        reseal = partial(
            rotation.seal_static_data_anew, org=org, masters=masters, automation=automation, number=number
        )
        resealed += await context.write(reseal, org)
    for route in await context.write(partial(routes.sealed_under_others, org=org, number=number), org):
        reseal = partial(rotation.seal_route_anew, org=org, masters=masters, route=route, number=number)
        resealed += await context.write(reseal, org)
    for mail in await context.write(partial(links.sealed_under_others, org=org, number=number), org):
        reseal = partial(rotation.seal_mail_anew, org=org, masters=masters, mail=mail, number=number)
        resealed += await context.write(reseal, org)
    return resealed


def _words_of_encryption(facts: Facts) -> str:
    """Returns the output of `keys rotate encryption` without --json, including for zero."""
    wrapped, resealed, key = facts["wrapped"], facts["reencrypted"], facts["kek_id"]
    done = (
        f"{wrapped} data keys were wrapped with {key}, the first of the master keys."
        if wrapped
        else f"Nothing to wrap: every data key is under {key} already, the first of the master keys. To move"
        " to another key, put it first."
    )
    return (
        f"{done} {resealed} secrets, imports, static data, channels and waiting mails were encrypted again."
        if resealed
        else done
    )


COMMANDS = [
    Command("keys new", new),
    Command(
        "keys rotate encryption",
        _rotate_encryption,
        (option("--data", action="store_true", help="also create new data keys and re-encrypt secrets"),),
        _words_of_encryption,
    ),
    Command("keys rotate signing", rotate_signing),
]
