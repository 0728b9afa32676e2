"""Worker processes: their identity, and recovery of the runs of dead ones."""

import os
import socket
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from steward.database.engine.base import Engine, Tx
from steward.database.runs import fairness, transitions, workers
from steward.database.runs.workers import HeldRun
from steward.model.ids import WorkerId


def process_name() -> str:
    """Returns host, process id and process start, so that a restart on this host knows which workers are
    gone.
    """
    return f"{socket.gethostname()}|{os.getpid()}|{_started(os.getpid())}"


def _started(pid: int) -> str:
    """Returns when a process started, as the system counts; empty when there is no such process."""
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
    """Returns whether the worker ran on this host and its process no longer runs."""
    host, pid, started = name.split("|")
    return host == socket.gethostname() and _started(int(pid)) != started


async def expire_own_host(tx: Tx) -> int:
    """Ends the leases of this host's workers whose process has ended, so that a restart need not wait.

    Returns how many.
    """
    gone = [worker for worker in await workers.others(tx, None) if is_gone(worker.name)]
    for worker in gone:
        await workers.expire_now(tx, worker.id)
    return len(gone)


async def recover(engine: Engine, now: datetime, own_id: WorkerId) -> int:
    """Declares workers with an expired lease dead and frees their runs; returns how many runs."""
    freed = 0
    for worker in await engine.read(now, partial(workers.expired, own_id=own_id)):
        freed += await engine.write(now, partial(_take_over, worker=worker))
    return freed


async def _take_over(tx: Tx, *, worker: WorkerId) -> int:
    if not await workers.declare_dead(tx, worker):
        return 0
    return await free_runs(tx, worker, lost=True)


async def free_runs(tx: Tx, worker: WorkerId, *, lost: bool) -> int:
    """Makes a worker's runs ready for others; `lost` ones use up an attempt."""
    return await free(tx, worker, held=await workers.runs_of(tx, worker), lost=lost)


async def free(
    tx: Tx, worker: WorkerId, *, held: Sequence[HeldRun], lost: bool, pause: timedelta | None = None
) -> int:
    """Makes the runs of `held` that the worker still holds under the same lease ready; returns how many.

    With `pause` they sleep for that time first.
    """
    if not held:
        return 0
    await tx.set_tenant({held_run.org for held_run in held})
    vt = await fairness.present(tx)
    freed = 0
    for held_run in held:
        freed += await transitions.requeue(
            tx,
            held_run.org,
            held_run.id,
            epoch=held_run.epoch,
            worker=worker,
            vt=vt,
            lost=lost,
            pause=pause,
        )
    return freed
