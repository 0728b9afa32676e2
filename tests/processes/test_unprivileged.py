"""Tests the service as a user without rights, with few descriptors, and under a flood of connections."""

import asyncio
import contextlib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx
import pytest

from steward.cli.descriptors import LONGEST_QUEUE, MAX_CONNECTIONS, RESERVED, share
from tests.imports.exports import chain, code
from tests.processes.ports import free_port
from tests.processes.running import PASSWORD, RunningProcess, eventually, run_forked, start, steward
from tests.processes.unprivileged import NOBODY, drop_rights

DROPPING = (sys.executable, str(Path(__file__).with_name("unprivileged.py")))
SCRIPT = "return $input.all().map((item) => ({ json: { sum: [1, 2, 3].reduce((a, b) => a + b) } }))"


def _environ(folder: Path) -> dict[str, str]:
    address = f"127.0.0.1:{free_port()}"
    return {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": f"sqlite:///{folder / 'data' / 'steward.db'}",
        "STEWARD_DATA_DIR": str(folder / "data"),
        "STEWARD_METRICS_LISTEN": "off",
        "STEWARD_LISTEN": address,
        "STEWARD_BASE_URL": f"http://{address}",
        "HOME": str(folder),
    }


def _told_of(running: RunningProcess, file: str) -> str:
    """Returns a file of /proc about the process."""
    return Path(f"/proc/{running.facts['pid']}/{file}").read_text()


@contextlib.asynccontextmanager
async def _ended(running: RunningProcess) -> AsyncIterator[RunningProcess]:
    try:
        yield running
    finally:
        await running.stop()


async def _signed_in(web: httpx.AsyncClient) -> dict[str, str]:
    response = await web.post("/app/session", json={"email": "owner@shop.example", "password": PASSWORD})
    assert response.status_code == 200, response.text
    return {"X-CSRF-Token": response.json()["data"]["session"]["csrf_token"]}


async def _run_script(web: httpx.AsyncClient) -> None:
    """Imports a workflow with a script and runs it to its end."""
    headers = await _signed_in(web)

    async def post(path: str, body: Mapping[str, object]) -> dict[str, object]:
        response = await web.post(path, json=body, headers=headers)
        assert response.status_code in (200, 201), response.text
        data: dict[str, object] = response.json()["data"]
        return data

    export = chain(code("Sum", SCRIPT))
    body = {"source": "workflow_tool", "name": "Sum", "content": export}
    stored = (await post("/v1/automations/imports", body))["import"]
    assert isinstance(stored, dict)
    assert stored["supported"], stored["report"]
    request_body = {"name": "Sum", "schedule": {"cadence": "manual"}}
    automation = (await post(f"/v1/automations/imports/{stored['id']}/automations", request_body))[
        "automation"
    ]
    assert isinstance(automation, dict)
    run = (await post(f"/v1/automations/{automation['id']}/runs", {"idempotency_key": "one"}))["run"]
    assert isinstance(run, dict)

    async def ended() -> dict[str, object] | None:
        record: dict[str, object] = (await web.get(f"/v1/automations/runs/{run['id']}")).json()["data"]["run"]
        return record if record["status"] not in ("queued", "running") else None

    result = await eventually(ended)
    assert result["status"] == "succeeded", result


@pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0, reason="without root the other tests run as such a user"
)
async def test_the_service_and_its_scripts_work_as_a_user_without_rights() -> None:
    """Runs commands, service and scripts as that user, and `doctor` finds the sandbox confined."""
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        os.chown(folder, NOBODY, NOBODY)
        env = _environ(folder)
        await run_forked("migrate", env=env, before=drop_rights)
        await run_forked("org", "create", "--name", "Test Shop", env=env, before=drop_rights)
        words = ["--email", "owner@shop.example", "--first-name", "The", "--last-name", "Owner"]
        options = ["--org", "Test Shop", "--role", "owner", "--password-stdin"]
        await steward("user", "create", *words, *options, env=env, stdin=PASSWORD + "\n", before=DROPPING)
        async with (
            _ended(await start("serve", env=env, before=DROPPING)) as running,
            httpx.AsyncClient(base_url=env["STEWARD_BASE_URL"], timeout=30) as web,
        ):
            status = _told_of(running, "status")
            assert f"Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}\n" in status
            assert "CapEff:\t0000000000000000\n" in status
            await _run_script(web)
            actual = await run_forked("doctor", env=env, before=drop_rights)
            assert next(item for item in actual["checks"] if item["name"] == "confined")["ok"]


def test_connections_leave_the_service_the_descriptors_it_needs() -> None:
    """Leaves reserved descriptors free; a usual limit allows the full number of connections."""
    for limit in (20, RESERVED, RESERVED + 1, 64, 100, 256, 1024, 1500, 4096, 1 << 20):
        descriptors = share(limit)
        assert 1 <= descriptors.queue <= LONGEST_QUEUE
        assert 1 <= descriptors.connections <= MAX_CONNECTIONS
        if limit >= RESERVED + 32:
            assert descriptors.connections + 3 * descriptors.queue <= limit - RESERVED
    assert share(4096).connections == MAX_CONNECTIONS
    assert not share(4096).few
    assert share(256).few


async def _flood(port: int, stop: asyncio.Event, attempts: Counter[int], limit: int) -> None:
    """Connects as fast as it can and holds the connections; counts the attempts while somebody listened."""
    held: list[asyncio.StreamWriter] = []
    while not stop.is_set():
        try:
            attempts[port] += 1
            _, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), 0.1)
        except ConnectionRefusedError:
            attempts[port] -= 1
            await asyncio.wait({asyncio.create_task(stop.wait())}, timeout=0.01)
            continue
        except (OSError, TimeoutError):
            continue
        held.append(writer)
        if len(held) > limit:
            held.pop(0).close()
    for writer in held:
        writer.close()


@pytest.mark.parametrize("limit", [64])
async def test_a_flood_while_starting_with_few_descriptors_leaves_the_service_running(
    limit: int, tmp_path: Path
) -> None:
    """Starts and keeps running during the flood, and answers again after it."""
    env = _environ(tmp_path)
    await run_forked("migrate", env=env)
    port, stop = int(env["STEWARD_LISTEN"].rpartition(":")[2]), asyncio.Event()
    attempts: Counter[int] = Counter()
    flood = [asyncio.create_task(_flood(port, stop, attempts, 20)) for _ in range(24)]

    async def is_flooded() -> bool:
        return attempts[port] > limit

    few = ("/bin/sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh")
    async with (
        _ended(await start("serve", env=env, before=few)) as running,
        httpx.AsyncClient(base_url=env["STEWARD_BASE_URL"], timeout=5) as web,
    ):
        waiting = asyncio.create_task(running.child.wait())
        done, _ = await asyncio.wait(
            {waiting}, timeout=2
        )  # the flood lasts for the first passes of the ticks
        assert not done, "the service ended"
        await eventually(is_flooded)
        stop.set()
        await asyncio.gather(*flood)

        async def is_ready() -> bool:
            with contextlib.suppress(httpx.HTTPError):
                ready = await web.get("/readyz")
                return ready.status_code == 200
            return False

        await eventually(is_ready)
        await _own_files_open(running.facts["pid"], limit)
        assert not waiting.done()
    assert await waiting == 0


async def _own_files_open(pid: object, limit: int) -> None:
    async def freed() -> bool:
        return len(os.listdir(f"/proc/{pid}/fd")) < limit - 8

    if sys.platform == "linux":
        await eventually(freed)
