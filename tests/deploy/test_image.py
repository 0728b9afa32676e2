"""Starts the container image as the compose files do: read-only, without capabilities, as user 10001.

`make image-test` builds the image on a base of Debian's packages and runs this file.
"""

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from steward.clock import SystemClock
from tests.processes.ports import free_port
from tests.processes.running import PASSWORD, eventually
from tests.source import ROOT

IMAGE = os.environ.get("IMAGE", "")
MAX_IMAGE_BYTES = 300_000_000
MAX_STOP_SECONDS = 90
PROFILE = ROOT / "deploy/container/seccomp.json"
WALLS = (
    *("--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp:size=64m", "--cap-drop", "all"),
    *("--security-opt", "no-new-privileges", "--security-opt", f"seccomp={PROFILE}"),
    # A machine that runs tests may not raise the limits that podman sets by default.
    *("--ulimit", "nofile=4096:4096", "--ulimit", "nproc=1024:1024", "--no-healthcheck"),
)
# Where buildah stored the image, such as `--storage-driver vfs`.
STORAGE = os.environ.get("IMAGE_FLAGS", "").split()
# Ways to start a container; a kernel without unified control groups needs the second.
RUNTIMES = (
    ("podman", *STORAGE),
    ("podman", *STORAGE, "--runtime", "runc", "--cgroup-manager", "cgroupfs"),
)

pytestmark = pytest.mark.skipif(not IMAGE, reason="needs an image: make image-test")


@cache
def podman() -> tuple[str, ...]:
    """Returns the command that starts a container here, or skips the test if none does."""
    if shutil.which("podman") is None:
        pytest.skip("SKIPPED LOUDLY: podman is not here")
    problems = ""
    for command in RUNTIMES:
        tried = subprocess.run(
            [*command, "run", "--rm", "--network", "none", *WALLS, IMAGE, "--help"],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,  # storage without layers copies the image
        )
        if tried.returncode == 0:
            return command
        problems += tried.stderr
    pytest.skip(f"SKIPPED LOUDLY: podman starts no container here: {problems[-300:]}")


def tried(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Runs podman and returns the result, whatever its exit code."""
    command = [*podman(), *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=300)


def run(*words: str, stdin: str = "") -> str:
    """Runs podman and returns what it printed; fails unless it exits with 0."""
    done = tried(*words, stdin=stdin)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Container:
    """Holds a container of the image on a volume, without a network unless it has the machine's."""

    def __init__(self, volume: str, *options: str) -> None:
        self.name = f"steward-test-{uuid.uuid4().hex[:8]}"
        self._options = (*WALLS, "-v", f"{volume}:/data", *options)

    def once(self, *words: str) -> str:
        """Runs one command in a new container and returns what it printed."""
        return run("run", "--rm", *self._options, IMAGE, *words)

    def start(self, *words: str) -> None:
        """Starts the image's command, or the given one."""
        run("run", "--detach", "--name", self.name, *self._options, IMAGE, *words)

    def python(self, program: str) -> Any:
        """Runs a program inside the container and returns the JSON that it prints."""
        return json.loads(run("exec", "-i", self.name, "python", "-", stdin=program))

    async def healthy(self) -> None:
        """Waits until the image's health check passes."""

        async def look() -> bool:
            return tried("exec", self.name, "steward", "doctor", "--quick", "--json").returncode == 0

        await eventually(look)

    def stop(self) -> float:
        """Stops the container by SIGTERM, checks its exit code 0, and returns the seconds that it took."""
        clock = SystemClock()
        began = clock.monotonic()
        run("stop", "--time", str(MAX_STOP_SECONDS), self.name)
        seconds = clock.monotonic() - began
        assert run("inspect", "--format", "{{.State.ExitCode}}", self.name).strip() == "0"
        run("rm", self.name)
        return seconds

    def remove(self) -> None:
        """Removes the container in any state."""
        run("rm", "--force", "--ignore", self.name)


@pytest.fixture
def volume() -> Iterator[str]:
    """Provides a volume and removes it afterwards."""
    name = f"steward-test-{uuid.uuid4().hex[:8]}"
    run("volume", "create", name)
    yield name
    run("volume", "rm", "--force", name)


@pytest.fixture
def container(volume: str) -> Iterator[Container]:
    """Provides a container without a network."""
    container = Container(volume, "--network", "none")
    yield container
    container.remove()


def test_the_image_is_small_and_its_user_owns_nothing_but_data(container: Container) -> None:
    """Runs as user 10001; only `/data` and `/tmp` are writable, and pip is not installed."""
    (image,) = json.loads(run("inspect", "--type", "image", IMAGE))
    assert image["Size"] <= MAX_IMAGE_BYTES
    config = image["Config"]
    assert (config["User"], config["Entrypoint"]) == ("10001:10001", ["steward"])
    assert set(config["Volumes"]) == {"/data"}
    program = """
import importlib.util, json, os
paths = (path for path, _, _ in os.walk("/") if not path.startswith(("/proc/", "/dev")))
writable = [path for path in paths if os.access(path, os.W_OK)]
print(json.dumps([os.getuid(), os.getgid(), sorted(writable), importlib.util.find_spec("pip") is None]))
"""
    printed = run(
        "run", "--rm", "-i", "--entrypoint", "python", *container._options, IMAGE, "-", stdin=program
    )
    assert json.loads(printed) == [10001, 10001, ["/data", "/tmp"], True]


_ACCEPT = """
import httpx, json
headers = {{"Origin": "http://127.0.0.1:8400"}}
body = {{"token": {token!r}, "password": {password!r}, "first_name": "Olga", "last_name": "Owner"}}
answer = httpx.post("http://127.0.0.1:8400/app/invitations/accept", json=body, headers=headers)
print(json.dumps([answer.status_code, answer.json()["data"]["session"]["organization"]["role"]]))
"""


async def test_an_owner_signs_in_to_a_fresh_container(container: Container) -> None:
    """Signs an owner in by the set-up link, and `doctor` finds the sandbox confined."""
    words = ("--org", "My Shop", "--timezone", "Europe/Berlin", "--email", "owner@example.com")
    done = json.loads(container.once("init", "--yes", *words, "--json"))
    container.start()
    await container.healthy()
    token = done["setup_url"].partition("#token=")[2]
    assert container.python(_ACCEPT.format(token=token, password=PASSWORD)) == [200, "owner"]
    judged = tried("exec", container.name, "steward", "doctor", "--json", "--env-file", "/data/steward.env")
    checks = {check["name"]: check for check in json.loads(judged.stdout)["checks"]}
    assert checks["confined"]["ok"]
    assert "behind a filter of system calls and without a network" in checks["confined"]["message"]
    assert checks["built"]["ok"]
    assert container.stop() <= MAX_STOP_SECONDS


_START = """
import httpx, json
facts = json.load(open("/data/steward-demo/demo.json"))
(owner,) = [person for person in facts["people"] if person["role"] == "owner"]
body = {**facts["credential"], "username": owner["username"], "email": owner["email"]}
body["organization_name"] = facts["organization"]["name"]
with httpx.Client(base_url="http://127.0.0.1:8400", timeout=30) as client:
    token = client.post("/v2/api/automations/login", json=body).json()["access_token"]
    client.headers["Authorization"] = f"Bearer {token}"
"""
_RUN = """
    bodies = [{"mode": "test", "idempotency_key": f"key-{number}"} for number in range(5)]
    paths = [f"/v1/automations/{automation['id']}/runs" for automation in facts["automations"]]
    started = [client.post(path, json=body) for path in paths for body in bodies]
    print(json.dumps([answer.json()["data"]["run"]["id"] for answer in started if answer.is_success]))
"""
_LOOK = """
    ids = json.loads({ids!r})
    runs = [client.get(f"/v1/automations/runs/{{id}}").json()["data"]["run"] for id in ids]
    print(json.dumps([run["status"] for run in runs]))
"""


async def test_no_run_is_lost_when_the_container_stops(container: Container) -> None:
    """Finishes runs that started just before SIGTERM after the next start on the same volume."""
    container.start("demo")
    await container.healthy()
    ids = container.python(_START + _RUN)
    assert len(set(ids)) == len(ids) >= 5
    assert container.stop() <= MAX_STOP_SECONDS
    container.start("demo")
    await container.healthy()

    async def ended() -> bool:
        statuses = container.python(_START + _LOOK.format(ids=json.dumps(ids)))
        return set(statuses) == {"succeeded"}

    await eventually(ended)
    assert container.stop() <= MAX_STOP_SECONDS


def keep_secrets(folder: Path, secrets: dict[str, str]) -> None:
    """Writes each secret into a file that only the image's user may read."""
    folder.chmod(0o755)
    for name, text in secrets.items():
        (folder / name).write_text(text)
        os.chown(folder / name, 10001, 10001)
        (folder / name).chmod(0o400)


async def test_web_and_worker_serve_postgresql_in_containers_of_their_own(
    volume: str, postgresql_url: str, tmp_path: Path
) -> None:
    """Runs `migrate`, `web` and `worker` of compose.yaml in containers, with secrets from files."""
    key = json.loads(run("run", "--rm", *WALLS, "--network", "none", IMAGE, "keys", "new", "--json"))
    keep_secrets(tmp_path, {"database_url": postgresql_url, "master_keys": key["key"]})
    port = free_port()
    # The tests' server promises no durability, which production would refuse.
    options = [
        "--network",
        "host",
        "-e",
        "STEWARD_ENV=test",
        "-e",
        f"STEWARD_BASE_URL=http://127.0.0.1:{port}",
    ]
    for name, setting in (("database_url", "DATABASE_URL"), ("master_keys", "MASTER_KEYS")):
        options += ["-v", f"{tmp_path / name}:/run/secrets/{name}:ro"]
        options += ["-e", f"STEWARD_{setting}_FILE=/run/secrets/{name}"]
    web_options = ["-e", f"STEWARD_LISTEN=127.0.0.1:{port}", "-e", "STEWARD_METRICS_LISTEN=off"]
    worker_options = ["-e", f"STEWARD_METRICS_LISTEN=127.0.0.1:{free_port()}"]
    web = Container(volume, *options, *web_options)
    worker = Container(volume, *options, *worker_options)
    try:
        web.once("migrate")
        words = ("--org", "My Shop", "--timezone", "Europe/Berlin", "--email", "owner@example.com")
        done = json.loads(web.once("init", "--yes", *words, "--json"))
        web.start("serve", "--no-worker")
        worker.start("worker")
        await web.healthy()
        await worker.healthy()
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            token = done["setup_url"].partition("#token=")[2]
            body = {"token": token, "password": PASSWORD, "first_name": "Olga", "last_name": "Owner"}
            headers = {"Origin": f"http://127.0.0.1:{port}"}
            accepted = await client.post("/app/invitations/accept", json=body, headers=headers)
            assert accepted.status_code == 200, accepted.text
            status = await client.get("/v1/automations/status")
            assert status.json()["data"]["scheduler"] == "ok"
        assert worker.stop() <= MAX_STOP_SECONDS
        assert web.stop() <= MAX_STOP_SECONDS
    finally:
        web.remove()
        worker.remove()
