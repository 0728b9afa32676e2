"""init: creates a new installation in which the first owner can sign in."""

import base64
import secrets
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from steward.accounts import invitations, organizations, setup
from steward.accounts.organizations import CreateOrganization
from steward.accounts.setup import FirstOwner, SetUpOffer
from steward.cli.command import (
    CliArgs,
    Command,
    CommandContext,
    CommandFailed,
    Facts,
    WrongUsage,
    open_context,
    option,
    read_settings,
)
from steward.cli.maintain import hold_database_lock
from steward.config import PREFIX, read
from steward.database.engine.migrate import is_sqlite, migrate
from steward.database.engine.private_files import make_folder
from steward.model.instants import wire_time
from steward.security.envelope import KEY_BYTES
from steward.startup import KEY_FILE, restrict_files, write_private

_SETTINGS_FILE = "steward.env"
_BASE_URL = "http://127.0.0.1:8400"
_FOLDER = "./steward-data"


@dataclass(frozen=True, slots=True)
class _Questions:
    """Prompts on a terminal for missing arguments; without a terminal it uses the defaults."""

    are_asked: bool

    def text(self, value: str | None, question: str, default: str | None = None) -> str:
        """Returns the argument, the answer or the default. Raises CommandFailed if the input ends."""
        if value is not None:
            return value
        if not self.are_asked and default is not None:
            return default
        hint = f" [{default}]" if default else ""
        while True:
            sys.stderr.write(f"{question[:1].upper()}{question[1:]}{hint}: ")
            sys.stderr.flush()
            line = sys.stdin.readline()
            if not line:
                raise CommandFailed("stopped", "The input ended. Run steward init again to continue.")
            if line.strip() or default is not None:
                return line.strip() or default or ""


async def _initialize(args: CliArgs) -> Facts:
    """Creates what is missing: settings, master key, schema, organization, and the owner's set-up link."""
    options = args.options
    if options.again and options.org is None:
        raise WrongUsage("Name the organization: steward init --again --org NAME.")
    _refuse_unused(args)
    questions = _Questions(not options.yes and not options.again)
    if questions.are_asked and not sys.stdin.isatty():
        raise WrongUsage("Run this on a terminal, or give --yes with --org, --timezone and --email.")
    if options.yes and None in (options.org, options.timezone, options.email):
        raise WrongUsage("With --yes, give --org, --timezone and --email.")
    file = await _settings_file(args, questions)
    known_args = _with_settings(args, file)
    await _migrated(known_args)
    async with open_context(known_args) as context:
        await context.ring()
        offer = await (_again if options.again else _first)(context, known_args, questions)
    return _facts(known_args, file, offer)


def _refuse_unused(args: CliArgs) -> None:
    """Raises WrongUsage for options that only settings yet to be written take, beside `--env-file`."""
    if args.env_file is None:
        return
    options = args.options
    unused = {
        "--data-dir": options.data_dir,
        "--base-url": options.base_url,
        "--database-url-file": options.database_url_file,
    }
    names = [name for name, value in unused.items() if value is not None]
    if names:
        raise WrongUsage(
            f"With --env-file, leave out {', '.join(names)}: the file gives these settings, and init writes"
            " none."
        )


async def _settings_file(args: CliArgs, questions: _Questions) -> Path:
    """Returns the file of `--env-file`, or that of the data folder, which is written if it is missing.

    Raises CommandFailed for `--again` where nothing was set up.
    """
    options = args.options
    if args.env_file is not None:
        return _absolute(args.env_file)
    folder = Path(options.data_dir or args.environ.get(f"{PREFIX}DATA_DIR") or _FOLDER)
    if not (folder / _SETTINGS_FILE).exists():
        if options.again and not _is_set(args, "DATABASE_URL"):
            raise CommandFailed(
                "not_found", f"{folder} has no {_SETTINGS_FILE}. Name the file of settings with --env-file."
            )
        folder = Path(questions.text(options.data_dir, "data folder", str(folder)))
    return await _write_settings(args, questions, folder.resolve())


def _absolute(path: str) -> Path:
    return Path(path).resolve()


async def _first(context: CommandContext, args: CliArgs, questions: _Questions) -> SetUpOffer:
    options = args.options
    if await context.write(organizations.every):
        raise CommandFailed("wrong_state", setup.EXISTS)
    name = questions.text(options.org, "name of the organization")
    zone = questions.text(options.timezone, "time zone of the organization, such as Europe/Berlin", "UTC")
    owner = FirstOwner(
        questions.text(options.email, "e-mail address of its owner"),
        questions.text(options.first_name, "first name of its owner (may be empty)", ""),
        questions.text(options.last_name, "last name of its owner (may be empty)", ""),
    )
    return await context.write(lambda tx: setup.set_up(tx, CreateOrganization(name, zone), owner))


async def _again(context: CommandContext, args: CliArgs, questions: _Questions) -> SetUpOffer:
    options = args.options
    org = await context.write(lambda tx: organizations.resolve(tx, options.org))
    owner = None
    if options.email is not None:
        owner = FirstOwner(options.email, options.first_name or "", options.last_name or "")
    return await context.write(lambda tx: setup.offer_again(tx, org, owner))


async def _write_settings(args: CliArgs, questions: _Questions, folder: Path) -> Path:
    """Writes the settings and the master key unless they exist; returns the settings file.

    Settings from the environment are neither asked for nor written, because the environment takes precedence.
    Raises SettingsError and, for a database that cannot be used, the errors of `migrate`.
    """
    file = folder / _SETTINGS_FILE
    if file.exists():
        return file
    variables = {"DATA_DIR": str(folder)}
    if not _is_set(args, "BASE_URL"):
        variables["BASE_URL"] = questions.text(args.options.base_url, "address of the web app", _BASE_URL)
    if not _is_set(args, "DATABASE_URL"):
        variables |= _database(args, questions, folder)
    # Tested before it is written, so that a mistyped answer does not leave a file that blocks the next
    # attempt.
    keys = {} if _is_set(args, "MASTER_KEYS") else {"MASTER_KEYS": _new_key()}
    settings = read({**_prefixed({**variables, **keys}), **_own_variables(args.environ)})
    await migrate(settings.database_url, args.now(), dry_run=True)
    make_folder(folder)
    if keys:
        variables["MASTER_KEYS_FILE"] = str(folder / KEY_FILE)
        write_private(folder / KEY_FILE, f"{keys['MASTER_KEYS']}\n")
    lines = [f"{name}={value}" for name, value in _prefixed(variables).items()]
    write_private(
        file, "\n".join(["# Written by steward init. Every setting: docs/settings.md.", *lines, ""])
    )
    return file


def _database(args: CliArgs, questions: _Questions, folder: Path) -> dict[str, str]:
    """Returns the variable that names the database."""
    if args.options.database_url_file is not None:
        return {"DATABASE_URL_FILE": str(Path(args.options.database_url_file).resolve())}
    answer = questions.text(None, "database, sqlite or postgresql://…", "sqlite")
    return {"DATABASE_URL": f"sqlite:///{folder}/steward.db" if answer == "sqlite" else answer}


def _new_key() -> str:
    return f"local:{base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode('ascii')}"


def _prefixed(variables: Mapping[str, str]) -> dict[str, str]:
    return {f"{PREFIX}{name}": value for name, value in variables.items()}


def _is_set(args: CliArgs, name: str) -> bool:
    """Returns whether the environment holds a setting or names a file with it."""
    return any(variable in args.environ for variable in _prefixed({name: "", f"{name}_FILE": ""}))


def _own_variables(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in environ.items() if name.startswith(PREFIX)}


def _with_settings(args: CliArgs, file: Path) -> CliArgs:
    """Returns the arguments with the settings of the file; the environment takes precedence."""
    settings = read_settings(_own_variables(args.environ), file)
    return replace(args, read_settings=lambda: settings)


async def _migrated(args: CliArgs) -> None:
    url = args.settings.database_url
    state = await migrate(url, args.now(), dry_run=True)
    if state.pending:
        with hold_database_lock(url) if is_sqlite(url) else nullcontext():
            await migrate(url, args.now())
    restrict_files(args.settings)


def _facts(args: CliArgs, file: Path, offer: SetUpOffer) -> Facts:
    # Settings that init wrote have their key beside them; the environment may name another data folder.
    folder = file.parent if args.env_file is None else args.settings.data_dir.resolve()
    keys = folder / KEY_FILE
    return {
        "settings_file": str(file),
        "master_keys": str(keys) if keys.exists() else None,
        "organization": {"id": offer.organization.id, "name": offer.organization.name},
        "email": offer.email,
        "setup_url": invitations.link(args.settings.web_origin, offer.token),
        "expires_at": wire_time(offer.expires_at),
        "start": f"steward serve --env-file {file}",
    }


def _in_words(facts: Facts) -> str:
    organization = facts["organization"]
    name = organization["name"] if isinstance(organization, Mapping) else ""
    return "\n".join(
        [
            f"“{name}” is set up.",
            "",
            f"  Settings       {facts['settings_file']}",
            f"  Master key     {facts['master_keys'] or 'as STEWARD_MASTER_KEYS names it'}",
            "                 Keep a copy of it apart from your backups: without it no secret can be read.",
            "",
            f"Start Steward:   {facts['start']}",
            f"Then, as {facts['email']}, open this link and choose a password. It works once, until"
            f" {facts['expires_at']}:",
            "",
            f"  {facts['setup_url']}",
        ]
    )


COMMANDS = [
    Command(
        "init",
        _initialize,
        (
            option("--yes", action="store_true", help="ask nothing; needs --org, --timezone and --email"),
            option("--base-url", metavar="URL", help=f"address of the web app (default {_BASE_URL})"),
            option("--data-dir", metavar="PATH", help=f"folder of the installation (default {_FOLDER})"),
            option("--database-url-file", metavar="PATH", help="file that holds a database's address"),
            option("--org", metavar="NAME", help="name of the first organization"),
            option("--timezone", metavar="ZONE", help="its time zone, such as Europe/Berlin"),
            option("--email", help="e-mail address of its owner"),
            option("--first-name", help="first name of its owner"),
            option("--last-name", help="last name of its owner"),
            option(
                "--again",
                action="store_true",
                help="withdraw the open set-up link of --org and print a new one",
            ),
        ),
        _in_words,
    )
]
