"""Checks of the installation: its settings, keys, files, network and sandbox."""

import asyncio
from functools import partial

from steward.accounts import keys
from steward.cli import built_files
from steward.cli.doctor.installation import CheckFailed, Installation
from steward.cli.doctor.sandbox_warning import ISOLATION_REMEDY, missing_isolation
from steward.cli.network_checks import (
    NO_MAIL_SERVER,
    NotReached,
    check_base_url,
    check_collector,
    check_mail_server,
)
from steward.config import Settings
from steward.connections import rotation
from steward.database.accounts import members, organizations
from steward.database.engine.private_files import is_open, is_shared
from steward.notifications.status import mail_down_since
from steward.sandbox.pool import JAVASCRIPT, SandboxPool
from steward.sandbox.protocol import SandboxStopped
from steward.security.envelope import CannotOpen
from steward.startup import installation_files


async def check_settings(installation: Installation) -> str:
    """Checks that the settings are complete."""
    return f"Complete and in range; the environment is {installation.settings.env}."


async def check_master_keys(installation: Installation) -> str:
    """Checks that the master keys open what is stored."""
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


async def check_files(installation: Installation) -> str:
    """Checks that no other account can read the service's files."""
    return await asyncio.to_thread(_files_open_to_others, installation.settings)


def _files_open_to_others(settings: Settings) -> str:
    """Reports shared folders without failing, since each file in them is checked on its own."""
    folder = settings.data_dir
    shared = [folder] if folder.exists() and is_open(folder) and is_shared(folder) else []
    reachable = [path for path in installation_files(settings) if path not in shared and is_open(path)]
    if reachable:
        raise CheckFailed(
            f"Other accounts of this machine may open {', '.join(map(str, reachable))}. Start the service"
            " once: it removes those rights. If it cannot, run `chmod go=` on them as their owner."
        )
    if shared:
        return f"Other accounts may enter {folder}, which is shared; only the owner can open the files in it."
    return "Only the owner can open the data folder and the files in it."


async def check_private_hosts(installation: Installation) -> str:
    """Lists the private hosts that may be called."""
    hosts = installation.settings.allow_private_hosts
    if not hosts:
        return "No private address can be reached."
    return f"Calls may reach {', '.join(hosts)} inside your network. Keep only what is needed."


async def check_mail(installation: Installation) -> str:
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
            f"E-mail has been failing since {since:%Y-%m-%d %H:%M} UTC. See message_deferred in the log."
        )
    return "The mail server is reachable and accepts sign-ins; `steward mail test --to ADDRESS` sends a mail."


async def check_sandbox(installation: Installation) -> str:
    """Checks that foreign code is isolated."""
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
    user = "" if isolation.unprivileged else ", as root: run the service as its own user"
    return f"Foreign code runs within limits, behind a filter of system calls {network}{user}."


async def check_proxy(installation: Installation) -> str:
    """Checks that the service is reached at its public address."""
    try:
        return await check_base_url(installation.settings)
    except NotReached as error:
        raise CheckFailed(str(error)) from error


async def check_traces(installation: Installation) -> str:
    """Checks that the collector of traces answers."""
    try:
        return await check_collector(installation.settings)
    except NotReached as error:
        raise CheckFailed(str(error)) from error


async def check_setup(installation: Installation) -> str:
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


async def check_built(installation: Installation) -> str:
    """Checks that the built files are unchanged."""
    is_whole, words = await asyncio.to_thread(built_files.compare)
    if not is_whole:
        raise CheckFailed(words)
    return words
