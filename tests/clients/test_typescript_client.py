"""The TypeScript client against the live service, built and run by one process of Node.

CLIENT_RUNS sets how many runs are started while every fifth answer is lost.
"""

import asyncio
import inspect
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from steward_client import errors

from steward.api import openapi
from steward.api.operations import OPERATIONS
from steward.cli.connection_limits import ConnectionLimits
from steward.model.account import Scope
from tests.api.test_edge import listening
from tests.clients.faults import name_of_call
from tests.imports.exports import chain, tell_step
from tests.populated_service import PopulatedService
from tests.source import ROOT

FOLDER = ROOT / "clients/typescript"
RUNS = int(os.environ.get("CLIENT_RUNS", "10"))
LOGIN = "POST /v2/api/automations/login"
needs_build = pytest.mark.skipif(
    not (FOLDER / "dist/bundle.js").exists() or shutil.which("node") is None,
    reason="`make client-typescript` builds it",
)


async def seen_by_node(populated: PopulatedService, port: int) -> Any:
    """What the program saw; whenever it sleeps, time goes on and the worker works."""
    body = populated.service.login_body("member")
    settings = {
        "url": f"http://127.0.0.1:{port}",
        "lost": 5,
        "runs": RUNS,
        "sheet": populated.number("spreadsheet"),
        "content": chain(tell_step()),
        "clientId": body["client_id"],
        "clientSecret": body["client_secret"],
        "username": body["username"],
        "email": body["email"],
        "organization": body["organization_name"],
    }
    pipes = {name: asyncio.subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    node = await asyncio.create_subprocess_exec(
        "node", FOLDER / "test/live.mjs", json.dumps(settings), limit=1 << 20, **pipes
    )
    assert node.stdin is not None
    assert node.stdout is not None
    assert node.stderr is not None
    while line := await node.stdout.readline():
        message = json.loads(line)
        if "seen" in message:
            await node.wait()
            return message["seen"]
        populated.service.clock.tick(message["sleep"] / 1000)
        await populated.shop.drain()
        node.stdin.write(b"\n")
    raise AssertionError((await node.stderr.read()).decode())


@needs_build
async def test_the_client_keeps_its_rules(populated: PopulatedService) -> None:
    """One login for a hundred callers; while answers are lost no run twice; every operation is called."""
    async with listening(populated.service, ConnectionLimits()) as port:
        seen = await seen_by_node(populated, port)
    assert seen["done"] == ["succeeded", [1, 2, 3]]
    assert seen["live"] == "waiting_approval"
    assert seen["pages"] == [1, 1]
    assert len(set(seen["ids"])) == RUNS
    assert set(seen["ids"]) <= set(seen["listed"])
    assert len(seen["listed"]) == 2 + RUNS
    assert len(seen["keys"]) == 2 + RUNS
    assert [key for key in seen["keys"] if re.fullmatch("01[0-9A-HJKMNP-TV-Z]{24}", key) is None] == []
    assert seen["unknown"] == ["OutcomeUnknown", "Another", True]
    assert seen["cancel"] == "NoResponse"
    assert seen["wrong"] == ["ValidationFailed", "validation_failed", ["name"], "string"]
    assert seen["absent"] == "NotFound"
    sent = seen["sent"]
    assert sent[LOGIN] == 2
    assert sent["POST /v1/automations/runs/{id}/cancel"] == 1
    assert sent["POST /v1/automations/{id}/runs"] > 2 + RUNS
    assert (seen["failures"], seen["logins"]) == (["InvalidCredentials"], 3)
    assert seen["operations"] == {
        "run": ["waiting_approval", "cancelled", 1, "WrongState"],
        "isWaiting": True,
        "isCounted": True,
        "isListed": True,
    }
    calls = [httpx.Request(*call.split(" ", 1)) for call in seen["called"]]
    named = {row.name for row in OPERATIONS if row.scope in (Scope.READ, Scope.WRITE)}
    assert {name_of_call(call) for call in calls} == named | {"login"}


@needs_build
def test_the_program_of_the_readme_is_sound(tmp_path: Path) -> None:
    """It is compiled against the package's types."""
    [program] = re.findall(r"```ts\n(.*?)```", (FOLDER / "README.md").read_text("utf-8"), re.S)
    (tmp_path / "program.ts").write_text(
        program.replace('"steward-client"', f'"{FOLDER}/dist/index.js"'), "utf-8"
    )
    strict = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck"]
    modules = FOLDER / "node_modules"
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    run = subprocess.run(
        [modules / ".bin/tsc", *strict, "--types", "node", "--typeRoots", modules / "@types", "program.ts"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == ""


@needs_build
def test_the_package_is_small() -> None:
    """At most 15 KB minified, with what it needs in it."""
    assert (FOLDER / "dist/bundle.js").stat().st_size <= 15 * 1024


def test_both_clients_have_the_same_errors() -> None:
    """Each code and status has a class of the same name in both; the codes are those of the document."""
    source = (FOLDER / "src/errors.ts").read_text("utf-8")
    table = dict(re.findall(r"(\w+): ([A-Z]\w+)(?=,)", source.partition("KINDS")[2].partition("};")[0]))
    python = {str(key): kind.__name__ for key, kind in [*errors.BY_CODE.items(), *errors.BY_STATUS.items()]}
    assert table == {"0": "NoResponse", **python}
    document = openapi.document(OPERATIONS, "/", version="1")
    responses = [
        response
        for item in document["paths"].values()
        for row in item.values()
        for response in row["responses"].values()
    ]
    codes = {code for response in responses for code in response.get("x-codes", ())}
    assert codes - errors.BY_CODE.keys() == {"unsupported_media_type"}  # both send JSON alone
    for name, kind in vars(errors).items():
        if (
            inspect.isclass(kind)
            and issubclass(kind, errors.StewardError)
            and name not in ("StewardError", "WaitTimeout")
        ):
            assert f"export class {name} extends {kind.__base__.__name__} " in source


def test_the_lock_file_names_no_registry() -> None:
    """Packages are known by their hashes; where they come from is the installer's matter."""
    lock = json.loads((FOLDER / "package-lock.json").read_text("utf-8"))
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "clients/typescript/dist", "clients/typescript/src/schema.d.ts"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.stdout == ""
