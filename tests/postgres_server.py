"""A throw-away PostgreSQL for one test session: found or installed, started once, stopped by its pid.

`python -m tests.postgres_server` finds the server's programs or installs them (make test calls it). What is
in a database, and how it is migrated, is left to conftest and the store.
"""

import fcntl
import json
import os
import platform
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.processes.ports import free_port

PROGRAMS = ("initdb", "pg_ctl", "postgres")
OLDEST = 14
USER = "steward"
_PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/usr/libexec/postgresql*",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)
_PREFIX = "steward-tests-"
_MEMORY_BYTES = 4 << 30  # of databases and files that a session keeps at a time, several times over
# What is safe to lose is not waited for. Autovacuum is off: it changes statistics while a database is handed
# on (docs/decisions/0283-tests-hand-on-warm-databases.md). Everything else is as in production.
_SERVER_OPTIONS = (
    "-c fsync=off -c full_page_writes=off -c wal_level=minimal -c max_wal_senders=0 -c max_connections=300 "
    "-c shared_buffers=64MB -c max_wal_size=256MB -c autovacuum=off -c log_min_messages=warning "
    "-c listen_addresses=127.0.0.1 -c unix_socket_directories="
)


class NoPostgres(Exception):
    """No usable PostgreSQL server is on this machine, and none can be installed; the message says why."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running cluster: where it listens, its superuser's password, its folder and its process."""

    port: int
    password: str
    folder: str
    pid: int

    def url(self, database: str) -> str:
        """The address of one of its databases."""
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"


def _version(folder: Path) -> int:
    """The major version of the server in `folder`; 0 when it is not whole."""
    if not all(os.access(folder / name, os.X_OK) for name in PROGRAMS):
        return 0
    completed = subprocess.run(
        [folder / "postgres", "--version"], capture_output=True, text=True, check=False
    )
    match = re.search(r"(\d+)", completed.stdout)
    return int(match[1]) if match else 0


def _candidates() -> Iterator[Path]:
    """Folders that may hold the server's programs, the likeliest first."""
    if on_path := shutil.which("initdb"):
        yield Path(on_path).resolve().parent
    for location in _PLACES:
        yield from Path("/").glob(location.lstrip("/"))
    if which := shutil.which("pg_config"):
        completed = subprocess.run([which, "--bindir"], capture_output=True, text=True, check=False)
        if completed.returncode == 0:
            yield Path(completed.stdout.strip())


def find_programs() -> Path | None:
    """The folder of the newest PostgreSQL server on this machine, or None."""
    versions = {folder: _version(folder) for folder in dict.fromkeys(_candidates())}
    newest = max(versions, key=lambda folder: versions[folder], default=None)
    return newest if newest is not None and versions[newest] >= OLDEST else None


def _install_commands() -> list[list[str]]:
    """What installs a server here: the system's package manager; empty when there is none to use."""
    if shutil.which("brew"):
        return [["brew", "install", "--quiet", "postgresql@17"]]
    commands = {
        "apt-get": [["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "postgresql"]],
        "dnf": [["dnf", "install", "-y", "-q", "postgresql-server"]],
        "apk": [["apk", "add", "--quiet", "postgresql"]],
    }
    for manager, steps in commands.items():
        if shutil.which(manager):
            if os.geteuid() == 0:
                return steps
            if (
                shutil.which("sudo")
                and subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode == 0
            ):
                return [["sudo", "-n", *step] for step in steps]
    return []


def install_programs() -> Path:
    """Finds the server's programs, installing them when absent. Raises NoPostgres in plain words."""
    if path := find_programs():
        return path
    words = (
        f"The tests need PostgreSQL {OLDEST} or newer ({', '.join(PROGRAMS)}) and found none on this "
        f"{platform.system()} machine"
    )
    steps = _install_commands()
    if not steps:
        raise NoPostgres(
            f"{words}; it cannot be installed without root or a password-free sudo and apt-get, dnf, apk or "
            "brew. Install the PostgreSQL server package and start again; no running service is needed."
        )
    for step in steps:
        print("Installing PostgreSQL for the tests:", " ".join(step), flush=True)
        environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        if subprocess.run(step, env=environ, stdout=subprocess.DEVNULL, check=False).returncode != 0:
            raise NoPostgres(f"{words}; `{' '.join(step)}` failed, see above.")
    if path := find_programs():
        return path
    raise NoPostgres(f"{words}, also after installing it.")


def _owner() -> pwd.struct_passwd | None:
    """Whom the server runs as when we are root, which PostgreSQL refuses; None: as ourselves."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise NoPostgres("PostgreSQL does not run as root, and there is neither a user postgres nor nobody.")


def run_program(command: list[str | Path], *, folder: Path) -> None:
    """Runs one of the server's programs as its owner, in its folder. Raises NoPostgres with its words."""
    owner = _owner()
    # The output goes to a file, not a pipe: the server inherits it and would keep a pipe open.
    with (folder / "log.txt").open("a+") as log:
        done = subprocess.run(
            command,
            cwd=folder,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            user=owner.pw_uid if owner else None,
            group=owner.pw_gid if owner else None,
            extra_groups=[] if owner else None,
            check=False,
        )
    if done.returncode != 0:
        tail = (folder / "log.txt").read_text(errors="replace")[-2000:]
        raise NoPostgres(f"{Path(command[0]).name} failed:\n{tail}")


def temporary_folder() -> str:
    """The folder for what a session throws away: in memory where there is room, else the system's."""
    memory = Path("/dev/shm")
    if "TMPDIR" in os.environ or not (memory.is_dir() and os.access(memory, os.W_OK)):
        return tempfile.gettempdir()
    return str(memory) if shutil.disk_usage(memory).free >= _MEMORY_BYTES else tempfile.gettempdir()


def _temporary_place(*, on_disk: bool) -> str:
    """A folder for temporary folders that the server's owner can reach too."""
    folders = (tempfile.gettempdir(), "/tmp", "/var/tmp")
    for location in folders if on_disk else (temporary_folder(), *folders):
        path = Path(location).resolve()
        if _owner() is None or all(step.stat().st_mode & 0o001 for step in (path, *path.parents)):
            return str(path)
    raise NoPostgres("No temporary folder can be reached by an unprivileged user.")


def make_place(starter: int, password: str, *, on_disk: bool = False) -> Path:
    """A folder of the server's owner for one cluster, which goes when `starter` has ended."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_temporary_place(on_disk=on_disk)))
    (folder / "starter").write_text(str(starter))
    (folder / "password").write_text(password)
    if owner := _owner():
        for path in (folder, folder / "password"):
            os.chown(path, owner.pw_uid, owner.pw_gid)
    return folder


def start(*, starter: int, options: str = _SERVER_OPTIONS, on_disk: bool = False) -> Server:
    """Makes and starts a cluster; `starter` is the process whose end makes it a leftover.

    Its files are in memory where there is room, unless they are to be `on_disk`. Raises NoPostgres when the
    server does not come up.
    """
    programs = find_programs()
    if programs is None:
        raise NoPostgres("PostgreSQL's server programs were not found; `make test` installs them.")
    password = secrets.token_hex(16)
    folder = make_place(starter, password, on_disk=on_disk)
    cluster = folder / "cluster"
    try:
        # Checking a SCRAM password would take a third of what a connection costs the server.
        run_program(
            [programs / "initdb", "--no-sync", "--encoding=UTF8", "--locale=C", f"--username={USER}",
             "--auth=md5", f"--pwfile={folder / 'password'}", f"--pgdata={cluster}"],
            folder=folder,
        )  # fmt: skip
        port = come_up(programs, folder, options)
    except NoPostgres:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Server(port, password, str(folder), pid_of(cluster))


def come_up(programs: Path, folder: Path, server_options: str) -> int:
    """Starts the server on a free port, once more should somebody take the port meanwhile."""
    for attempt in (1, 2, 3):
        port = free_port()
        options = f"{server_options} -p {port}"
        try:
            run_program(
                [programs / "pg_ctl", "start", "-w", "-t", "60", "-D", folder / "cluster", "-o", options],
                folder=folder,
            )
        except NoPostgres:
            if attempt == 3:
                raise
        else:
            break
    return port


def pid_of(cluster: Path) -> int:
    """The server's process according to its own lock file; 0 when there is none."""
    lock = cluster / "postmaster.pid"
    return int(lock.read_text().split()[0]) if lock.exists() else 0


def stop(folder: Path) -> None:
    """Ends the cluster in `folder` by its pid and removes the folder; a second call finds nothing to do."""
    programs = find_programs()
    if programs is not None and pid_of(folder / "cluster"):
        try:
            run_program(
                [programs / "pg_ctl", "stop", "-w", "-m", "immediate", "-D", folder / "cluster"],
                folder=folder,
            )
        except NoPostgres:
            # pg_ctl says so too when the process is gone already; a lock file that lies is left to the end.
            if pid := pid_of(folder / "cluster"):
                _kill(pid)
    shutil.rmtree(folder, ignore_errors=True)


def _kill(pid: int) -> None:
    """Ends a server that did not listen to pg_ctl, if the pid is still a PostgreSQL."""
    arguments = ["ps", "-o", "comm=", "-p", str(pid)]
    if pid and "postgres" in subprocess.run(arguments, capture_output=True, text=True, check=False).stdout:
        os.kill(pid, signal.SIGQUIT)


def _alive(pid: int) -> bool:
    """Whether a process of this number exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def remove_leftovers() -> None:
    """Stops the clusters of test sessions that ended without doing it themselves."""
    owner = _owner()
    parents = {_temporary_place(on_disk=on_disk) for on_disk in (False, True)}
    for folder in (path for parent in parents for path in Path(parent).glob(f"{_PREFIX}*")):
        note = folder / "starter"
        try:
            ours = folder.stat().st_uid == (owner.pw_uid if owner else os.geteuid())
            if ours and note.exists() and not _alive(int(note.read_text() or "0")):
                stop(folder)
        except (OSError, ValueError):
            continue  # another session is removing it at this moment


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the file lock `path`; the test workers take turns."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def shared_server(session: Path, *, starter: int, prepare: Callable[[Server], None]) -> Server:
    """The one cluster of the test session whose folder is `session`, started and prepared by who asks first.

    Raises NoPostgres; later askers get the same words without trying again.
    """
    note = session / "postgres.json"
    with locked(session / "postgres.lock"):
        if note.exists():
            record = json.loads(note.read_text())
            if "refused" in record:
                raise NoPostgres(record["refused"])
            return Server(**record)
        remove_leftovers()
        try:
            server = start(starter=starter)
        except NoPostgres as refused:
            note.write_text(json.dumps({"refused": str(refused)}))
            raise
        try:
            prepare(server)
        except BaseException:
            stop(Path(server.folder))
            raise
        note.write_text(json.dumps(asdict(server)))
        return server


def stop_shared(session: Path) -> None:
    """Stops the session's cluster if one was started."""
    note = session / "postgres.json"
    if note.exists() and "folder" in (record := json.loads(note.read_text())):
        stop(Path(record["folder"]))


if __name__ == "__main__":
    try:
        install_programs()
    except NoPostgres as refused:
        sys.exit(str(refused))
