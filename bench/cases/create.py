"""POST create over a real socket: a new automation each, durable before its response."""

import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from itertools import count as numbers

from bench.load import posting
from bench.rounds import Case, Env, Figure, OpenCase
from bench.servers import Server, beside_framework, framework_round
from bench.service import FIVE_STEPS, open_bench

PATH = "/v1/automations"


@contextlib.asynccontextmanager
async def on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """The embedded database: everything in the server's process."""
    url = f"sqlite:///{env.folder}/steward.db"
    bench = await open_bench(url, env.folder)
    headers = {"authorization": f"Bearer {bench.token()}"}
    await bench.service.close()
    count, sent = env.size(3000, 800), _requests(headers)
    async with beside_framework(url, env.folder, PATH, headers) as (steward, framework):
        yield OpenCase(partial(_round, steward, sent, count), partial(framework_round, framework, count))


def _requests(headers: Mapping[str, str]) -> Iterator[bytes]:
    """A daily automation each, with a key of its own."""
    for number in numbers(1):
        body = {
            "template_id": FIVE_STEPS,
            "name": f"Measured {number}",
            "inputs": {},
            "schedule": {"cadence": "daily", "run_at": "08:00"},
            "timezone": "Europe/Berlin",
            "idempotency_key": f"bench-create-{number}",
        }
        yield posting(PATH, headers, json.dumps(body).encode())


async def _round(server: Server, sent: Iterator[bytes], count: int) -> Mapping[str, float]:
    rate, cpu = await server.measured(sent, count)
    return {"requests": rate, "cpu": cpu}


CASES = (
    Case(
        "create_sqlite",
        (
            Figure("requests", "requests/s", "bare framework"),
            Figure("cpu", "µs of CPU per request", "bare framework CPU", maximum=400),
        ),
        on_sqlite,
    ),
)
