"""The process that runs foreign code: limits first, then one message after another (safety 8).

Started as `python -I -S child.py <kind> <folder>…` with an empty environment: pipes, no secret, no file.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

Operation = Callable[[dict[str, Any], str], Iterator[str]]


def main(kind: str, folders: list[str]) -> NoReturn:
    """Loads the engine of `kind`, closes the door, says which walls stand, and serves."""
    sys.path[:0] = folders
    os.environ["TZ"] = "UTC0"
    time.tzset()
    from steward.confined import walls
    from steward.confined.protocol import line

    network = walls.leave_network()
    walls.limit()
    operations = _operations(kind)
    walled = walls.close_door()
    _write(line({"ready": True, "network": network, "calls": walled}))
    serve(operations)


def _operations(kind: str) -> dict[str, Operation]:
    if kind == "liquid":
        from steward.confined.liquid_text import LiquidText

        return LiquidText().operations
    from pathlib import Path

    from steward.confined.javascript import JavaScript
    from steward.confined.zones import Zones

    places = [Path(folder) / "tzdata" for folder in sys.path]
    return JavaScript(Zones(next(place for place in places if (place / "zones").exists()))).operations


def serve(operations: dict[str, Operation]) -> NoReturn:
    """Two lines in, an answer out, until the pipe ends; nothing that happens here ends in a traceback."""
    from steward.confined.protocol import CRASHED, MEMORY, MESSAGE_BYTES, PROGRESS, WORDS, Stopped, line

    reader = _Lines()
    while True:
        asked, given = reader.next(), reader.next()
        try:
            request = json.loads(asked)
            parts: list[str] = []
            size = 0
            for part in operations[request["op"]](request, given.decode()):
                parts.append(part)
                size += len(part)
                if size > MESSAGE_BYTES:
                    raise Stopped(MEMORY, WORDS[MEMORY])
                _write(PROGRESS)
            answer = line({"ok": True, "cpu": time.process_time()}) + ("[" + ",".join(parts) + "]\n").encode()
        except Stopped as end:
            answer = line({"ok": False, "code": end.code, "message": end.message}) + b"null\n"
        except MemoryError:
            answer = line({"ok": False, "code": MEMORY, "message": WORDS[MEMORY]}) + b"null\n"
        except Exception:  # a fault of ours must not look into files that are closed to it
            answer = line({"ok": False, "code": CRASHED, "message": WORDS[CRASHED]}) + b"null\n"
        _write(answer)


class _Lines:
    """Lines of the first descriptor."""

    def __init__(self) -> None:
        self._held = b""

    def next(self) -> bytes:
        """The next line; the process ends where the pipe does."""
        parts = [self._held]
        while b"\n" not in parts[-1]:
            part = os.read(0, 1 << 20)
            if not part:
                os._exit(0)
            parts.append(part)
        line, _, self._held = b"".join(parts).partition(b"\n")
        return line


def _write(answer: bytes) -> None:
    while answer:
        answer = answer[os.write(1, answer) :]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
