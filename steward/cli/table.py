"""The table of commands: what each does, by the file that defines it.

A file is only imported when one of its commands is run: neither `--help` nor `keys new` loads the service.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from steward.cli.command import Command

# to add a command, add a line
FILES: Final[Mapping[str, Mapping[str, str]]] = {
    "operator": {
        "org create": "create an organization",
        "org list": "list organizations",
        "org automations": "switch automations on or off",
        "user create": "create a person's account",
        "user set-password": "set a person's password",
        "user deactivate": "deactivate a person in every organization",
        "user activate": "reactivate a person",
        "user add-to-org": "add a person to an organization, or change their role",
        "credential issue": "create an API credential",
        "credential rotate": "create a new secret",
        "credential disable": "disable a credential",
        "credential enable": "enable a credential",
        "credential list": "list credentials",
    },
    "erasing": {
        "user erase": "erase a person's names, address and sign-in permanently",
        "org erase": "erase an organization and all it owns permanently",
        "compact": "rewrite the SQLite file to drop removed data",
    },
    "keys": {
        "keys new": "print a new key for STEWARD_MASTER_KEYS",
        "keys rotate encryption": "rewrap every data key with the first master key",
        "keys rotate signing": "create a new key for signing tokens",
    },
    "maintain": {
        "migrate": "apply pending migrations",
    },
    "init": {
        "init": "set up an installation and print the first owner's set-up link; run it again after any stop",
    },
    "audit": {
        "audit verify": "check that the audit logs are complete and unaltered",
        "audit export": "write an organization's audit log to a file",
        "audit head": "print the end of each audit log, to be kept elsewhere",
    },
    "copies": {
        "backup": "copy the SQLite database while the service runs",
        "restore": "restore the SQLite database from a copy, with the service stopped",
        "restored": "prepare a restored PostgreSQL database for being served, with the service stopped",
    },
    "doctor.doctor": {
        "doctor": "check the installation and say what to do",
    },
    "mail": {
        "mail test": "send a test mail by the service's mail server",
    },
    "running": {
        "serve": "serve the API and the web app, with one worker",
        "worker": "run automations and the scheduler (PostgreSQL)",
        "demo": "serve a sample organization with fake platforms",
    },
    "sandbox": {
        "sandbox": "serve fake platforms: shop, spreadsheets, messages, mail, bucket",
    },
}


def descriptions() -> dict[str, str]:
    """Returns the description of each command, by its name."""
    return {name: words for names in FILES.values() for name, words in names.items()}


def commands(first_word: str | None) -> list[Command]:
    """Returns the commands of the files that hold a command with this first word; none if there is none."""
    files = [file for file, names in FILES.items() if first_word in {name.split()[0] for name in names}]
    return [command for file in files for command in import_module(f"steward.cli.{file}").COMMANDS]
