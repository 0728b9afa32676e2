"""Tests serve, worker, demo and sandbox as processes that an operator starts.

See docs/design/command-line.md#commands.
"""

import asyncio
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from steward.cli.demo import in_words
from steward.database.engine.migrate import sqlite_path
from steward.database.engine.sqlite import connect
from steward.version import __version__
from tests.processes.forked import LONGEST, environ, fork_to_end
from tests.processes.ports import free_port
from tests.processes.running import (
    PASSWORD,
    RunningProcess,
    eventually,
    execute,
    open_site,
    run_forked,
    start,
    start_forked,
    steward,
)

OWNER = ("--org", "My Shop", "--timezone", "Europe/Berlin", "--email", "owner@example.com")


async def refused(*words: str, env: Mapping[str, str]) -> tuple[int, str]:
    """Returns the exit code and the refusal's code of a command that does not start."""
    code, line = await fork_to_end(*words, env=env)
    return code, json.loads(line)["error"]["code"]


async def test_one_process_serves_a_file_and_says_so(sqlite_url: str, tmp_path: Path) -> None:
    """Refuses a second serve, --no-worker and a worker on SQLite; metrics have their own address.

    See docs/design/command-line.md#commands.
    """
    figures = f"127.0.0.1:{free_port()}"
    env = {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": sqlite_url,
        "STEWARD_DATA_DIR": str(tmp_path),
        "STEWARD_METRICS_LISTEN": figures,
    }
    serving = await start_forked("serve", "--port", "0", env=env)
    try:
        assert set(serving.facts) == {"base_url", "auth_url", "web_url", "listen", "pid"}
        assert serving.facts["pid"] == serving.child.pid
        assert await refused("serve", "--port", "0", env=env) == (1, "already_served")
        assert await refused("serve", "--no-worker", env=env) == (1, "cannot_serve")
        assert await refused("worker", env=env) == (1, "cannot_serve")
        async with httpx.AsyncClient() as client:
            ready = await client.get(f"http://{serving.facts['listen']}/readyz")
            assert ready.json()["status"] == "ready"
            assert (await client.get(f"http://{figures}/metrics")).status_code == 200
            assert (await client.get(f"http://{figures}/healthz")).status_code == 404
            assert (await client.get(f"http://{serving.facts['listen']}/metrics")).status_code == 404
        assert (await steward("doctor", "--quick", env={"STEWARD_LISTEN": serving.facts["listen"]}))["ok"]
        # A worker answers only at its metrics address.
        as_worker = {"STEWARD_LISTEN": f"127.0.0.1:{free_port()}", "STEWARD_METRICS_LISTEN": figures}
        assert (await steward("doctor", "--quick", env=as_worker))["ok"]
        # Another installation of the machine that finds the metrics' address in use serves without them.
        await run_forked("init", "--yes", "--data-dir", str(tmp_path / "other"), *OWNER, env={})
        settings = ("--env-file", str(tmp_path / "other" / "steward.env"))
        other = await start_forked("serve", "--port", "0", *settings, env={"STEWARD_METRICS_LISTEN": figures})
        try:
            async with httpx.AsyncClient() as client:
                assert (await client.get(f"http://{other.facts['listen']}/readyz")).status_code == 200
        finally:
            assert await _stop_after_hang_up(other) == 0
    finally:
        assert await serving.stop() == 0


async def _stop_after_hang_up(serving: RunningProcess) -> int:
    """Closes the terminal of a process that answers a request, then stops it; returns its exit code."""
    host, port = serving.facts["listen"].split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /v2/api/automations/login HTTP/1.1\r\nHost: {host}:{port}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    writer.write(head.encode())
    assert b" 100 " in await reader.readline()
    os.kill(serving.child.pid, signal.SIGHUP)

    async def takes_no_connection() -> bool:
        try:
            _, closing = await asyncio.open_connection(host, int(port))
        except ConnectionRefusedError:
            return True
        closing.close()
        return False

    await eventually(takes_no_connection)
    os.kill(serving.child.pid, signal.SIGTERM)
    writer.write(b"{}")
    response = await reader.read()
    writer.close()
    assert b"HTTP/1.1 4" in response  # the request was answered before the end
    return await serving.child.wait()


async def test_pending_migrations_and_a_taken_port_are_reported(tmp_path: Path, sqlite_url: str) -> None:
    """Refuses to start with pending migrations, a used port, or a database that is too new.

    See docs/design/command-line.md#commands.
    """
    env = {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": f"sqlite:///{tmp_path / 'new.db'}",
        "STEWARD_DATA_DIR": str(tmp_path),
        "STEWARD_METRICS_LISTEN": "off",
    }
    assert await refused("serve", env=env) == (1, "cannot_serve")
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))
        bound_socket.listen()
        port = str(bound_socket.getsockname()[1])
        there = {**env, "STEWARD_DATABASE_URL": sqlite_url}
        assert await refused("serve", "--port", port, env=there) == (1, "cannot_serve")
        newer = connect(sqlite_path(sqlite_url))
        newer.execute("INSERT INTO schema_version VALUES (3, 0, 'of the release after next', 2)")
        newer.close()
        assert await refused("serve", "--port", port, env=there) == (1, "schema_differs")
        assert await refused("sandbox", "--port", port, env={}) == (1, "cannot_serve")
    assert await refused("sandbox", "--port", "0", env={"STEWARD_ENV": "production"}) == (1, "production")


async def test_api_and_worker_apart_share_one_postgresql(postgresql_url: str, tmp_path: Path) -> None:
    """Runs two API processes and two workers on one PostgreSQL, and a worker executes the run.

    See docs/design/runs.md#scale-out.
    """
    async with (
        open_site(postgresql_url, tmp_path) as site,
        asyncpg.create_pool(postgresql_url, min_size=1, max_size=1) as database,
    ):
        await site.service.stop()
        # The second process reads its settings from the same file.
        file = tmp_path / "steward.env"
        file.write_text("".join(f"{name}={text}\n" for name, text in site.env.items()))
        site.service = await start_forked(
            "serve", "--no-worker", "--processes", "2", "--env-file", str(file), env={}
        )
        body = {
            "template_id": "hide-out-of-stock-products",
            "name": "Hide",
            "inputs": {},
            "schedule": {"cadence": "manual"},
            "integration_id": site.store,
        }
        automation = (await site.call("POST", "/v1/automations", body))["automation"]["id"]
        path = f"/v1/automations/{automation}/runs"
        run = (await site.call("POST", path, {"idempotency_key": "one", "mode": "test"}))["run"]
        assert run["status"] == "queued"
        figures = f"127.0.0.1:{free_port()}"
        env = {**site.env, "STEWARD_METRICS_LISTEN": figures}
        # The second worker finds the address in use and works without metrics.
        workers = [await begin("worker", "--concurrency", "3", env=env) for begin in (start, start_forked)]
        # A further API process that ends by itself is begun again.
        ended_process = _children_of(site.service.child.pid)[0]
        os.kill(ended_process, signal.SIGTERM)
        await eventually(partial(_is_replaced, site.service.child.pid, ended_process))
        try:
            async with httpx.AsyncClient() as scraper:
                text = (await scraper.get(f"http://{figures}/metrics")).text
            assert "\nsteward_ready 1.0\n" in text
            assert f'\nsteward_release{{release="{__version__}"}} 1.0\n' in text
            assert {worker.facts["concurrency"] for worker in workers} == {3}
            assert len({worker.facts["worker_id"] for worker in workers}) == 2
            assert (await site.reaches(run["id"], "succeeded", "failed"))["status"] == "succeeded"
            await eventually(partial(_api_releases_are, database, [__version__] * 2))
        finally:
            assert [await worker.stop() for worker in workers] == [0, 0]
        assert await site.service.stop() == 0
        assert await _api_releases_are(database, [])


def _children_of(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


async def _is_replaced(parent: int, ended_process: int) -> bool:
    """Whether a process has another child than the one that ended."""
    children = _children_of(parent)
    return bool(children) and ended_process not in children


async def _api_releases_are(database: Any, releases: list[str]) -> bool:
    """Whether the API processes that have a row are of these releases."""
    rows = await database.fetch("SELECT version FROM api_processes")
    return [row["version"] for row in rows] == releases


async def test_the_demo_has_something_to_approve_and_keeps_it(tmp_path: Path) -> None:
    """Has one approval, and sends mail, Slack and webhook notices.

    A restart keeps the data; --reset begins again. The calls that it prints are made in tests/docs.
    See docs/design/command-line.md#commands.
    """
    words = ("demo", "--dir", str(tmp_path / "demo"), "--port", str(free_port(2)))
    first = await start_forked(*words, env={})
    try:
        async with httpx.AsyncClient(base_url=first.facts["base_url"], timeout=30) as client:
            reply = await _logged_in(client, first.facts)
            bearer = {"Authorization": f"Bearer {reply['access_token']}"}
            response = await client.get("/v1/automations", headers=bearer)
            assert len(response.json()["data"]["automations"]) == 3

            async def waits() -> list[dict[str, Any]]:
                page = await client.get("/v1/automations/approvals", headers=bearer)
                approvals: list[dict[str, Any]] = page.json()["data"]["approvals"]
                return approvals

            assert len(await eventually(waits)) == 1
            kinds = {connection["kind"] for connection in first.facts["connections"]}
            assert kinds == {"woocommerce", "spreadsheet", "teams", "slack", "cloud_s3"}
        async with httpx.AsyncClient(base_url=first.facts["sandbox_url"], timeout=30) as outside:

            async def is_logged() -> bool:
                mails = (await outside.get("/sandbox/mail")).json()["messages"]
                posts = (await outside.get("/sandbox/slack")).json()["messages"]
                events = (await outside.get("/sandbox/hooks")).json()["deliveries"]
                return len(mails) == 2 and len(posts) == 1 and len(events) == 1

            assert await eventually(is_logged)
        # Not while the demo runs, on its own ports or on others.
        elsewhere = (*words[:-1], str(free_port(2)), "--reset")
        assert await refused(*words, "--reset", env={}) == (1, "cannot_serve")
        assert await refused(*elsewhere, env={}) == (1, "already_served")
    finally:
        assert await first.stop() == 0
    stored_facts = (tmp_path / "demo" / "demo.json").read_bytes()
    assert await _printed_by_demo(*words) == f"{in_words(first.facts)}\n"
    assert (tmp_path / "demo" / "demo.json").read_bytes() == stored_facts
    third = await start_forked(*words, "--reset", env={})
    assert await third.stop() == 0
    assert third.facts["credential"] != first.facts["credential"]
    assert (tmp_path / "demo" / "demo.json").stat().st_mode & 0o077 == 0


async def _printed_by_demo(*words: str) -> str:
    """Starts the demo as a program and stops it; returns the text that it prints for a person."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "steward", *words), env=environ({}), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    try:
        text = await asyncio.wait_for(child.stdout.readuntil(b"Stop with Ctrl-C.\n"), LONGEST)
    finally:
        with suppress(ProcessLookupError):
            child.terminate()
        exit_code = await child.wait()
    assert exit_code == 0
    return text.decode()


async def _logged_in(client: httpx.AsyncClient, facts: Mapping[str, Any]) -> dict[str, Any]:
    person = facts["people"][0]
    body = {
        "username": person["username"],
        "email": person["email"],
        "organization_name": facts["organization"]["name"],
        **facts["credential"],
    }
    response = await client.post("/v2/api/automations/login", json=body)
    assert response.status_code == 200, response.text
    record: dict[str, Any] = response.json()
    return record


async def test_equal_seeds_give_equal_keys(tmp_path: Path) -> None:
    """Gives two sandboxes with the same seed the same keys. See docs/design/fake-platforms.md#process."""
    words = ("sandbox", "--port", "0", "--seed", "7")
    program = await start(*words, env={})  # with another hash seed than what is forked
    forked = await start_forked(*words, env={})
    keys = [process.facts["woocommerce"]["consumer_key"] for process in (program, forked)]
    assert [await process.stop() for process in (program, forked)] == [0, 0]
    assert keys[0] == keys[1]


async def test_the_first_owner_signs_in_by_the_set_up_link(tmp_path: Path) -> None:
    """Runs `init` and `serve`; the set-up link makes an owner once, and a second `init` exits with 1.

    See docs/guides/operators.md#first-run.
    """
    port = free_port()
    options = ("--data-dir", str(tmp_path / "data"), "--base-url", f"http://127.0.0.1:{port}")
    done = await run_forked("init", "--yes", *options, *OWNER, env={})
    code, refusal = await execute("init", "--yes", *options, *OWNER, env={})
    assert (code, refusal["error"]["code"]) == (1, "wrong_state")
    serving = await start_forked(
        *("serve", "--env-file", done["settings_file"]),
        env={"STEWARD_LISTEN": f"127.0.0.1:{port}", "STEWARD_METRICS_LISTEN": "off"},
    )
    token = done["setup_url"].partition("#token=")[2]
    body = {"token": token, "password": PASSWORD, "first_name": "Olga", "last_name": "Owner"}
    try:
        async with httpx.AsyncClient(base_url=serving.facts["web_url"]) as web:
            headers = {"Origin": serving.facts["web_url"]}
            accepted = await web.post("/app/invitations/accept", json=body, headers=headers)
            assert accepted.status_code == 200, accepted.text
            assert accepted.json()["data"]["session"]["organization"]["role"] == "owner"
            again = await web.post("/app/invitations/accept", json=body, headers=headers)
            assert again.status_code == 422
    finally:
        assert await serving.stop() == 0


async def test_the_service_manager_is_notified(sqlite_url: str, tmp_path: Path) -> None:
    """Tells systemd when it is ready, that it lives, and when it stops after SIGTERM.

    Its low soft limit of descriptors is raised to the hard limit.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        env = {
            "STEWARD_ENV": "test",
            "STEWARD_DATABASE_URL": sqlite_url,
            "STEWARD_DATA_DIR": str(tmp_path / "data"),
            "STEWARD_METRICS_LISTEN": "off",
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
            "WATCHDOG_USEC": "200000",
        }
        low = ("/bin/sh", "-c", 'ulimit -S -n 64; ulimit -H -n 2048; exec "$@"', "sh")
        serving = await start("serve", "--port", "0", env=env, before=low)
        if sys.platform == "linux":
            assert resource.prlimit(serving.child.pid, resource.RLIMIT_NOFILE) == (2048, 2048)
        loop = asyncio.get_running_loop()
        states: list[bytes] = []
        while {b"READY=1", b"WATCHDOG=1"} - set(states):
            states.append(await asyncio.wait_for(loop.sock_recv(manager, 100), LONGEST))
        assert b"STOPPING=1" not in states
        assert await serving.stop() == 0
        while not states or states[-1] != b"STOPPING=1":
            states.append(await asyncio.wait_for(loop.sock_recv(manager, 100), LONGEST))
