"""The process that runs foreign code: it sets its limits, then serves messages one by one.

It is started as `python -I -S child.py <kind> <folder>…` with an empty environment: it has two pipes, no
secrets and no files.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

Operation = Callable[[dict[str, Any], str], Iterator[object]]

_SURROGATES = re.compile("[\ud800-\udfff]")
# Maximum nesting of values; the parent, which parses the results, has a deeper stack.
_DEEPEST = 700


def main(kind: str, folders: list[str]) -> NoReturn:
    """Loads the engine of `kind`, filters system calls, reports its isolation and serves messages."""
    sys.path[:0] = folders
    os.environ["TZ"] = "UTC0"
    time.tzset()
    from steward.sandbox import limits
    from steward.sandbox.protocol import (
        FILE_MESSAGE_BYTES,
        MESSAGE_BYTES,
        NO_NONCE,
        READY,
        compact,
        frame,
    )

    limits.set_resource_limits()
    operations = _operations(kind)
    result_bytes = FILE_MESSAGE_BYTES if kind == "files" else MESSAGE_BYTES
    network, unprivileged = limits.leave_network_and_root()
    system_calls = limits.filter_system_calls()
    _write(
        frame(
            NO_NONCE,
            READY,
            compact({"network": network, "system_calls": system_calls, "unprivileged": unprivileged}),
        )
    )
    serve(operations, result_bytes)


def _operations(kind: str) -> dict[str, Operation]:
    if kind == "bare":
        return {}
    if kind == "liquid":
        from steward.sandbox.liquid_text import LiquidText

        return LiquidText().operations
    if kind == "files":
        from steward.sandbox.files.operations import FileFormats

        operations = FileFormats().operations
        # A file may name a codec that is not loaded; it then counts as unknown instead of opening its module.
        sys.meta_path.clear()
        return operations
    from pathlib import Path

    from steward.sandbox.javascript import JavaScript
    from steward.sandbox.zones import Zones

    sys.setrecursionlimit(_DEEPEST)
    folders = [Path(folder) / "tzdata" for folder in sys.path]
    return JavaScript(Zones(next(folder for folder in folders if (folder / "zones").exists()))).operations


def serve(operations: dict[str, Operation], result_bytes: int) -> NoReturn:
    """Replies to each message until the pipe ends; reports failures as results instead of raising them."""
    from steward.sandbox.protocol import CRASHED, MEMORY, RESULT, STOPPED, SandboxStopped, frame

    reader = _Frames()
    while True:
        nonce, request = reader.next()
        _, data = reader.next()
        try:
            result = frame(nonce, RESULT, _encoded_result(operations, nonce, request, data, result_bytes))
        except SandboxStopped as end:
            result = frame(nonce, STOPPED, end.code.encode())
        except MemoryError:
            result = frame(nonce, STOPPED, MEMORY.encode())
        except Exception:  # a traceback of our own code must not try to read source files
            result = frame(nonce, STOPPED, CRASHED.encode())
        _write(result)


def _encoded_result(
    operations: dict[str, Operation],
    nonce: bytes,
    encoded_request: bytes,
    payload: bytes,
    result_bytes: int,
) -> bytes:
    """Encodes a result's parts as one JSON list and sends a PROGRESS frame for each.

    Raises SandboxStopped.
    """
    from steward.sandbox.protocol import MEMORY, PROGRESS, frame, stopped

    request = json.loads(encoded_request)
    parts: list[bytes] = []
    size = 0
    for part in operations[request["op"]](request, payload.decode()):
        parts.append(_encoded(part))
        size += len(parts[-1])
        if size > result_bytes:
            raise stopped(MEMORY)
        _write(frame(nonce, PROGRESS))
    return b"[" + b",".join(parts) + b"]"


def _encoded(value: object) -> bytes:
    """Encodes a value as JSON in UTF-8, with lone surrogates replaced by U+FFFD."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text).encode()


class _Frames:
    """Reads frames from standard input."""

    def __init__(self) -> None:
        self._buffer = b""

    def next(self) -> tuple[bytes, bytes]:
        """Returns the next frame's nonce and body; ends the process when the pipe ends."""
        from steward.sandbox.protocol import HEADER

        nonce, _, length = HEADER.unpack(self._exactly(HEADER.size))
        return nonce, self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        parts = [self._buffer]
        size = len(self._buffer)
        while size < count:
            part = os.read(0, 1 << 20)
            if not part:
                os._exit(0)
            parts.append(part)
            size += len(part)
        received = b"".join(parts)
        self._buffer = received[count:]
        return received[:count]


def _write(result: bytes) -> None:
    while result:
        result = result[os.write(1, result) :]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
