"""A server process of the HTTP measurements: the service, or a fixed response of the bare framework.

`python -m bench.served HANDLE bare|URL FOLDER`: HANDLE is the number of a listening socket it was given.
Both are served by the same server with the same settings, and both tell the CPU time they have used.
"""

import asyncio
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvloop

from bench.service import wire
from steward.cli.connection_limits import ConnectionLimits
from steward.cli.serve import bounded, freeze_loaded_objects
from steward.clock import SystemClock

USED = "/used"
BARE = b'{"success":true,"contract_version":1,"data":{"run":{"id":"01JD3Z0QH8N2Y5V7W9X1C4B6A8"}}}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(BARE)).encode())]


async def bare(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
    """The least a response costs here: one fixed body, no caller, no database."""
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BARE})


def reporting_cpu(application: Any) -> Any:
    """`application`, and under one more path the seconds of CPU this process has used."""

    async def with_cpu_time(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        if scope["path"] != USED:
            await application(scope, receive, send)
            return
        body = f"{time.process_time():.6f}".encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return with_cpu_time


async def main(handle: int, what: str, folder: str) -> None:
    """Serves until the process is ended."""
    listening = socket.socket(fileno=handle)
    if what == "bare":
        await bounded(reporting_cpu(bare), ConnectionLimits()).serve(sockets=[listening])
        return
    bench = await wire(what, Path(folder), clock=SystemClock())
    freeze_loaded_objects()
    await bounded(reporting_cpu(bench.service.request_handler), ConnectionLimits()).serve(sockets=[listening])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
