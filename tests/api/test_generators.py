"""Generators of clients read the OpenAPI document without a warning.

One of them runs here; `make generators` runs three.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from steward.api import openapi
from steward.api.operations import OPERATIONS
from tests.source import ROOT

FOLDER = ROOT / ".cache/generators"
PYTHON_CLIENT = FOLDER / "bin/openapi-python-client"
NODE_TOOLS = FOLDER / "node_modules/.bin"
NIGHTLY = "GENERATORS" in os.environ
PUBLIC = ("/v1/", "/v2/")
WEB = ("/v1/", "/app/")


def described(folder: Path, under: tuple[str, ...]) -> Path:
    """Writes the document with the operations under these prefixes to a file and returns its path."""
    file = folder / "openapi.json"
    file.write_text(
        json.dumps(openapi.document(OPERATIONS, "https://auto.example", version="1.0.0", under=under)),
        "utf-8",
    )
    return file


def output_of(*command: object, folder: Path) -> str:
    """Returns the output of the command, which must exit with 0."""
    run = subprocess.run(
        [str(word) for word in command], cwd=folder, text=True, capture_output=True, check=False, timeout=600
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout + run.stderr


@pytest.mark.skipif(not PYTHON_CLIENT.exists(), reason="`make generators` installs it")
def test_openapi_python_client_reads_every_operation(tmp_path: Path) -> None:
    """Generates a Python client without a warning that has a module for every operation."""
    file = described(tmp_path, (*PUBLIC, *WEB))
    (tmp_path / "config.yml").write_text("post_hooks: []\n", "utf-8")
    output = output_of(
        PYTHON_CLIENT, "generate", "--path", file, "--output-path", tmp_path / "out", "--meta", "none",
        "--config", tmp_path / "config.yml", "--fail-on-warning",
        folder=tmp_path,
    )  # fmt: skip
    assert "warning" not in output.lower()
    modules = {path.stem for path in (tmp_path / "out/api").glob("*/*.py")} - {"__init__"}
    assert modules == {row.name.replace(".", "_") for row in OPERATIONS} | {"login"}
    create = (tmp_path / "out/api/automations/automations_create.py").read_text("utf-8")
    assert "CreateBody" in create
    assert "ValidationRefusal" in create


@pytest.mark.skipif(not NIGHTLY, reason="`make generators` runs it")
@pytest.mark.parametrize("under", [PUBLIC, WEB], ids=["public", "web"])
def test_generators_of_typescript_read_both_documents(tmp_path: Path, under: tuple[str, ...]) -> None:
    """Generates TypeScript with two generators without a warning; the result compiles under --strict."""
    file = described(tmp_path, under)
    types = output_of(NODE_TOOLS / "openapi-typescript", file, "-o", "types.ts", folder=tmp_path)
    client = output_of(
        NODE_TOOLS / "openapi-ts", "-i", file, "-o", "client", "--no-log-file", folder=tmp_path
    )
    assert "warn" not in (types + client).lower()
    sources = [path.relative_to(tmp_path) for path in (tmp_path / "client").glob("*.ts")]
    options = "--noEmit --strict --target es2022 --module esnext --moduleResolution bundler"
    output_of(NODE_TOOLS / "tsc", *options.split(), "types.ts", *sources, folder=tmp_path)
