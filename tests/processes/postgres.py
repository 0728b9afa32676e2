"""Starts PostgreSQL servers that tests kill, restart and fail over to a streaming standby."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from tests.postgres_server import (
    NoPostgres,
    Server,
    come_up,
    find_programs,
    make_place,
    pid_of,
    run_program,
    start,
    stop,
)
from tests.processes.running import CLOCK

USER = "steward"
# As the servers of other tests, but with a log to stream. Without fsync the system still holds what a killed
# process wrote.
OPTIONS = (
    "-c fsync=off -c max_connections=100 -c shared_buffers=32MB -c log_min_messages=warning "
    "-c wal_level=replica -c max_wal_senders=5 -c hot_standby=on -c listen_addresses=127.0.0.1 "
    "-c unix_socket_directories= -c wal_receiver_timeout=5s -c wal_retrieve_retry_interval=200ms"
)
SYNCHRONOUS = " -c synchronous_standby_names=*"
# Each commit waits for 100 ms before it is flushed to disk.
SLOW = " -c fsync=on -c commit_delay=100000 -c commit_siblings=0"
LONGEST = 30.0


def _programs() -> Path:
    path = find_programs()
    if path is None:
        raise NoPostgres("PostgreSQL's server programs were not found; `make test` installs them.")
    return path


def start_primary(*, options: str = "") -> Server:
    """Starts a server that a standby can stream from."""
    return start(starter=os.getpid(), options=OPTIONS + options)


def follow(primary: Server) -> Server:
    """Starts a standby that streams from `primary`."""
    return _come_up(back_up(primary, "-R"), primary)


def back_up(primary: Server, *more: str) -> Path:
    """Makes a base backup of `primary` and returns its folder, which holds it as `cluster`."""
    folder = make_place(os.getpid(), primary.password)
    source = primary.url("postgres")
    copy: list[str | Path] = [_programs() / "pg_basebackup", "-D", folder / "cluster", "-d", source]
    run_program([*copy, *more, "-X", "stream", "-c", "fast", "--no-sync"], folder=folder)
    return folder


def restore(backup: Path, primary: Server, *, to: str) -> Server:
    """Stops `primary` and starts the backup, which replays the primary's log up to the restore point `to`."""
    programs, log = _programs(), Path(primary.folder) / "cluster/pg_wal"
    stopping: list[str | Path] = [programs / "pg_ctl", "stop", "-w", "-m", "fast", "-D", log.parent]
    run_program(stopping, folder=Path(primary.folder))
    (backup / "cluster/recovery.signal").touch()
    goal = f" -c recovery_target_name={to} -c recovery_target_action=promote"
    return _come_up(backup, primary, f"{goal} -c restore_command='cp {log}/%f %p'")


def _come_up(folder: Path, primary: Server, options: str = "") -> Server:
    port = come_up(_programs(), folder, OPTIONS + options)
    return Server(port, primary.password, str(folder), pid_of(folder / "cluster"))


def freeze(server: Server) -> None:
    """Stops every process of the server like a paused virtual machine, whose kernel still answers."""
    postmaster = pid_of(Path(server.folder) / "cluster")
    _stop(postmaster)  # first, so that it starts no more children
    _stop(*_children(postmaster))


def thaw(server: Server) -> None:
    """Continues the server's processes."""
    postmaster = pid_of(Path(server.folder) / "cluster")
    _signal(signal.SIGCONT, postmaster, *_children(postmaster))


def kill(server: Server) -> None:
    """Kills every process of the server at once, like a machine that loses its power.

    A child that outlives the postmaster may still answer a query, so all of them are killed.
    """
    freeze(server)
    postmaster = pid_of(Path(server.folder) / "cluster")
    _signal(signal.SIGKILL, *_children(postmaster), postmaster)


def _stop(*pids: int) -> None:
    """Stops processes, and returns once the system says that they are stopped.

    That may be after the signal.
    """
    _signal(signal.SIGSTOP, *pids)
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "TZX":
                os.sched_yield()


def _children(postmaster: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [
            int(pid) for pid in Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        ]
    return []


def _signal(number: signal.Signals, *pids: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            if pid:  # 0 would mean the tests' own process group
                os.kill(pid, number)


async def start_again(server: Server, *, synchronous: bool = False) -> None:
    """Starts the killed server at its port and waits until it has recovered."""
    options = f"{OPTIONS}{SYNCHRONOUS if synchronous else ''} -p {server.port}"
    folder = Path(server.folder)
    command: list[str | Path] = [_programs() / "pg_ctl", "start", "-w", "-t", "60", "-D", folder / "cluster"]
    until = CLOCK.monotonic() + LONGEST
    while True:  # the killed server's children may still hold its memory
        try:
            await asyncio.to_thread(run_program, [*command, "-o", options], folder=folder)
        except NoPostgres:
            if CLOCK.monotonic() > until:
                raise
            await CLOCK.sleep(0.1)
        else:
            return


def promote(standby: Server) -> None:
    """Promotes the standby, which then accepts writes."""
    folder = Path(standby.folder)
    run_program([_programs() / "pg_ctl", "promote", "-w", "-D", folder / "cluster"], folder=folder)


def remove(*servers: Server) -> None:
    """Stops the servers and removes their folders."""
    for server in servers:
        stop(Path(server.folder))
