"""Tests that the limits around a child hold against system calls.

See docs/design/sandbox.md#sandbox-for-foreign-code.
"""

import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from steward.sandbox.pool import SandboxPool

ROOT = Path(__file__).resolve().parents[2]
HEAD = """
import os, sys, time, resource
sys.path[:0] = {folders!r}
import socket, ctypes
from steward.sandbox import limits
"""

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the walls of other systems are fewer"
)


def _inside(act: str, door: bool) -> subprocess.CompletedProcess[bytes]:
    """Runs code within the limits, with `door` also behind the filter, and returns the ended process."""
    folders = [str(ROOT), sysconfig.get_path("platlib")]
    text = HEAD.format(folders=folders) + "limits.set_resource_limits()\n"
    text += "assert limits.filter_system_calls()\n" if door else ""
    text += f"{act}\nos.write(1, b'done')\nos._exit(0)\n"
    command = [sys.executable, "-I", "-S", "-c", text]
    return subprocess.run(command, capture_output=True, env={}, close_fds=True, timeout=30, check=False)


FORBIDDEN = {
    "open": "os.open('/etc/hostname', os.O_RDONLY)",
    "list": "os.listdir('/')",
    "connect": "socket.socket()",
    "fork": "os.fork()",
    "run": "os.execv('/bin/true', ['true'])",
    "kill": "os.kill(1, 0)",
    "change": "os.chmod('/tmp', 0o777)",
    "trace": "ctypes.CDLL(None).ptrace(0, 0, 0, 0)",
    "environment": "os.readlink('/proc/self/exe')",
    "sleep": "time.sleep(0.01)",
    "pipe": "os.pipe()",
    "raise": "resource.setrlimit(resource.RLIMIT_CPU, (99, 99))",
}


@linux
@pytest.mark.parametrize("act", list(FORBIDDEN))
def test_an_unlisted_system_call_kills_the_process(act: str) -> None:
    """Kills a process by SIGSYS when it makes a system call that is not listed.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    ended = _inside(FORBIDDEN[act], door=True)
    assert ended.returncode == -signal.SIGSYS, ended
    assert ended.stdout == b""


@linux
def test_the_system_call_filter_allows_what_engines_need() -> None:
    """Lets reads, writes, memory, clocks and random numbers pass.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    ended = _inside("x = bytearray(50_000_000); time.process_time(); os.getpid(); os.urandom(8)", door=True)
    assert (ended.returncode, ended.stdout) == (0, b"done")


@pytest.mark.parametrize(
    ("act", "error"),
    [
        ("x = bytearray(2 << 30)", b"MemoryError"),
        ("a = [os.open('/dev/null', os.O_RDONLY) for _ in range(20)]", b"Too many open files"),
        ("os.write(os.open('/tmp', os.O_WRONLY | os.O_TMPFILE), b'x' * 100)", b"File too large"),
        ("assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0); raise KeyError('limited')", b"limited"),
    ],
)
def test_the_limits_hold_without_the_filter_too(act: str, error: bytes) -> None:
    """Limits memory to 1 GiB, descriptors to 16, and files and core dumps to 0 bytes without the filter.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    ended = _inside(act, door=False)
    assert ended.returncode != 0
    assert error in ended.stderr or ended.returncode == -signal.SIGXFSZ


async def test_a_child_reports_its_isolation_and_has_no_environment_or_files() -> None:
    """Gives a child an empty environment, an empty read-only folder and three descriptors.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    children = SandboxPool(1)
    stand = await children.probe_isolation()
    if sys.platform.startswith("linux"):
        assert stand.system_calls
    child = await children._start("javascript")
    _look_at(child.process.pid)
    await children.close()


def _look_at(pid: int) -> None:
    proc = Path(f"/proc/{pid}")
    if not proc.exists():
        return
    assert len(list((proc / "fd").iterdir())) == 3
    assert b"STEWARD" not in (proc / "environ").read_bytes()
    assert not any((proc / "cwd").iterdir())
    assert (proc / "cwd").stat().st_mode & 0o222 == 0
    assert os.getpgid(pid) == pid
