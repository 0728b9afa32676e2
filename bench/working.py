"""One more worker process over the database of a measurement: `python -m bench.working URL FOLDER`.

Says so when it works, and goes on until its input ends.
"""

import asyncio
import sys
from pathlib import Path

import uvloop

from bench.service import wire
from steward import periodic_tasks, worker
from steward.clock import SystemClock


async def main(url: str, folder: str) -> None:
    """Works beside others, as `steward worker` does."""
    bench = await wire(url, Path(folder), clock=SystemClock())
    bench.service.share_hints(listens=True)
    own_worker = await bench.worker()
    stop = asyncio.Event()
    going = asyncio.create_task(worker.run(own_worker, periodic_tasks.of_worker(own_worker), stop))
    print("working", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    stop.set()
    await going
    await bench.service.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1], sys.argv[2]))
