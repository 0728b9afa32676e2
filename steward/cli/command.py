"""The commands of the command line and their arguments."""

import argparse
import getpass
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from steward.accounts.keys import KeyRing, open_ring
from steward.cli.env_file import UnreadableEnvFile, merged
from steward.clock import SystemClock
from steward.config import Settings, SettingsError, read
from steward.database.engine.base import Act, Engine, T
from steward.database.engine.migrate import migrate
from steward.model.ids import OrgId
from steward.scheduling.zones import use_packaged_zones
from steward.security.envelope import CannotOpen, MasterKey
from steward.startup import COMMAND_DEADLINE, master_keys, open_engine, restrict_files

Facts = Mapping[str, object]


class CommandFailed(Exception):
    """Raised if a command was refused or failed, with a stable code and a message."""

    def __init__(self, code: str, message: str, facts: Facts | None = None) -> None:
        """Takes `facts` to print with the error of a failed check."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.facts = facts


class WrongUsage(Exception):
    """Raised if the command line is invalid (exit 2)."""


@dataclass(frozen=True, slots=True)
class _Argument:
    """An argument: its names and its options for argparse."""

    names: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CliArgs:
    """The arguments of one call of a command, its settings, and a callback to report that it is ready."""

    options: argparse.Namespace
    read_settings: Callable[[], Settings]
    ready: Callable[[Facts], None]
    environ: Mapping[str, str] = field(default_factory=dict)
    env_file: str | None = None
    clock: SystemClock = field(default_factory=SystemClock)

    @property
    def settings(self) -> Settings:
        """The settings. Raises SettingsError."""
        return self.read_settings()

    def now(self) -> datetime:
        """Returns the current time."""
        return self.clock.now()


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the table; `run` returns the fields of `--json`, or None after `ready`.

    Without `--json`, the facts are listed, or worded by `in_words`.
    """

    name: str
    run: Callable[[CliArgs], Awaitable[Facts | None]]
    arguments: tuple[_Argument, ...] = ()
    in_words: Callable[[Facts], str] | None = None


def option(*names: str, **options: Any) -> _Argument:
    """Returns a command-line argument with its options for argparse."""
    return _Argument(names, options)


ORGANIZATION = option("--org", required=True, metavar="ID|NAME", help="an organization's id or exact name")


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The open database of an operator's command."""

    engine: Engine
    args: CliArgs
    masters: list[MasterKey]

    async def write(self, act: Act[T], org: OrgId | None = None) -> T:
        """Runs `act` in one transaction, as the tenant `org` if given."""
        return await self.engine.write(self.args.now(), act, org=() if org is None else org)

    async def ring(self) -> KeyRing:
        """Returns the service's own keys. Raises CommandFailed if the master keys do not open them."""
        settings = self.args.settings
        try:
            return await open_ring(
                self.engine,
                self.args.now(),
                self.masters,
                issuer=settings.auth_url,
                audience=settings.base_url,
            )
        except CannotOpen as error:
            raise CommandFailed(
                "wrong_master_keys",
                "The keys in the database were wrapped by a master key that STEWARD_MASTER_KEYS does not"
                " contain. Give the key they were made with.",
            ) from error


@asynccontextmanager
async def open_context(args: CliArgs) -> AsyncIterator[CommandContext]:
    """Opens the migrated database and closes it afterwards. Raises CommandFailed for pending migrations."""
    use_packaged_zones()
    settings = args.settings
    state = await migrate(settings.database_url, args.now(), dry_run=True)
    if state.pending:
        names = ", ".join(state.pending)
        raise CommandFailed("migrations_pending", f"Migrations are pending ({names}): run steward migrate.")
    restrict_files(settings)
    engine = await open_engine(settings, args.clock, serve=False, deadline=COMMAND_DEADLINE)
    try:
        yield CommandContext(engine, args, master_keys(settings))
    finally:
        await engine.close()


def read_settings(environ: Mapping[str, str], env_file: str | Path | None) -> Settings:
    """Returns the settings of the environment and the file. Raises SettingsError."""
    try:
        return read(merged(environ, env_file))
    except UnreadableEnvFile as error:
        raise SettingsError([str(error)]) from error


def whole(lowest: int, highest: int) -> Callable[[str], int]:
    """Returns argparse's type of a whole number in a range."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or not lowest <= int(text) <= highest:
            raise argparse.ArgumentTypeError(f"must be a whole number from {lowest} to {highest}")
        return int(text)

    return parse


def password(args: CliArgs) -> str:
    """Returns the password, read from standard input or a terminal prompt, never from an argument."""
    if args.options.password_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise WrongUsage("Give the password with --password-stdin, or run this on a terminal.")
    first = getpass.getpass("Password: ")
    if getpass.getpass("Once more: ") != first:
        raise CommandFailed("passwords_differ", "The two passwords differ.")
    return first
