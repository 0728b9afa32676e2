"""demo: the service with fake platforms and a sample organization."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from steward import app
from steward.cli import serve
from steward.cli.demo_data import make_demo_data
from steward.cli.maintain import hold_database_lock
from steward.cli.serve import CannotServe, Ready
from steward.cli.supervision import stop_on_signals
from steward.clock import SystemClock
from steward.config import Settings, read
from steward.database.engine.migrate import migrate
from steward.database.engine.private_files import make_file, make_folder
from steward.database.runs import records as runs
from steward.model.account import ROLE_SCOPES, Actor, CreatedVia, Role
from steward.model.ids import OrgId
from steward.model.run import Mode, RunStatus
from steward.runs import start
from steward.runs.start import RunNow
from steward.startup import KEY_FILE

_FACTS_FILE = "demo.json"
_DATABASE_FILE = "steward.db"
# Written before the database: only a folder with it is deleted, never that of an installation.
_MARKER = ".steward-demo"
# In the order in which they are deleted.
_OWN_FILES = (
    _FACTS_FILE,
    *(_DATABASE_FILE + end for end in ("", "-wal", "-shm", "-journal", ".reserve", ".lock")),
    KEY_FILE,
    _MARKER,
)
_WAIT_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The address and data folder of the demo; `reset` first deletes the data."""

    host: str = "127.0.0.1"
    port: int = 8400
    folder: Path = Path("steward-demo")
    reset: bool = False


async def demo(options: DemoOptions, *, ready: Ready) -> None:
    """Serves the demo until a signal. Raises CannotServe, AlreadyServed."""
    # Before anything is deleted: the data may be those of a demo that is being served there.
    with serve.listen(options.host, options.port) as listening:
        if options.reset:
            _delete(options.folder)
        _take(options.folder)
        await _serve(options, listening, ready)


async def _serve(options: DemoOptions, listening: socket.socket, ready: Ready) -> None:
    async with _sandbox(options) as sandbox:
        settings = _settings(options, sandbox)
        await migrate(settings.database_url, SystemClock().now())
        service = await app.build(settings, clock=SystemClock(), log=serve.open_log(settings, "api"))
        try:
            facts = await _sample_organization(service, options, sandbox)
            await serve.run_service(
                service,
                listening,
                stop_on_signals(),
                with_worker=True,
                started=lambda: ready(facts),
                beside=partial(_first_run, service, options, facts),
            )
        finally:
            await service.close()


def _delete(folder: Path) -> None:
    """Deletes a demo's data. Raises AlreadyServed, and CannotServe for a folder with other files."""
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not _is_demo(folder):
        raise CannotServe(
            f"{folder} contains no demo, so --reset does not delete it. Name another folder with --dir, or"
            " delete this one yourself."
        )
    other_names = sorted({path.name for path in folder.iterdir()} - set(_OWN_FILES))
    if other_names:
        raise CannotServe(
            f"{folder} contains files that are not the demo's, so --reset does not delete it:"
            f" {', '.join(other_names)}. Move them elsewhere, or name another folder with --dir."
        )
    with hold_database_lock(f"sqlite:///{folder / _DATABASE_FILE}"):
        make_file(folder / _MARKER)  # so that a deletion that is broken off can be repeated
        for name in _OWN_FILES:
            (folder / name).unlink(missing_ok=True)


def _take(folder: Path) -> None:
    """Marks a folder as a demo's before data is written there. Raises CannotServe if it has other files."""
    make_folder(folder)
    if not _is_demo(folder) and any(folder.iterdir()):
        raise CannotServe(f"{folder} contains something other than a demo. Name an empty folder with --dir.")
    make_file(folder / _MARKER)


def _is_demo(folder: Path) -> bool:
    # Demos of releases before the marker have the facts alone.
    return (folder / _MARKER).exists() or (folder / _FACTS_FILE).exists()


@contextlib.asynccontextmanager
async def _sandbox(options: DemoOptions) -> AsyncIterator[Mapping[str, Any]]:
    """Runs the fake platforms in a child process and yields their addresses and keys."""
    command = [sys.executable, "-m", "steward", "sandbox", "--json", "--host", options.host]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("STEWARD_")}
    child = await asyncio.create_subprocess_exec(
        *command, "--port", str(options.port + 1), stdout=subprocess.PIPE, env=environ
    )
    try:
        assert child.stdout is not None
        line = await child.stdout.readline()
        if not line or "url" not in json.loads(line):
            raise CannotServe(f"The fake platforms could not start on port {options.port + 1}.")
        yield json.loads(line)
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        await child.wait()


def _settings(options: DemoOptions, sandbox: Mapping[str, Any]) -> Settings:
    address = f"http://{options.host}:{options.port}"
    fake_host = f"{options.host}:{options.port + 1}"
    sheets = sandbox["spreadsheet"]
    return read(
        {
            "STEWARD_ENV": "demo",
            "STEWARD_DATABASE_URL": f"sqlite:///{options.folder / _DATABASE_FILE}",
            "STEWARD_DATA_DIR": str(options.folder),
            "STEWARD_BASE_URL": address,
            "STEWARD_LISTEN": f"{options.host}:{options.port}",
            "STEWARD_METRICS_LISTEN": "off",
            "STEWARD_SPREAD_MAX": "0",
            "STEWARD_LOG_LEVEL": "warning",
            "STEWARD_LOG_FORMAT": "text",
            "STEWARD_ALLOW_PRIVATE_HOSTS": f"{fake_host},{urlsplit(sandbox['mail']['smtp_url']).netloc}",
            "STEWARD_TEAMS_HOSTS": fake_host,
            "STEWARD_SLACK_HOSTS": fake_host,
            "STEWARD_SMTP_URL": sandbox["mail"]["smtp_url"],
            "STEWARD_MAIL_FROM": "Steward <steward@demo.example>",
            "STEWARD_GOOGLE_SHEETS_URL": sheets["sheets_url"],
            "STEWARD_GOOGLE_TOKEN_URL": sheets["token_url"],
            "STEWARD_GOOGLE_AUTHORIZE_URL": sheets["authorize_url"],
        }
    )


async def _sample_organization(
    service: app.WiredProcess, options: DemoOptions, sandbox: Mapping[str, Any]
) -> dict[str, Any]:
    """Creates the sample organization at the first start and reads it back at later starts."""
    file = options.folder / _FACTS_FILE
    stored = (
        json.loads(file.read_text("utf-8")) if file.exists() else await make_demo_data(service, file, sandbox)
    )
    settings = service.settings
    return {
        "base_url": settings.base_url,
        "auth_url": settings.auth_url,
        "web_url": settings.web_origin,
        "sandbox_url": sandbox["url"],
        "data_dir": str(options.folder),
        **stored,
    }


async def _first_run(service: app.WiredProcess, options: DemoOptions, facts: Mapping[str, Any]) -> None:
    """Runs one automation at the first start, which leaves an approval waiting."""
    org = OrgId(facts["organization"]["id"])
    owner = facts["people"][0]
    actor = Actor(org, owner["id"], ROLE_SCOPES[Role.OWNER], CreatedVia.UI, None, Role.OWNER)
    command = RunNow(facts["automations"][0]["id"], "demo-first-run", Mode.LIVE)
    templates = service.worker_context.automation_rules.templates
    run_now = partial(start.run_now, actor=actor, command=command, templates=templates, max_waiting=1000)
    run = (await service.engine.write(service.clock.now(), run_now, org=org)).run
    service.hints.wake("ready")
    until = service.clock.monotonic() + _WAIT_SECONDS
    load = partial(runs.get, org=org, run=run.id)
    while run.status in (RunStatus.QUEUED, RunStatus.RUNNING) and service.clock.monotonic() < until:
        await service.clock.sleep(0.05)
        run = await service.engine.read(service.clock.now(), load, org=org)


def in_words(facts: Mapping[str, Any]) -> str:
    """Returns the text for looking around: addresses, sign-ins, a credential and three calls."""
    base, person = facts["base_url"], facts["people"][0]
    credential = facts["credential"]
    login = {
        "username": person["username"],
        "email": person["email"],
        "organization_name": facts["organization"]["name"],
        **credential,
    }
    run_now = f"{base}/v1/automations/{facts['automations'][0]['id']}/runs"
    body = {"idempotency_key": "try-1", "mode": "test"}
    json_body, bearer = "-H 'Content-Type: application/json'", '-H "Authorization: Bearer $TOKEN"'
    token, run = _taking('["access_token"]'), _taking('["data"]["run"]["id"]')
    lines = [
        "",
        f"Steward is ready at {base}, beside a sample shop at {facts['sandbox_url']}.",
        "",
        "Sign in:",
        *(
            f"  {sign_in['role']:<9} {sign_in['email']:<24} {sign_in['password']}"
            for sign_in in facts["people"]
        ),
        "",
        f"Organization “{facts['organization']['name']}”, API credential {credential['client_id']}",
        f"  secret {credential['client_secret']}",
        "",
        "One automation has run and waits for approval. Log in, run it as a test, follow the run:",
        "",
        f"  TOKEN=$(curl -s {base}/v2/api/automations/login {json_body} -d '{json.dumps(login)}' | {token})",
        f"  RUN=$(curl -s {run_now} {bearer} {json_body} -d '{json.dumps(body)}' | {run})",
        f"  curl -s {base}/v1/automations/runs/$RUN {bearer} | python3 -m json.tool",
        "",
        f"Data is kept in {facts['data_dir']}. Stop with Ctrl-C.",
    ]
    return "\n".join(lines)


def _taking(path: str) -> str:
    return f"python3 -c 'import json, sys; print(json.load(sys.stdin){path})'"
