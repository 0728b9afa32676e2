"""Programs and commands that documents show are executed, against a demo service on loopback.

Calls of docs/guides/api-clients.md are made by tests/test_docs.py, recipes of CONTRIBUTING.md followed by
tests/test_recipes.py; test_commands.py says which command of a block is executed where.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import httpx
import pytest

from steward.cli.demo import in_words
from tests.clients.test_typescript_client import needs_build
from tests.processes.forked import LONGEST, environ
from tests.processes.ports import free_port
from tests.processes.running import RunningProcess, eventually, start_forked
from tests.source import ROOT

# What `steward init` asks on a terminal, and the answers.
ANSWERS = ("", "sqlite", "", "My Shop", "Europe/Berlin", "owner@example.com", "", "")
_CURL = re.compile(r"^  (TOKEN=|RUN=|curl )", re.M)


@pytest.fixture(scope="module")
async def demo(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningProcess]:
    """The demo, as its command starts it, for all tests of this file."""
    folder = tmp_path_factory.mktemp("demo")
    running = await start_forked("demo", "--dir", str(folder), "--port", str(free_port(2)), env={})
    yield running
    assert await running.stop() == 0


def block(document: str, language: str) -> str:
    """The only block of a document in this language."""
    text = (ROOT / document).read_text("utf-8")
    [outcome] = re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
    return str(outcome)


async def printed(*words: str, env: Mapping[str, str], folder: Path, stdin: int | None = None) -> str:
    """What a command prints; fails unless it exits 0."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *words, env=environ(env), cwd=folder, stdin=stdin, stdout=pipe, stderr=pipe
    )
    out, err = await asyncio.wait_for(process.communicate(), LONGEST)
    assert process.returncode == 0, (out + err).decode()
    return out.decode()


def client_env(demo: RunningProcess) -> dict[str, str]:
    """The variables that both clients read, for the demo's owner."""
    facts = demo.facts
    owner, credential = facts["people"][0], facts["credential"]
    return {
        "STEWARD_CLIENT_URL": facts["base_url"],
        "STEWARD_CLIENT_ID": credential["client_id"],
        "STEWARD_CLIENT_SECRET": credential["client_secret"],
        "STEWARD_CLIENT_USERNAME": owner["username"],
        "STEWARD_CLIENT_EMAIL": owner["email"],
        "STEWARD_CLIENT_ORGANIZATION": facts["organization"]["name"],
    }


async def runs_of_python(demo: RunningProcess, folder: Path) -> str:
    """Runs the program of the Python client's README."""
    program = folder / "program.py"
    program.write_text(block("clients/python/README.md", "python"), "utf-8")
    env = {**client_env(demo), "PYTHONPATH": str(ROOT / "clients/python")}
    return await printed(sys.executable, str(program), env=env, folder=folder)


async def runs_of_typescript(demo: RunningProcess, folder: Path) -> str:
    """Runs the program of the TypeScript client's README, which uses no type."""
    client = (ROOT / "clients/typescript/dist/index.js").as_uri()
    program = folder / "program.mjs"
    program.write_text(
        block("clients/typescript/README.md", "ts").replace('"steward-client"', f'"{client}"'), "utf-8"
    )
    return await printed("node", str(program), env=client_env(demo), folder=folder)


async def run_of_curl(demo: RunningProcess, folder: Path) -> str:
    """Runs the three lines that the demo prints, by a shell and in their order."""
    lines = [line.strip() for line in in_words(demo.facts).splitlines() if _CURL.match(line)]
    assert len(lines) == 3
    return await printed("sh", "-c", "\n".join(["set -e", *lines]), env={}, folder=folder)


@pytest.mark.skipif(shutil.which("curl") is None, reason="SKIPPED LOUDLY: curl is not here")
async def test_the_lines_that_the_demo_prints_log_in_and_start_and_follow_a_run(
    demo: RunningProcess, tmp_path: Path
) -> None:
    """The last of the three lines shows the run that the second one started, a test."""
    run = json.loads(await run_of_curl(demo, tmp_path))
    assert (run["success"], run["data"]["run"]["mode"]) == (True, "test")


@pytest.mark.parametrize("runs", [runs_of_python, pytest.param(runs_of_typescript, marks=needs_build)])
async def test_the_program_of_a_client_runs_against_a_demo(
    demo: RunningProcess, tmp_path: Path, runs: Callable[[RunningProcess, Path], Awaitable[str]]
) -> None:
    """Each client's program tests each automation and prints each step."""
    output = await runs(demo, tmp_path)
    names = {automation["name"] for automation in demo.facts["automations"]}
    assert len(names) == 3
    lines = output.splitlines()
    done = {name for name in names if any(line.startswith(f"{name} succeeded") for line in lines)}
    assert done == names, output
    assert len(lines) > len(names), "each step is printed"


async def test_an_installation_begins_as_the_guide_for_operators_says(tmp_path: Path) -> None:
    """`steward init` on a terminal, then `steward serve` with the file it wrote."""
    guide = (ROOT / "docs/guides/operators.md").read_text("utf-8")
    [init, serve] = re.findall(r"^```sh\n(steward init)\n(steward serve .*)\n```", guide, re.M)[0]
    port = free_port()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path, "STEWARD_LISTEN": f"127.0.0.1:{port}", "STEWARD_METRICS_LISTEN": "off"}
    ours, theirs = os.openpty()
    try:
        answers = ("", f"http://127.0.0.1:{port}", *ANSWERS[1:])
        os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
        output = await printed("sh", "-c", init, env=env, folder=tmp_path, stdin=theirs)
    finally:
        os.close(theirs)
        os.close(ours)
    assert "steward serve --env-file" in output
    served = await asyncio.create_subprocess_exec(
        "sh", "-c", f"exec {serve}", env=environ(env), cwd=tmp_path, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:

            async def ready() -> bool:
                try:
                    return (await client.get("/readyz")).status_code == 200
                except httpx.TransportError:
                    return False

            await eventually(ready)
    finally:
        served.send_signal(signal.SIGTERM)
        assert await served.wait() == 0
