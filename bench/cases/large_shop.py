"""A shop of 5,000 products: how long a run that hides sold-out ones reads and decides, and what memory a run
of each template that reads products takes."""

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
from typing import Any

from bench.rounds import Case, Env, Figure, OpenCase
from bench.service import BY_HAND, Bench, open_bench
from steward import periodic_tasks, worker
from steward.automations import setup
from steward.automations.setup import CreateCommand
from steward.clock import SystemClock
from steward.connections import account_check, connect
from steward.database.runs import records as runs
from steward.fake_platforms import serve
from steward.fake_platforms.application import FakePlatforms, create
from steward.fake_platforms.sheets import FakeTab
from steward.fake_platforms.woocommerce import terms
from steward.model.automation import Automation
from steward.model.connection import AutomationConnection
from steward.model.ids import IntegrationId
from steward.model.run import Mode, Run, RunStatus
from steward.runs import start
from steward.runs.start import RunNow

PRODUCTS = 5_000
HIDING = "hide-out-of-stock-products"
PLACED = {
    "sheet": {"integration_id": "spreadsheet", "tab": "Prices"},
    "report": {"integration_id": "spreadsheet", "tab": "Report"},
    "teams": {"integration_id": "teams"},
    "file": {"integration_id": "cloud_s3", "path": "stock.csv"},
}
# As many as fit into the largest limit, with a price and a tag each.
_THIRD = {"products": {"tags_any": ["third"]}, "limit": 5000}
# What each is told; a kind in place of a number is that connection, `reads` what runs on nothing reads.
INPUTS: Mapping[str, Mapping[str, Any]] = {
    HIDING: {"limit": 5000},
    "low-stock-alert": {"threshold": 5, "products": {"all": True}, "teams": PLACED["teams"]},
    "price-update-from-spreadsheet": {
        "sheet": PLACED["sheet"], "sku_column": "SKU", "price_column": "Price", "limit": 5000,
    },
    "show-back-in-stock-products": {"limit": 5000},
    "sync-stock-between-stores": {"source_integration_id": "another", "limit": 5000},
    "supplier-feed-import": {
        "file": PLACED["file"], "sku_column": "sku", "stock_column": "stock", "limit": 5000,
    },
    "sale-start": {**_THIRD, "percent": 10},
    "tag-products-by-rule": {"tag": "cheap", "when": "price_range", "max_price": "1000000", "limit": 5000},
    "slow-stock-markdown": {"no_sale_days": 1, "percent": 10, "floor": "none", **_THIRD},
    "missing-product-data-audit": {"checks": ["image", "barcode", "weight"], "sheet": PLACED["report"]},
    "duplicate-sku-check": {"fields": ["sku", "barcode"], "sheet": PLACED["report"]},
    "stock-report-across-stores": {"sheet": PLACED["report"]},
    "price-difference-report": {"sheet": PLACED["report"]},
}  # fmt: skip
_ENDED = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.REFUSED)


@contextlib.asynccontextmanager
async def opened(env: Env) -> AsyncIterator[OpenCase]:
    """The fake shop in a process of its own; each round is a fresh process of the service."""
    async with _shops(env.size(PRODUCTS, PRODUCTS), 1) as described:
        yield OpenCase(partial(_round, HIDING, described))


@contextlib.asynccontextmanager
async def opened_for_all(env: Env) -> AsyncIterator[OpenCase]:
    """Two shops alike, for templates that read several; each template has a fresh process of the service."""

    async def subject() -> Mapping[str, float]:
        return {name: (await _round(name, described))["peak"] for name in INPUTS}

    async with _shops(env.size(PRODUCTS, PRODUCTS), 2) as described:
        yield OpenCase(subject)


@contextlib.asynccontextmanager
async def _shops(count: int, number: int) -> AsyncIterator[list[str]]:
    shops = [await _child("shop", str(count)) for _ in range(number)]
    try:
        yield [(await _out(shop).readline()).decode() for shop in shops]
    finally:
        for shop in shops:
            shop.terminate()
            await shop.wait()


def _out(child: asyncio.subprocess.Process) -> asyncio.StreamReader:
    assert child.stdout is not None
    return child.stdout


async def _round(template: str, described: list[str]) -> Mapping[str, float]:
    run = await _child("run", template, *described)
    output, _ = await run.communicate()
    figures: Mapping[str, float] = json.loads(output)
    return figures


async def _child(*words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.cases.large_shop", *words), stdout=asyncio.subprocess.PIPE
    )


def _shop(count: int) -> None:
    """Serves the shop until it is ended; tells its address and keys in one line."""
    with serve.listening("127.0.0.1", 0) as bound:
        world = create(1, serve.address(bound), SystemClock().now)
        world.load_products(count)
        _name_all(world)

        def tell() -> None:
            print(json.dumps(world.described()), flush=True)

        asyncio.run(serve.server(world, tell).serve(sockets=[bound]))


def _name_all(world: FakePlatforms) -> None:
    """A sheet and a file with a row for each product, an empty tab for reports, a tag on every third."""
    tag = terms.add(world.state.shop, "tags", {"name": "third"})
    for product in list(world.state.shop.products.values())[::3]:
        product["tags"] = [{name: tag[name] for name in ("id", "name", "slug")}]
    rows = [
        (str(product["sku"]), index % 90 + 1)
        for index, product in enumerate(world.state.shop.products.values())
    ]
    book = world.state.google.books["sheet-prices"]
    tab, report = book.tab("Prices"), FakeTab(99, "Report")
    tab.rows = report.rows = len(rows) + 10
    named = [("SKU", "Price"), *rows]
    tab.cells = {(index, column): cell for index, row in enumerate(named) for column, cell in enumerate(row)}
    book.tabs.append(report)
    lines = ["sku,stock", *(f"{sku},{number}" for sku, number in rows)]
    world.state.store.put("supplier", "stock.csv", "\n".join(lines).encode())


async def _run(template: str, worlds: list[Mapping[str, Any]]) -> dict[str, float]:
    """A test run: it reads and decides, and changes nothing, so that every round finds the same shop."""
    with tempfile.TemporaryDirectory() as folder:
        hosts = [world["woocommerce"]["url"].removeprefix("http://") for world in worlds]
        sheets = worlds[0]["spreadsheet"]
        bench = await open_bench(
            f"sqlite:///{folder}/steward.db",
            Path(folder),
            allow_private_hosts=",".join(hosts),
            teams_hosts=hosts[0],
            google_sheets_url=sheets["sheets_url"],
            google_token_url=sheets["token_url"],
        )
        numbers = await _connected(bench, worlds)
        automation = await _set_up(bench, template, numbers)
        own_worker = await bench.worker()
        stop = asyncio.Event()
        working = asyncio.create_task(worker.run(own_worker, periodic_tasks.of_worker(own_worker), stop))
        used, begun = time.process_time(), time.perf_counter()
        now = await _ran(bench, automation)
        seconds, cpu = time.perf_counter() - begun, time.process_time() - used
        assert now.status is RunStatus.SUCCEEDED, now
        stop.set()
        await working
        await bench.service.close()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"seconds": seconds, "cpu": cpu, "peak": peak}


async def _connected(bench: Bench, worlds: list[Mapping[str, Any]]) -> dict[str, int]:
    """Everything of the first world by kind, and the shop of the second as `another`."""
    keys = ("url", "consumer_key", "consumer_secret")
    sheet = {"service_account": worlds[0]["spreadsheet"]["service_account"], "spreadsheet_id": "sheet-prices"}
    accounts = [
        ("woocommerce", "woocommerce", {name: worlds[0]["woocommerce"][name] for name in keys}),
        ("spreadsheet", "spreadsheet", sheet),
        ("teams", "teams", {"webhook_url": worlds[0]["teams"]["webhook_url"]}),
        ("cloud_s3", "cloud_s3", dict(worlds[0]["cloud_s3"])),
        *(
            ("another", "woocommerce", {name: world["woocommerce"][name] for name in keys})
            for world in worlds[1:]
        ),
    ]
    vault, owner, clock = bench.service.context.vault, bench.owner, bench.service.clock
    numbers: dict[str, int] = {}
    for name, kind, settings in accounts:
        checked = await account_check.check_settings(
            vault, owner.org, kind, submitted=settings, now=clock.now()
        )
        keep = partial(connect.connect, actor=owner, name=name, checked=checked, vault=vault)
        numbers[name] = (await bench.write(keep)).connection.integration_id
    return numbers


async def _set_up(bench: Bench, template: str, numbers: Mapping[str, int]) -> Automation:
    on_store = bool(bench.ctx.automation_rules.templates[template].facts.platforms)
    command = CreateCommand(
        template,
        template,
        _numbered(INPUTS[template], numbers),
        dict(BY_HAND),
        integration_id=IntegrationId(numbers["woocommerce"]) if on_store else None,
        connections=()
        if on_store
        else tuple(
            AutomationConnection(IntegrationId(numbers[name]), "woocommerce")
            for name in ("woocommerce", "another")
        ),
    )
    make = partial(setup.create, actor=bench.owner, command=command, rules=bench.ctx.automation_rules)
    return (await bench.write(make)).automation


def _numbered(inputs: Mapping[str, Any], numbers: Mapping[str, int]) -> dict[str, Any]:
    return {
        name: _numbered(value, numbers)
        if isinstance(value, dict)
        else numbers[value]
        if name.endswith("integration_id")
        else value
        for name, value in inputs.items()
    }


async def _ran(bench: Bench, automation: Automation) -> Run:
    owner = bench.owner
    command = RunNow(automation.id, "bench", Mode.TEST)
    verb = partial(
        start.run_now,
        actor=owner,
        command=command,
        templates=bench.ctx.automation_rules.templates,
        max_waiting=1000,
    )
    run = (await bench.write(verb)).run
    bench.service.hints.wake("ready")
    while (now := await bench.read(partial(runs.get, org=owner.org, run=run.id))).status not in _ENDED:
        await bench.service.clock.sleep(0.02)
    return now


CASES = [
    Case(
        "large_shop",
        (
            Figure("cpu", "s", maximum=10),
            Figure("seconds", "s"),
            Figure("peak", "MiB", maximum=150),
        ),
        opened,
    ),
    Case("large_shop_each", tuple(Figure(name, "MiB", maximum=200) for name in INPUTS), opened_for_all),
]

if __name__ == "__main__":
    if sys.argv[1] == "shop":
        _shop(int(sys.argv[2]))
    else:
        print(json.dumps(asyncio.run(_run(sys.argv[2], [json.loads(output) for output in sys.argv[3:]]))))
