"""Tests foreign code on a machine without seccomp and namespaces, and the child's user and rights."""

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from steward.cli.doctor.sandbox_warning import log_missing_isolation
from steward.clock import SystemClock
from steward.config import read
from steward.sandbox.pool import JAVASCRIPT, LIQUID, SandboxPool
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.processes.forked import fork, fork_call, fork_to_end
from tests.sandbox.denied import CALLS, ask_denied, deny, deny_and_log

ROOT = Path(__file__).resolve().parents[2]
KEYS = "k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
MESSAGES = {JAVASCRIPT: ("match", [["a", "", "a"]]), LIQUID: ("check", ["{{ a }}"])}

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.uname().machine not in CALLS,
    reason="what is denied here are calls of Linux",
)


def _environ(folder: Path, **more: str) -> dict[str, str]:
    stored = {name: value for name, value in os.environ.items() if not name.startswith("STEWARD_")}
    return {
        **stored,
        "STEWARD_ENV": "production",
        "STEWARD_MASTER_KEYS": KEYS,
        "STEWARD_DATABASE_URL": f"sqlite:///{folder / 'steward.db'}",
        "STEWARD_DATA_DIR": str(folder),
        "STEWARD_METRICS_LISTEN": "off",
        **more,
    }


async def test_foreign_code_is_refused_in_production_without_isolation(
    sqlite_url: str, tmp_path: Path
) -> None:
    """Refuses JavaScript and Liquid in production with a plain message, unless a setting accepts the risk.

    A production service warns of either; a test service does not.
    """
    env = _environ(tmp_path, STEWARD_DATABASE_URL=sqlite_url)
    environs = [{}, {"STEWARD_UNCONFINED_SCRIPTS": "on"}, {"STEWARD_ENV": "test"}]
    code, line = await fork_call(ask_denied, MESSAGES, environs, env=env)
    assert code == 0
    results, warnings = zip(*json.loads(line), strict=True)
    assert results[1:] == ({JAVASCRIPT: [[True]], LIQUID: [[]]},) * 2
    assert [len(messages) for messages in warnings] == [1, 1, 0]
    assert "are refused" in warnings[0][0]
    assert "with resource limits only" in warnings[1][0]
    for code, words in results[0].values():
        assert code == "code_refused"
        assert "not run on this installation" in words
        assert "operator" in words


async def test_operators_are_warned_by_doctor_and_at_the_start(sqlite_url: str, tmp_path: Path) -> None:
    """Fails the check of `doctor` with advice; a production service logs a warning as it starts."""
    env = _environ(tmp_path, STEWARD_DATABASE_URL=sqlite_url)
    code, line = await fork_to_end("doctor", env=env, before=deny)
    checks = {item["name"]: item for item in json.loads(line)["checks"]}
    assert code == 1
    assert not checks["confined"]["ok"]
    assert "are refused" in checks["confined"]["message"]
    assert "seccomp" in checks["confined"]["message"]
    log = tmp_path / "log.txt"
    child, line = await fork("serve", "--port", "0", env=env, before=partial(deny_and_log, log))
    assert json.loads(line)["pid"] == child.pid
    child.terminate()
    assert await child.wait() == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    [log_line] = [line for line in lines if line.get("action") == "foreign_code_not_confined"]
    assert "are refused" in log_line["message"]


async def test_a_service_starts_where_no_child_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs a warning without a folder for temporary files, and the service starts."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    written: list[str] = []
    log = Log(written.append, SystemClock(), SecretRegister())
    settings = read(_environ(tmp_path))
    children = SandboxPool(1)
    await log_missing_isolation(settings, children, log)
    await children.close()
    [line] = [json.loads(line_text) for line_text in written]
    assert (line["action"], line["level"]) == ("foreign_code_unavailable", "warning")
    assert "missing" in line["message"]


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


async def test_a_child_has_no_capabilities_and_its_own_user() -> None:
    """Has no capability, and as root a user and group that no other child has."""
    children = SandboxPool(2)
    users = []
    try:
        for kind, (op, payload) in MESSAGES.items():
            await children.send(("org", kind), kind, {"op": op}, json.dumps(payload).encode(), 5.0)
        assert (await children.probe_isolation()).unprivileged
        for child in children._live:
            status = _status(child.process.pid)
            assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
            assert status["NoNewPrivs"] == "1"
            assert status["Threads"] == "1"  # a seccomp filter applies to its thread only
            assert "0" not in status["Uid"].split() + status["Gid"].split()
            if os.getuid() == 0:
                assert status["Groups"] == ""
                assert set(status["CapBnd"]) == {"0"}
            users.append(status["Uid"])
    finally:
        await children.close()
    if os.getuid() == 0:
        assert len(set(users)) == len(users)


# As root without CAP_SYS_ADMIN, which may then make a user namespace but no network namespace alone.
WITHOUT_SYS_ADMIN = """
import asyncio, ctypes, json, sys
from pathlib import Path
from steward.sandbox.pool import _BARE, SandboxPool
assert ctypes.CDLL(None).prctl(24, 21, 0, 0, 0) == 0  # PR_CAPBSET_DROP, CAP_SYS_ADMIN
async def main():
    children = SandboxPool(1)
    child = await children._start(_BARE)
    status = Path(f"/proc/{child.process.pid}/status").read_text()
    print(json.dumps([child.isolation.unprivileged, status]))
    await children.close()
asyncio.run(main())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root has a user to give up")
def test_root_gives_up_its_user_before_it_makes_a_user_namespace() -> None:
    """Gives up its user first, because within a user namespace it would still be root to files outside."""
    command = [sys.executable, "-c", WITHOUT_SYS_ADMIN]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    gave_up_root, status = json.loads(ended.stdout)
    assert gave_up_root
    [users] = [line.split()[1:] for line in status.splitlines() if line.startswith("Uid:")]
    assert "0" not in users
