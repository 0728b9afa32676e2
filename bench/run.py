"""`make bench`: runs the cases, prints one JSON document and keeps it in bench/results/."""

import argparse
import asyncio
import json
import os
import platform
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import uvloop

from bench import postgres
from bench.cases import (
    applying,
    calendar,
    checkpoints,
    closed_periods,
    closed_slots,
    create,
    due_slots,
    expressions,
    five_steps,
    get_run,
    idle_start,
    imports,
    inbox,
    large_shop,
    long_readers,
    notices,
    search,
    small,
    store_events,
    traces,
    undo,
    waiting,
    web_pages,
)
from bench.references import rows_a_second, syncs_a_second
from bench.rounds import Case, Env, measure
from steward.clock import SystemClock
from steward.model.instants import wire_time

ALL: list[Case] = [
    *checkpoints.CASES,
    *idle_start.CASES,
    *get_run.CASES,
    *create.CASES,
    *calendar.CASES,
    *five_steps.CASES,
    *due_slots.CASES,
    *closed_slots.CASES,
    *closed_periods.CASES,
    *waiting.CASES,
    *large_shop.CASES,
    *applying.CASES,
    *store_events.CASES,
    *expressions.CASES,
    *imports.CASES,
    *long_readers.CASES,
    *notices.CASES,
    *inbox.CASES,
    *search.CASES,
    *traces.CASES,
    *undo.CASES,
    *small.CASES,
    *web_pages.CASES,
]
RESULTS = Path(__file__).parent / "results"
ROUNDS = 5
QUICK_ROUNDS = 3


def main() -> None:
    """Measures what was asked for; whether a bar holds is said in the document."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names or their beginnings; without, all")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    arguments = parser.parse_args()
    chosen = [
        case
        for case in ALL
        if not arguments.cases or any(case.name.startswith(name) for name in arguments.cases)
    ]
    if not chosen:
        parser.error(f"there is no such case; there are {', '.join(case.name for case in ALL)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cluster and the folders go too
    needed = any(case.needs_postgres for case in chosen)
    with postgres.cluster() if needed else nullcontext() as server:
        document = _measured(chosen, server, quick=arguments.quick)
    text = json.dumps(document, indent=2, ensure_ascii=False)
    RESULTS.mkdir(exist_ok=True)
    name = document["made_at"].replace(":", "").replace(".", "")
    (RESULTS / f"{name}.json").write_text(text + "\n", "utf-8")
    print(text)


def _measured(chosen: Sequence[Case], server: tuple[str, Path] | None, *, quick: bool) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    left_out: list[str] = []
    for case in chosen:
        if case.needs_postgres and server is None:
            left_out.append(f"{case.name}: there is no PostgreSQL on this machine")
            continue
        print(f"{case.name} …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="steward-bench-") as folder:
            url, programs = server if server is not None else (None, None)
            env = Env(Path(folder), url, programs, quick)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                figures |= runner.run(measure(case, env, QUICK_ROUNDS if quick else ROUNDS))
    return {
        "made_at": wire_time(SystemClock().now()),
        "quick": quick,
        "machine": _machine(),
        "cases": figures,
        "left_out": left_out,
    }


def _machine() -> dict[str, Any]:
    """What the figures depend on."""
    with tempfile.TemporaryDirectory(prefix="steward-bench-") as folder:
        syncs, rows = syncs_a_second(Path(folder)), rows_a_second(Path(folder))
    return {
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "R2_syncs_a_second": round(syncs),
        "R3_rows_a_second": round(rows),
    }


if __name__ == "__main__":
    main()
