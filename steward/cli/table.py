"""The table of commands: one line adds a file's."""

from steward.cli import copies, doctor, keys, maintain, operator, running
from steward.cli.command import Command

COMMANDS: list[Command] = [
    *operator.COMMANDS,
    *keys.COMMANDS,
    *maintain.COMMANDS,
    *copies.COMMANDS,
    *doctor.COMMANDS,
    *running.COMMANDS,
]
