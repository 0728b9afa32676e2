"""Tests that each line of the log names its process, and its trace where traces are sent."""

import json
import os
from typing import Any

from steward import startup
from steward.config import read
from steward.telemetry.traces import current_run, current_trace, run_span, trace_id_text
from steward.version import __version__
from tests.fake_clock import FakeClock

RUN = "01JD3Z0QH8N2Y5V7W9X1C4B6A8"
COLLECTOR = "http://127.0.0.1:4318/v1/traces"


def line_of(clock: FakeClock, environ: dict[str, str], **fields: object) -> dict[str, Any]:
    """Returns a line that a worker process with these settings writes."""
    lines: list[str] = []
    settings = read({"STEWARD_ENV": "test", **environ})
    startup.make_log(settings, clock, lines.append, process="worker").info("run_ended", **fields)
    line: dict[str, Any] = json.loads(lines[0])
    return line


def test_a_line_names_release_process_and_pid(clock: FakeClock) -> None:
    """Writes release, process and pid; without a collector it names no trace."""
    line = line_of(clock, {}, run=RUN, org=7)
    assert list(line) == ["time", "level", "action", "release", "process", "pid", "run", "org"]
    assert (line["release"], line["process"], line["pid"]) == (__version__, "worker", os.getpid())


def test_a_line_names_the_trace_of_its_run_or_request(clock: FakeClock) -> None:
    """Names the trace of the run in the line, or else of the run or request that the task works on."""
    traced = {"STEWARD_TRACES_URL": COLLECTOR}
    other = "01JD3Z0QH8N2Y5V7W9X1C4B6A9"
    assert "trace" not in line_of(clock, traced)
    request = current_trace.set(5)
    assert line_of(clock, traced)["trace"] == f"{5:032x}"
    run = current_run.set(other)
    assert line_of(clock, traced)["trace"] == trace_id_text(run_span(other).trace)
    assert line_of(clock, traced, run=RUN)["trace"] == trace_id_text(run_span(RUN).trace)
    current_run.reset(run)
    current_trace.reset(request)
