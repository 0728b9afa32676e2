"""Operator commands start without loading the service, and the lists of commands are complete."""

import io
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from steward.cli.command import Command
from steward.cli.run import run
from steward.cli.table import FILES, commands, descriptions
from tests.processes.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
# What makes the service slow to load: web framework, API, worker, templates and HTTP client.
HEAVY = {
    "starlette", "uvicorn", "httptools", "pydantic", "jsonschema", "httpx", "quickjs", "liquid", "selectolax",
    "steward.app", "steward.api", "steward.worker", "steward.runs", "steward.templates", "steward.connectors",
    "steward.fake_platforms", "steward.imports", "steward.steps",
}  # fmt: skip
SERVICE = {"starlette", "uvicorn", "pydantic", "steward.app", "steward.api", "steward.worker"}
MAX_MODULES_OF_KEYS = 450  # with those of the standard library
LIGHT = ("org", "user", "credential", "keys", "migrate", "init")
WITHOUT_SERVICE = (*LIGHT, "audit", "backup", "restore", "restored", "compact", "doctor", "mail")

# `--help` itself leaves by SystemExit, behind which all that it needed is loaded.
LOADED_BY = """
import contextlib, io, json, sys
from steward.__main__ import main
from steward.cli.table import commands
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main() if sys.argv[1] == "--help" else commands(sys.argv[1])
print(json.dumps(sorted(sys.modules)))
"""


def _loaded(word: str) -> set[str]:
    """Returns the modules that a fresh process has loaded when the commands of `word` can run."""
    command = [sys.executable, "-c", LOADED_BY, word]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=60)
    return set(json.loads(ended.stdout))


def test_the_table_describes_the_commands_that_each_file_has() -> None:
    """Lists in the table every command of a file, without which it could not be called, and no other."""
    command_names: list[str] = []
    for file, texts in FILES.items():
        file_commands: list[Command] = import_module(f"steward.cli.{file}").COMMANDS
        assert list(texts) == [command.name for command in file_commands]
        command_names += texts
    assert len(set(command_names)) == len(command_names)  # of two with one name, one could not be called
    assert set(descriptions()) == set(command_names)
    first_words = {name.split()[0] for name in descriptions()}
    assert {*WITHOUT_SERVICE, "serve", "worker", "demo", "sandbox"} == first_words
    for word in first_words:
        names = {command.name for command in commands(word)}
        assert {name for name in descriptions() if name.split()[0] == word} <= names


def test_the_help_names_the_commands_of_each_group(capsys: pytest.CaptureFixture[str]) -> None:
    """Lists the commands behind a first word; `--help` alone would not lead to them."""
    with pytest.raises(SystemExit):
        run(["--help"], {}, out=io.StringIO(), err=io.StringIO())
    text = " ".join(capsys.readouterr().out.split())
    for group, names in (("org", "create, list, automations, erase"), ("keys", "new, rotate encryption")):
        assert f"{group} {names}" in text
    assert "doctor check the installation and say what to do" in text


def test_the_help_loads_no_command() -> None:
    """Prints `--help` in a tenth of the time that loading the service takes."""
    assert not _loaded("--help") & {*HEAVY, *(f"steward.cli.{file}" for file in FILES)}


@pytest.mark.parametrize("word", ["keys", "user", "migrate", "audit", "backup", "doctor", "mail"])
def test_operator_commands_do_not_load_the_service(word: str) -> None:
    """Loads no part of the service for operator commands, and only the database for the light ones."""
    loaded = _loaded(word)
    files = {file for file, texts in FILES.items() if word in {name.split()[0] for name in texts}}
    assert {f"steward.cli.{file}" for file in files} <= loaded
    assert loaded & (HEAVY if word in LIGHT else SERVICE) == set()


def test_the_fake_platforms_start_without_the_service() -> None:
    """Loads no API, worker or template for `sandbox`, which each start of the demo executes."""
    loaded = _loaded("sandbox")
    assert "steward.fake_platforms" in loaded
    assert loaded & HEAVY <= {"uvicorn", "httptools", "httpx", "steward.fake_platforms"}


def test_a_new_key_is_made_and_loads_few_modules() -> None:
    """Prints a new key; the modules that it loads, which are most of its time, stay bounded."""
    command = [sys.executable, "-m", "steward", "keys", "new", "--json"]
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=60)
    assert "key" in json.loads(completed.stdout)
    assert len(_loaded("keys")) <= MAX_MODULES_OF_KEYS


@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("worker",), ("migrate",), ("doctor",)])
def test_an_unreachable_database_is_told_server_by_server(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Says for each server of the URL what happened, and shows no password."""
    ports = [free_port(), free_port()]
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    environ = {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": f"postgresql://steward:5ecret@{hosts}/steward",
        "STEWARD_DATA_DIR": str(tmp_path),
    }
    out, err = io.StringIO(), io.StringIO()
    assert run([*words, "--json"], environ, out=out, err=err) == 1
    each = "; ".join(f"127.0.0.1:{port}: refuses connections" for port in ports)
    assert f"The database cannot be reached: {each}." in out.getvalue()
    assert "5ecret" not in out.getvalue() + err.getvalue()


def test_make_lists_every_target_that_says_what_it_does() -> None:
    """Lists every described target in bare `make`, also those with digits in their names."""
    text = (ROOT / "Makefile").read_text("utf-8")
    described = set(re.findall(r"^([^\s:#]+):[^=\n]*?## ", text, re.MULTILINE))
    command = ["make", "--no-print-directory", "help"]
    stdout = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split()[1] for line in stdout.splitlines() if line.strip()} == described
    assert {"n8n-cases", "try-s3", "help"} <= described
