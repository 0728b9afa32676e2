"""The table of commands: the files that hold them, each by the first words of its commands.

A file is imported when one of its commands is asked for, so that `keys new` does not load the service.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from steward.cli.command import Command

# A new file of commands is one line here.
FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "operator": ("org", "user", "credential"),
    "erasing": ("org", "user", "compact"),
    "keys": ("keys",),
    "maintain": ("migrate",),
    "init": ("init",),
    "audit": ("audit",),
    "copies": ("backup", "restore", "restored"),
    "doctor": ("doctor",),
    "mail": ("mail",),
    "running": ("serve", "worker", "demo", "sandbox"),
}


def commands(first_word: str | None = None) -> list[Command]:
    """Returns the commands that begin with `first_word`'s files; every command when no file has that word."""
    files = [file for file, words in FILES.items() if first_word in words] or list(FILES)
    return [command for file in files for command in import_module(f"steward.cli.{file}").COMMANDS]
