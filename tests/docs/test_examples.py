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
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx
import pytest

from steward.cli.demo import in_words
from tests.clients.test_typescript_client import needs_build
from tests.processes.forked import LONGEST, environ
from tests.processes.ports import free_port
from tests.processes.running import Running, eventually, start_forked
from tests.source import ROOT

# What `steward init` asks on a terminal, and the answers.
ANSWERS = ("", "sqlite", "", "My Shop", "Europe/Berlin", "owner@example.com", "", "")
_CURL = re.compile(r"^  (TOKEN=|RUN=|curl )", re.M)


@pytest.fixture
async def demo(tmp_path: Path) -> AsyncIterator[Running]:
    """The demo, as its command starts it."""
    words = ("demo", "--dir", str(tmp_path / "demo"), "--port", str(free_port(2)))
    running = await start_forked(*words, env={})
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


def client_env(demo: Running) -> dict[str, str]:
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


async def runs_of_python(demo: Running, folder: Path) -> str:
    """Runs the program of the Python client's README."""
    program = folder / "program.py"
    program.write_text(block("clients/python/README.md", "python"), "utf-8")
    env = {**client_env(demo), "PYTHONPATH": str(ROOT / "clients/python")}
    return await printed(sys.executable, str(program), env=env, folder=folder)


async def runs_of_typescript(demo: Running, folder: Path) -> str:
    """Runs the program of the TypeScript client's README, which uses no type."""
    client = (ROOT / "clients/typescript/dist/index.js").as_uri()
    program = folder / "program.mjs"
    program.write_text(
        block("clients/typescript/README.md", "ts").replace('"steward-client"', f'"{client}"'), "utf-8"
    )
    return await printed("node", str(program), env=client_env(demo), folder=folder)


async def run_of_curl(demo: Running, folder: Path) -> str:
    """Runs the three lines that the demo prints, by a shell and in their order."""
    lines = [line.strip() for line in in_words(demo.facts).splitlines() if _CURL.match(line)]
    assert len(lines) == 3
    return await printed("sh", "-c", "\n".join(["set -e", *lines]), env={}, folder=folder)


@pytest.mark.skipif(shutil.which("curl") is None, reason="SKIPPED LOUDLY: curl is not here")
@needs_build
async def test_programs_and_calls_of_the_documents_run_against_a_demo(demo: Running, tmp_path: Path) -> None:
    """Both clients' programs test each automation; the demo's own lines log in, start and follow a run."""
    folders = [tmp_path / name for name in ("python", "typescript", "curl")]
    for folder in folders:
        folder.mkdir()
    python, typescript, answer = await asyncio.gather(
        runs_of_python(demo, folders[0]), runs_of_typescript(demo, folders[1]), run_of_curl(demo, folders[2])
    )
    names = {automation["name"] for automation in demo.facts["automations"]}
    assert len(names) == 3
    for output in (python, typescript):
        lines = output.splitlines()
        done = {name for name in names if any(line.startswith(f"{name} succeeded") for line in lines)}
        assert done == names, output
        assert len(lines) > len(names), "each step is told"
    run = json.loads(answer)
    assert (run["success"], run["data"]["run"]["mode"]) == (True, "test")


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
