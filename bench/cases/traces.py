"""What traces cost: CPU of the process a run with them over that without, in pairs of rounds in turns.

The collector runs in a process of its own, `python -m bench.cases.traces`.
"""

import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.cases.applying import address_and_keys, shop_of, until
from bench.cases.five_steps import CALLERS, five_steps_round
from bench.rounds import Case, Env, Figure, OpenCase
from bench.service import BY_HAND, Bench, open_bench
from steward import periodic_tasks, worker
from steward.automations import setup
from steward.automations.setup import CreateCommand
from steward.connections import account_check, connect
from steward.model.automation import Automation
from steward.model.run import TERMINAL, Mode, RunStatus

PRODUCTS = 100
WARM = 3

Runs = Callable[[Bench, Sequence[Automation], int], Awaitable[None]]
Ready = Callable[[Bench], Awaitable[Sequence[Automation]]]


@contextlib.asynccontextmanager
async def opened(env: Env) -> AsyncIterator[OpenCase]:
    """A fake shop and a collector, each in a process of its own; every round has a fresh database."""
    async with shop_of(PRODUCTS) as shop, _collector() as traces_url:
        measure = partial(_round, env.folder, traces_url)
        host = {"allow_private_hosts": shop["url"].removeprefix("http://")}
        of_shop = partial(measure, host, partial(_reading, shop), _one_by_one, env.size(20, 5))
        empty = partial(measure, {}, _without_calls, _beside_each_other, env.size(600, 100))

        async def subject() -> Mapping[str, float]:
            reading, adding_nothing = await _pairs(of_shop, env), await _pairs(empty, env)
            return {"cpu": reading[0], "added": reading[1], "empty_added": adding_nothing[1]}

        yield OpenCase(subject)


async def _pairs(measure: Callable[[bool], Awaitable[float]], env: Env) -> tuple[float, float]:
    """Returns the medians of ratio and difference over pairs of rounds, with and without traces in turns."""
    ratios: list[float] = []
    differences: list[float] = []
    for number in range(env.size(4, 2)):
        cpu = {is_on: await measure(is_on) for is_on in ((True, False) if number % 2 else (False, True))}
        ratios.append(cpu[True] / cpu[False])
        differences.append(cpu[True] - cpu[False])
    return statistics.median(ratios), statistics.median(differences)


async def _round(
    folder: Path,
    traces_url: str,
    settings: Mapping[str, str],
    ready: Ready,
    runs: Runs,
    count: int,
    is_on: bool,
) -> float:
    """Returns the µs of CPU a run, from the first run until the service is closed and every span is sent."""
    more = {"traces_url": traces_url, "traces_ratio": "1"} if is_on else {}
    with tempfile.TemporaryDirectory(dir=folder) as own_folder:
        bench = await open_bench(f"sqlite:///{own_folder}/steward.db", Path(own_folder), **settings, **more)
        automations = await ready(bench)
        own_worker, stop = await bench.worker(), asyncio.Event()
        working = asyncio.create_task(worker.run(own_worker, periodic_tasks.of_worker(own_worker), stop))
        try:
            await runs(bench, automations, WARM)
            used = time.process_time()
            await runs(bench, automations, count)
        finally:
            stop.set()
            await working
            await bench.service.close()
        return (time.process_time() - used) / count * 1e6


async def _without_calls(bench: Bench) -> Sequence[Automation]:
    return await bench.automations(CALLERS)


async def _beside_each_other(bench: Bench, automations: Sequence[Automation], count: int) -> None:
    await five_steps_round(bench, automations, count, CALLERS)


async def _reading(shop: Mapping[str, Any], bench: Bench) -> Sequence[Automation]:
    """An automation that looks at every product of the shop and finds none to hide."""
    vault, owner, now = bench.service.context.vault, bench.owner, bench.service.clock.now()
    submitted = address_and_keys(shop)
    checked = await account_check.check_settings(
        vault, owner.org, "woocommerce", submitted=submitted, now=now
    )
    keep = partial(connect.connect, actor=owner, name="The shop", checked=checked, vault=vault)
    store = (await bench.write(keep)).connection.integration_id
    inputs = {"threshold": 0, "limit": 5000}
    command = CreateCommand(
        "hide-out-of-stock-products", "Measured", inputs, dict(BY_HAND), integration_id=store
    )
    make = partial(setup.create, actor=owner, command=command, rules=bench.ctx.automation_rules)
    return [(await bench.write(make)).automation]


async def _one_by_one(bench: Bench, automations: Sequence[Automation], count: int) -> None:
    for _ in range(count):
        ended = await until(bench, await bench.run_now(automations[0], Mode.TEST), *TERMINAL)
        assert ended.status is RunStatus.SUCCEEDED, ended


@contextlib.asynccontextmanager
async def _collector() -> AsyncIterator[str]:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.cases.traces"), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await child.stdout.readline())}/v1/traces"
    finally:
        child.terminate()
        await child.wait()


class _Collector(BaseHTTPRequestHandler):
    """Takes what is sent and keeps nothing."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Writes nothing."""


def _collect() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Collector)
    print(server.server_port, flush=True)
    server.serve_forever()


CASES = (
    Case(
        "traces",
        (
            Figure("cpu", "of that without traces", maximum=1.05),
            Figure("added", "µs of CPU per run"),
            Figure("empty_added", "µs of CPU per run that calls nothing"),
        ),
        opened,
    ),
)

if __name__ == "__main__":
    _collect()
