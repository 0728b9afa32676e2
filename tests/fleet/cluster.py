"""Three database hosts as network namespaces, with the PostgreSQL, Patroni and etcd of deploy/patroni.

Needs root. Everything lies under one folder, and ends with its namespaces.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import struct
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml  # type: ignore[import-untyped]

from steward.database.engine.hosts import UNREACHABLE, Hosts
from tests.fleet.commands import run
from tests.fleet.disks import Disk, left_disks
from tests.postgres_server import find_programs
from tests.processes.running import CLOCK, eventually

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "deploy/patroni/patroni.yml"
ETCD_SAMPLE = ROOT / "deploy/patroni/etcd.yml"
NETWORK = "10.77.0"
BRIDGE = "stw-fleet"
NOBODY = 65534
FOLDER = "steward-fleet-"  # how the name of a bed's folder begins
STARTS_WITHIN = 120.0
WHOLE_WITHIN = 180.0


@dataclass(frozen=True)
class Programs:
    """Where programs are: etcd, the folders with Patroni and what it imports, and `host_clock.c` compiled."""

    etcd: Path
    patroni: Sequence[Path]
    clock: Path | None = None  # preloaded where clocks are to be off


@dataclass
class Host:
    """One database host: a namespace with an address, and the processes in it."""

    number: int
    folder: Path
    logs: list[Any] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name, and that of its namespace."""
        return f"stw-db{self.number}"

    @property
    def address(self) -> str:
        """Its address in the bridge's network."""
        return f"{NETWORK}.{self.number}"

    @property
    def disk(self) -> Disk:
        """The disk that holds the data folder; mounted where disks are to fail."""
        return Disk(self.folder / "disk")

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.disk.folder / "data"

    @property
    def clock(self) -> Path:
        """The file that says how far its clock is off."""
        return self.folder / "clock"

    def set_clock(self, ahead: float = 0.0, *, gains: float = 0.0) -> None:
        """Sets the host's clock off by seconds, and lets it gain seconds in each second from now on."""
        state = struct.pack("3q", int(ahead * 1e9), int(CLOCK.monotonic() * 1e9), int(gains * 1e6))
        with self.clock.open("r+b" if self.clock.exists() else "wb") as file:
            file.write(state)

    def make(self) -> None:
        """Makes the namespace and its cable to the bridge."""
        run(f"ip netns add {self.name}")
        run(f"ip link add v-{self.name} type veth peer name eth0 netns {self.name}")
        run(f"ip link set v-{self.name} master {BRIDGE} up")
        run(f"ip -n {self.name} addr add {self.address}/24 dev eth0")
        run(f"ip -n {self.name} link set eth0 up")
        run(f"ip -n {self.name} link set lo up")

    def start(
        self, command: Iterable[str | Path], log: str, environ: Mapping[str, str] | None = None
    ) -> None:
        """Starts a program on the host, unprivileged."""
        out = (self.folder / log).open("ab")
        self.logs.append(out)
        identity = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{self.name}", "setpriv", *identity, *map(str, command)],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C", **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )

    def processes(self) -> list[int]:
        """Every process on the host."""
        return [int(pid) for pid in run(f"ip netns pids {self.name}").split()]

    def signal(self, number: signal.Signals) -> None:
        """Signals every process on the host."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill_etcd(self) -> None:
        """Kills the host's member of etcd."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == "etcd":
                    os.kill(pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kills every process on the host, and returns when they have ended."""
        while self.processes():
            self.signal(signal.SIGKILL)

    def postmaster(self) -> int:
        """The server's first process."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def plug(self, state: str) -> None:
        """Plugs the cable in (`up`) or out (`down`)."""
        run(f"ip link set v-{self.name} {state}")

    async def health(self, of: str = "patroni") -> dict[str, Any]:
        """What Patroni says of the host, or of the `cluster`; nothing when it does not answer."""
        try:
            async with httpx.AsyncClient(timeout=2) as client:
                response: dict[str, Any] = (await client.get(f"http://{self.address}:8008/{of}")).json()
        except (httpx.HTTPError, ValueError):
            return {}
        return response


@dataclass
class Cluster:
    """The hosts, and how their programs are started."""

    hosts: list[Host]
    programs: Programs
    password: str
    is_synchronous: bool = True
    address: str = f"{NETWORK}.254"  # of the service and its clients

    @property
    def url(self) -> str:
        """The address that names all of them."""
        hosts = ",".join(f"{host.address}:5432" for host in self.hosts)
        return f"postgresql://postgres:{self.password}@{hosts}/postgres"

    def start(self, host: Host) -> None:
        """Starts etcd and Patroni on a host."""
        self.start_etcd(host)
        settings = host.folder / "patroni.yml"
        settings.write_text(yaml.safe_dump(self._settings(host)))
        os.chown(settings, NOBODY, NOBODY)
        # Debian's Python: one of root's own cannot be run by others.
        environ = {"PYTHONPATH": ":".join(map(str, self.programs.patroni))}
        if self.programs.clock is not None:  # PostgreSQL inherits it
            environ |= {"LD_PRELOAD": str(self.programs.clock), "HOST_CLOCK": str(host.clock)}
        host.start(["/usr/bin/python3", "-m", "patroni", settings], "patroni.log", environ)

    def start_etcd(self, host: Host) -> None:
        """Starts a host's member of etcd, with the data that it left."""
        members = ",".join(f"{other.name}=http://{other.address}:2380" for other in self.hosts)
        sample = yaml.safe_load(ETCD_SAMPLE.read_text("utf-8"))
        etcd = {
            **{name: sample[name] for name in ("heartbeat-interval", "election-timeout")},
            "name": host.name,
            "data-dir": host.folder / "etcd",
            "initial-cluster": members,
            "initial-advertise-peer-urls": f"http://{host.address}:2380",
            "listen-peer-urls": f"http://{host.address}:2380",
            "advertise-client-urls": f"http://{host.address}:2379",
            "listen-client-urls": f"http://{host.address}:2379",
            "unsafe-no-fsync": "true",  # of the bed: no power is cut here
        }
        host.start([self.programs.etcd, *(f"--{name}={value}" for name, value in etcd.items())], "etcd.log")

    def _settings(self, host: Host) -> dict[str, Any]:
        """The sample's settings with the addresses of the bed, which has no TLS, archive and watchdog."""
        settings: dict[str, Any] = yaml.safe_load(SAMPLE.read_text("utf-8"))
        programs = find_programs()
        assert programs is not None
        dcs = settings["bootstrap"]["dcs"]
        parameters = dcs["postgresql"]["parameters"]
        for name in [name for name in parameters if name.startswith("archive")]:
            del parameters[name]
        parameters |= {"shared_buffers": "32MB", "unix_socket_directories": "", "wal_keep_size": "64MB"}
        if not self.is_synchronous:
            dcs |= {"synchronous_mode": False, "synchronous_mode_strict": False}
        name, address = host.name, host.address
        settings |= {
            "name": name,
            "restapi": {"listen": f"{address}:8008", "connect_address": f"{address}:8008"},
            "etcd3": {"hosts": ",".join(f"{other.address}:2379" for other in self.hosts)},
            "watchdog": {"mode": "off"},
        }
        roles = {"replication": "replicator", "superuser": "postgres", "rewind": "rewind"}
        settings["postgresql"] = {
            "listen": f"{address}:5432",
            "connect_address": f"{address}:5432",
            "bin_dir": str(programs),
            "data_dir": str(host.data),
            "pgpass": str(host.folder / "pgpass"),
            "authentication": {
                purpose: {"username": role, "password": self.password} for purpose, role in roles.items()
            },
            "pg_hba": [f"host {kind} all {NETWORK}.0/24 scram-sha-256" for kind in ("all", "replication")],
        }
        return settings

    async def leader(self) -> Host | None:
        """The host that serves as primary; None while there is none."""
        for host in self.hosts:
            health = await host.health()
            if health.get("role") in ("primary", "master") and health.get("state") == "running":
                return host
        return None

    async def takes_connections(self) -> bool:
        """Returns whether the address that names all hosts leads to one that takes writes."""
        try:
            connection = await Hosts(self.url).connect(timeout=5)
        except UNREACHABLE:
            return False
        await connection.close()
        return True

    async def is_whole(self) -> bool:
        """Returns whether a primary has two streaming standbys, one of which may take over.

        That is one that Patroni has noted as synchronous, seconds after it is.
        """
        leader = await self.leader()
        if leader is None:
            return False
        standbys = (await leader.health()).get("replication", [])
        streaming = [standby for standby in standbys if standby["state"] == "streaming"]
        members = (await leader.health("cluster")).get("members", [])
        is_safe = any(member["role"] == "sync_standby" for member in members)
        return len(streaming) == len(self.hosts) - 1 and (is_safe or not self.is_synchronous)

    async def becomes_whole(self, within: float = WHOLE_WITHIN) -> None:
        """Waits until a primary has its standbys."""
        await eventually(self.is_whole, within=within)


def remove() -> None:
    """Ends what an earlier bed left: its processes, its namespaces, its bridge, its disks."""
    disks = list(left_disks(f"{tempfile.gettempdir()}/{FOLDER}"))
    for disk in disks:
        with contextlib.suppress(OSError):
            disk.go_on()
    for number in (1, 2, 3):
        host = Host(number, Path())
        with contextlib.suppress(RuntimeError):
            host.kill()
            run(f"ip netns del {host.name}")
        with contextlib.suppress(RuntimeError):
            run(f"ip link del v-{host.name}")
        with contextlib.suppress(RuntimeError):
            run(f"ip route del blackhole {host.address}/32")
    with contextlib.suppress(RuntimeError):
        run(f"ip link del {BRIDGE}")
    for disk in disks:
        disk.unmount()


@contextlib.asynccontextmanager
async def cluster(
    folder: Path, programs: Programs, *, is_synchronous: bool = True, has_disks: bool = False
) -> AsyncIterator[Cluster]:
    """Starts a cluster of three hosts, waits until it is whole, and removes it afterwards.

    With `has_disks` each data folder has a disk of its own.
    """
    remove()
    hosts = [Host(number, folder / f"db{number}") for number in (1, 2, 3)]
    new_cluster = Cluster(hosts, programs, secrets.token_hex(8), is_synchronous)
    run(f"ip link add {BRIDGE} type bridge")
    run(f"ip addr add {new_cluster.address}/24 dev {BRIDGE}")
    run(f"ip link set {BRIDGE} up")
    try:
        for host in hosts:
            shutil.rmtree(host.folder, ignore_errors=True)
            host.folder.mkdir(parents=True)
            host.set_clock()
            if has_disks:
                host.disk.make(NOBODY)
            else:
                host.disk.folder.mkdir()
                os.chown(host.disk.folder, NOBODY, NOBODY)
            os.chown(host.folder, NOBODY, NOBODY)
            host.make()
            new_cluster.start(host)
        await new_cluster.becomes_whole(STARTS_WITHIN)
        await eventually(new_cluster.takes_connections, within=STARTS_WITHIN)
        yield new_cluster
    finally:
        for host in hosts:
            for log in host.logs:
                log.close()
        await asyncio.to_thread(remove)
