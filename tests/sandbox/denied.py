"""Denies seccomp filters and namespaces to a process, as in some containers.

Its own filter denies both; what the process starts inherits it.
"""

import asyncio
import ctypes
import json
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steward import app
from steward.cli.doctor.sandbox_warning import log_missing_isolation
from steward.clock import SystemClock
from steward.config import read
from steward.sandbox.protocol import SandboxStopped
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister

# The numbers of prctl, seccomp and unshare by architecture.
CALLS = {"x86_64": (157, 317, 272), "aarch64": (167, 277, 97)}
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, DENY = 0x7FFF0000, 0x00050001  # DENY returns EPERM
SET_SECCOMP = 22


def _step(code: int, yes: int, no: int, value: int) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


def deny() -> None:
    """Denies seccomp and namespaces to this process and all that it starts."""
    prctl, seccomp, unshare = CALLS[os.uname().machine]
    steps = [
        _step(LOAD, 0, 0, 0),
        _step(EQUAL, 5, 0, seccomp),
        _step(EQUAL, 4, 0, unshare),
        _step(EQUAL, 0, 2, prctl),
        _step(LOAD, 0, 0, 16),  # its first argument
        _step(EQUAL, 1, 0, SET_SECCOMP),
        _step(RETURN, 0, 0, ALLOW),
        _step(RETURN, 0, 0, DENY),
    ]
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(b"".join(steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(SET_SECCOMP, 2, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the filter cannot be set")


def deny_and_log(file: Path) -> None:
    """Denies seccomp and namespaces, and writes the log of the process to a file."""
    deny()
    os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), 2)


def ask_denied(messages: Mapping[str, Any], environs: Sequence[Mapping[str, str]]) -> None:
    """Builds a service from each of these environments without seccomp and namespaces.

    Prints what happens to foreign code of each kind, and the warnings that `serve` logs as it starts.
    """
    deny()
    print(json.dumps([asyncio.run(_ask(messages, environ)) for environ in environs]), flush=True)


async def _ask(messages: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    settings = read({**os.environ, **environ})
    service = await app.build(settings, clock=SystemClock(), serve=False)
    pool, lines = service.worker_context.sandbox_pool, list[str]()
    answers: dict[str, Any] = {}
    for kind, (op, payload) in messages.items():
        try:
            answer = await pool.send(("org", kind), kind, {"op": op}, json.dumps(payload).encode(), 5.0)
            answers[kind] = json.loads(answer)
        except SandboxStopped as stopped:
            answers[kind] = [stopped.code, stopped.message]
    await log_missing_isolation(settings, pool, Log(lines.append, SystemClock(), SecretRegister()))
    await service.close()
    return answers, [json.loads(line)["message"] for line in lines]
