"""The table of commands: one line adds a file's."""

from steward.cli import keys, maintain, operator, services
from steward.cli.command import Command

COMMANDS: list[Command] = [
    *operator.COMMANDS,
    *keys.COMMANDS,
    *maintain.COMMANDS,
    *services.COMMANDS,
]
