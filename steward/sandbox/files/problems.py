"""The reasons why a file cannot be read or written."""

from typing import Final

MIB: Final = 1024 * 1024
UNPACKED_BYTES: Final = 128 * MIB  # unpacked size of an archive, in all


class FileProblem(Exception):
    """Raised for a file that cannot be read or written; the text says why and what to do."""
