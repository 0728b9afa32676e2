"""Closed periods of an organization with ten thousand automations: preview, make, and rewrite next runs."""

import contextlib
import json
import statistics
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from bench.cases.calendar import ZONES, mixed_schedule
from bench.load import get, posting, response_to
from bench.postgres import fresh_database, server_cpu
from bench.rounds import Case, Env, Figure, OpenCase
from bench.served import USED
from bench.servers import Server, ready, serving
from bench.service import Bench, open_bench
from steward.accounts.sessions import csrf_token
from steward.closed_periods import change
from steward.closed_periods.change import CreatePeriod, SentWhen
from steward.model.closed_period import ClosedKind, ClosedScope, ClosedScopeKind, Stops
from steward.model.json import JsonObject
from steward.occurrences import closings

AUTOMATIONS = 10_000
BATCH = 500
PATH = "/app/closed-periods"
_DAYS = [1, 2, 3, 4, 5, 6, 7]
# A holiday, Sundays, nights and a few days of each year.
_WHENS: tuple[JsonObject, ...] = (
    {"kind": "once", "start": "{year}-12-24T00:00", "end": "{year}-12-27T00:00"},
    {"kind": "weekly", "days": [7], "from": None, "to": None},
    {"kind": "weekly", "days": [*_DAYS], "from": "03:00", "to": "04:00"},
    {"kind": "yearly", "first": "12-24", "last": "12-26"},
)


@contextlib.asynccontextmanager
async def on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """The embedded database: everything in the server's process."""
    async with _opened(f"sqlite:///{env.folder}/steward.db", env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """PostgreSQL beside the server's process."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url, _opened(url, env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def _opened(url: str, env: Env) -> AsyncIterator[OpenCase]:
    bench = await open_bench(url, env.folder, spread_max="9")
    for first in range(0, AUTOMATIONS, BATCH):
        numbers = range(first, first + BATCH)
        await bench.mixed([(mixed_schedule(n), ZONES[n % len(ZONES)]) for n in numbers])
    rewritten = await _rewritten(bench)
    bodies = _bodies(bench.service.clock.now().year + 1)
    headers = await bench.sign_in()
    await bench.service.close()
    with serving(url, env.folder) as server:
        await ready(server, PATH, headers)
        headers["x-csrf-token"] = csrf_token(headers["cookie"].partition("=")[2])
        shop = _Closer(url, server, headers)
        yield OpenCase(partial(shop.round, bodies * env.size(20, 5), rewritten))


def _bodies(year: int) -> list[bytes]:
    bodies = []
    for when in _WHENS:
        body = {"name": "Measured", "scope": {"kind": "organization"}, "stops": "runs", "when": when}
        bodies.append(json.dumps({**body, "timezone": "Europe/Berlin"}).replace("{year}", f"{year}").encode())
    return bodies


async def _rewritten(bench: Bench) -> float:
    """Seconds in which the next runs of all automations are rewritten after Sundays were closed."""
    when = SentWhen(ClosedKind.WEEKLY, {"days": [7], "from": None, "to": None})
    command = CreatePeriod("Measured", ClosedScope(ClosedScopeKind.ORGANIZATION), Stops.RUNS, when, "UTC")
    period = await bench.write(partial(change.create, actor=bench.owner, command=command))
    begun = time.perf_counter()
    while await bench.write(partial(closings.follow_changes, org=bench.owner.org)):
        pass
    spent = time.perf_counter() - begun
    await bench.write(partial(change.end, actor=bench.owner, period_id=period.period.id, version=1))
    return spent


@dataclass(frozen=True, slots=True)
class _Closer:
    """The signed-in owner, who previews and makes periods over loopback."""

    url: str
    server: Server
    headers: Mapping[str, str]

    async def round(self, bodies: Sequence[bytes], rewritten: float) -> Mapping[str, float]:
        """Previews each body, and then makes and ends each."""
        database, process = await self._used()
        times = [(await self._timed(f"{PATH}/preview", body))[0] for body in bodies]
        database_after, process_after = await self._used()
        figures = {
            "preview_p95": _p95(times),
            "preview_cpu": (process_after - process) / len(bodies) * 1000,
            "preview_database_cpu": (database_after - database) / len(bodies) * 1000,
        }
        times = []
        for body in bodies:
            spent, period = await self._timed(PATH, body)
            times.append(spent)
            await self._post(f"{PATH}/{period['closed_period']['id']}/end", b'{"version":1}')
        return figures | {"make_p95": _p95(times), "rewritten": rewritten}

    async def _used(self) -> tuple[float, float]:
        """The seconds of CPU that PostgreSQL and the service have used."""
        database = 0.0 if self.url.startswith("sqlite:///") else await server_cpu(self.url)
        return database, float(await get(self.server.port, USED, {}))

    async def _timed(self, path: str, body: bytes) -> tuple[float, dict[str, Any]]:
        begun = time.perf_counter()
        data = await self._post(path, body)
        spent = (time.perf_counter() - begun) * 1000
        if data["effect"]["automations"] != AUTOMATIONS:
            raise RuntimeError(f"the period acts on {data['effect']['automations']} automations")
        return spent, data

    async def _post(self, path: str, body: bytes) -> dict[str, Any]:
        answered = json.loads(await response_to(self.server.port, posting(path, self.headers, body)))
        return cast("dict[str, Any]", answered["data"])


def _p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


_FIGURES = (
    Figure("preview_p95", "ms", maximum=300),
    Figure("preview_cpu", "ms of CPU of the service per preview"),
    Figure("preview_database_cpu", "ms of CPU of PostgreSQL per preview"),
    Figure("make_p95", "ms", maximum=300),
    Figure("rewritten", "s for the next runs of all automations", maximum=20),
)
CASES = (
    Case("closed_periods_sqlite", _FIGURES, on_sqlite),
    Case("closed_periods_postgres", _FIGURES, on_postgres, needs_postgres=True),
)
