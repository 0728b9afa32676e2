"""The search in an organization whose 100,000 runs changed a million objects: how long a response takes."""

import contextlib
import random
import sqlite3
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import cycle, islice
from typing import Any

import asyncpg

from bench.load import get
from bench.postgres import fresh_database
from bench.rounds import Case, Env, Figure, OpenCase
from bench.servers import Server, beside_framework, framework_round
from bench.service import FIVE_STEPS, open_bench
from steward.database.engine.base import ms
from steward.model.ids import AutomationId, OrgId, new_id
from steward.search.words import terms

RUNS = 100_000
CHANGES_OF_A_RUN = 10
PRODUCTS = 20_000
# A word of all runs, of many, of few, of one product, two words, a SKU family, an id, and nothing.
QUERIES = ("tea", "gr", "sencha", "sku-12345", "green mug", "sku-1", "01K", "nothing", "17", "green tea 100")
_KINDS = ("Green", "Black", "White", "Sencha", "Rooibos", "Ginger", "Chamomile", "Peppermint")
_FORMS = ("tea", "mug", "pot", "cup", "caddy", "strainer")
_RUN = (
    *("org_id", "id", "automation_id", "mode", "status", "queue", "vt", "epoch", "attempt", "last_seq"),
    *("leased_ms", "queued_at", "finished_at", "automation_name", "automation_version", "template_id"),
    *("template_version", "started_by"),
)
_CHANGE = (
    *("org_id", "run_id", "id", "seq", "name", "iteration", "position", "round", "object_type", "wire"),
    *("before_json", "after_json", "parts", "item_hash", "outcome", "undoable"),
)
_TERM = ("org_id", "term", "run_id", "seq", "position")
Rows = Iterable[tuple[object, ...]]


@contextlib.asynccontextmanager
async def on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """The embedded database: everything in the server's process."""
    path = env.folder / "steward.db"

    async def fill(table: str, columns: Sequence[str], rows: Rows) -> None:
        file = sqlite3.connect(path)
        file.execute("PRAGMA cache_size = -1000000")
        with file:
            marks = ", ".join("?" * len(columns))
            file.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)
        file.close()

    async with _measured(f"sqlite:///{path}", env, fill) as opened:
        yield opened


@contextlib.asynccontextmanager
async def on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """PostgreSQL beside the server's process."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url:

        async def fill(table: str, columns: Sequence[str], rows: Rows) -> None:
            connection: Any = await asyncpg.connect(url)
            await connection.copy_records_to_table(table, records=rows, columns=columns)
            await connection.execute(f"ANALYZE {table}")
            await connection.close()

        async with _measured(url, env, fill) as opened:
            yield opened


@contextlib.asynccontextmanager
async def _measured(url: str, env: Env, fill: Callable[..., Any]) -> AsyncIterator[OpenCase]:
    bench = await open_bench(url, env.folder)
    [automation] = await bench.automations(1)
    now, org = bench.service.clock.now(), bench.owner.org
    runs = [(new_id(created_at), created_at) for created_at in _instants(now, env.size(RUNS, RUNS // 20))]
    await fill("runs", _RUN, _run_rows(org, automation.id, runs))
    await fill("changes", _CHANGE, _change_rows(org, runs))
    await fill("search_terms", _TERM, sorted(_term_rows(org, runs)))
    headers = await bench.sign_in()
    await bench.service.close()
    async with beside_framework(url, env.folder, "/app/search?q=tea", headers) as (steward, framework):
        count = env.size(100, 40)
        yield OpenCase(partial(_round, steward, headers, count), partial(framework_round, framework, 2_000))


def _instants(now: datetime, count: int) -> Iterator[datetime]:
    step = timedelta(days=28) / count
    return (now - step * (count - number) for number in range(count))


def _objects(number: int) -> Iterator[tuple[int, str, str]]:
    """Yields the objects that the run of this number changes: position, label and id."""
    chance = random.Random(number)
    for position in range(CHANGES_OF_A_RUN):
        product = chance.randrange(PRODUCTS)
        name = f"{_KINDS[product % 8]} {_FORMS[product // 8 % 6]} {product % 97} g (SKU-{product:05})"
        yield position, name, str(7_000_000 + product)


def _run_rows(org: OrgId, automation: AutomationId, runs: Iterable[tuple[str, datetime]]) -> Rows:
    for run, created_at in runs:
        fixed = (
            "live",
            "succeeded",
            "done",
            0,
            1,
            1,
            3,
            0,
            ms(created_at),
            ms(created_at),
            "Measured",
            1,
            FIVE_STEPS,
            1,
        )
        yield (org, run, automation, *fixed, "schedule")


def _change_rows(org: OrgId, runs: Sequence[tuple[str, datetime]]) -> Rows:
    for number, (run, _) in enumerate(runs):
        for position, label, _id in _objects(number):
            wire = f'{{"object":{{"type":"product","id":"{_id}","label":"{label}","url":null}}}}'
            change = f"{run[:-2]}{position:02}"
            fixed = ("product", wire, "{}", "{}", "[]", "0" * 64, "applied", False)
            yield (org, run, change, 2, "hide", "", position, 1, *fixed)


def _term_rows(org: OrgId, runs: Sequence[tuple[str, datetime]]) -> Iterator[tuple[object, ...]]:
    for number, (run, _) in enumerate(runs):
        places: dict[str, int] = {}
        for position, label, id_ in _objects(number):
            for term in (*terms(label), id_):
                places.setdefault(term, position)
        for term, position in places.items():
            yield (org, term, run, 2, position)


async def _round(server: Server, headers: Mapping[str, str], count: int) -> Mapping[str, float]:
    figures: dict[str, float] = {}
    for name, path in (("search", "/app/search"), ("runs", "/app/runs")):
        milliseconds = []
        for query in islice(cycle(QUERIES), count):
            begun = time.perf_counter()
            await get(server.port, f"{path}?q={query.replace(' ', '+')}", headers)
            milliseconds.append((time.perf_counter() - begun) * 1000)
        figures[f"{name}_p50"] = statistics.median(milliseconds)
        figures[f"{name}_p95"] = statistics.quantiles(milliseconds, n=20)[-1]
    _, cpu = await server.of_one("/app/search?q=tea", headers, 20)
    return {**figures, "cpu": cpu / 1000}


_FIGURES = (
    Figure("search_p95", "ms", maximum=150),
    Figure("search_p50", "ms"),
    Figure("runs_p95", "ms", maximum=150),
    Figure("runs_p50", "ms"),
    Figure("cpu", "ms of CPU per search", "bare framework CPU"),
)
CASES = (
    Case("search_sqlite", _FIGURES, on_sqlite),
    Case("search_postgres", _FIGURES, on_postgres, needs_postgres=True),
)
