"""Worker processes: their identity, and recovery of the runs of dead ones."""

import os
import socket
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from steward.database.engine.base import Engine, Tx
from steward.database.runs import fairness, transitions, workers
from steward.database.runs.workers import LeasedRunRef
from steward.model.ids import WorkerId

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def process_name() -> str:
    """Returns host, id, start time and PID namespace of this process, by which `is_gone` recognizes it."""
    pid = os.getpid()
    return f"{socket.gethostname()}|{pid}|{_start_time(pid)}|{_pid_namespace()}"


def _pid_namespace() -> str:
    """Returns the PID namespace of this process, with the boot in which its number is unique.

    A process sees others by their ids only within its own. Empty on a system without namespaces.
    """
    try:
        return _BOOT_ID.read_text().strip() + " " + os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    """Returns when a process started, in clock ticks since boot; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return _without_proc(pid)


def _without_proc(pid: int) -> str:
    """Returns a fixed text for a running process on a system without /proc, where a reused id looks alive."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "running"
    return "running"


def is_gone(name: str) -> bool:
    """Returns whether a process named by `process_name` has ended.

    Only a process of the same host and PID namespace can tell: containers may share the name of their host.
    Of any other process, and of a name in another form, it returns False.
    """
    match name.split("|"):
        case [host, pid, started, namespace]:
            is_visible = host == socket.gethostname() and namespace == _pid_namespace()
            return is_visible and _start_time(int(pid)) != started
    return False


async def expire_own_host(tx: Tx) -> int:
    """Ends the leases of workers whose process is known to have ended, so that a restart need not wait.

    On SQLite this is every other process, because one process at a time serves a database file
    (docs/design/storage.md#sqlite); on PostgreSQL see `is_gone`. Returns how many leases have ended.
    """
    own_name = process_name()
    gone = [
        worker
        for worker in await workers.others(tx, None)
        if (worker.name != own_name if tx.dialect == "sqlite" else is_gone(worker.name))
    ]
    for worker in gone:
        await workers.expire_now(tx, worker.id)
    return len(gone)


async def recover(engine: Engine, now: datetime, own_id: WorkerId) -> int:
    """Declares workers with an expired lease dead and requeues their runs; returns how many runs."""
    released = 0
    for worker in await engine.read(now, partial(workers.expired, own_id=own_id)):
        released += await engine.write(now, partial(_requeue_runs_of, worker=worker))
    return released


async def _requeue_runs_of(tx: Tx, *, worker: WorkerId) -> int:
    if not await workers.declare_dead(tx, worker):
        return 0
    return await release_all(tx, worker, lost=True)


async def release_all(tx: Tx, worker: WorkerId, *, lost: bool) -> int:
    """Makes all runs of a worker ready for others, as `release` does; returns how many."""
    return await release(tx, worker, leased_runs=await workers.runs_of(tx, worker), lost=lost)


async def release(
    tx: Tx,
    worker: WorkerId,
    *,
    leased_runs: Sequence[LeasedRunRef],
    lost: bool,
    pause: timedelta | None = None,
) -> int:
    """Makes those of `leased_runs` that are still under the same lease of the worker ready; returns how many.

    With `lost`, because a worker died or a write failed, each run uses up one of its attempts. With
    `pause` the runs sleep for that time first.
    """
    if not leased_runs:
        return 0
    await tx.set_tenant({leased_run.org for leased_run in leased_runs})
    vt = await fairness.current_stamp(tx)
    released = 0
    for leased_run in leased_runs:
        released += await transitions.requeue(
            tx,
            leased_run.org,
            leased_run.id,
            epoch=leased_run.epoch,
            worker=worker,
            vt=vt,
            lost=lost,
            pause=pause,
        )
    return released
