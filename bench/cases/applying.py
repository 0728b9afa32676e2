"""Approved changes of two parts applied a second: products hidden and tagged in the fake shop.

The shop runs in a process of its own, `python -m bench.cases.applying PRODUCTS`, a fresh one each round.
"""

import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from bench.postgres import fresh_database
from bench.rounds import Case, Env, Figure, OpenCase
from bench.service import BY_HAND, Bench, open_bench
from steward import periodic_tasks, worker
from steward.automations import setup
from steward.automations.setup import CreateCommand
from steward.clock import SystemClock
from steward.connections import account_check, connect
from steward.database.runs import approvals, changes
from steward.database.runs import records as runs
from steward.fake_platforms import serve
from steward.fake_platforms.application import create
from steward.model.run import TERMINAL, Run, RunStatus
from steward.runs import approval
from steward.runs.approval import ApproveCommand

PRODUCTS = 2_000
PAGE = 100
_PRODUCTS = "/wp-json/wc/v3/products"
_VISIBLE = ("visible", "catalog", "search")


@contextlib.asynccontextmanager
async def on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """The service with an embedded database; every round has a fresh database and a fresh shop."""
    count = env.size(PRODUCTS, PRODUCTS // 10)

    async def subject() -> Mapping[str, float]:
        with tempfile.TemporaryDirectory(dir=env.folder) as folder:
            return await _round(f"sqlite:///{folder}/steward.db", Path(folder), count)

    yield OpenCase(subject, partial(_reference, count))


@contextlib.asynccontextmanager
async def on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """The same over PostgreSQL."""
    assert env.postgres is not None
    server, count = env.postgres, env.size(PRODUCTS, PRODUCTS // 10)

    async def subject() -> Mapping[str, float]:
        async with fresh_database(server) as url:
            return await _round(url, env.folder, count)

    yield OpenCase(subject, partial(_reference, count))


@contextlib.asynccontextmanager
async def shop_of(count: int) -> AsyncIterator[Mapping[str, Any]]:
    """A fake shop of `count` products in another process; its address and keys."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.cases.applying", str(count)), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    try:
        yield json.loads(await child.stdout.readline())
    finally:
        child.terminate()
        await child.wait()


async def _round(url: str, folder: Path, count: int) -> Mapping[str, float]:
    """From the approval of a change for each product until the run has ended."""
    async with shop_of(count) as shop:
        bench = await open_bench(url, folder, allow_private_hosts=shop["url"].removeprefix("http://"))
        own_worker = await bench.worker()
        stop = asyncio.Event()
        working = asyncio.create_task(worker.run(own_worker, periodic_tasks.of_worker(own_worker), stop))
        try:
            waiting = await _waiting(bench, shop)
            used, begun = time.process_time(), time.perf_counter()
            count = await _approve(bench, waiting)
            ended = await until(bench, waiting, *TERMINAL)
            seconds, cpu = time.perf_counter() - begun, time.process_time() - used
            assert ended.status is RunStatus.SUCCEEDED, ended
        finally:
            stop.set()
            await working
            await bench.service.close()
    return {"changes": count / seconds, "cpu": cpu / count * 1e6}


def address_and_keys(shop: Mapping[str, Any]) -> dict[str, Any]:
    """What a person types to connect the shop."""
    return {name: shop[name] for name in ("url", "consumer_key", "consumer_secret")}


async def _waiting(bench: Bench, shop: Mapping[str, Any]) -> Run:
    """A run that would hide and tag every product of the shop, waiting for its approval."""
    vault, owner, clock = bench.service.context.vault, bench.owner, bench.service.clock
    submitted = address_and_keys(shop)
    checked = await account_check.check_settings(
        vault, owner.org, "woocommerce", submitted=submitted, now=clock.now()
    )
    keep = partial(connect.connect, actor=owner, name="The shop", checked=checked, vault=vault)
    store = (await bench.write(keep)).connection.integration_id
    command = CreateCommand(
        "hide-out-of-stock-products",
        "Measured",
        {"threshold": 100_000, "limit": 5_000},
        dict(BY_HAND),
        integration_id=store,
    )
    make = partial(setup.create, actor=owner, command=command, rules=bench.ctx.automation_rules)
    run = await bench.run_now((await bench.write(make)).automation)
    return await until(bench, run, RunStatus.WAITING_APPROVAL)


async def _approve(bench: Bench, run: Run) -> int:
    """Approves all changes of the run; how many."""
    assert run.approval_id is not None
    org = bench.owner.org
    stored_approval = await bench.read(partial(approvals.get, org=org, approval=run.approval_id))
    wish = ApproveCommand(stored_approval.id, stored_approval.version, [], stored_approval.change_hash)
    await bench.write(partial(approval.approve, actor=bench.owner, command=wish, not_starter=False))
    bench.service.hints.announce("ready")
    return await bench.read(partial(changes.count, org=org, run=run.id))


async def until(bench: Bench, run: Run, *statuses: RunStatus) -> Run:
    """The run as soon as it has one of these statuses; it must not end with another."""
    load = partial(runs.get, org=bench.owner.org, run=run.id)
    while (now := await bench.read(load)).status not in statuses:
        assert now.status not in TERMINAL, now
        await bench.service.clock.sleep(0.02)
    return now


async def _reference(count: int) -> Mapping[str, float]:
    """The same values written by a bare client: each page read again and two batches for it, no ledger."""
    async with shop_of(count) as shop:
        keys = httpx.BasicAuth(shop["consumer_key"], shop["consumer_secret"])
        async with httpx.AsyncClient(base_url=shop["url"], auth=keys, timeout=60) as client:
            created_tag = await client.post(f"{_PRODUCTS}/tags", json={"name": "hidden"})
            tag = {"id": created_tag.raise_for_status().json()["id"]}
            products = await _listed(client, count)
            begun = time.perf_counter()
            for first in range(0, len(products), PAGE):
                page = products[first : first + PAGE]
                for body in ({"catalog_visibility": "hidden"}, {"tags": [tag]}):
                    named = {"include": ",".join(map(str, page)), "per_page": str(PAGE)}
                    (await client.get(_PRODUCTS, params=named)).raise_for_status()
                    update = {"update": [{"id": product, **body} for product in page]}
                    (await client.post(f"{_PRODUCTS}/batch", json=update)).raise_for_status()
            return {"bare client": len(products) / (time.perf_counter() - begun)}


async def _listed(client: httpx.AsyncClient, count: int) -> list[int]:
    """The ids of the products a shopper sees."""
    product_ids: list[int] = []
    for page in range(1, -(-count // PAGE) + 1):
        rows = (await client.get(_PRODUCTS, params={"per_page": str(PAGE), "page": str(page)})).json()
        product_ids += [row["id"] for row in rows if row["catalog_visibility"] in _VISIBLE]
    return product_ids


def _serve(count: int) -> None:
    """Serves the shop until the process is ended; tells its address and keys in one line."""
    with serve.listening("127.0.0.1", 0) as bound:
        world = create(1, serve.address(bound), SystemClock().now)
        world.load_products(count)

        def tell() -> None:
            print(json.dumps(world.described()["woocommerce"]), flush=True)

        asyncio.run(serve.server(world, tell).serve(sockets=[bound]))


_FIGURES = (
    Figure("changes", "changes/s", "bare client", minimum=5_000 / 180),
    Figure("cpu", "µs of CPU per change"),
)
CASES = (
    Case("applying_sqlite", _FIGURES, on_sqlite),
    Case("applying_postgres", _FIGURES, on_postgres, needs_postgres=True),
)

if __name__ == "__main__":
    _serve(int(sys.argv[1]))
