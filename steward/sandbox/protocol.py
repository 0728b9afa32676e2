"""Frames between a sandbox child and its parent, for both sides.

A frame is a header (nonce, kind, length) and that many bytes of one JSON document without line breaks. A
message is an ASK frame (`{"op": …}`) and a DATA frame under a nonce the parent has just made. The child
answers under the same nonce: any number of empty PROGRESS frames (a part is done, so the clock of one
expression begins again), then one RESULT frame, or a STOPPED frame that holds a code. A script never sees a
nonce and never writes a frame, so nothing it returns can be read as an answer to another message.
"""

import json
import struct
from typing import Final

MIB: Final = 1024 * 1024
MESSAGE_BYTES: Final = 8 * MIB  # of data in one message, and of one answer
FILE_MESSAGE_BYTES: Final = 28 * MIB  # the same for a child that reads files: 20 MiB in Base64
FRAME_BYTES: Final = MESSAGE_BYTES + MIB  # the longest frame that is read: an answer and what joins its parts

HEADER: Final = struct.Struct(">16scI")
NONCE_BYTES: Final = 16
NO_NONCE: Final = bytes(NONCE_BYTES)  # of the READY frame, before any message
READY: Final = b"!"
REQUEST: Final = b"?"
DATA: Final = b"d"
PROGRESS: Final = b"+"
RESULT: Final = b"="
STOPPED: Final = b"x"

TIMEOUT: Final = "code_timeout"
MEMORY: Final = "code_memory"
CRASHED: Final = "code_crashed"
REFUSED: Final = "code_refused"


class SandboxStopped(Exception):
    """Foreign code went past a limit, its process died, or it is not run here at all."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


STOP_MESSAGES: Final = {
    TIMEOUT: "The expression or script ran too long and was stopped. Make it do less, or split the work.",
    MEMORY: "The expression or script needed too much memory. Give it fewer items, or smaller ones.",
    CRASHED: "The expression or script ended its process. Write it more simply.",
    REFUSED: "Expressions and scripts are not run on this installation, because its machine cannot confine"
    " them. Ask its operator: `steward doctor` says what is missing.",
}


def stopped(code: str) -> SandboxStopped:
    """Returns the error of stopped foreign code, in words a merchant can act on."""
    return SandboxStopped(code, STOP_MESSAGES[code])


def compact(value: object) -> bytes:
    """Returns a value as JSON in ASCII, without line breaks."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


def frame(nonce: bytes, kind: bytes, body: bytes = b"") -> bytes:
    """Returns one frame. Raises ValueError for a body with a line break, which our JSON never has."""
    if b"\n" in body:
        raise ValueError("a line break in a frame")
    return HEADER.pack(nonce, kind, len(body)) + body
