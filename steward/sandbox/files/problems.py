"""The reasons why a file cannot be read or written."""

from typing import Final

MIB: Final = 1024 * 1024
UNPACKED_BYTES: Final = 128 * MIB  # of what a packed file may hold in all


class FileProblem(Exception):
    """The file cannot be read or written; its text says why and what to do."""
