"""JSON lines between a confined child and its parent, both sides (safety 8).

A message is two lines: what is asked (`{"op": …}`) and its data, one JSON document each. An answer is any
number of lines `+` (a part is done, so the clock of one expression begins anew), then a line that says how it
ended (`{"ok": true}` or `{"ok": false, "code", "message"}`) and a line with the result.
"""

import json
from typing import Final

MIB: Final = 1024 * 1024
MESSAGE_BYTES: Final = 8 * MIB  # of data in one message, and of one answer (safety 8, imports 5.3)
PROGRESS: Final = b"+\n"

TIMEOUT: Final = "code_timeout"
MEMORY: Final = "code_memory"
CRASHED: Final = "code_crashed"


class Stopped(Exception):
    """Foreign code went past a limit, or its process died."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


WORDS: Final = {
    TIMEOUT: "The expression or script ran too long and was stopped. Make it do less, or split the work.",
    MEMORY: "The expression or script needed too much memory. Give it fewer items, or smaller ones.",
    CRASHED: "The expression or script ended its process. Write it more simply.",
}


def stopped(code: str) -> Stopped:
    """The end of foreign code, in words a merchant can act on."""
    return Stopped(code, WORDS[code])


def line(value: object) -> bytes:
    """A value as one line of JSON."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
