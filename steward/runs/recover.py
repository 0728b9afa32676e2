"""Workers: their lease, and the runs of those that died (engine 5); leaves the loop to worker.py."""

import os
import socket
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from steward.database.engine.base import Engine, Tx
from steward.database.runs import fairness as fair
from steward.database.runs import transitions as run_queue
from steward.database.runs import workers
from steward.database.runs.workers import HeldRun
from steward.model.ids import WorkerId


def process_name() -> str:
    """Host, process id and its start, so that a restart on this host knows who is gone."""
    return f"{socket.gethostname()}|{os.getpid()}|{_started(os.getpid())}"


def _started(pid: int) -> str:
    """When a process started, as the system counts; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return _without_proc(pid)


def _without_proc(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "running"
    return "running"


def is_gone(name: str) -> bool:
    """Whether a worker's name is of this host and its process no longer runs."""
    host, pid, started = name.split("|")
    return host == socket.gethostname() and _started(int(pid)) != started


async def expire_own_host(tx: Tx) -> int:
    """Ends the leases of this host's workers whose process is gone: a restart need not wait; how many."""
    gone = [worker for worker in await workers.others(tx, None) if is_gone(worker.name)]
    for worker in gone:
        await workers.expire_now(tx, worker.id)
    return len(gone)


async def recover(engine: Engine, now: datetime, own: WorkerId) -> int:
    """Declares workers with an ended lease dead and frees their runs, one transaction each; how many runs."""
    freed = 0
    for worker in await engine.read(now, partial(workers.expired, own=own)):
        freed += await engine.write(now, partial(_take_over, worker=worker))
    return freed


async def _take_over(tx: Tx, *, worker: WorkerId) -> int:
    if not await workers.declare_dead(tx, worker):
        return 0
    return await free_runs(tx, worker, lost=True)


async def free_runs(tx: Tx, worker: WorkerId, *, lost: bool) -> int:
    """Makes a worker's runs ready for others; `lost` ones have used up an attempt."""
    return await free(tx, worker, held=await workers.runs_of(tx, worker), lost=lost)


async def free(tx: Tx, worker: WorkerId, *, held: Sequence[HeldRun], lost: bool) -> int:
    """Makes those of `held` that the worker still has under the same lease ready for others; how many."""
    await tx.set_tenant({one.org for one in held})
    vt = await fair.present(tx)
    freed = 0
    for one in held:
        freed += await run_queue.requeue(
            tx, one.org, one.id, epoch=one.epoch, worker=worker, vt=vt, lost=lost
        )
    return freed
