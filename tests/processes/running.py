"""Starts, kills and restarts real processes: the service and the fake platforms on loopback."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from steward.accounts import organizations, people
from steward.accounts.organizations import CreateOrganization
from steward.accounts.people import CreatePerson
from steward.clock import SystemClock
from steward.config import read
from steward.database.engine.base import Tx
from steward.database.engine.migrate import migrate
from steward.model.account import Role
from steward.security.passwords import SMALL, hash_password
from steward.startup import open_engine
from tests.processes.forked import LONGEST, DeathAt, ForkedChild, environ, fork, fork_to_end
from tests.processes.ports import free_port
from tests.processes.proxy import Proxy, line_to

CLOCK = SystemClock()
PASSWORD = "a-long-enough-phrase"


async def eventually(look: Callable[[], Awaitable[Any]], *, within: float = LONGEST) -> Any:
    """Returns what `look` gives once it is true; fails if it is not within this many seconds."""
    until = CLOCK.monotonic() + within
    while not (outcome := await look()):
        assert CLOCK.monotonic() < until, f"not within {within} s"
        await CLOCK.sleep(0.02)
    return outcome


async def steward(
    *words: str, env: Mapping[str, str], stdin: str = "", before: Sequence[str] = ()
) -> dict[str, Any]:
    """Executes an operator's command and returns the facts that it printed; fails unless it exits with 0."""
    code, facts = await execute(*words, env=env, stdin=stdin, before=before)
    assert code == 0, facts
    return facts


async def execute(
    *words: str, env: Mapping[str, str], stdin: str = "", before: Sequence[str] = ()
) -> tuple[int | None, dict[str, Any]]:
    """Executes an operator's command as a program and returns its exit code and facts.

    `before` is a command that starts it.
    """
    process = await asyncio.create_subprocess_exec(
        *(*before, sys.executable, "-m", "steward"),
        *words,
        "--json",
        env=environ(env),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate(stdin.encode())
    return process.returncode, json.loads(out)


async def run_forked(
    *words: str, env: Mapping[str, str], before: Callable[[], None] | None = None
) -> dict[str, Any]:
    """Runs an operator's command like `steward`, from a process that has imported the service.

    The process calls `before` first.
    """
    code, line = await fork_to_end(*words, env=env, before=before)
    facts: dict[str, Any] = json.loads(line)
    assert code == 0, facts
    return facts


@dataclass
class RunningProcess:
    """Holds a process that is ready, and the facts that it printed."""

    child: asyncio.subprocess.Process | ForkedChild
    facts: dict[str, Any]

    async def kill(self) -> None:
        """Kills the process by SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child.pid, signal.SIGKILL)
        await self.child.wait()

    async def stop(self) -> int:
        """Terminates the process and returns its exit code."""
        with contextlib.suppress(ProcessLookupError):
            self.child.terminate()
        return await self.child.wait()


_STEWARD = (sys.executable, "-m", "steward")


async def start(
    *words: str,
    env: Mapping[str, str],
    before: Sequence[str] = (),
    program: Sequence[str] = _STEWARD,
    folder: Path | None = None,
) -> RunningProcess:
    """Starts `program` in `folder`, through the command `before`, and waits until it is ready."""
    child = await asyncio.create_subprocess_exec(
        *(*before, *program),
        *words,
        "--json",
        env=environ(env),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    assert child.stdout is not None
    line = await asyncio.wait_for(child.stdout.readline(), LONGEST)
    assert line, f"steward {' '.join(words)} ended before it was ready"
    return RunningProcess(child, json.loads(line))


async def start_forked(*words: str, env: Mapping[str, str], death: DeathAt | None = None) -> RunningProcess:
    """Starts a command of the service like `start`, from a process that has imported the service.

    What the system loads into a process when it executes a program needs a program.
    """
    if "LD_PRELOAD" in env:
        return await start(*words, env=env)
    child, line = await fork(*words, env=env, death=death)
    return RunningProcess(child, json.loads(line))


@dataclass
class Site:
    """Holds an organization with a connected shop, served by real processes."""

    env: dict[str, str]
    sandbox: RunningProcess
    service: RunningProcess
    web: httpx.AsyncClient
    world: httpx.AsyncClient
    line: Proxy  # between the service and the store
    store: int = 0
    csrf: dict[str, str] = field(default_factory=dict)

    async def serve_again(self) -> None:
        """Starts the service again at the same address."""
        self.service = await start_forked("serve", env=self.env)

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Makes a call as the signed-in owner and returns its data; fails unless it succeeds."""
        headers = self.csrf if method != "GET" else {}
        response = await self.web.request(method, path, json=body, headers=headers)
        assert response.status_code in (200, 201), response.text
        data: dict[str, Any] = response.json()["data"]
        return data

    async def run(self, run: str) -> dict[str, Any]:
        """Returns a run as it is now."""
        record: dict[str, Any] = (await self.call("GET", f"/v1/automations/runs/{run}"))["run"]
        return record

    async def reaches(self, run: str, *statuses: str) -> dict[str, Any]:
        """Waits until the run has one of these statuses, and returns it."""

        async def look() -> dict[str, Any] | None:
            record = await self.run(run)
            return record if record["status"] in statuses else None

        result: dict[str, Any] = await eventually(look)
        return result

    async def changes(self, run: str) -> list[dict[str, Any]]:
        """Returns every change of a run."""
        all_changes: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = await self.call("GET", f"/v1/automations/runs/{run}/changes?limit=200{cursor}")
            all_changes += page["changes"]
            if page["next_cursor"] is None:
                return all_changes
            cursor = f"&cursor={page['next_cursor']}"

    async def ledger(self, after: int = 0) -> list[dict[str, Any]]:
        """Returns the writes that the fake platforms saw."""
        response = await self.world.get("/sandbox/ledger", params={"after": after, "limit": 10_000})
        entries: list[dict[str, Any]] = response.json()["entries"]
        return entries

    async def fault(self, **fault: Any) -> None:
        """Adds a fault to the fake platforms."""
        response = await self.world.post("/sandbox/faults", json=fault)
        assert response.status_code == 201, response.text

    async def approve_all(self, run: str) -> None:
        """Approves everything that a run asks for, as the owner."""
        waiting = await self.reaches(run, "waiting_approval")
        path = f"/v1/automations/approvals/{waiting['approval_id']}"
        approval = (await self.call("GET", path))["approval"]
        body = {"version": approval["version"], "change_hash": approval["change_hash"]}
        await self.call("POST", f"{path}/approve", body)


@contextlib.asynccontextmanager
async def open_site(
    database_url: str, folder: Path, *, private_hosts: Sequence[str] = (), **settings: str
) -> AsyncIterator[Site]:
    """Starts fake platforms, database, service and a connected shop, and ends all of them afterwards.

    Leases and calls keep their default time limits, which even a busy machine meets; tests of takeovers
    shorten them.
    """
    _, sandbox = await asyncio.gather(
        migrate(database_url, CLOCK.now()), start_forked("sandbox", "--port", "0", env={})
    )
    address = sandbox.facts["url"].removeprefix("http://")
    host, _, port = address.rpartition(":")
    env = {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": database_url,
        "STEWARD_DATA_DIR": str(folder),
        "STEWARD_METRICS_LISTEN": "off",
        "STEWARD_LOG_LEVEL": "warning",
        "STEWARD_ALLOW_PRIVATE_HOSTS": ",".join([address, *private_hosts]),
        "STEWARD_TEAMS_HOSTS": address,
        "STEWARD_SLACK_HOSTS": address,
        "STEWARD_GOOGLE_SHEETS_URL": sandbox.facts["spreadsheet"]["sheets_url"],
        "STEWARD_GOOGLE_TOKEN_URL": sandbox.facts["spreadsheet"]["token_url"],
        "STEWARD_GOOGLE_AUTHORIZE_URL": sandbox.facts["spreadsheet"]["authorize_url"],
        "STEWARD_GOOGLE_CLIENT_ID": sandbox.facts["spreadsheet"]["client_id"],
        "STEWARD_GOOGLE_CLIENT_SECRET": sandbox.facts["spreadsheet"]["client_secret"],
        # Tests look until something is so; how often a person may call has tests of its own.
        **dict.fromkeys(
            ("STEWARD_LIMIT_PERSON", "STEWARD_LIMIT_ORGANIZATION", "STEWARD_LIMIT_WEB"), "1000000"
        ),
        "STEWARD_SETTLE_QUIET_SECONDS": "0",
        **settings,
    }
    try:
        async with line_to(host, int(port)) as line:
            env["STEWARD_ALLOW_PRIVATE_HOSTS"] += f",127.0.0.1:{line.listen_port}"
            async with _served(env, sandbox, line) as site:
                yield site
    finally:
        await sandbox.stop()


@contextlib.asynccontextmanager
async def _served(env: dict[str, str], sandbox: RunningProcess, line: Proxy) -> AsyncIterator[Site]:
    await add_organization(env, "Test Shop", "owner")
    env["STEWARD_LISTEN"] = f"127.0.0.1:{free_port()}"
    env["STEWARD_BASE_URL"] = f"http://{env['STEWARD_LISTEN']}"
    service = await start_forked("serve", env=env)
    async with (
        httpx.AsyncClient(base_url=env["STEWARD_BASE_URL"], timeout=30) as web,
        httpx.AsyncClient(base_url=sandbox.facts["url"], timeout=30) as world,
    ):
        site = Site(env, sandbox, service, web, world, line)
        try:
            await _connect(site)
            yield site
        finally:
            await site.service.stop()


async def add_organization(env: Mapping[str, str], name: str, owner: str) -> None:
    """Creates an organization and its owner in a migrated database, as the operator's commands do.

    The commands have their own tests; a process for each would cost more than most tests that need one.
    """
    settings = read(dict(env))
    engine = await open_engine(settings, CLOCK, serve=False)
    person = CreatePerson(
        email=f"{owner}@shop.example",
        first_name="The",
        last_name=owner.title(),
        password_hash=hash_password(PASSWORD, SMALL),
    )

    async def settle(tx: Tx) -> None:
        organization = await organizations.create(tx, CreateOrganization(name))
        new_person = await people.create(tx, person)
        await people.add_to_organization(tx, new_person, organization.id, Role.OWNER)

    await engine.write(CLOCK.now(), settle)
    await engine.close()


async def _connect(site: Site) -> None:
    response = await site.web.post("/app/session", json={"email": "owner@shop.example", "password": PASSWORD})
    assert response.status_code == 200, response.text
    site.csrf = {"X-CSRF-Token": response.json()["data"]["session"]["csrf_token"]}
    shop = site.sandbox.facts["woocommerce"]
    keys = {name: shop[name] for name in ("url", "consumer_key", "consumer_secret")}
    sandbox_port = site.sandbox.facts["url"].rpartition(":")[2]
    keys["url"] = keys["url"].replace(f":{sandbox_port}", f":{site.line.listen_port}")
    body = {"kind": "woocommerce", "name": "The shop", "settings": keys}
    site.store = (await site.call("POST", "/app/connections", body))["connection"]["integration_id"]
