"""The table of commands: one line adds a file's."""

from steward.cli import copies, keys, maintain, operator, running
from steward.cli.command import Command

COMMANDS: list[Command] = [
    *operator.COMMANDS,
    *keys.COMMANDS,
    *maintain.COMMANDS,
    *copies.COMMANDS,
    *running.COMMANDS,
]
