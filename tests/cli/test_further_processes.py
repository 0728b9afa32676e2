"""`steward serve` begins further processes again, and goes on when its metrics server fails."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

from steward.cli import serve
from steward.cli.connection_limits import ConnectionLimits
from steward.cli.supervision import FurtherProcess
from steward.clock import backoff
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.fake_clock import FakeClock


class Programs:
    """Starts a program for each further process, and remembers when."""

    def __init__(self, *command: str) -> None:
        self.command = command
        self.children: list[subprocess.Popen[str]] = []
        self.lines: list[str] = []
        self.tries: list[float] = []
        self.now = 0.0

    def begin(self) -> "subprocess.Popen[str]":
        self.tries.append(self.now)
        self.children.append(subprocess.Popen(self.command, text=True))
        return self.children[-1]

    def pass_time(self, process: FurtherProcess, seconds: int, *, end: Callable[[], object]) -> None:
        """Looks at the process each second; `end` makes the program end, or waits for its end."""
        for _ in range(seconds):
            process.keep(self.now)
            end()
            self.now += 1

    @property
    def logged(self) -> list[tuple[str, Any]]:
        lines = [json.loads(line) for line in self.lines]
        return [(line["action"], line.get("code", line.get("reason"))) for line in lines]


def process_of(programs: Programs) -> FurtherProcess:
    """Returns a process that nobody has begun."""
    return FurtherProcess(programs.begin, Log(programs.lines.append, FakeClock(), SecretRegister()))


def test_a_process_that_ends_at_once_is_begun_ever_later() -> None:
    """Waits 1, 2, 4 and up to 30 seconds after each end; after a long life, 1 second again."""
    programs = Programs("/bin/sh", "-c", "exit 3")
    process = process_of(programs)
    programs.pass_time(process, 100, end=lambda: programs.children[-1].wait())
    assert programs.tries == [0, 2, 5, 10, 19, 36, 67, 98]
    assert programs.logged == [("api_process_ended", 3)] * 8
    programs.now, programs.command = 129, ("sleep", "600")
    programs.pass_time(process, 40, end=lambda: None)
    programs.children[-1].kill()
    programs.children[-1].wait()
    programs.pass_time(process, 3, end=lambda: None)
    assert programs.tries[8:] == [129, 170]
    assert programs.logged[8:] == [("api_process_ended", -9)]
    process.terminate()
    process.wait()
    assert programs.children[-1].returncode == -15


def test_a_process_that_cannot_be_begun_is_tried_again() -> None:
    """Logs each failure of the operating system and tries again, with the same pauses."""
    programs = Programs("/absent/program")
    process = process_of(programs)
    programs.pass_time(process, 62, end=lambda: None)
    assert programs.tries == [0, 1, 3, 7, 15, 31, 61]
    assert {action for action, _ in programs.logged} == {"api_process_not_begun"}
    assert "No such file" in programs.logged[0][1]
    programs.command = ("/bin/sh", "-c", "exit 0")
    programs.pass_time(process, 30, end=lambda: None)
    assert programs.tries == [0, 1, 3, 7, 15, 31, 61, 91]
    process.wait()
    assert [child.returncode for child in programs.children] == [0]


def test_the_pause_between_tries_has_a_limit() -> None:
    """Computes a pause also for the failures of an outage of days."""
    assert [backoff(failures) for failures in (1, 2, 3, 5, 6, 100_000)] == [1, 2, 4, 16, 30, 30]


async def test_a_metrics_server_that_fails_is_logged() -> None:
    """Goes on without metrics, and says why."""
    lines: list[str] = []
    bound = serve.listen("127.0.0.1", 0)
    bound.close()

    async def respond(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError

    server = serve.bounded(respond, ConnectionLimits(max_connections=1))
    async with serve.server_running(server, bound, Log(lines.append, FakeClock(), SecretRegister())):
        pass
    [line] = [json.loads(line) for line in lines]
    assert line["action"] == "metrics_not_served"
    assert "Bad file descriptor" in line["reason"]
