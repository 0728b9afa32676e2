"""Tests what libraries log in a served process: in the service's format, to one stream, without secrets."""

import asyncio
import json
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from steward.clock import SystemClock
from steward.telemetry.log import LibraryLines, Log
from steward.telemetry.redact import SecretRegister, without_credentials
from tests.processes.forked import environ
from tests.processes.running import eventually

LIVE = "live-planted-secret-4711"
UNKNOWN = "unknownPlanted0815"
# Runs inside the served process once the test opens a FIFO: libraries log there as they do on errors.
PLANTED = f"""
import asyncio, logging, pathlib, sys, threading, warnings

def speak():
    pathlib.Path({{trigger!r}}).read_bytes()  # a FIFO: blocks until the test opens it for writing
    url = "https://user:{UNKNOWN}@shop.example/wp-json?consumer_secret={UNKNOWN}&page=1"
    for name in ("uvicorn.error", "httpx", "httpcore.connection", "asyncpg.pool", "a.library.nobody.knows"):
        log = logging.getLogger(name)
        log.warning("%s failed for %s", {LIVE!r}, url)
        log.error("header %r", (b"authorization", b"Bearer {UNKNOWN}"))
        log.error("X-Api-Key: {UNKNOWN} and a bad format %d %s", "x")
        try:
            raise ValueError("GET /x?token={UNKNOWN} with {LIVE}")
        except ValueError:
            log.exception("broken")
        log.info("not told")
    warnings.warn("called {LIVE} at " + url)

    async def forgets():
        async def fails():
            raise RuntimeError("never retrieved {LIVE} " + url)
        await asyncio.wait([asyncio.create_task(fails())])
    asyncio.run(forgets())

    class Broken:
        def __del__(self):
            raise OSError("finalizer {LIVE} " + url)
    Broken()
    raise LookupError("thread {LIVE} " + url)

if "serve" in sys.orig_argv:
    threading.Thread(target=speak, daemon=True).start()
"""


async def _spoken(env: dict[str, str], trigger: Path, sink: Path) -> None:
    """Serves until the planted thread has logged; the process writes to `sink`."""

    async def thread_has_ended() -> bool:
        return await asyncio.to_thread(lambda: b"LookupError" in sink.read_bytes())

    with sink.open("wb") as err:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "steward", "serve", "--port", "0", "--json"),
            env=environ(env),
            stdout=asyncio.subprocess.PIPE,
            stderr=err,
        )
        try:
            assert child.stdout is not None
            assert json.loads(await asyncio.wait_for(child.stdout.readline(), 60))["pid"] == child.pid
            await asyncio.to_thread(trigger.write_bytes, b"")
            await eventually(thread_has_ended)
        finally:
            child.terminate()
            await child.wait()


async def test_log_lines_of_libraries_take_the_services_format(sqlite_url: str, tmp_path: Path) -> None:
    """Writes each line in the service's format, without registered secrets and others that it recognises."""
    trigger, sink = tmp_path / "speak", tmp_path / "stderr"
    os.mkfifo(trigger)
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted" / "sitecustomize.py").write_text(PLANTED.format(trigger=str(trigger)))
    env = {
        "PYTHONPATH": str(tmp_path / "planted"),
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": sqlite_url,
        "STEWARD_DATA_DIR": str(tmp_path),
        "STEWARD_METRICS_LISTEN": "off",
        "STEWARD_GOOGLE_CLIENT_SECRET": LIVE,
    }
    await _spoken(env, trigger, sink)
    text = sink.read_text()
    assert LIVE not in text
    assert UNKNOWN not in text
    assert "not told" not in text
    lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    of_libraries = [line for line in lines if line["action"] == "library"]
    assert {line["logger"] for line in of_libraries} == {
        *("uvicorn.error", "httpx", "httpcore.connection", "asyncpg.pool", "a.library.nobody.knows"),
        *("py.warnings", "asyncio"),
    }
    assert [line["level"] for line in of_libraries if line["logger"] == "httpx"] == [
        "warning",
        "error",
        "error",
        "error",
    ]
    assert "ValueError: GET /x?[redacted] with [redacted]" in next(
        line["traceback"] for line in of_libraries if line["logger"] == "httpx" and "traceback" in line
    )
    uncaught = [line["traceback"] for line in lines if line["action"] == "uncaught_error"]
    assert [words.rstrip().splitlines()[-1].split()[:2] for words in uncaught] == [
        ["OSError:", "finalizer"],
        ["LookupError:", "thread"],
    ]


ENDS = f"""
import sys
from steward.clock import SystemClock
from steward.telemetry.log import Log, capture_all_output
from steward.telemetry.redact import SecretRegister
register = SecretRegister()
register.add({LIVE!r})
capture_all_output(Log(sys.stderr.write, SystemClock(), register))
raise ConnectionError("postgresql://steward:{UNKNOWN}@db/steward refused {LIVE}")
"""


async def test_an_error_that_ends_the_process_is_a_line_too() -> None:
    """Writes the last error of a process in the format of every line, without secrets."""
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", ENDS, stderr=asyncio.subprocess.PIPE)
    _, err = await child.communicate()
    [line] = [json.loads(item) for item in err.splitlines()]
    assert child.returncode == 1
    assert (line["action"], line["level"], line["where"]) == ("uncaught_error", "error", "process")
    assert line["traceback"].endswith(
        "ConnectionError: postgresql://[redacted]@db/steward refused [redacted]\n"
    )


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("https://a:b@shop.example/x", "https://[redacted]@shop.example/x"),
        ("postgresql://steward:pa55@db/steward", "postgresql://[redacted]@db/steward"),
        ('"GET /v1?token=abc&x=1 HTTP/1.1" 400', '"GET /v1?[redacted] HTTP/1.1" 400'),
        ("Authorization: Bearer abcdefghij", "Authorization: [redacted] [redacted]"),
        ("postgresql://steward:pa@55@db/steward", "postgresql://[redacted]@db/steward"),
        ("Cookie: theme=dark; session=abc", "Cookie: [redacted]"),
        ("[(b'cookie', b'session=abc')]", "[(b'cookie', b'[redacted]')]"),
        ('{"client_secret": "abc", "a": 1}', '{"client_secret": "[redacted]", "a": 1}'),
        ("api_key=abc, and more", "api_key=[redacted], and more"),
        ("What? x = 1", "What? x = 1"),
        ("the secret, which was lost", "the secret, which was lost"),
        ("Task <Task pending name='Task-7'>", "Task <Task pending name='Task-7'>"),
    ],
)
def test_credentials_go_by_their_form(text: str, redacted: str) -> None:
    """Removes credentials by their form, since a library's text may hold some that are not registered."""
    assert without_credentials(text) == redacted


@pytest.mark.parametrize(
    "secret", ["ck_1234,5678;9012&3456)7890", "pass@word/with?signs=1", "Bearer abcdefgh,ijkl"]
)
def test_a_live_secret_goes_whole_whatever_form_a_part_of_it_has(secret: str) -> None:
    """Removes a registered secret whole, even if it contains delimiters or looks like a credential."""
    written: list[str] = []
    register = SecretRegister()
    register.add(secret)
    handler = LibraryLines(Log(written.append, SystemClock(), register))
    error = ValueError(f"token={secret}")
    words, raised = "https://u:%s@h/ api_key=%s", (type(error), error, None)
    record = logging.LogRecord("any", logging.ERROR, "", 0, words, (secret, secret), raised)
    handler.emit(record)
    [line] = [json.loads(line_text) for line_text in written]
    for part in re.findall(r"\w{4,}", secret):
        assert part not in line["words"] + line["traceback"]
