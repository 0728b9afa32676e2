"""A shop of 5,000 products: how long a run that hides sold-out ones reads and decides, and its memory."""

import asyncio
import contextlib
import json
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

from bench.rounds import Case, Figure, Opened, Place
from bench.service import BY_HAND, open_house
from steward import worker
from steward.automations import setup
from steward.automations.setup import CreateAsk
from steward.clock import SystemClock
from steward.connections import connect
from steward.model.run import Mode, RunStatus
from steward.runs import start
from steward.runs.start import RunNow
from steward.sandbox import serve
from steward.sandbox.world import create
from steward.store import runs

PRODUCTS = 5_000
TEMPLATE = "hide-out-of-stock-products"
_ENDED = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.REFUSED)


@contextlib.asynccontextmanager
async def opened(place: Place) -> AsyncIterator[Opened]:
    """The pretend shop in a process of its own; each round is a fresh process of the service."""
    count = place.size(PRODUCTS, PRODUCTS)
    shop = await _child("shop", str(count))
    assert shop.stdout is not None
    described = (await shop.stdout.readline()).decode()
    try:
        yield Opened(partial(_round, described))
    finally:
        shop.terminate()
        await shop.wait()


async def _round(described: str) -> Mapping[str, float]:
    run = await _child("run", described)
    told, _ = await run.communicate()
    found: Mapping[str, float] = json.loads(told)
    return found


async def _child(*words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.cases.large_shop", *words), stdout=asyncio.subprocess.PIPE
    )


def _shop(count: int) -> None:
    """Serves the shop until it is ended; tells its address and keys in one line."""
    with serve.listening("127.0.0.1", 0) as bound:
        world = create(1, serve.address(bound), SystemClock().now)
        world.load_products(count)

        def tell() -> None:
            print(json.dumps(world.described()["woocommerce"]), flush=True)

        asyncio.run(serve.server(world, tell).serve(sockets=[bound]))


async def _run(keys: Mapping[str, str]) -> dict[str, float]:
    """A test run: it reads and decides, and changes nothing, so that every round finds the same shop."""
    with tempfile.TemporaryDirectory() as folder:
        host = keys["url"].removeprefix("http://")
        url = f"sqlite:///{folder}/steward.db"
        house = await open_house(url, Path(folder), allow_private_hosts=host)
        vault, owner, clock = house.service.fittings.vault, house.owner, house.service.clock
        given = {name: keys[name] for name in ("url", "consumer_key", "consumer_secret")}
        tried = await connect.try_settings(vault, owner.org, "woocommerce", given=given, now=clock.now())
        keep = partial(connect.connect, actor=owner, name="Shop", tried=tried, vault=vault)
        number = (await house.write(keep)).connection.integration_id
        ask = CreateAsk(TEMPLATE, "Hide", {"limit": 5000}, dict(BY_HAND), integration_id=number)
        make = partial(setup.create, actor=owner, ask=ask, rules=house.tools.automation_rules)
        automation = (await house.write(make)).automation
        own = await house.worker()
        stop = asyncio.Event()
        working = asyncio.create_task(worker.run(own, worker.ticks(own), stop))
        used, begun = time.process_time(), time.perf_counter()
        wanted = RunNow(automation.id, "bench", Mode.TEST)
        verb = partial(
            start.run_now, actor=owner, ask=wanted, templates=house.tools.templates, max_waiting=1000
        )
        run = (await house.write(verb)).run
        house.service.hints.wake("ready")
        while (now := await house.read(partial(runs.get, org=owner.org, run=run.id))).status not in _ENDED:
            await clock.sleep(0.02)
        seconds, cpu = time.perf_counter() - begun, time.process_time() - used
        assert now.status is RunStatus.SUCCEEDED, now
        stop.set()
        await working
        await house.service.close()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"seconds": seconds, "cpu": cpu, "peak": peak}


CASES = [
    Case(
        "large_shop",
        (
            Figure("cpu", "s", most=10),
            Figure("seconds", "s"),
            Figure("peak", "MiB", most=150),
        ),
        opened,
    ),
]

if __name__ == "__main__":
    if sys.argv[1] == "shop":
        _shop(int(sys.argv[2]))
    else:
        print(json.dumps(asyncio.run(_run(json.loads(sys.argv[2])))))
