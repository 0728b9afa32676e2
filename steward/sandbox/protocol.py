"""Frames between a sandbox child and its parent, used by both sides.

A frame is a header (nonce, kind, length) and that many bytes of one JSON document without line breaks. A
message is a REQUEST frame (`{"op": …}`) and a DATA frame with a nonce that the parent has just created. The
child replies with the same nonce: any number of empty PROGRESS frames (a part is done, so the clock
restarts), then one RESULT frame, or a STOPPED frame with a code. Scripts never see a nonce or write a frame,
so nothing they return can be taken for the result of another message.
"""

import json
import struct
from typing import Final

MIB: Final = 1024 * 1024
MESSAGE_BYTES: Final = 8 * MIB  # limit for the data of a message, and for a result
FILE_MESSAGE_BYTES: Final = 28 * MIB  # for a child that handles files: 20 MiB in base64
FRAME_BYTES: Final = MESSAGE_BYTES + MIB  # the longest accepted frame: a result and its separators

HEADER: Final = struct.Struct(">16scI")
NONCE_BYTES: Final = 16
NO_NONCE: Final = bytes(NONCE_BYTES)  # for the READY frame, which precedes any message
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
    """Raised if foreign code exceeded a limit, its process died, or it is not allowed to run."""

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
    """Returns the error for stopped foreign code, with a message that merchants can act on."""
    return SandboxStopped(code, STOP_MESSAGES[code])


def compact(value: object) -> bytes:
    """Encodes a value as ASCII JSON without line breaks."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


def frame(nonce: bytes, kind: bytes, body: bytes = b"") -> bytes:
    """Encodes a frame. Raises ValueError for a body with a line break, which our JSON never has."""
    if b"\n" in body:
        raise ValueError("a line break in a frame")
    return HEADER.pack(nonce, kind, len(body)) + body
