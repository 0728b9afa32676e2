"""The table of commands: the files that define them, by the first words of their commands.

A file is only imported when one of its commands is run, so that `keys new` does not load the service.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from steward.cli.command import Command

# to add a file of commands, add a line
FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "operator": ("org", "user", "credential"),
    "erasing": ("org", "user", "compact"),
    "keys": ("keys",),
    "maintain": ("migrate",),
    "init": ("init",),
    "audit": ("audit",),
    "copies": ("backup", "restore", "restored"),
    "doctor.doctor": ("doctor",),
    "mail": ("mail",),
    "running": ("serve", "worker", "demo"),
    "sandbox": ("sandbox",),
}


def commands(first_word: str | None = None) -> list[Command]:
    """Returns the commands in files for `first_word`, or all commands if no file has that word."""
    files = [file for file, words in FILES.items() if first_word in words] or list(FILES)
    return [command for file in files for command in import_module(f"steward.cli.{file}").COMMANDS]
